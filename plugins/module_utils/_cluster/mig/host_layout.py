# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether NVIDIA's driver for claims offers the GPUs and MIG instances that a host has now.

Pure. The driver looks at them when it starts, and offers an undivided GPU whole, a divided one by its instances, and
nothing of a GPU that is in MIG mode without instances. Source: ``enumerateAllPossibleDevices`` and ``VisitDevices`` in
cmd/gpu-kubelet-plugin/nvlib.go of kubernetes-sigs/dra-driver-nvidia-gpu (95932046), and the page about MIG there:
"Partitions added after the driver starts are not discovered until the GPU kubelet plugin restarts."
"""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

HostDevice = tuple[str, str]
"""The UUID of a GPU or of a MIG instance, and the instance's profile or an empty string.

In a plan, an instance that is to be made has no UUID.
"""


def devices_of(node: str, gpus: t.Sequence[Json]) -> list[HostDevice]:
    """Return what the driver would offer of a host's GPUs, which are as in the facts of gpu_facts.

    Raises an error with the reason NotReady for a GPU that waits for a reset: what it will be is unknown.
    """
    found: list[HostDevice] = []
    for gpu in gpus:
        mig = gpu.get("mig") or {}
        mode, pending = bool(mig.get("mode")), bool(mig.get("pending", mig.get("mode")))
        if mode != pending:
            raise GpuOpsError(
                f"{node}: the GPU {gpu['uuid']} takes its new MIG mode with a reset. Reset it or reboot the host.",
                reason="NotReady",
            )
        if not mode:
            found.append((str(gpu["uuid"]), ""))
        for instance in mig.get("instances") or [] if mode else []:
            found.append((str(instance.get("uuid") or ""), str(instance["profile"])))
    return found


def offered_by(pool: DevicePool | None) -> list[HostDevice]:
    """Return what a pool offers, with what it may offer of passthrough left out: that is the same GPUs again."""
    devices = pool.devices if pool else ()
    return [(each.uuid or "", each.profile or "") for each in devices if each.kind in ("gpu", "mig")]


def differs(pool: DevicePool | None, wanted: t.Sequence[HostDevice]) -> str:
    """Return how the newest generation of a pool differs from what the host has, or an empty string."""
    if pool is None:
        return f"no ResourceSlice of {names.DRA_DRIVER}" if wanted else ""
    if pool.missing:
        return f"{pool.missing} of the {pool.total} slices of generation {pool.generation} are missing"
    offered = set(offered_by(pool))
    lacks, extra = [each for each in wanted if each not in offered], offered - set(wanted)
    said = [f"lacks {_text(lacks)}" if lacks else "", f"offers {_text(sorted(extra))}, which are gone" if extra else ""]
    return " and ".join(filter(None, said))


def counted(devices: t.Iterable[HostDevice]) -> dict[str, int]:
    """Return how many whole GPUs (``gpu``) and instances of each profile there are."""
    return dict(sorted(collections.Counter(profile or "gpu" for dummy, profile in devices).items()))


def _text(devices: t.Sequence[HostDevice]) -> str:
    return first_few([f"{number} x {profile}" for profile, number in counted(devices).items()])
