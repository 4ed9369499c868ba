# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which devices a DeviceClass selects: the CEL expressions for Kubernetes, and the same rule applied here.

Plain fields are evaluated here exactly. Free CEL is not: the interpreters for Python (cel-python 0.5.0,
common-expression-language 0.10.0) lack Kubernetes' quantities and versions. So a selection with free CEL has an upper
limit only.

Source of the attributes: kubernetes-sigs/dra-driver-nvidia-gpu, revision 95932046, ``cmd/gpu-kubelet-plugin``
(``deviceinfo.go``, ``mig.go``); of the vendor's classes: NVIDIA GPU Operator v26.7.0, ``manifests/state-dra-driver``.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import typing as t
from fractions import Fraction

from ansible_collections.gpuops.nvidia.plugins.module_utils import _quantities
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import Device
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import DeviceName
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import DEVICE_CLASSES, DRA_DRIVER
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_ATTRIBUTES = f"device.attributes['{DRA_DRIVER}']"
_CAPACITY = f"device.capacity['{DRA_DRIVER}']"
_TEXTS = {"product": "productName", "architecture": "architecture", "profile": "profile"}
"""The attribute of each field that is compared as a text. `Device` has it under the name of the field."""
_MEMORY = {"gpu": "memory", "mig": "memory", "vfio": "addressableMemory"}
"""The capacity with the memory of each type of device."""


@dataclasses.dataclass(frozen=True)
class DeviceSelection:
    """What a class selects. ``texts`` are fields with their values, ``least`` the smallest memory as a quantity."""

    device_type: str
    texts: tuple[tuple[str, str], ...] = ()
    least: str | None = None
    cel: tuple[str, ...] = ()

    @property
    def expressions(self) -> list[str]:
        """The expressions that Kubernetes evaluates one after the other, until one is false."""
        terms = [f"device.driver == '{DRA_DRIVER}'", f"{_ATTRIBUTES}.type == '{self.device_type}'"]
        terms += [f"{_ATTRIBUTES}.{_TEXTS[field]} == {_literal(value)}" for field, value in self.texts]
        if self.least is not None:
            memory = _MEMORY[self.device_type]
            # A GPU whose memory the driver cannot tell has no such capacity, and CEL would end with an error.
            terms.append(f"has({_CAPACITY}.{memory})")
            terms.append(f"{_CAPACITY}.{memory}.compareTo(quantity({_literal(self.least)})) >= 0")
        return [" && ".join(terms), *self.cel]

    @functools.cached_property
    def _least_bytes(self) -> Fraction | None:
        return _quantities.parsed(self.least)

    @property
    def is_exact(self) -> bool:
        """Whether `selects` tells exactly what Kubernetes would select."""
        return not self.cel

    def selects(self, device: Device) -> bool:
        """Return whether the plain fields select a device. Free CEL can only select fewer."""
        return not self.unmet(device)

    def unmet(self, device: Device) -> list[str]:
        """Return the properties of a device that the plain fields do not want."""
        unmet = [] if device.kind == self.device_type else ["kind"]
        unmet += [field for field, value in self.texts if getattr(device, field) != value]
        least = self._least_bytes
        if least is not None and (device.memory is None or device.memory < least):
            unmet.append("memory")
        return unmet


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def selection(wish: Json) -> DeviceSelection:
    """Return the selection of an entry of ``classes``. Raises for fields that no device of its type could meet."""
    name, device_type = wish["name"], wish["type"]
    memory_min = wish.get("memory_min")
    if wish.get("profile"):
        _check_profile(name, device_type, wish["profile"])
    if wish.get("architecture") and device_type == "vfio":
        raise _invalid(name, "architecture", "devices of type vfio do not say theirs. Leave it out, or use product")
    if memory_min is not None and _quantities.parsed(memory_min) is None:
        raise _invalid(name, "memory_min", f"{memory_min} is no quantity. Write it like 40Gi")
    texts = tuple((field, str(wish[field])) for field in _TEXTS if wish.get(field))
    return DeviceSelection(device_type, texts, memory_min, tuple(wish.get("cel") or ()))


def _check_profile(name: str, device_type: str, profile: str) -> None:
    if device_type != "mig":
        raise _invalid(name, "profile", "only devices of type mig have one. Set type: mig, or leave it out")
    if profile_names.parsed(profile) is None:
        hint = profile_names.corrected(profile) or "Write it like 1g.10gb."
        raise _invalid(name, "profile", f"{profile} names no MIG profile. {hint.rstrip('.')}")


def _invalid(name: str, field: str, what: str) -> GpuOpsError:
    return GpuOpsError(f"The class {name} cannot have this {field}: {what}.", reason="Invalid")


VENDOR_CLASSES = {name: device_type for device_type, name in DEVICE_CLASSES.items()}
"""The classes of NVIDIA's operator and of the driver's own chart, with the type of device that each selects."""


def of_class(item: Json) -> DeviceSelection | None:
    """Return the selection of a DeviceClass in the cluster if it is one of the vendor's and unchanged, else None."""
    device_type = VENDOR_CLASSES.get(item["metadata"]["name"])
    if device_type is None:
        return None
    known = DeviceSelection(device_type)
    listed = [selector["cel"]["expression"] for selector in item["spec"].get("selectors") or [] if "cel" in selector]
    return known if [_plain(each) for each in listed] == [_plain(each) for each in known.expressions] else None


def _plain(expression: str) -> str:
    return "".join(expression.split()).replace('"', "'")


class Count(t.NamedTuple):
    """How many devices a class selects and how many of them are free, of all that the driver offers."""

    devices: int
    free: int
    offered: int
    on_one_node: int
    """The largest number on one node. All devices of a claim are on one node."""


def count(chosen: DeviceSelection, devices: t.Sequence[Device], free: t.Collection[DeviceName]) -> Count:
    """Count what the plain fields of a class select. Each node has one pool."""
    found = [device.name for device in devices if chosen.selects(device)]
    on_nodes = collections.Counter(pool for dummy, pool, dummy in found)
    return Count(len(found), sum(name in free for name in found), len(devices), max(on_nodes.values(), default=0))


def nearest(chosen: DeviceSelection, devices: t.Sequence[Device]) -> str:
    """Return what the devices have that come nearest to a class without devices, as the end of a sentence."""
    if not devices:
        return "no driver offers any device now"
    of_type = [device for device in devices if device.kind == chosen.device_type]
    if not of_type:
        return f"their types are {', '.join(sorted({str(device.kind) for device in devices}))}"
    best = min(of_type, key=lambda device: len(chosen.unmet(device)))
    field = chosen.unmet(best)[0]
    if field == "memory":
        known = [device.memory_mib for device in of_type if device.memory_mib is not None]
        return f"the largest of its type has {max(known)}Mi of memory" if known else "the memory of its type is unknown"
    values = sorted({str(getattr(device, field)) for device in of_type})
    return f"the values of {field} among its type are {', '.join(values)}"
