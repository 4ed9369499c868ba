# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The device plugin's configuration, version v1: what it may contain, and its text. Pure.

The device plugin ignores what it does not know: a misspelt ``timeSlicing`` leaves sharing off without a word. So every
field is checked here, and what the device plugin would ignore is refused.

Source: NVIDIA k8s-device-plugin v0.18.1 to v0.20.0, ``api/config/v1`` and ``cmd/nvidia-device-plugin/main.go``.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import re
import typing as t

from ansible.module_utils.common.yaml import yaml_dump
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    GPU_RESOURCE,
    MIG_RESOURCE_PREFIX,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NONE, TIME_SLICING, MPS = "none", "time-slicing", "mps"
"""The strategies, as GPU Feature Discovery spells them in its labels."""

BLOCKS = {TIME_SLICING: "timeSlicing", MPS: "mps"}
"""The field of a strategy in the configuration."""

SHARED = ".shared"
"""The ending of a resource's name with renameByDefault."""

MIG_STRATEGIES = (NONE, "single", "mixed")

_SHARING: Json = {"renameByDefault": bool, "failRequestsGreaterThanOne": bool, "resources": list}
_DOCUMENT: Json = {
    "version": ("v1",),
    "flags": {
        "migStrategy": MIG_STRATEGIES,
        "failOnInitError": bool,
        "mpsRoot": str,
        "nvidiaDriverRoot": str,
        "nvidiaDevRoot": str,
        "gdrcopyEnabled": bool,
        "gdsEnabled": bool,
        "mofedEnabled": bool,
        "useNodeFeatureAPI": bool,
        "deviceDiscoveryStrategy": ("auto", "nvml", "tegra"),
        "plugin": {
            "passDeviceSpecs": bool,
            "deviceListStrategy": (str, list),
            "deviceIDStrategy": ("uuid", "index"),
            "cdiAnnotationPrefix": str,
            "nvidiaCTKPath": str,
            "containerDriverRoot": str,
            "sharedDevicesAllocationPolicy": ("distributed", "packed"),
        },
        "gfd": {"oneshot": bool, "noTimestamp": bool, "sleepInterval": str, "outputFile": str, "machineTypeFile": str},
    },
    "resources": dict,
    "sharing": {"timeSlicing": _SHARING, "mps": _SHARING},
    "imex": {"channelIDs": list, "required": bool},
}
"""The fields of a configuration: a type, the possible values, or the fields below it."""

_SHARE: Json = {"name": str, "replicas": int, "rename": str, "devices": (str, int, list)}

_SET_BY_OPERATOR = {
    "flags.failOnInitError": "FAIL_ON_INIT_ERROR",
    "flags.mpsRoot": "MPS_ROOT",
    "flags.plugin.passDeviceSpecs": "PASS_DEVICE_SPECS",
    "flags.plugin.deviceListStrategy": "DEVICE_LIST_STRATEGY",
    "flags.plugin.deviceIDStrategy": "DEVICE_ID_STRATEGY",
    "flags.gfd.sleepInterval": "GFD_SLEEP_INTERVAL",
}
"""Fields that an environment variable of the operator's DaemonSets overrides.

Source: NVIDIA GPU Operator v26.7.0, ``assets/state-device-plugin``, ``assets/gpu-feature-discovery``.
"""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,48}[a-z0-9])?")
_KEY = re.compile(r"(?P<name>.+)-(?P<digest>[0-9a-f]{8})")
_MIG_DEVICE = re.compile(re.escape(MIG_RESOURCE_PREFIX) + r"(\d+c\.)?\d+g\.\d+gb([.-][a-z]+)*")


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One configuration: its name, its text, and what it asks for."""

    name: str
    text: str
    strategy: str = NONE
    shares: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    """How many pods share a device, by the name of the resource."""
    renames: bool = False
    single: bool | None = None
    """Whether a pod that asks for two shares is refused, or None for the device plugin's default."""
    flags: Json = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key in the ConfigMap. It changes with the text, because a key whose text is edited has no effect."""
        return f"{self.name}-{digest(self.text)}"

    def offered_as(self, resource: str) -> str:
        """Return the name under which a node offers a resource."""
        return resource + SHARED if self.renames and resource in self.shares else resource


PLAIN = Configuration("", "")
"""What a node without a configuration does: no sharing."""


def digest(text: str) -> str:
    """Return the ending of the key of a configuration with this text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def name_in(key: str) -> str:
    """Return the name of the configuration in a key of ours, or an empty string if the key cannot be ours."""
    found = _KEY.fullmatch(key)
    return found["name"] if found else ""


