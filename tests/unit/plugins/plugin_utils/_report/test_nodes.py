# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the page says about nodes."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import nodes
from inline_snapshot import snapshot as wording

from tests.support.fleets import A100, H100, L4, data, finding, gpu, part, row


def state(*slices: dict[str, t.Any], found: t.Sequence[dict[str, t.Any]] = (), **changes: t.Any) -> tuple[str, str]:
    return nodes.state_of(row("gpu-0", H100, *(slices or [part(8, 2)]), **changes), found)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("ok", "")),
        ({"cordoned": True}, ("out", "The node is cordoned.")),
        ({"upgrade_state": None}, ("ok", "")),
        ({"upgrade_state": "upgrade-failed"}, ("ok", "")),
        (
            {"upgrade_state": "drain-required", "cordoned": True},
            ("work", wording("The driver's upgrade is at drain-required.")),
        ),
        ({"mig": {"state": "rebooting"}, "ready": False}, ("work", wording("The change of MIG is rebooting."))),
        ({"ready": False, "cordoned": True}, ("bad", wording("The node is not ready."))),
        ({"waiting_for": {"toolkit": "Init:0/1", "driver": "Error"}}, ("bad", "driver: Error; toolkit: Init:0/1")),
        ({"slices": []}, ("bad", wording("No GPU can be allocated."))),
        ({"slices": [], "claimable": True}, ("ok", "")),
        ({"left_out": "OperandsSwitchedOff", "ready": False}, ("left", "OperandsSwitchedOff")),
    ],
)
def test_the_state_of_a_node(changes: dict[str, t.Any], expected: tuple[str, str]) -> None:
    assert state(**changes) == expected


def test_a_failure_on_a_node_outranks_everything_and_a_warning_only_service() -> None:
    failure, warning = finding("A", "It broke", "failure", ["gpu-0"]), finding("B", "It is odd", "warning", ["gpu-0"])
    note = finding("C", "By the way", "ok", ["gpu-0"])
    assert state(found=[warning, failure], cordoned=True, left_out="X") == ("bad", "It broke")
    assert state(found=[note, warning]) == ("warn", "It is odd")
    assert state(found=[warning], cordoned=True) == ("out", "The node is cordoned.")
    assert state(found=[note]) == ("ok", "")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (row("n", H100, part(8, 3)), "3 of 8"),
        (row("n", H100, part(8, None)), "8"),
        (row("n", H100, part(8, 3, allocatable=7)), "3 of 7 (1 missing)"),
        (row("n", L4, part(4, 9, replicas=4)), "9 of 16 shares"),
        (row("n", A100, part(1, 0), part(7, 5, profile="1g.10gb")), "0 of 1, 5 of 7 mig-1g.10gb"),
        (row("n", H100), "none"),
        (row("n", H100, claimable=True), "by claims"),
    ],
)
def test_what_pods_hold_of_a_node(node: dict[str, t.Any], expected: str) -> None:
    assert nodes.counts(node) == expected


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        (H100, "H100 80GB HBM3"),
        (H100 + "-SHARED", "H100 80GB HBM3"),
        (A100 + "-MIG-1g.10gb", "A100 SXM4 80GB"),
        (None, "GPU of unknown model"),
    ],
)
def test_the_model_as_people_say_it(product: str | None, expected: str) -> None:
    assert nodes.model({"product": product}) == expected


def test_what_a_pod_holds() -> None:
    assert nodes.held({"nvidia.com/gpu": 2}) == "2"
    assert nodes.held({"nvidia.com/mig-1g.10gb": 1, "gpu.nvidia.com": 3}) == "3 x gpu.nvidia.com, 1 x mig-1g.10gb"


def test_a_node_has_its_pods_findings_notes_and_firmware() -> None:
    mig = {"capable": True, "strategy": "mixed", "config": "all-1g.10gb", "state": None}
    share = {"strategy": "mps", "config": "four"}
    changed = {
        "mig": mig,
        "sharing": share,
        "replicas": 4,
        "taints": ["a:NoSchedule"],
        "upgrade_state": "upgrade-failed",
    }
    rows = [row("gpu-0", H100, part(8, 2)), row("gpu-1", H100, part(8, 0), **changed)]
    pods = [{"namespace": "b", "name": f"p{n:02d}", "node": "gpu-0", "gpus": {"nvidia.com/gpu": 1}} for n in range(42)]
    hosts = {"gpu-1": {"gpus": [gpu(0), gpu(1), gpu(2, vbios="96.00.5E.00.01"), gpu(3, gsp=None)]}}
    found = [finding("A", "It broke", "failure", ["gpu-0", "gone"])]
    first, second = nodes.nodes_of(data(rows, pods=pods[::-1], hosts=hosts, findings=found))
    assert (first.number, first.findings, first.why, first.more_pods) == (0, (0,), "It broke", 2)
    assert first.pods[0] == nodes.Holder("b", "p00", "1")
    assert (first.notes, first.firmware, second.pods, second.findings) == ((), (), (), ())
    assert second.notes == (
        ("Sharing", "mps, 4 pods for each GPU"),
        ("MIG", "all-1g.10gb (not reported yet)"),
        ("Upgrade", "upgrade-failed"),
        ("Taints", "a:NoSchedule"),
    )
    assert second.firmware == (
        ("VBIOS", "96.00.74.00.01 (3), 96.00.5E.00.01 (1)"),
        ("infoROM", "G520.0200.00.05"),
        ("GSP firmware", "580.95.05"),
    )


def test_an_unhealthy_gpu_that_a_pod_holds_is_noted() -> None:
    sick = {"namespace": "ml", "pod": "train", "device": "GPU-0", "health": "Unhealthy", "message": "XID 79"}
    unknown = {**sick, "device": "GPU-1", "health": "Unknown"}
    first, second = nodes.nodes_of(
        data([row("a", H100, part(8, 2), device_health=[sick, unknown]), row("b", H100, device_health=[unknown])])
    )
    assert first.notes == (("Unhealthy", "GPU-0 in ml/train: XID 79"),) and second.notes == ()


def test_what_is_not_reported_yet_is_empty() -> None:
    bare = dict.fromkeys(("driver", "kernel", "os", "runtime"))
    (node,) = nodes.nodes_of(data([row("gpu-0", H100, part(1, 0), **bare)]))
    assert (node.driver, node.kernel, node.os, node.runtime) == ("", "", "", "")
