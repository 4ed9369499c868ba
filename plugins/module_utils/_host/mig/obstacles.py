# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What stands in the way of a change: processes that use an instance, and services that hold a whole GPU."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver, node
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import Gpu, Process
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.plan import Step
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_LET_GO = ("nvidia-persiste", "nv-fabricmanage")
"""The first 15 letters of services that give a GPU back to the driver when it wants to reset it."""
_MIG_MANAGER = "/etc/systemd/system/multi-user.target.wants/nvidia-mig-manager.service"


def assert_ours(host: Host, allow_kubernetes_node: bool) -> None:
    """Raise if another program manages the instances of this host."""
    kubelet = node.kubelet(host)
    if kubelet["present"] and not allow_kubernetes_node:
        raise GpuOpsError(
            f"This host is a node of a Kubernetes cluster ({kubelet['by']}), where the GPU Operator's MIG manager sets "
            "the instances and would undo this. Use gpuops.nvidia.mig_config, or set allow_kubernetes_node if the "
            "cluster has no MIG manager. With a GPUCluster, use the role mig_partition with mig_partition_claims.",
            reason="HeldElsewhere",
        )
    if host.exists(_MIG_MANAGER):
        raise GpuOpsError(
            "nvidia-mig-manager.service sets the instances of this host at every boot. Disable it first: systemctl "
            "disable --now nvidia-mig-manager.service.",
            reason="HeldElsewhere",
        )


def assert_driver(host: Host, container_root: str) -> None:
    """Raise if the host has no driver of its own that runs."""
    if driver.driver_root(host, container_root):
        raise GpuOpsError(
            "The driver of this host is in a driver container, which belongs to the GPU Operator. Use "
            "gpuops.nvidia.mig_config instead.",
            reason="Unsupported",
        )
    if not driver.is_loaded(host):
        raise GpuOpsError(
            "NVIDIA's driver is not loaded on this host. Install it, for example with the role host_driver, and "
            "reboot if it asks for a reboot.",
            reason="ModuleNotLoaded",
        )


def processes(gpu: Gpu, steps: t.Sequence[Step]) -> list[Process]:
    """Return the processes that the steps would cut off. Those in instances that stay as they are go on."""
    if any(step.action == "mode" and step.on != gpu.mode for step in steps):
        return list(gpu.processes)
    starts = {step.start for step in steps if step.action == "destroy_compute"}
    touched = {instance.id for instance in gpu.instances if instance.start in starts}
    return [each for each in gpu.processes if touched and each.gpu_instance in {None, *touched}]


def assert_idle(host: Host, found: t.Sequence[tuple[Gpu, Process]]) -> None:
    """Raise if there are such processes, and name them."""
    if not found:
        return
    shown = [{"gpu": gpu.index, **describe(host, process.pid)} for gpu, process in found]
    names = first_few([f"{each['pid']} ({each['name']}, {each['user']}) on GPU {each['gpu']}" for each in shown])
    raise GpuOpsError(
        f"Processes use what the new layout removes, so the host was not changed: {names}. "
        "End them and run this again.",
        reason="InUse",
        processes=shown,
    )


def holders(host: Host, gpu: Gpu) -> list[Json]:
    """Return the processes that hold a GPU open so that it cannot be reset, such as DCGM."""
    information = host.read(f"/proc/driver/nvidia/gpus/{gpu.address}/information") or ""
    minor = re.search(r"^Device Minor:\s*(\d+)", information, re.MULTILINE)
    device = f"nvidia{minor[1] if minor else gpu.index}"
    users = driver.users(host) or []
    return [describe(host, each["pid"]) for each in users if device in each["devices"] and each["name"] not in _LET_GO]


def describe(host: Host, pid: int) -> Json:
    """Return a process with its name and its user."""
    status = host.read(f"/proc/{pid}/status") or ""
    found = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    user = _user(host, found[1]) if found else None
    return {"pid": pid, "name": host.read(f"/proc/{pid}/comm"), "user": user}


def _user(host: Host, number: str) -> str:
    accounts = (line.split(":") for line in (host.read("/etc/passwd") or "").splitlines())
    return next((fields[0] for fields in accounts if fields[2:3] == [number]), number)
