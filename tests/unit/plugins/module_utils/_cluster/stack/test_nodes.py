# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pure functions about Node objects."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes

from lab.cluster import conformance as recordings
from tests.unit.fakes.stack import cpu_node, node

Json = dict[str, t.Any]
TAINT = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}


def test_gpu_nodes() -> None:
    assert nodes.is_gpu_node(node()) and nodes.has_nfd_labels(cpu_node()) and not nodes.is_gpu_node(cpu_node())
    by_operator = {"metadata": {"name": "x", "labels": {"nvidia.com/gpu.present": "true"}}}
    assert nodes.is_gpu_node(by_operator) and not nodes.has_nfd_gpu_label(by_operator)
    assert not nodes.has_nfd_labels({"metadata": {"name": "x"}})


@pytest.mark.parametrize(
    ("label", "sandbox", "runs"),
    [
        (None, {}, True),
        ("vm-vgpu", {"enabled": False}, True),
        (None, {"enabled": True}, True),
        (None, {"enabled": True, "defaultWorkload": "vm-passthrough"}, False),
        ("container", {"enabled": True, "defaultWorkload": "vm-passthrough"}, True),
        ("nonsense", {"enabled": True, "defaultWorkload": "vm-vgpu"}, False),
    ],
)
def test_workload_kinds(label: str | None, sandbox: Json, runs: bool) -> None:
    item = {"metadata": {"name": "x", "labels": {"nvidia.com/gpu.workload.config": label} if label else {}}}
    assert nodes.runs_containers(item, {"sandboxWorkloads": sandbox}) is runs


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "dedicated", "value": "training"}, True),
        ({"key": "dedicated", "value": "other"}, False),
        ({"key": "another", "operator": "Exists"}, False),
        ({"value": "training"}, False),
    ],
)
def test_tolerations(toleration: Json, covers: bool) -> None:
    assert nodes.tolerates(toleration, TAINT) is covers


def test_taints_that_every_daemonset_pod_tolerates() -> None:
    item = node()
    item["spec"]["taints"] = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    assert nodes.untolerated(item, []) == []
    item["spec"]["taints"].append(TAINT)
    assert [nodes.format_taint(taint) for taint in nodes.untolerated(item, [])] == ["dedicated=training:NoSchedule"]
    assert nodes.format_taint({"key": "a", "effect": "NoExecute"}) == "a:NoExecute"


def test_selectors() -> None:
    assert nodes.matches(None, node()) and nodes.matches({"nvidia.com/gpu.present": "true"}, node())
    assert not nodes.matches({"nvidia.com/gpu.present": "false"}, node())


def test_selector_values_become_strings_whatever_yaml_reads() -> None:
    assert nodes.selector_of({"a": True, "b": 7, "c": "x"}) == {"a": "true", "b": "7", "c": "x"}


def test_quantities() -> None:
    item = {
        "status": {
            "capacity": {
                "nvidia.com/gpu": "8",
                "nvidia.com/mig-1g.10gb": "7",
                "nvidia.com/gpu.shared": "1k",
                "nvidia.com/hostdev": "1",
            }
        }
    }
    assert nodes.gpu_quantities(item, "capacity") == {
        "nvidia.com/gpu": 8,
        "nvidia.com/mig-1g.10gb": 7,
        "nvidia.com/gpu.shared": 1000,
    }
    assert nodes.gpu_quantities({}, "capacity") == {}


