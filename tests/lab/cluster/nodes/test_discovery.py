# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Feature discovery and the device plugin describe and offer GPUs as NVIDIA's own programs do."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from lab.cluster.nodes.agents import device_plugin, feature_discovery, sharing

Json = dict[str, t.Any]
RECORDED = Path(__file__).parents[4] / "lab/cluster/conformance/agents.json"
CASES: list[Json] = json.loads(RECORDED.read_text())["cases"]
OWN = ("nvidia.com/cuda.", "nvidia.com/gpu.machine", "nvidia.com/gfd.")


def node_of(case: Json) -> Json:
    notes = {"model": case["model"], "gpus": str(len(case["layout"])), "mig": json.dumps(case["layout"])}
    return {"metadata": {"annotations": {f"lab.gpuops.nvidia/{key}": value for key, value in notes.items()}}}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_labels_are_those_of_the_vendors_feature_discovery(case: Json) -> None:
    shared = sharing.read(case.get("config", ""))
    if "discovery_error" in case:
        with pytest.raises(feature_discovery.DiscoveryError) as error:
            feature_discovery.labels(node_of(case), "580.95.05", case["strategy"], shared)
        assert case["discovery_error"].endswith(str(error.value))
        return
    labels = feature_discovery.labels(node_of(case), "580.95.05", case["strategy"], shared)
    found = {key.removeprefix("nvidia.com/"): value for key, value in labels.items() if not key.startswith(OWN)}
    assert found == case["labels"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_resources_are_those_of_the_vendors_device_plugin(case: Json) -> None:
    shared = sharing.read(case.get("config", ""))
    if "plugin_error" in case:
        with pytest.raises(device_plugin.PluginError) as error:
            device_plugin.offered(case["layout"], case["strategy"], shared)
        assert case["plugin_error"].split(" 0 ")[-1] in str(error.value).replace("a device", "device 0")
        return
    offered = device_plugin.offered(case["layout"], case["strategy"], shared)
    assert {name.removeprefix("nvidia.com/"): count for name, count in offered.items()} == case["resources"]


def test_labels_of_an_earlier_layout_are_stale_and_those_of_others_are_not() -> None:
    labels = {
        "nvidia.com/mig-1g.10gb.count": "7",
        "nvidia.com/gpu.slices.gi": "1",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/mig.config": "all-1g.10gb",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.driver": "true",
        "nvidia.com/device-plugin.config": "a",
    }
    node = {"metadata": {"labels": labels}}
    stale = feature_discovery.stale(node, {"nvidia.com/gpu.count": "8"})
    assert stale == {"nvidia.com/mig-1g.10gb.count", "nvidia.com/gpu.slices.gi"}


def test_only_machines_that_a_fabric_joins_have_a_clique() -> None:
    clique = "7c1a4c5e-3b5d-4f0e-9a8e-0f2b6f1d2c3a.32766"
    case = next(case for case in CASES if "discovery_error" not in case)
    alone = node_of(case)
    joined = node_of(case)
    joined["metadata"]["annotations"]["lab.gpuops.nvidia/clique"] = clique
    found = [
        feature_discovery.labels(node, "580.95.05", case["strategy"], sharing.read("")) for node in (alone, joined)
    ]
    assert [labels.get("nvidia.com/gpu.clique") for labels in found] == [None, clique]
    left = {"metadata": {"labels": found[1]}}
    assert feature_discovery.stale(left, found[0]) == {"nvidia.com/gpu.clique"}


# ---- the configuration ----------------------------------------------------------------------------------------------


def sliced(resource: str, **block: t.Any) -> str:
    return json.dumps({"sharing": {"timeSlicing": {**block, "resources": [json.loads(resource)]}}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("version: v1\nsharings: {timeSlicing: {}}", {}),
        ("sharing: {time-slicing: {resources: []}}", {}),
        (sliced('{"name": "gpu", "replicas": 2}'), {"nvidia.com/gpu": 2}),
        (sliced('{"name": "nvidia.com/gpu", "replicas": 3, "devices": 1}'), {"nvidia.com/gpu": 3}),
        ("Sharing: {TIMESLICING: {resources: [{name: gpu, replicas: 5}]}}", {"nvidia.com/gpu": 5}),
    ],
)
def test_the_parser_ignores_what_it_does_not_know(text: str, expected: dict[str, int]) -> None:
    assert dict(sharing.read(text).replicas) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "unmarshal error"),
        ("- a", "not a mapping"),
        ("version: v2", "unknown version: v2"),
        ("sharing: 3", "sharing is not a mapping"),
        ("flags: {migStrategy: 3}", "not a string"),
        ("sharing: {timeSlicing: {resources: []}}", "no resources specified"),
        ("sharing: {mps: {}}", "no resources specified"),
        ("sharing: {timeSlicing: {resources: {a: 1}}}", "resources is not a list"),
        (sliced('{"replicas": 2}'), "no resource name specified"),
        (sliced('{"name": 3, "replicas": 2}'), "is not a string"),
        (sliced('{"name": "GPU", "replicas": 2}'), "incorrect format for resource name"),
        (sliced(json.dumps({"name": "g" * 53, "replicas": 2})), "63 characters or less"),
        (sliced('{"name": "gpu"}'), "no replicas specified"),
        (sliced('{"name": "gpu", "replicas": "4"}'), "replicas is not a number"),
        (sliced('{"name": "gpu", "replicas": 1}'), "number of replicas must be >= 2"),
        (sliced('{"name": "gpu", "replicas": 2, "devices": "some"}'), "unrecognized type for devices"),
        (sliced('{"name": "gpu", "replicas": 2}', renameByDefault="yes"), "renameByDefault is not a boolean"),
    ],
)
def test_the_parser_refuses_wrong_values(text: str, problem: str) -> None:
    with pytest.raises(sharing.ConfigError, match=problem):
        sharing.read(text)


