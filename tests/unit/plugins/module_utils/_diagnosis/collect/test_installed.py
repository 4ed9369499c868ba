# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import installed
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes.claimed import GPUCLUSTER, separate_driver
from tests.unit.fakes.stack import NAMESPACE, node, operator, ready

POLICY: Json = {"driver": {"version": "580.95.05"}}


def worker(namespace: str, release: str) -> Json:
    spec = {"containers": [{"image": "registry.k8s.io/nfd/node-feature-discovery:v0.18.3"}]}
    metadata = {"name": "nfd-worker", "namespace": namespace, "annotations": {"meta.helm.sh/release-name": release}}
    return {"metadata": metadata, "spec": {"template": {"spec": spec}}, "status": {}}


def snapshot(**fields: t.Any) -> Snapshot:
    own = operator()
    own["metadata"]["namespace"] = NAMESPACE
    own["spec"]["template"]["spec"] = {"containers": [{"image": "nvcr.io/nvidia/gpu-operator:v26.7.0"}]}
    known = {
        "version": "v1.34.0",
        "nodes": [node()],
        "daemonsets": [worker(NAMESPACE, "gpu-operator")],
        "operators": [own],
        "clusterpolicies": ready().policies,
        "gpuclusters": [],
        "namespace": None,
    }
    return Snapshot(**{**known, **fields})


def checks(found: Snapshot, is_ready: bool = False) -> list[str]:
    return [each["check"] for each in installed.findings(found, NAMESPACE, POLICY, is_ready)]


def test_a_stack_as_it_should_be_has_no_findings() -> None:
    assert checks(snapshot()) == []
    assert checks(snapshot(), is_ready=True) == []


def test_a_second_node_feature_discovery() -> None:
    twice = [worker(NAMESPACE, "gpu-operator"), worker("nfd", "nfd")]
    assert checks(snapshot(daemonsets=twice), is_ready=True) == ["nfd"]
    assert checks(snapshot(daemonsets=[worker("nfd", "nfd")])) == []


def test_what_a_ready_stack_has_proven_is_no_finding() -> None:
    old = snapshot(version="v1.20.0")
    assert checks(old) == ["kubernetes_version"]
    assert checks(old, is_ready=True) == []


def test_a_check_that_could_not_read_what_it_needs_says_nothing() -> None:
    other = worker("other", "other")
    other["metadata"]["name"] = "nvidia-device-plugin"
    other["status"] = {"desiredNumberScheduled": 1}
    daemonsets = [worker(NAMESPACE, "gpu-operator"), other]
    assert "other_stacks" in checks(snapshot(daemonsets=daemonsets))
    assert checks(snapshot(daemonsets=daemonsets, unreadable=frozenset({"daemonsets"}))) == []


def test_the_drivers_own_chart_beside_a_gpucluster_is_named_with_its_release() -> None:
    beside = snapshot(daemonsets=[separate_driver()], gpuclusters=[GPUCLUSTER], clusterpolicies=[])
    (finding,) = [each for each in installed.findings(beside, NAMESPACE, {}, True) if each["check"] == "other_stacks"]
    assert finding["level"] == "failure" and "Helm's release nvidia-dra-driver-gpu/dra" in finding["message"]
    assert finding["remedy"].endswith("helm uninstall dra --namespace nvidia-dra-driver-gpu.")


def test_what_is_installed_in_the_words_of_an_intent() -> None:
    intent = installed.intent_of(snapshot(), NAMESPACE, {"driver": {"useNvidiaDriverCRD": True}})
    assert (intent.release_name, intent.operator_version, intent.per_pool_driver) == ("gpu-operator", "v26.7.0", True)
    assert intent.value("nfd.enabled", None) is True
    bare = installed.intent_of(snapshot(operators=[], daemonsets=[], gpuclusters=[{}], clusterpolicies=[]), "x", {})
    assert (bare.release_name, bare.operator_version) == ("gpu-operator", None)
    assert bare.value("gpuCluster.deployCR", None) is True


def test_the_version_of_an_operator_with_a_digest_is_unknown() -> None:
    own = operator()
    own["metadata"]["namespace"] = NAMESPACE
    own["spec"]["template"]["spec"] = {"containers": [{"image": "nvcr.io/nvidia/gpu-operator@sha256:abc"}, {}]}
    assert installed.intent_of(snapshot(operators=[own]), NAMESPACE, {}).operator_version is None
