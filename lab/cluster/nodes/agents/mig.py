# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MIG layouts of a node: what mig-parted reads from a configuration, asserts, applies and generates.

A layout has an entry for each GPU: None (MIG is off), or the number of instances of each profile. The lab keeps it in
the node's annotation ``mig``.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

import yaml

from lab.cluster.api import Json
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.fleet import MODELS, Model
from lab.nvml.profiles import TABLES, Profile

Layout = list[dict[str, int] | None]
_PROFILE = re.compile(r"(?:(\d+)c\.)?(\d+)g\.(\d+)gb(\+[\w.,]+)?(-[\w.,]+)?")
_HEADER = "# DO NOT EDIT: Auto-generated MIG configuration from GPU hardware.\n"
_DISABLED: Json = {"devices": "all", "mig-enabled": False, "mig-devices": {}}
_BALANCED = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}
"""Instances of each size in `all-balanced`, by the compute slices of the whole GPU."""


class ConfigError(Exception):
    """A configuration that mig-parted refuses."""


@dataclass(frozen=True)
class Entry:
    """One element of a named configuration."""

    enabled: bool
    counts: t.Mapping[str, int]
    devices: tuple[int, ...] | None
    """The indices of the GPUs; None for all."""
    filters: tuple[str, ...] | None

    def matches(self, index: int, device: str) -> bool:
        """Return whether the entry concerns a GPU. A filter that is no device ID silently has no match."""
        if self.filters is not None and device.lower() not in (item.lower() for item in self.filters):
            return False
        return self.devices is None or index in self.devices


def layout_of(node: Json) -> Layout:
    """Return the layout of a node's GPUs."""
    text = note(node, "mig")
    return t.cast(Layout, json.loads(text)) if text else [None] * int(note(node, "gpus", "0"))


def device_of(node: Json) -> str:
    """Return the PCI device ID of a node's GPUs, as device filters name it."""
    return device_id(MODELS[note(node, "model")])


def device_id(model: Model) -> str:
    """Return the PCI device ID of a model, as device filters name it."""
    return f"0x{model.device_id.upper()}10DE"


def profiles_of(node: Json) -> tuple[Profile, ...]:
    """Return the profiles of a node's GPUs; empty if they do not support MIG."""
    return TABLES.get(MODELS[note(node, "model")].mig or "", ())


# ---- reading --------------------------------------------------------------------------------------------------------