def test_mps_wins_over_time_slicing_and_fails_requests_of_several_shares() -> None:
    both = {name: {"resources": [{"name": "gpu", "replicas": 2}]} for name in ("timeSlicing", "mps")}
    found = sharing.read(json.dumps({"sharing": both}))
    assert (found.strategy, found.fails_above_one) == ("mps", True)
    assert sharing.read(sliced('{"name": "gpu", "replicas": 2}')).fails_above_one is False


# ---- pods -----------------------------------------------------------------------------------------------------------


def pod(phase: str = "Running", **limits: int) -> Json:
    container = {"name": "main", "resources": {"limits": {f"nvidia.com/{key}": value for key, value in limits.items()}}}
    return {"metadata": {}, "spec": {"containers": [container]}, "status": {"phase": phase}}


def test_who_holds_a_gpu() -> None:
    assert device_plugin.holds_a_gpu(pod(gpu=1))
    assert device_plugin.holds_a_gpu(pod(**{"mig-1g.10gb": 1}))
    assert not device_plugin.holds_a_gpu(pod("Succeeded", gpu=1))
    assert not device_plugin.holds_a_gpu(pod(gpu=0))
    assert not device_plugin.holds_a_gpu(pod(hostdev=1))


def test_a_pod_that_asks_for_several_shares_is_refused_only_if_the_configuration_says_so() -> None:
    strict = sharing.read(sliced('{"name": "gpu", "replicas": 4}', failRequestsGreaterThanOne=True))
    assert "maximum request size for shared resources is 1; found 2" in (
        device_plugin.refusal(pod(gpu=2), strict) or ""
    )
    assert device_plugin.refusal(pod(gpu=1), strict) is None
    lenient = sharing.read(sliced('{"name": "gpu", "replicas": 4}'))
    assert device_plugin.refusal(pod(gpu=2), lenient) is None