def system(image: str = "Ubuntu 24.04.3 LTS", os_id: str | None = None, version: str | None = None) -> Json:
    """A node with the kubelet's report and, if given, the labels of Node Feature Discovery."""
    prefix = "feature.node.kubernetes.io/system-os_release"
    labels = {f"{prefix}.ID": os_id, f"{prefix}.VERSION_ID": version}
    return {
        "metadata": {"name": "x", "labels": {key: value for key, value in labels.items() if value is not None}},
        "status": {"nodeInfo": {"osImage": image}},
    }


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (system(os_id="ubuntu", version="24.04"), ("ubuntu", "24.04")),
        (system(os_id="ubuntu"), ("ubuntu", "")),
        (system(), ("ubuntu", "24.04")),
        (system("Red Hat Enterprise Linux CoreOS 418.94.202501 (Plow)"), ("rhcos", "418.94")),
        (system("Red Hat Enterprise Linux 9.4 (Plow)"), ("rhel", "9.4")),
        (system("Rocky Linux 9.7 (Blue Onyx)"), ("rocky", "9.7")),
        (system("Amazon Linux 2023.7.20250512"), ("Amazon Linux", "2023.7")),
        (system("Container-Optimized OS from Google"), ("Container-Optimized OS from Google", "")),
        (system(""), ("unknown", "")),
    ],
)
def test_operating_systems(item: Json, found: tuple[str, str]) -> None:
    assert nodes.os_of(item) == found


def test_what_the_kubelet_reports() -> None:
    assert nodes.kernel_of(node()) == "6.8.0-31-generic" and nodes.runtime_of(node()) == "containerd://2.1.4"
    assert nodes.kernel_of({}) == nodes.runtime_of({"status": {}}) == "unknown"


@pytest.mark.parametrize(("allocatable", "number"), [({"nvidia.com/gpu": "1k"}, 1000), ({}, 0), (None, 0)])
def test_which_resources_a_node_offers(allocatable: Json | None, number: int) -> None:
    assert nodes.offered({"status": {"allocatable": allocatable}}, "nvidia.com/gpu") == number


