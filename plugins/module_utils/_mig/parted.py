# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Configurations of NVIDIA's mig-parted, format v1: reading them as strictly as it does, and what it does not check.

Source: mig-parted v0.15.0, ``api/spec/v1`` and ``pkg/types``. One bad entry makes it refuse the whole document.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import placement, profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Model, device_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

VERSION = "v1"
LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class LayoutEntry:
    """One entry of a layout. ``devices`` None means all of a node, and no filter means all that there are."""

    devices: tuple[int, ...] | None
    enabled: bool
    counts: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    filters: tuple[str, ...] = ()


Layouts = dict[str, tuple[LayoutEntry, ...]]


@dataclasses.dataclass(frozen=True)
class NodeGpu:
    """A GPU of a node. ``device_id`` is None where only the product is known; without a model the GPU is unknown."""

    index: int
    model: Model | None
    device_id: int | None = None


@dataclasses.dataclass(frozen=True)
class WantedLayout:
    """What a layout asks of a GPU."""

    enabled: bool
    counts: t.Mapping[str, int]


# ---- reading --------------------------------------------------------------------------------------------------------


def _wrong(place: str, problem: str) -> GpuOpsError:
    return GpuOpsError(f"{place}: {problem}.", reason="Invalid")


def _mapping(value: t.Any, place: str) -> dict[str, t.Any]:
    """Return a mapping with text keys. YAML reads some keys as numbers or truth values; to NVIDIA they are text."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(place, f"this is {_kind(value)}, but has to be a mapping")
    return {str(key).lower() if isinstance(key, bool) else str(key): item for key, item in value.items()}


def _kind(value: t.Any) -> str:
    words = {
        bool: "a truth value",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "a mapping",
    }
    return next((word for kind, word in words.items() if isinstance(value, kind)), "nothing")


def _only(fields: t.Mapping[str, t.Any], known: t.Collection[str], place: str) -> None:
    for name in fields:
        if name not in known:
            close = [each for each in known if each.replace("-", "") == re.sub(r"[-_]", "", name.lower())]
            hint = f"write {close[0]}" if close else f"the fields are {', '.join(known)}"
            raise _wrong(place, f"there is no field {name!r}; {hint}")


def read(data: t.Any) -> Layouts:
    """Return the layouts of a document that a YAML or JSON parser has read. The first mistake is an error."""
    document = _mapping(data, "The document")
    if "version" not in document:
        raise _wrong("The document", f"the field version is missing; write version: {VERSION}")
    if document["version"] != VERSION:
        raise _wrong("version", f"this is {document['version']!r}, and only {VERSION} exists")
    _only(document, ("version", "mig-configs"), "The document")
    if "mig-configs" not in document:
        return {}
    layouts = _mapping(document["mig-configs"], "mig-configs")
    if not layouts:
        raise _wrong("mig-configs", "at least one layout is needed")
    return {name: _layout(entries, f"mig-configs.{name}") for name, entries in layouts.items()}


def _layout(entries: t.Any, place: str) -> tuple[LayoutEntry, ...]:
    if entries is not None and not isinstance(entries, list):
        raise _wrong(place, f"this is {_kind(entries)}, but has to be a list of entries")
    if not entries:
        raise _wrong(place, "at least one entry is needed")
    return tuple(_entry(entry, f"{place}[{index}]") for index, entry in enumerate(entries))


def _entry(entry: t.Any, place: str) -> LayoutEntry:
    fields = _mapping(entry, place)
    _only(fields, ("device-filter", "devices", "mig-enabled", "mig-devices"), place)
    for name in ("devices", "mig-enabled"):
        if name not in fields:
            raise _wrong(place, f"the field {name} is missing")
    enabled = fields["mig-enabled"]
    if not isinstance(enabled, bool) and enabled is not None:
        raise _wrong(f"{place}.mig-enabled", f"this is {_kind(enabled)}, but has to be true or false")
    counts = _counts(fields.get("mig-devices"), f"{place}.mig-devices")
    if enabled and fields.get("mig-devices") is None:
        raise _wrong(place, "the field mig-devices is missing; with mig-enabled it may be empty ({})")
    if counts and not enabled:
        raise _wrong(place, "mig-devices need mig-enabled: true")
    filters = _filters(fields.get("device-filter"), f"{place}.device-filter")
    return LayoutEntry(_devices(fields["devices"], f"{place}.devices"), bool(enabled), counts, filters)


def _devices(value: t.Any, place: str) -> tuple[int, ...] | None:
    if value == "all":
        return None
    if not isinstance(value, list):
        raise _wrong(place, f"this is {value!r}, but has to be all or a list of indices")
    return tuple(_whole(item, place) for item in value)


def _filters(value: t.Any, place: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list) or not all(isinstance(item, (str, type(None))) for item in texts):
        raise _wrong(place, 'this has to be a text such as "0x20B010DE", in quotes, or a list of such texts')
    # NVIDIA takes an empty text for no filter, but an empty text in a list for a filter without a match.
    return () if value == "" else tuple(item or "" for item in texts)


def _counts(value: t.Any, place: str) -> dict[str, int]:
    counts = {}
    for profile, count in _mapping(value, place).items():
        names_profile = profile_names.parsed(profile)
        if names_profile is None:
            hint = profile_names.corrected(profile) or "Write it such as 1g.10gb, 1g.10gb+me or 1c.2g.20gb"
            raise _wrong(place, f"{profile!r} is no MIG profile. {hint}".rstrip("."))
        counts[profile] = _whole(0 if count is None else count, f"{place}.{profile}")
        if counts[profile] < 0:
            raise _wrong(f"{place}.{profile}", f"{count} instances are a negative number")
    if counts and not any(counts.values()):
        raise _wrong(place, "all counts are 0; an empty mapping ({}) is a GPU without instances")
    return counts


def _whole(value: t.Any, place: str) -> int:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or value != value // 1 or abs(value) > LARGEST:
        raise _wrong(place, f"{value!r} is not a whole number")
    return int(value)


# ---- writing --------------------------------------------------------------------------------------------------------


def plain(layouts: t.Mapping[str, t.Sequence[LayoutEntry]]) -> Json:
    """Return the document of layouts, for a YAML or JSON writer."""
    return {"version": VERSION, "mig-configs": {name: list(map(_plain, layouts[name])) for name in layouts}}


def _plain(entry: LayoutEntry) -> Json:
    made: Json = {"device-filter": list(entry.filters)} if entry.filters else {}
    made["devices"] = "all" if entry.devices is None else list(entry.devices)
    made["mig-enabled"] = entry.enabled
    if entry.enabled:
        made["mig-devices"] = dict(entry.counts)
    return made


def filter_of(model: Model) -> tuple[str, ...]:
    """Return the filters that match a model under each of its PCI devices."""
    return tuple(f"0x{device:04X}10DE" for device in model.devices)


def generated(models: t.Collection[Model]) -> Layouts:
    """Return the layouts that the MIG manager of v26.3 and later generates for a node with GPUs of these models."""
    several = len(models) > 1
    layouts: Layouts = {"all-disabled": (LayoutEntry(None, False),), "all-enabled": (LayoutEntry(None, True),)}
    for model in models:
        filters = filter_of(model) if several else ()
        mixtures = {
            profile_names.LAYOUT_PREFIX + profile_names.dotted(each.name): {each.name: each.most}
            for each in model.profiles
        }
        balanced = placement.balanced(model)
        for name, counts in {**({"all-balanced": balanced} if balanced else {}), **mixtures}.items():
            layouts[name] = (*layouts.get(name, ()), LayoutEntry(None, True, counts, filters))
    return layouts


# ---- resolving ------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"0[xX](?P<hex>[0-9A-Fa-f]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>[0-9]+)", re.ASCII)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}


def filtered_device(text: str) -> int | None:
    """Return the PCI device number that a filter matches; None if mig-parted cannot read it, and it matches nothing."""
    parts = [_NUMBER.fullmatch(part.replace("_", "")) for part in text.split(":")]
    found = parts[0]
    if not all(parts) or len(parts) > 2 or found is None:
        return None
    value = next(int(digits, _BASES[base]) for base, digits in found.groupdict().items() if digits is not None)
    return device_number(value) if value >> 32 == 0 and value & 0xFFFF == 0x10DE else None


def _matches_filter(entry: LayoutEntry, gpu: NodeGpu) -> bool:
    if not entry.filters:
        return True
    devices = {filtered_device(text) for text in entry.filters} - {None}
    if gpu.device_id is not None:
        return device_number(gpu.device_id) in devices
    return gpu.model is not None and bool(devices & set(gpu.model.devices))


def matches(entry: LayoutEntry, gpu: NodeGpu) -> bool:
    """Return whether an entry is meant for a GPU. Where its PCI device is unknown, any device of its model counts."""
    return (entry.devices is None or gpu.index in entry.devices) and _matches_filter(entry, gpu)


def resolve(entries: t.Sequence[LayoutEntry], gpus: t.Sequence[NodeGpu]) -> dict[int, WantedLayout]:
    """Return what a layout asks of each GPU, by index. Of several entries for a GPU, the last one counts.

    A GPU that no entry is meant for is absent: mig-parted leaves it alone, and does not find the layout applied.
    """
    return {
        gpu.index: WantedLayout(entry.enabled, entry.counts) for entry in entries for gpu in gpus if matches(entry, gpu)
    }


# mig-parted compares profiles and counts with those of the GPU as texts, and divides the GPU again where they differ.
_NEVER = "never counts as applied"


# ---- checking -------------------------------------------------------------------------------------------------------


def check(name: str, entries: t.Sequence[LayoutEntry], gpus: t.Sequence[NodeGpu]) -> list[str]:
    """Return what is wrong with a layout for a node with these GPUs, in sentences. NVIDIA's check misses all of it."""
    problems = [
        f"{name}[{index}]: {problem}."
        for index, entry in enumerate(entries)
        for problem in (*_mistakes(entry, gpus), *_not_fitting(entry, gpus))
    ]
    wanted = resolve(entries, gpus)
    left = [str(gpu.index) for gpu in gpus if gpu.index not in wanted]
    if left:
        problems.append(
            f"{name}: no entry is meant for GPU {first_few(left)}, so the layout does not count as applied."
        )
    return problems


