# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs that kubelets call unhealthy, with the pods that hold them."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import held_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import diagnosed
from tests.unit.fakes.health import CLAIMED, with_health

POD: Json = {"metadata": {"namespace": "ml", "name": "train"}, "spec": {"nodeName": "gpu-0000"}}


def sick(pod: Json = POD, resource: str = "nvidia.com/gpu", device: str = "GPU-1", health: str = "Unhealthy") -> Json:
    return with_health(pod, resource, (device, health), message="critical XID 79 reported by NVML")


def row(*pods: Json) -> Json:
    seen = [
        device_health.row_of("ml", pod["metadata"]["name"], each) for pod in pods for each in device_health.doubted(pod)
    ]
    return diagnosed.row(device_health=seen)


def test_the_finding_names_the_pod_the_node_and_the_gpu() -> None:
    stack = diagnosed.stack(row(sick(resource="claim:gpu/one", device=CLAIMED)))
    (finding,) = diagnosed.found(held_devices.RULES, stack=stack).values()
    assert (finding.code, finding.severity, finding.certainty) == ("HeldGPUUnhealthy", "failure", "certain")
    assert (finding.nodes, finding.objects) == (("gpu-0000",), ("pod ml/train",))
    assert CLAIMED in finding.cause and "critical XID 79" in finding.cause and "node_maintenance" in finding.remedy


def test_pods_that_share_a_gpu_are_one_finding() -> None:
    other = {**POD, "metadata": {"namespace": "ml", "name": "other"}}
    (finding,) = diagnosed.found(held_devices.RULES, stack=diagnosed.stack(row(sick(), sick(other)))).values()
    assert finding.objects == ("pod ml/other", "pod ml/train")


def test_a_pod_that_is_read_whole_counts_once() -> None:
    for stack in (None, diagnosed.stack(row(sick()))):
        (finding,) = diagnosed.found(held_devices.RULES, stack=stack, pods=[sick()]).values()
        assert (finding.nodes, finding.objects, len(finding.quotes)) == (("gpu-0000",), ("pod ml/train",), 1)


def test_unknown_and_silent_are_no_finding() -> None:
    silent = diagnosed.stack(diagnosed.row(), diagnosed.row("b", device_health=None))
    for stack in (silent, diagnosed.stack(row(sick(health="Unknown")))):
        assert diagnosed.found(held_devices.RULES, stack=stack, pods=[sick(health="Unknown")]) == {}