@pytest.mark.parametrize(
    ("labels", "labelled", "paused"),
    [
        ({}, False, False),
        ({"nvidia.com/gpu.deploy.dcgm": "true"}, True, False),
        ({"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}, True, True),
        ({"nvidia.com/gpu.deploy.dcgm": "mine_paused-for-driver-upgrade"}, True, True),
        ({"example.com/state": "paused-for-lunch"}, False, False),
    ],
)
def test_labels_for_the_operands(labels: dict[str, str], labelled: bool, paused: bool) -> None:
    item = {"metadata": {"name": "x", "labels": labels}}
    assert (nodes.has_deploy_labels(item), nodes.is_paused(item)) == (labelled, paused)


def test_allocatable_gpus() -> None:
    item = node()
    assert nodes.has_allocatable_gpus(item)
    item["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert not nodes.has_allocatable_gpus(item) and not nodes.has_allocatable_gpus({})


def test_the_operating_system_as_text() -> None:
    item = node()
    assert nodes.os_text(item) == "ubuntu24.04"
    item["metadata"]["labels"] = {}
    assert nodes.os_text(item) == "Ubuntu 24.04 LTS"
    assert nodes.os_text({"metadata": {}}) is None


def _gpus(allocatable: dict[str, str], capacity: dict[str, str], **labels: str) -> Json:
    made = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}
    return {
        "metadata": {"name": "gpu-0000", "labels": made},
        "status": {"allocatable": allocatable, "capacity": capacity},
    }


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        (_gpus({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}, count="8"), 0),
        (_gpus({"nvidia.com/gpu": "7"}, {"nvidia.com/gpu": "8"}), 1),
        (_gpus({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}, count="8"), 7),
        (_gpus({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}, count="8", replicas="4"), 24),
        (_gpus({"nvidia.com/gpu.shared": "32"}, {"nvidia.com/gpu.shared": "32"}, count="8", replicas="4"), 0),
        (_gpus({"nvidia.com/gpu.shared": "1k"}, {"nvidia.com/gpu.shared": "1k"}, count="8", replicas="125"), 0),
        (_gpus({"nvidia.com/gpu": "9"}, {"nvidia.com/gpu": "9"}, count="8"), 0),
        (_gpus({"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "8"}, count="8"), 0),
        (_gpus({}, {}), 0),
        (_gpus({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}, count="eight", replicas="x"), 0),
        (_gpus({"nvidia.com/mig-1g.10gb": "7"}, {"nvidia.com/mig-1g.10gb": "7"}, count="8"), 0),
        (_gpus({"nvidia.com/mig-1g.10gb": "6"}, {"nvidia.com/mig-1g.10gb": "7"}, count="8", replicas="0"), 1),
        (_gpus({"nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "0"}, {"nvidia.com/gpu": "8"}, count="9"), 1),
    ],
)
def test_the_gpus_that_a_node_lacks(node: Json, missing: int) -> None:
    assert nodes.missing_gpus(node) == missing


MIG = "nvidia.com/mig-1g.10gb"
H100 = "NVIDIA-H100-80GB-HBM3"


def _mixed(node: Json, **counts: int) -> Json:
    """Add what GPU Feature Discovery counts with the strategy mixed."""
    for profile, count in counts.items():
        prefix = f"nvidia.com/mig-{profile.replace('_', '.')}"
        node["metadata"]["labels"] |= {f"{prefix}.count": str(count), f"{prefix}.replicas": "1"}
    return node


@pytest.mark.parametrize(
    ("node", "offers"),
    [
        (_gpus({}, {}), []),
        (
            _gpus({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}, count="8", replicas="1", product=H100),
            [("nvidia.com/gpu", None, 8, 1, 8, 8)],
        ),
        (
            _gpus({"nvidia.com/gpu.shared": "4"}, {"nvidia.com/gpu.shared": "4"}, count="1", replicas="4"),
            [("nvidia.com/gpu", None, 1, 4, 4, 4)],
        ),
        (  # strategy single
            _gpus({"nvidia.com/gpu": "7"}, {"nvidia.com/gpu": "7"}, count="7", product=f"{H100}-MIG-1g.10gb"),
            [("nvidia.com/gpu", "1g.10gb", 7, 1, 7, 7)],
        ),
        (
            _gpus(
                {"nvidia.com/gpu": "2"},
                {"nvidia.com/gpu": "2"},
                count="1",
                replicas="2",
                product=f"{H100}-MIG-1g.10gbme-SHARED",
            ),
            [("nvidia.com/gpu", "1g.10gb+me", 1, 2, 2, 2)],
        ),
        (
            _gpus({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}, product=f"{H100}-MIG-1g.10gb-me"),
            [("nvidia.com/gpu", "1g.10gb-me", None, None, 1, 1)],
        ),
        (_gpus({}, {}, count="0", replicas="0", product=f"{H100}-MIG-INVALID"), []),
        (  # strategy mixed: whole GPUs have gone, and the kubelet does not forget them for five minutes
            _mixed(
                _gpus({"nvidia.com/gpu": "0", MIG: "7"}, {"nvidia.com/gpu": "1", MIG: "7"}, count="1", replicas="0"),
                **{"1g_10gb": 7},
            ),
            [(MIG, "1g.10gb", 7, 1, 7, 7)],
        ),
        (  # one profile has gone, and another lacks a device
            _mixed(_gpus({MIG: "0", "nvidia.com/mig-2g.20gb.me": "2"}, {MIG: "7"}, replicas="0"), **{"2g_20gb_me": 3}),
            [("nvidia.com/mig-2g.20gb.me", "2g.20gb+me", 3, 1, 3, 2)],
        ),
        (  # partly divided: nobody counts the whole GPUs
            _mixed(
                _gpus({"nvidia.com/gpu": "3", MIG: "7"}, {"nvidia.com/gpu": "4", MIG: "7"}, count="5", replicas="1"),
                **{"1g_10gb": 7},
            ),
            [("nvidia.com/gpu", None, None, None, 4, 3), (MIG, "1g.10gb", 7, 1, 7, 7)],
        ),
        (  # partly divided, and no whole GPU can be had
            _mixed(_gpus({MIG: "7"}, {"nvidia.com/gpu": "4", MIG: "7"}, count="5", replicas="1"), **{"1g_10gb": 7}),
            [("nvidia.com/gpu", None, None, None, 4, 0), (MIG, "1g.10gb", 7, 1, 7, 7)],
        ),
    ],
)
def test_what_a_node_offers_beside_what_it_should_offer(node: Json, offers: list[tuple]) -> None:
    found = nodes.gpu_offers(node)
    assert [(o.resource, o.profile, o.devices, o.replicas, o.expected, o.allocatable) for o in found] == offers


RECORDED = json.loads(Path(recordings.__file__).with_name("agents.json").read_text())["cases"]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["name"])
def test_what_nvidias_own_agents_label_and_offer_is_complete(case: Json) -> None:
    """The labels of NVIDIA's feature discovery account for everything that NVIDIA's device plugin offers."""
    labels = {f"nvidia.com/{key}": value for key, value in case.get("labels", {}).items()}
    offered = {f"nvidia.com/{key}": str(number) for key, number in case.get("resources", {}).items()}
    item = {"metadata": {"labels": labels}, "status": {"capacity": offered, "allocatable": offered}}
    found = nodes.gpu_offers(item)
    if "resources" in case:
        assert [offer.expected for offer in found] == [offer.allocatable for offer in found]
    assert sum(offer.allocatable for offer in found) == sum(case.get("resources", {}).values())
    profiles = {profile for layout in case["layout"] for profile in layout or {}}
    assert {offer.profile for offer in found} - {None} <= profiles


@pytest.mark.parametrize(("labels", "skips"), [({}, False), ({"x": "true"}, False)])
def test_a_node_without_the_label_takes_part_in_upgrades(labels: dict[str, str], skips: bool) -> None:
    assert nodes.skips_upgrades({"metadata": {"name": "gpu-0000", "labels": labels}}) is skips


@pytest.mark.parametrize(("value", "skips"), [("true", True), ("false", False), ("", False)])
def test_the_label_that_keeps_a_node_out_of_upgrades(value: str, skips: bool) -> None:
    labels = {"nvidia.com/gpu-driver-upgrade.skip": value}
    assert nodes.skips_upgrades({"metadata": {"name": "gpu-0000", "labels": labels}}) is skips


def test_a_condition_without_a_type_is_not_readiness() -> None:
    assert not nodes.is_ready({"status": {"conditions": [{"status": "True"}, {"type": "Ready"}]}})


def test_the_state_of_an_upgrade() -> None:
    assert nodes.upgrade_state(node()) == "upgrade-done" and nodes.upgrade_state(cpu_node()) == ""


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions: Json, fields: tuple[Json, ...] = ()) -> Json:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def affinity(*terms: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({}, True),
        ({"preferredDuringSchedulingIgnoredDuringExecution": []}, True),
        (affinity(), False),
        (affinity({}), False),
        (affinity(term(expression("pool", "In", "a", "b"))), True),
        (affinity(term(expression("pool", "In", "b"))), False),
        (affinity(term(expression("pool", "NotIn", "b"))), True),
        (affinity(term(expression("pool", "NotIn", "a"))), False),
        (affinity(term(expression("spot", "NotIn", "a"))), True),
        (affinity(term(expression("pool", "Exists"))), True),
        (affinity(term(expression("spot", "Exists"))), False),
        (affinity(term(expression("spot", "DoesNotExist"))), True),
        (affinity(term(expression("pool", "DoesNotExist"))), False),
        (affinity(term(expression("gpus", "Gt", "7"))), True),
        (affinity(term(expression("gpus", "Gt", "8"))), False),
        (affinity(term(expression("gpus", "Lt", "9"))), True),
        (affinity(term(expression("gpus", "Lt", "8"))), False),
        (affinity(term(expression("pool", "Gt", "1"))), False),
        (affinity(term(expression("spot", "Lt", "1"))), False),
        (affinity(term(expression("pool", "In", "a"), expression("gpus", "Gt", "8"))), False),
        (affinity(term(expression("pool", "In", "b")), term(expression("gpus", "Gt", "7"))), True),
        (affinity(term(fields=(expression("metadata.name", "In", "gpu-0000"),))), True),
        (affinity(term(fields=(expression("metadata.name", "NotIn", "gpu-0000"),))), False),
    ],
)
def test_a_nodeaffinity_selects_as_in_kubernetes(given: Json, fits: bool) -> None:
    item = {"metadata": {"name": "gpu-0000", "labels": {"pool": "a", "gpus": "8"}}}
    assert nodes.fits_affinity(given, item) is fits