def is_ours(key: str, text: str) -> bool:
    """Return whether this collection has published a key with this text: the key then ends with the text's digest."""
    return bool(name_in(key)) and key.endswith(f"-{digest(text)}")


def read(entry: t.Mapping[str, t.Any]) -> Configuration:
    """Return the configuration that an entry of the option ``configs`` describes."""
    name = entry["name"]
    if not _NAME.fullmatch(name):
        raise _wrong(
            f"The name {name!r} of a configuration must be at most 50 lower-case letters, digits, dots and dashes, "
            "and begin and end with a letter or a digit."
        )
    document = _of_options(entry) if entry.get("config") is None else _given(entry)
    return of_document(name, document)


def of_document(name: str, document: Json) -> Configuration:
    """Return a configuration from its content, which is checked strictly."""
    where = f"Configuration {name}: "
    document = _spelled(document, _DOCUMENT)
    _check(document, _DOCUMENT, "", where)
    _refuse_ignored(document, where)
    sharing = document.get("sharing") or {}
    strategy = next((each for each, field in BLOCKS.items() if field in sharing), NONE)
    block: Json = sharing.get(BLOCKS.get(strategy, "")) or {}
    return Configuration(
        name=name,
        text=str(yaml_dump({"version": "v1", **document}, default_flow_style=False, sort_keys=True)),
        strategy=strategy,
        shares=_shares(block, strategy, where) if strategy != NONE else {},
        renames=block.get("renameByDefault", False),
        single=block.get("failRequestsGreaterThanOne"),
        flags=document.get("flags") or {},
    )


# ---- from options -------------------------------------------------------------------------------------------------


def _given(entry: t.Mapping[str, t.Any]) -> Json:
    beside = [option for option in ("strategy", "replicas", "resources") if entry.get(option) is not None]
    beside += [option for option in ("rename_by_default", "fail_requests_greater_than_one") if entry.get(option)]
    if beside:
        raise _wrong(f"Configuration {entry['name']}: give either config or {' and '.join(beside)}, not both.")
    return dict(entry["config"])


def _of_options(entry: t.Mapping[str, t.Any]) -> Json:
    where = f"Configuration {entry['name']}: "
    strategy: str | None = entry.get("strategy")
    replicas, resources = entry.get("replicas"), entry.get("resources")
    if strategy is None:
        raise _wrong(f"{where}give a strategy (time-slicing, mps or none) or a config.")
    if strategy == NONE:
        if replicas is not None or resources:
            raise _wrong(f"{where}the strategy none does not share GPUs. Remove replicas and resources.")
        return {"version": "v1"}
    if (replicas is None) == (not resources):
        raise _wrong(f"{where}give either replicas (for {GPU_RESOURCE}) or resources.")
    block: Json = {"resources": resources or [{"name": GPU_RESOURCE, "replicas": replicas}]}
    if entry.get("rename_by_default"):
        block["renameByDefault"] = True
    if entry.get("fail_requests_greater_than_one") is not None:
        block["failRequestsGreaterThanOne"] = entry["fail_requests_greater_than_one"]
    return {"version": "v1", "sharing": {BLOCKS[strategy]: block}}


# ---- strict checks ------------------------------------------------------------------------------------------------


def _spelled(value: t.Any, shape: Json) -> t.Any:
    """Return a mapping with its keys as they are written here. Above the shares, the device plugin reads any case."""
    if not isinstance(value, dict) or shape is _SHARING:
        return value
    right = {name.lower(): name for name in shape}
    spelled: Json = {right.get(str(key).lower(), str(key)): below for key, below in value.items()}
    return {
        key: _spelled(below, shape[key]) if isinstance(shape.get(key), dict) else below
        for key, below in spelled.items()
    }


def _check(value: t.Any, shape: t.Any, path: str, where: str) -> None:
    """Raise if a value has not the shape that the device plugin reads."""
    if isinstance(shape, dict):
        _check_fields(value, shape, path, where)
    elif isinstance(shape, tuple) and isinstance(shape[0], str):
        if value not in shape:
            raise _wrong(f"{where}{path} is {value!r}. It can be {', '.join(shape)}.")
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        raise _wrong(f"{where}{path} is {value!r}. It must be {_kind(shape)}.")


