# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_health import ReportedHealth

from tests.unit.fakes.health import CLAIMED, with_health
from tests.unit.fakes.stack import Json

POD: Json = {"metadata": {"namespace": "ml", "name": "train"}, "spec": {}}


@pytest.mark.parametrize(
    ("resource", "device", "counts"),
    [
        ("nvidia.com/gpu", "GPU-8f6", True),
        ("nvidia.com/gpu.shared", "GPU-8f6::3", True),
        ("nvidia.com/mig-1g.10gb", "MIG-8f6", True),
        ("example.com/nic", "nic-0", False),
        ("claim:gpu", CLAIMED, True),
        ("claim:gpu/one", "gpu.nvidia.com/gpu-0000/gpu-0", True),
        ("claim:domain", "k8s.compute-domain.nvidia.com/claim=1-channel-0", False),
        ("claim:nic", "nic.example.com/gpu-0000/gpu.nvidia.com", False),
    ],
)
def test_only_gpus_count(resource: str, device: str, counts: bool) -> None:
    found = device_health.doubted(with_health(POD, resource, (device, "Unhealthy")))
    assert [each.device for each in found] == ([device] if counts else [])


def test_what_a_kubelet_says_is_kept_unless_all_is_well() -> None:
    devices = (("GPU-0", "Healthy"), ("GPU-1", "Unhealthy"), ("GPU-2", "Unknown"))
    found = device_health.doubted(with_health(POD, "nvidia.com/gpu", *devices, message="critical XID 79"))
    assert found == (
        ReportedHealth("cuda", "nvidia.com/gpu", "GPU-1", "Unhealthy", "critical XID 79"),
        ReportedHealth("cuda", "nvidia.com/gpu", "GPU-2", "Unknown", "critical XID 79"),
    )


def test_a_state_without_a_name_is_unknown() -> None:
    pod = with_health(POD, "nvidia.com/gpu", ("GPU-0", ""))
    assert [each.health for each in device_health.doubted(pod)] == ["Unknown"]


def test_a_kubelet_that_says_nothing_doubts_nothing() -> None:
    silent = {"name": "cuda", "ready": True}
    for pod in (POD, {**POD, "status": {"containerStatuses": [silent]}}):
        assert device_health.doubted(pod) == ()


def test_sidecars_count() -> None:
    pod = with_health(POD, "nvidia.com/gpu", ("GPU-0", "Unhealthy"))
    pod["status"]["initContainerStatuses"] = pod["status"].pop("containerStatuses")
    assert len(device_health.doubted(pod)) == 1


def test_a_row_has_the_pod_and_no_empty_message() -> None:
    (found,) = device_health.doubted(with_health(POD, "claim:gpu", (CLAIMED, "Unhealthy")))
    assert device_health.row_of("ml", "train", found) == {
        "namespace": "ml", "pod": "train", "container": "cuda", "resource": "claim:gpu", "device": CLAIMED,
        "health": "Unhealthy", "message": None,
    }  # fmt: skip


def held(health: str, pod: str = "train", device: str = CLAIMED, message: str | None = None) -> Json:
    return {"namespace": "ml", "pod": pod, "device": device, "health": health, "message": message}


def test_a_gpu_that_several_containers_hold_is_one_sick_gpu() -> None:
    row = {"device_health": [held("Unhealthy"), held("Unhealthy"), held("Unhealthy", "serve", message="XID 79")]}
    assert list(device_health.sick(row)) == [CLAIMED] and device_health.counted_sick(row) == "1 unhealthy GPU"
    assert device_health.sick_text(row) == f"{CLAIMED} in ml/serve, ml/train: XID 79"


def test_two_sick_gpus_are_counted_and_told_apart() -> None:
    row = {"device_health": [held("Unhealthy", device="GPU-0"), held("Unhealthy", "serve", "GPU-1", "XID 48")]}
    assert device_health.counted_sick(row) == "2 unhealthy GPUs"
    assert device_health.sick_text(row) == "GPU-0 in ml/train; GPU-1 in ml/serve: XID 48"


@pytest.mark.parametrize("row", [{}, {"device_health": None}, {"device_health": [held("Unknown")]}])
def test_what_is_unknown_is_not_called_sick(row: Json) -> None:
    assert (device_health.sick(row), device_health.counted_sick(row), device_health.sick_text(row)) == ({}, "", "")