def read(text: str) -> dict[str, list[Entry]]:
    """Return the named configurations of a file. One bad entry makes the whole file invalid."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"unmarshal error: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError("unmarshal error: the file is not a mapping")
    if "version" not in data:
        raise ConfigError("unable to parse with missing 'version' field")
    if data["version"] != "v1":
        raise ConfigError(f"unknown version: {data['version']}")
    for key in data:
        if key not in ("version", "mig-configs"):
            raise ConfigError(f"unexpected field: {key}")
    configs = data.get("mig-configs")
    if not isinstance(configs, dict) or not configs:
        raise ConfigError("at least one entry in 'mig-configs' is required")
    return {name: _entries(name, entries) for name, entries in configs.items()}


def _entries(name: str, entries: t.Any) -> list[Entry]:
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"at least one entry in '{name}' is required")
    return [_entry(item) for item in entries]


def _entry(item: t.Any) -> Entry:
    if not isinstance(item, dict):
        raise ConfigError("an entry is not a mapping")
    for key in ("devices", "mig-enabled"):
        if key not in item:
            raise ConfigError(f"missing required field: {key}")
    for key in item:
        if key not in ("devices", "mig-enabled", "mig-devices", "device-filter"):
            raise ConfigError(f"unexpected field: {key}")
    enabled, counts = item["mig-enabled"], _counts(item.get("mig-devices"))
    if not isinstance(enabled, bool):
        raise ConfigError("mig-enabled is not a boolean")
    if enabled and counts is None:
        raise ConfigError("missing required field 'mig-devices' when 'mig-enabled' is true")
    if not enabled and counts:
        raise ConfigError("MIG devices included when 'mig-enabled' is false")
    return Entry(enabled, counts or {}, _devices(item["devices"]), _filters(item.get("device-filter")))


def _counts(value: t.Any) -> dict[str, int] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ConfigError("mig-devices is not a mapping")
    for profile, count in value.items():
        if not _valid(profile):
            raise ConfigError(f"error validating values in 'mig-devices' field: invalid format for '{profile}'")
        if not _whole(count) or count < 0:
            raise ConfigError(f"error validating values in 'mig-devices' field: invalid count for '{count}'")
    if value and not any(value.values()):
        raise ConfigError("error validating values in 'mig-devices' field: all counts for all MigProfiles are 0")
    return value


def _valid(profile: t.Any) -> bool:
    found = _PROFILE.fullmatch(profile) if isinstance(profile, str) else None
    return found is not None and int(found[1] or found[2]) <= int(found[2])


def _devices(value: t.Any) -> tuple[int, ...] | None:
    if value == "all":
        return None
    if isinstance(value, list) and all(map(_whole, value)):
        return tuple(value)
    raise ConfigError(f"invalid input for 'devices': {value}")


def _filters(value: t.Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    items = [value] if isinstance(value, str) else value
    if isinstance(items, list) and all(isinstance(item, str) for item in items):
        return tuple(items)
    raise ConfigError(f"invalid input for 'device-filter': {value}")


def _whole(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ---- asserting and applying -----------------------------------------------------------------------------------------


def mode_applied(entries: list[Entry], layout: Layout, device: str) -> bool:
    """Return whether MIG is on or off as asked on every GPU. A GPU that no entry names counts as different."""
    return _all_match(entries, layout, device, lambda entry, now: entry.enabled == (now is not None))


def applied(entries: list[Entry], layout: Layout, device: str) -> bool:
    """Return whether a configuration is in place on every GPU."""
    same = _all_match(entries, layout, device, lambda entry, now: dict(entry.counts) == (now or {}))
    return mode_applied(entries, layout, device) and same


def _all_match(
    entries: list[Entry], layout: Layout, device: str, same: t.Callable[[Entry, dict[str, int] | None], bool]
) -> bool:
    matched = [False] * len(layout)
    for entry in entries:
        for index, now in enumerate(layout):
            if entry.matches(index, device):
                matched[index] = same(entry, now)
    return all(matched)


def with_mode(entries: list[Entry], layout: Layout, device: str) -> Layout:
    """Return the layout after the change of the mode, which destroys every instance on the GPUs concerned."""
    result = list(layout)
    for entry in entries:
        for index in range(len(layout)):
            if entry.matches(index, device):
                result[index] = {} if entry.enabled else None
    return result


def apply(entries: list[Entry], layout: Layout, device: str, profiles: t.Sequence[Profile]) -> tuple[Layout, bool]:
    """Return the layout that an application leaves behind, and whether it succeeded.

    A GPU that cannot hold the instances stays without any, and the GPUs after it are not reached. A layout with a
    profile that a GPU lacks succeeds, and leaves that GPU without any instance.
    """
    result = with_mode(entries, layout, device)
    for entry in entries:
        for index in range(len(layout)):
            if entry.enabled and entry.matches(index, device) and _known(entry.counts, profiles):
                if not fits(entry.counts, profiles):
                    return result, False
                result[index] = {profile: count for profile, count in entry.counts.items() if count}
    return result, True


def _known(counts: t.Mapping[str, int], profiles: t.Sequence[Profile]) -> bool:
    """Return whether a GPU has all of the profiles."""
    return {_gpu_instances(name, count)[0] for name, count in counts.items()} <= {item.name for item in profiles}


def fits(counts: t.Mapping[str, int], profiles: t.Sequence[Profile]) -> bool:
    """Return whether a GPU can hold the instances at the same time."""
    return placements(counts, profiles) is not None


def placements(counts: t.Mapping[str, int], profiles: t.Sequence[Profile]) -> list[tuple[Profile, int]] | None:
    """Return GPU instances with their first memory slices, the largest first; None if they do not fit."""
    known = {profile.name: profile for profile in profiles}
    wanted: list[Profile] = []
    for name, count in counts.items():
        gpu_instance, instances = _gpu_instances(name, count)
        if gpu_instance not in known:
            return None
        wanted += [known[gpu_instance]] * instances
    media = [profile for profile in wanted if "+me" in profile.name]
    return None if len(media) > 1 else _placed(sorted(wanted, key=lambda profile: -profile.size), 0)


def _placed(wanted: t.Sequence[Profile], taken: int) -> list[tuple[Profile, int]] | None:
    """Return places for instances beside the memory slices that are taken, a bit for each; None if there are none."""
    if not wanted:
        return []
    slices = (1 << wanted[0].size) - 1
    for start in wanted[0].starts:
        rest = None if taken & slices << start else _placed(wanted[1:], taken | slices << start)
        if rest is not None:
            return [(wanted[0], start), *rest]
    return None


def _gpu_instances(profile: str, count: int) -> tuple[str, int]:
    """Return the profile and the number of the GPU instances that hold compute instances such as 1c.3g.40gb."""
    found = _PROFILE.fullmatch(profile)
    if found is None or not found[1]:
        return profile, count
    return profile.partition(".")[2], -(-count * int(found[1]) // int(found[2]))


# ---- generating -----------------------------------------------------------------------------------------------------


def generated(profiles: t.Sequence[Profile]) -> str:
    """Return the configuration file that a MIG manager generates for GPUs of one model."""
    configs = {"all-disabled": [_DISABLED], "all-enabled": [_whole_node({})]}
    balanced = _balanced(profiles)
    if balanced:
        configs["all-balanced"] = [_whole_node(balanced)]
    for profile in profiles:
        configs[_config_name(profile.name)] = [_whole_node({profile.name: profile.most})]
    return _HEADER + yaml.safe_dump({"version": "v1", "mig-configs": configs})


def default_map() -> str:
    """Return the configurations that the operator ships, for every model that the lab knows.

    Managers before v0.14 read them. Where models differ, an entry names its model by the PCI device ID.
    """
    models = {device_id(model): TABLES[model.mig] for model in MODELS.values() if model.mig}
    configs = {"all-disabled": [_DISABLED], "all-enabled": [_whole_node({})]}
    configs["all-balanced"] = [_whole_node(_balanced(table), [device]) for device, table in models.items()]
    for name in sorted({profile.name for table in models.values() for profile in table}):
        most: dict[int, list[str]] = {}
        for device, table in models.items():
            for profile in table:
                if profile.name == name:
                    most.setdefault(profile.most, []).append(device)
        configs[_config_name(name)] = [
            _whole_node({name: count}, devices if len(most) > 1 else None) for count, devices in most.items()
        ]
    return yaml.safe_dump({"version": "v1", "mig-configs": configs})


def _config_name(profile: str) -> str:
    return f"all-{profile.replace('+', '.')}"


def _whole_node(counts: dict[str, int], filters: list[str] | None = None) -> Json:
    only: Json = {"device-filter": filters} if filters else {}
    return {**only, "devices": "all", "mig-enabled": True, "mig-devices": counts}


def _balanced(profiles: t.Sequence[Profile]) -> dict[str, int]:
    """Return the instances of `all-balanced`: of each size the profile of which most fit."""
    base = [profile for profile in profiles if "+" not in profile.name and "-" not in profile.name]
    formula = _BALANCED.get(max((profile.slices for profile in base), default=0), {})
    best: dict[int, Profile] = {}
    for profile in base:
        size = profile.slices
        if size not in best or profile.most > best[size].most:
            best[size] = profile
    return {best[size].name: count for size, count in formula.items() if size in best}
