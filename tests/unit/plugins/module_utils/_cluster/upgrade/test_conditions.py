# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a change between two releases concerns a cluster."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import conditions
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.stack import Json, node


def a_node(system: str = "ubuntu", version: str = "24.04", **labels: str) -> Json:
    made = copy.deepcopy(node())
    made["metadata"]["labels"] |= {
        "feature.node.kubernetes.io/system-os_release.ID": system,
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": version,
        **labels,
    }
    return made


def applies(when: Json, values: Json | None = None, *nodes: Json, **more: t.Any) -> str | None:
    facts = {"before": (26, 3, 3), "after": (26, 7, 0), "values": values or {}, "nodes": list(nodes), **more}
    return conditions.applies(when, conditions.UpgradeView(**facts))


@pytest.mark.parametrize(
    ("when", "values", "found"),
    [
        ({"values": ["a.b", "c"]}, {"a": {"b": 1}}, "Your values have a.b."),
        ({"values": ["a.b"]}, {"a": {"b": ""}}, None),
        ({"values_unset": ["a.b"]}, {}, ""),
        ({"values_unset": ["a.b"]}, {"a": {"b": False}}, None),
        ({"values_true": ["a"]}, {"a": True}, ""),
        ({"values_true": ["a"]}, {"a": "true"}, None),
        ({"values_false": ["a"]}, {"a": False}, ""),
        ({"values_false": ["a"]}, {}, None),
        ({"mirrored": True}, {"driver": {"repository": "registry.example.com/nvidia"}}, ""),
        ({"mirrored": True}, {"driver": {"repository": "nvcr.io/nvidia"}, "x": 1}, None),
        ({"mirrored": True}, {"node-feature-discovery": {"repository": "registry.k8s.io"}}, None),
        ({"mirrored": False}, {}, ""),
        ({"driver_below": "570.86.15"}, {"driver": {"version": "550.144.03"}}, "The driver is 550.144.03."),
        ({"driver_below": "570.86.15"}, {"driver": {"version": "580.126.20"}}, None),
        ({"driver_below": "570.86.15"}, {"driver": {"version": "sha256:ab"}}, None),
        ({"driver_below": "570.86.15"}, {}, None),
        ({}, {}, ""),
    ],
)
def test_conditions_about_values(when: Json, values: Json, found: str | None) -> None:
    assert applies(when, values) == found


def test_all_conditions_must_hold() -> None:
    when = {"values": ["a"], "values_true": ["b"]}
    assert applies(when, {"a": 1, "b": True}) == "Your values have a." and applies(when, {"a": 1}) is None


def test_the_driver_that_the_cluster_has_counts_if_the_values_name_none() -> None:
    policy = {"driver": {"version": "550.144.03"}}
    assert applies({"driver_below": "570.86.15"}, policy=policy) == "The driver is 550.144.03."


@pytest.mark.parametrize(
    ("when", "version", "found"),
    [
        ({"systems": ["rhel"]}, "9.4", ""),
        ({"systems": ["rhel"], "major_below": 9}, "9.4", None),
        ({"systems": ["rhel"], "major_below": 9}, "8.10", ""),
        ({"systems": ["rhel"], "major_below": 9}, "stream", ""),
        ({"systems": ["rocky"]}, "9.4", None),
    ],
)
def test_conditions_about_systems(when: Json, version: str, found: str | None) -> None:
    assert applies(when, None, a_node("rhel", version)) == found


def test_a_tag_that_changes_is_named_with_the_tags_of_both_lines() -> None:
    when = {"image_tag": ["rhel", "ol"]}
    assert applies(when, None, a_node("rhel", "9.4"), a_node("ol", "8.10")) == (
        "Here ol8.10 becomes ol8, rhel9.4 becomes rhel9."
    )
    assert applies(when, None, a_node("rhel", "10.1")) is None
    assert applies(when, None, a_node()) is None
    assert applies({"image_tag": ["rocky"]}, None, a_node("rhel", "9.4")) is None


def test_a_tag_does_not_matter_without_driver_containers() -> None:
    when = {"image_tag": ["rhel"]}
    off = {"driver": {"enabled": False}}
    assert applies(when, None, a_node("rhel", "9.4"), policy=off) is None
    hosts = a_node("rhel", "9.4", **{"nvidia.com/gpu.deploy.driver": "pre-installed"})
    assert applies(when, None, hosts) is None


def test_conditions_about_the_cluster() -> None:
    assert applies({"runtimes": ["containerd"]}, None, a_node()) == ""
    assert applies({"runtimes": ["cri-o"]}, None, a_node()) is None
    assert applies({"served": ["monitoring.coreos.com"]}, groups=frozenset({"monitoring.coreos.com"})) == ""
    assert applies({"served": ["monitoring.coreos.com"]}) is None
    delegating = {"driver": {"useNvidiaDriverCRD": True}}
    assert applies({"nvidiadrivers": True}, policy=delegating) == "" and applies({"nvidiadrivers": True}) is None
    assert applies({"nvidiadrivers": False}) == ""


def test_a_taint_on_any_node() -> None:
    tainted = a_node()
    tainted["spec"] = {"taints": [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]}
    when = {"tainted": ["node-role.kubernetes.io/master"]}
    assert applies(when, None, tainted) == "" and applies(when, None, a_node()) is None


def test_a_condition_that_nobody_knows() -> None:
    with pytest.raises(GpuOpsError, match="has the condition moon"):
        applies({"moon": True})
