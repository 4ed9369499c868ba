# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of the device plugin, as its parser reads it: unknown keys are ignored, wrong values refused."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

import yaml

from lab.cluster.api import Json

PREFIX = "nvidia.com/"
_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 63


class ConfigError(Exception):
    """A file that the device plugin, feature discovery and the MPS daemon refuse."""


@dataclass(frozen=True)
class Sharing:
    """How a node's GPUs are shared. ``replicas`` has the resources that are."""

    strategy: str = "none"
    replicas: t.Mapping[str, int] = field(default_factory=dict)
    renamed: bool = False
    fails_above_one: bool = False
    mig_strategy: str | None = None
    """The file's own MIG strategy. The operator's environment variable overrides it."""

    def name(self, resource: str) -> str:
        """Return the name under which a resource is offered."""
        return f"{resource}.shared" if self.renamed and resource in self.replicas else resource


def read(text: str) -> Sharing:
    """Return what a file says about sharing."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"unmarshal error: {error}") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError("unmarshal error: the file is not a mapping")
    version = _get(data, "version") or "v1"
    if version != "v1":
        raise ConfigError(f"unknown version: {version}")
    sharing, flags = _mapping(_get(data, "sharing"), "sharing"), _mapping(_get(data, "flags"), "flags")
    slicing, mps = _get(sharing, "timeSlicing"), _get(sharing, "mps")
    strategy = _get(flags, "migStrategy")
    if strategy is not None and not isinstance(strategy, str):
        raise ConfigError("unmarshal error: flags.migStrategy is not a string")
    # Both blocks are parsed, and MPS wins.
    read_slicing = _replicated(slicing, "time-slicing", strategy)
    read_mps = _replicated(mps, "mps", strategy)
    return read_mps or read_slicing or Sharing(mig_strategy=strategy)


def _get(data: Json, name: str) -> t.Any:
    """Return the value of a field. The parser ignores the case of such names."""
    return next((value for key, value in data.items() if str(key).lower() == name.lower()), None)


def _mapping(value: t.Any, name: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"unmarshal error: {name} is not a mapping")
    return value


def _replicated(block: t.Any, strategy: str, mig_strategy: str | None) -> Sharing | None:
    if block is None:
        return None
    block = _mapping(block, strategy)
    resources = block.get("resources")
    if not resources:
        raise ConfigError("no resources specified")
    if not isinstance(resources, list):
        raise ConfigError("unmarshal error: resources is not a list")
    renamed = _boolean(block, "renameByDefault", default=False)
    fails = _boolean(block, "failRequestsGreaterThanOne", default=strategy == "mps")
    return Sharing(strategy, dict(map(_resource, resources)), renamed, fails, mig_strategy)


def _boolean(block: Json, key: str, *, default: bool) -> bool:
    value = block.get(key, default)
    if not isinstance(value, bool):
        raise ConfigError(f"unmarshal error: {key} is not a boolean")
    return value


def _resource(item: t.Any) -> tuple[str, int]:
    item = _mapping(item, "a resource")
    if "name" not in item:
        raise ConfigError("no resource name specified")
    name = _name(item["name"])
    replicas = item.get("replicas")
    if replicas is None:
        raise ConfigError("no replicas specified")
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise ConfigError("unmarshal error: replicas is not a number")
    if replicas < 2:
        raise ConfigError("number of replicas must be >= 2")
    _check_devices(item.get("devices", "all"))
    return name, replicas


def _name(value: t.Any) -> str:
    if not isinstance(value, str):
        raise ConfigError("unmarshal error: the name of a resource is not a string")
    full = value if value.startswith(PREFIX) else PREFIX + value
    if len(full) > _LONGEST_NAME:
        raise ConfigError(f"fully-qualified resource name must be {_LONGEST_NAME} characters or less: {full}")
    if not _DNS.fullmatch(full.removeprefix(PREFIX)):
        raise ConfigError(f"incorrect format for resource name '{full}'")
    return full


def _check_devices(value: t.Any) -> None:
    """Check a field that the plugin reads and then ignores."""
    good = value == "all" or (isinstance(value, int) and value > 0) or isinstance(value, list)
    if not good:
        raise ConfigError(f"unrecognized type for devices spec: {value}")
