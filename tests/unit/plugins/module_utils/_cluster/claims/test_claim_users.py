# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_users

from tests.unit.fakes.claims import claim, pod

TEMPLATE = {"metadata": {"namespace": "research", "name": "one"}}


def test_pods_of_a_template_have_not_ended_and_are_in_its_namespace() -> None:
    pods = [
        pod("b", template="one"),
        pod("a", template="one", phase="Pending"),
        pod("done", template="one", phase="Succeeded"),
        pod("failed", template="one", phase="Failed"),
        pod("other", template="two"),
        pod("elsewhere", namespace="notebooks", template="one"),
        pod("without"),
    ]
    assert claim_users.pods_of_template(TEMPLATE, pods) == ["research/a", "research/b"]


def test_pods_of_a_claim_are_those_that_it_is_reserved_for() -> None:
    used = claim("shared", ("a", "gpu-0"))
    used["status"]["reservedFor"] = [{"name": "b"}, {"name": "a"}]
    assert claim_users.pods_of_claim(used) == ["research/a", "research/b"]
    assert claim_users.pods_of_claim(claim("free")) == []


def test_what_would_wait_for_a_class() -> None:
    item = {"metadata": {"name": "large"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    claims = [claim("waits", class_name="large"), claim("has", ("a", "gpu-0"), class_name="large"), claim("other")]
    template = {"metadata": {"namespace": "b", "name": "t"}, "spec": {"spec": claim("x", class_name="large")["spec"]}}
    limits = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    implicit = {"resources": {"requests": {"deviceclass.resource.kubernetes.io/large": "1"}}}
    pods = [pod("old", containers=[limits]), pod("init", initContainers=[implicit]), pod("cpu", containers=[{}])]
    assert claim_users.seekers_of_class(item, claims, [template], pods) == [
        "Pod research/init",
        "Pod research/old",
        "ResourceClaim research/waits",
        "ResourceClaimTemplate b/t",
    ]
    assert claim_users.seekers_of_class({"metadata": {"name": "free"}, "spec": {}}, claims, [template], pods) == []


def test_a_slim_claim_keeps_what_is_read_of_it() -> None:
    whole = claim("shared", ("a", "gpu-0"))
    whole["status"]["reservedFor"] = [{"name": "b"}]
    whole["metadata"]["managedFields"] = ["long"]
    slim = claim_users.slim(whole)
    assert "managedFields" not in slim["metadata"] and claim_users.pods_of_claim(slim) == ["research/b"]
    assert claim_users.slim({**whole, "status": None})["status"] == {"allocation": None, "reservedFor": None}
