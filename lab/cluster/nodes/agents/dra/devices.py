# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices that NVIDIA's DRA driver finds on a node, in the form of ResourceSlices.

Attributes and capacities are those that the driver itself published from the lab's NVML (gpu-kubelet-plugin of
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu at commit 95932046), and the partitions of DynamicMIG those of
its cmd/gpu-kubelet-plugin/partitions.go.
"""

from __future__ import annotations

import re
import typing as t

from lab.cluster.api import Json
from lab.cluster.nodes.agents.facts import gpu_uuid, mig_uuid, note, pci_address
from lab.cluster.nodes.agents.feature_discovery import cuda_version
from lab.cluster.nodes.agents.mig import layout_of, placements, profiles_of
from lab.cluster.nodes.fleet import MODELS
from lab.nvml.models import MODELS as GPUS
from lab.nvml.profiles import Profile

Slice = dict[str, t.Any]
"""The part of a ResourceSlice that its driver decides: `devices`, or `sharedCounters`."""
_ENGINES = ("copyEngines", "decoders", "jpegEngines", "ofaEngines")
_MI = 1024 * 1024


def gpu_slices(node: Json, driver: str, gates: t.Container[str], shares: str = "") -> list[Slice]:
    """Return the slices of a node's GPUs.

    ``driver`` is the version of the loaded driver, and ``shares`` what the variable CONSUMABLE_SHARES says.
    """
    layout, profiles = layout_of(node), profiles_of(node)
    if "DynamicMIG" in gates and profiles:
        return _partitions(node, driver, profiles)
    devices = []
    for index, instances in enumerate(layout):
        if instances is None:
            devices.append(_gpu(node, driver, index))
        else:
            placed = placements(instances, profiles) or []
            devices += [_instance(node, driver, index, profile, start) for profile, start in placed]
    return [{"devices": [_shared(device, shares) if "ConsumableShares" in gates else device for device in devices]}]


def domain_slices() -> list[Slice]:
    """Return the slice of a node's part in ComputeDomains: a channel and a daemon."""
    kinds = ("channel", "daemon")
    return [{"devices": [{"name": f"{kind}-0", "attributes": {"type": _s(kind), "id": {"int": 0}}} for kind in kinds]}]


def types(slices: t.Iterable[Slice]) -> dict[str, str]:
    """Return the type of each device, by its name."""
    devices = [device for item in slices for device in item.get("devices") or []]
    return {device["name"]: device["attributes"]["type"]["string"] for device in devices}


def semantic(version: str) -> str:
    """Return a version in the form of semantic versions: three numbers without leading zeros."""
    numbers = [str(int(part)) for part in re.findall(r"\d+", version)[:3]]
    return ".".join([*numbers, "0", "0"][:3])


def _gpu(node: Json, driver: str, index: int) -> Json:
    own = {"type": _s("gpu"), "uuid": _s(gpu_uuid(node["metadata"]["name"], index))}
    memory = GPUS[note(node, "model").lower()].memory_mib
    return {
        "name": f"gpu-{index}",
        "attributes": {**own, **_common(node, driver, index)},
        "capacity": {"memory": _v(f"{memory}Mi")},
    }


def _instance(node: Json, driver: str, index: int, profile: Profile, start: int) -> Json:
    """Return a MIG instance that exists."""
    device = _partition(node, driver, index, profile, start)
    parent = device["attributes"]["parentUUID"]["string"]
    device["attributes"]["uuid"] = _s(mig_uuid(parent, device["name"]))
    device["capacity"] |= {f"memorySlice{number}": _v("1") for number in range(start, start + profile.size)}
    return device


def _partition(node: Json, driver: str, index: int, profile: Profile, start: int) -> Json:
    """Return a MIG instance that exists or that the driver can make."""
    name = re.sub(r"[^a-z0-9-]", "-", profile.name.lower().replace(".", "")).strip("-")
    own = {"type": _s("mig"), "parentUUID": _s(gpu_uuid(node["metadata"]["name"], index)), "profile": _s(profile.name)}
    return {
        "name": f"gpu-{index}-mig-{name}-{profile.id}-{start}",
        "attributes": {**own, **_common(node, driver, index)},
        "capacity": _capacity(profile),
    }


