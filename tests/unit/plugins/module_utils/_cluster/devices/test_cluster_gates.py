# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of Kubernetes 1.36.3 to dry runs, with the gates on and off."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import cluster_gates
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason

Json = dict[str, t.Any]


class Answering:
    """An API server that answers a dry run with what ``keep`` makes of the spec, or with an error."""

    def __init__(self, keep: t.Callable[[Json], Json], reason: Reason | None = None, version: str = "v1") -> None:
        self.keep, self.reason, self.version = keep, reason, version
        self.sent: list[Json] = []

    def get(self, path: str) -> Json | None:
        return {"resources": [{"name": "resourceslices"}]} if path.endswith(f"/{self.version}") else None

    def ask(self, method: str, path: str, query: Json, body: Json) -> Json:
        assert method == "POST" and query["dryRun"] == "All"
        self.sent.append(body)
        if self.reason:
            raise GpuOpsError("no", reason=self.reason)
        return {"spec": self.keep(copy.deepcopy(body["spec"]))}


def with_time(spec: Json) -> Json:
    for device in spec.get("devices") or []:
        for taint in device.get("taints") or []:
            taint["timeAdded"] = "2026-11-28T11:12:47Z"
    return spec


def without(spec: Json) -> Json:
    spec.pop("sharedCounters", None)
    return {**spec, "devices": [{"name": "x"}]}


@pytest.mark.parametrize("gate", cluster_gates.ASKABLE_GATES)
def test_a_gate_is_on_if_its_fields_stay(gate: str) -> None:
    assert cluster_gates.probed(Answering(with_time), [gate]) == {gate: "on"}
    assert cluster_gates.probed(Answering(without), [gate]) == {gate: "off"}


@pytest.mark.parametrize(("reason", "state"), [("Invalid", "off"), ("Forbidden", "unknown")])
def test_a_refusal(reason: Reason, state: str) -> None:
    assert cluster_gates.probed(Answering(with_time, reason), ["DRADeviceTaints"]) == {"DRADeviceTaints": state}


def test_another_error_is_an_error() -> None:
    with pytest.raises(GpuOpsError):
        cluster_gates.probed(Answering(with_time, "ServerError"), ["DRADeviceTaints"])


def test_without_the_api_every_gate_is_off() -> None:
    cluster = Answering(with_time, version="v9")
    assert cluster_gates.probed(cluster, ["DRADeviceTaints"]) == {"DRADeviceTaints": "off"} and cluster.sent == []


def test_the_shape_of_v1beta1() -> None:
    cluster = Answering(with_time, version="v1beta1")
    cluster_gates.probed(cluster, ["DRAConsumableCapacity", "DRAPartitionableDevices"])
    devices, counters = (body["spec"] for body in cluster.sent)
    assert devices["devices"] == [{"name": "x", "basic": {"allowMultipleAllocations": True}}]
    assert "devices" not in counters and cluster.sent[0]["apiVersion"] == "resource.k8s.io/v1beta1"


def test_nothing_is_asked_for_no_gate() -> None:
    cluster = Answering(with_time)
    assert cluster_gates.probed(cluster, []) == {} and cluster.sent == []


@pytest.mark.parametrize(
    ("answer", "wanted", "keeps"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 2}, {"a": 1}, False),
        (None, {"a": 1}, False),
        ([{"a": 1}], [{"a": 1}], True),
        ([], [{"a": 1}], False),
        (None, [1], False),
    ],
)
def test_what_counts_as_kept(answer: t.Any, wanted: t.Any, keeps: bool) -> None:
    assert cluster_gates._keeps(answer, wanted) is keeps