def _check_fields(value: t.Any, shape: Json, path: str, where: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(f"{where}{path or 'the configuration'} is {value!r}. It must be a mapping.")
    for key, below in value.items():
        full = f"{path}.{key}" if path else str(key)
        if key not in shape:
            raise _wrong(f"{where}{full} is no field of the configuration. {_misread(key, shape)}")
        _check(below, shape[key], full, where)


def _misread(key: t.Any, shape: Json) -> str:
    plain = {name.lower(): name for name in shape}
    word = str(key).lower().replace("-", "").replace("_", "")
    close = difflib.get_close_matches(word, plain, n=1)
    meant = f"Write {plain[close[0]]}." if close else f"Its fields here are {', '.join(shape)}."
    return f"The device plugin would ignore it. {meant}"


def _kind(shape: t.Any) -> str:
    words = {bool: "true or false", str: "a text", int: "a whole number", list: "a list", dict: "a mapping"}
    return " or ".join(words[each] for each in (shape if isinstance(shape, tuple) else (shape,)))


def _refuse_ignored(document: Json, where: str) -> None:
    """Raise for what the device plugin reads, and then ignores or the operator overrides."""
    if document.get("resources"):
        raise _wrong(f"{where}the device plugin ignores resources (names of its own for GPUs). Remove it.")
    for path, variable in _SET_BY_OPERATOR.items():
        if _at(document, path) is not None:
            raise _wrong(
                f"{where}{path} has no effect, because the operator sets {variable} for the device plugin. "
                "Set that variable in the ClusterPolicy (devicePlugin.env, or gfd.env) instead."
            )
    if _at(document, "imex.channelIDs") not in (None, [], [0]):
        raise _wrong(f"{where}imex.channelIDs can only be [0], and the device plugin would not start.")
    if len(document.get("sharing") or {}) > 1:
        raise _wrong(f"{where}the device plugin ignores sharing.timeSlicing beside sharing.mps. Keep one of them.")


def _at(document: Json, path: str) -> t.Any:
    value: t.Any = document
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _shares(block: Json, strategy: str, where: str) -> dict[str, int]:
    path = f"sharing.{BLOCKS[strategy]}.resources"
    if not block.get("resources"):
        raise _wrong(
            f"{where}{path} is empty, and the device plugin would not start. Name {GPU_RESOURCE}, for example."
        )
    shares: dict[str, int] = {}
    for position, share in enumerate(block["resources"]):
        here = f"{path}[{position}]"
        _check(share, _SHARE, here, where)
        resource = _resource(share, strategy, here, where)
        if resource in shares:
            raise _wrong(f"{where}{path} names {resource} twice. Keep one of them.")
        shares[resource] = _replicas(share, here, where)
    return shares


def _resource(share: Json, strategy: str, here: str, where: str) -> str:
    name = str(share.get("name") or "")
    name = GPU_RESOURCE if name == "gpu" else name
    if share.get("rename") or share.get("devices", "all") != "all":
        field = "rename" if share.get("rename") else "devices"
        raise _wrong(f"{where}the device plugin ignores {here}.{field}. Remove it.")
    if name != GPU_RESOURCE and not _MIG_DEVICE.fullmatch(name):
        raise _wrong(f"{where}{here}.name is {name!r}. {_right_resource(name)}")
    if name != GPU_RESOURCE and strategy == MPS:
        raise _wrong(f"{where}{here}.name is {name}, and MPS cannot share MIG devices. Use the strategy time-slicing.")
    return name


def _right_resource(name: str) -> str:
    bare = name.rpartition("/")[2].replace("+", ".").removesuffix(SHARED)
    for candidate in (f"nvidia.com/{bare}", MIG_RESOURCE_PREFIX + bare):
        if candidate == GPU_RESOURCE or _MIG_DEVICE.fullmatch(candidate):
            return f"Write {candidate}."
    return f"It can be {GPU_RESOURCE}, or a MIG device such as {MIG_RESOURCE_PREFIX}1g.10gb."


def _replicas(share: Json, here: str, where: str) -> int:
    replicas = share.get("replicas")
    if replicas is None:
        raise _wrong(f"{where}{here} has no replicas. Say how many pods share a device.")
    if replicas < 2:
        raise _wrong(
            f"{where}{here}.replicas is {replicas}, and the device plugin would not start with less than 2. "
            "To end the sharing, use the strategy none."
        )
    return int(replicas)


def _wrong(message: str) -> GpuOpsError:
    return GpuOpsError(message, reason="Invalid")