def _capacity(profile: Profile) -> Json:
    counts = {"multiprocessors": profile.multiprocessors, "encoders": 0, **dict(zip(_ENGINES, profile.engines))}
    return {"memory": _v(f"{profile.memory_mib}Mi"), **{name: _v(str(count)) for name, count in counts.items()}}


def _common(node: Json, driver: str, index: int) -> Json:
    """Return what a GPU and its instances have in common. Each GPU has a PCIe root of its own."""
    model, gpu, address = MODELS[note(node, "model")], GPUS[note(node, "model").lower()], pci_address(index)
    root = int(address.split(":")[1], 16) - 1
    return {
        "productName": _s(gpu.product),
        "brand": _s("Tesla" if gpu.product.startswith("Tesla") else "Nvidia"),
        "architecture": _s(model.family.replace("-", " ").title()),
        "cudaComputeCapability": {"version": semantic(model.compute)},
        "driverVersion": {"version": semantic(driver)},
        "cudaDriverVersion": {"version": semantic(cuda_version(driver))},
        "resource.kubernetes.io/pciBusID": _s(address),
        "resource.kubernetes.io/pcieRoot": _s(f"pci0000:{root:02x}"),
        "resource.kubernetes.io/numaNode": {"int": index // 4},
    }


# ---- partitions and shares ------------------------------------------------------------------------------------------


def _partitions(node: Json, driver: str, profiles: t.Sequence[Profile]) -> list[Slice]:
    """Return every instance that could be made, in a slice for each GPU, after one with the counters that they use up.

    The driver splits them so from Kubernetes 1.35 on. It cannot change the mode of a GPU of Ampere: that is offered
    either as a whole or in parts.
    """
    is_fixed = MODELS[note(node, "model")].family == "ampere"
    counters, slices = [], []
    for index, instances in enumerate(layout_of(node)):
        whole = _gpu(node, driver, index)
        if is_fixed and instances is None:
            slices.append({"devices": [whole]})
            continue
        whole["capacity"] = _most(profiles)
        used = _counters(whole["capacity"], range(max(profile.size for profile in profiles)))
        counters.append({"name": _counter_set(index), "counters": used})
        parts = [_counted(node, driver, index, profile, start) for profile in profiles for start in profile.starts]
        everything = {"counterSet": _counter_set(index), "counters": used}
        parts += [] if is_fixed else [{**whole, "consumesCounters": [everything]}]
        slices.append({"devices": sorted(parts, key=lambda device: str(device["name"]))})
    return [{"sharedCounters": counters}, *slices]


def _counted(node: Json, driver: str, index: int, profile: Profile, start: int) -> Json:
    part = _partition(node, driver, index, profile, start)
    used = _counters(part["capacity"], range(start, start + profile.size))
    return {**part, "consumesCounters": [{"counterSet": _counter_set(index), "counters": used}]}


def _counter_set(index: int) -> str:
    return f"gpu-{index}-counter-set"


def _most(profiles: t.Sequence[Profile]) -> Json:
    """Return the greatest capacity of each kind, which the whole GPU has."""
    every = [_capacity(profile) for profile in profiles]
    return {name: max((item[name] for item in every), key=_number) for name in every[0]}


def _number(quantity: Json) -> int:
    return int(quantity["value"].removesuffix("Mi"))


def _counters(capacity: Json, slices: t.Iterable[int]) -> Json:
    named = {re.sub(r"([a-z])([A-Z])", r"\1-\2", name).lower(): value for name, value in capacity.items()}
    return {**named, **{f"memory-slice-{number}": _v("1") for number in slices}}


def _shared(device: Json, shares: str) -> Json:
    """Return a device that several claims can have at the same time, each with a part of its memory."""
    if shares in ("", "disabled"):
        return device
    memory = device["capacity"]["memory"]["value"]
    least, default = ("1Mi", memory) if shares == "memory" else ("0", "0")
    policy = {"default": default, "validRange": {"min": least, "max": memory, "step": "1Mi"}}
    capacity = {**device["capacity"], "memory": {"value": memory, "requestPolicy": policy}}
    if shares.isdigit():
        policy = {"default": "1", "validRange": {"min": "1", "max": shares, "step": "1"}}
        capacity["shares"] = {"value": shares, "requestPolicy": policy}
    return {**device, "allowMultipleAllocations": True, "capacity": capacity}


def _s(value: str) -> Json:
    return {"string": value}


def _v(value: str) -> Json:
    return {"value": value}