def _mistakes(entry: LayoutEntry, gpus: t.Sequence[NodeGpu]) -> t.Iterator[str]:
    known = {gpu.index for gpu in gpus}
    for text in entry.filters:
        if filtered_device(text) is None:
            yield f"the device-filter {text!r} matches no GPU; write NVIDIA's PCI device such as 0x20B010DE"
    beyond = [str(index) for index in entry.devices or () if index not in known]
    if beyond:
        yield f"there is no GPU {first_few(beyond)}, only {len(gpus)} GPUs from index 0"
    if entry.devices == ():
        yield "the list of devices is empty, so the entry is meant for no GPU"
    for profile, count in entry.counts.items():
        if profile_names.parse(profile).text != profile:
            yield f"write {profile_names.parse(profile).text} for {profile}; by the other name it {_NEVER}"
        elif count == 0:
            yield f"leave {profile} out; with the count 0 the layout {_NEVER}"


def _not_fitting(entry: LayoutEntry, gpus: t.Sequence[NodeGpu]) -> t.Iterator[str]:
    """Yield for each model among the GPUs that the entry is meant for why the instances do not fit on it."""
    seen: set[str] = set()
    for gpu in gpus:
        name = gpu.model.name if gpu.model else ""
        if entry.enabled and name not in seen and matches(entry, gpu):
            seen.add(name)
            reason = placement.why_not(gpu.model, entry.counts) if gpu.model else _unknown(gpu)
            if reason:
                yield reason


def _unknown(gpu: NodeGpu) -> str:
    return f"MIG cannot divide GPU {gpu.index}, or its profiles are unknown"
