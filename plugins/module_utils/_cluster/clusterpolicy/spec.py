# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Build the ClusterPolicy to apply from the module's options. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# The module's options that are blocks of the spec

_COMPONENT: Json = {
    "enabled": {"type": "bool"},
    "repository": {"type": "str"},
    "image": {"type": "str"},
    "version": {"type": "str"},
    "env": {"type": "list", "elements": "dict"},
}
UPGRADE_POLICY: Json = {
    "auto_upgrade": {"type": "bool"},
    "max_parallel_upgrades": {"type": "int"},
    "max_unavailable": {"type": "str"},
    "wait_for_completion": {"type": "dict"},
    "pod_deletion": {"type": "dict"},
    "drain": {"type": "dict"},
}
_DRIVER: Json = {
    "enabled": {"type": "bool"},
    "repository": {"type": "str"},
    "image": {"type": "str"},
    "version": {"type": "str"},
    # No choices: web pages recommend a type that does not exist (precompiled), and our error names the right field.
    "kernel_module_type": {"type": "str"},
    "use_precompiled": {"type": "bool"},
    "use_nvidia_driver_crd": {"type": "bool"},
    "upgrade_policy": {"type": "dict", "options": UPGRADE_POLICY},
}
_DAEMONSETS: Json = {
    "labels": {"type": "dict"},
    "annotations": {"type": "dict"},
    "tolerations": {"type": "list", "elements": "dict"},
    "priority_class_name": {"type": "str"},
    "update_strategy": {"type": "str", "choices": ["RollingUpdate", "OnDelete"]},
    "rolling_update": {"type": "dict"},
}
_BLOCKS: Json = {
    "driver": _DRIVER,
    "toolkit": _COMPONENT,
    "device_plugin": {**_COMPONENT, "config": {"type": "dict"}},
    "gfd": _COMPONENT,
    "dcgm": _COMPONENT,
    "dcgm_exporter": _COMPONENT,
    "mig_manager": _COMPONENT,
    "node_status_exporter": _COMPONENT,
    "gds": _COMPONENT,
    "gdrcopy": _COMPONENT,
    "mig": {"strategy": {"type": "str", "choices": ["none", "single", "mixed"]}},
    "cdi": {"enabled": {"type": "bool"}, "nri_plugin_enabled": {"type": "bool"}},
    "daemonsets": _DAEMONSETS,
}
BLOCK_OPTIONS: Json = {name: {"type": "dict", "options": options} for name, options in _BLOCKS.items()}
"""The argument spec of the blocks that have typed options. Any other field goes into the option ``spec``."""


# From options to a spec


def desired_spec(options: t.Mapping[str, t.Any]) -> Json:
    """Return the spec that the options ask for. Raises `GpuOpsError` for two values of one field or a wrong type."""
    typed = {field_name(name): block_of(options[name]) for name in _BLOCKS if options[name] is not None}
    spec = _merged(typed, options["spec"])
    for key, value in spec.items():
        if value is not None and not isinstance(value, dict):
            raise GpuOpsError(f"spec.{key} must be a mapping, not {type(value).__name__}.", reason="Invalid")
    return spec


_SPELLINGS = {"useNvidiaDriverCrd": "useNvidiaDriverCRD", "hostPid": "hostPID"}


def field_name(option: str) -> str:
    """Return the API's spelling of an option's name: ``kernel_module_type`` is ``kernelModuleType``."""
    head, *rest = option.split("_")
    word = head + "".join(part.capitalize() for part in rest)
    return _SPELLINGS.get(word, word)


def block_of(options: t.Mapping[str, t.Any]) -> Json:
    """Translate a typed option with its suboptions; None means not given. Free-form dicts and lists are not changed."""
    block = {field_name(key): value for key, value in options.items() if value is not None}
    if block.get("upgradePolicy"):
        block["upgradePolicy"] = block_of(block["upgradePolicy"])
    # The API takes a number or a percentage; a number in quotes passes its schema and fails in the operator.
    number = whole_number(block.get("maxUnavailable"))
    return block if number is None else {**block, "maxUnavailable": number}


def _merged(typed: Json, free: Json, path: str = "spec") -> Json:
    """Merge typed options into the free-form spec; the same field with two values is an error that names it."""
    merged = dict(free)
    for key, value in typed.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = _merged(value, merged[key], f"{path}.{key}")
        elif merged[key] != value:
            raise GpuOpsError(
                f"{path}.{key} is {merged[key]!r}, but its own option says {value!r}. Set it in one place.",
                reason="Invalid",
            )
    return merged


# From a spec to the object to apply

REQUIRED_BLOCKS = (
    "daemonsets",
    "dcgm",
    "dcgmExporter",
    "devicePlugin",
    "driver",
    "gfd",
    "nodeStatusExporter",
    "operator",
    "toolkit",
)
"""Spec fields without which the API refuses the object; each may be empty."""

_DEFAULTS: Json = {
    "daemonsets": {"updateStrategy": "RollingUpdate"},
    "nodeStatusExporter": {"enabled": False},
    "operator": {"runtimeClass": "nvidia"},
}
"""A field with its default for some required blocks. For the other required blocks, this is ``enabled: true``."""


def manifest(options: t.Mapping[str, t.Any], given: Json, existing: Json | None, manager: str) -> Json:
    """Return the object to apply: what is given, what the manager set earlier unless it purges, and required blocks.

    Server-side apply resets a field that its owner applied earlier and now leaves out.
    """
    kept = {} if options["purge"] or existing is None else ownership.applied_by(existing, manager)
    spec = ownership.merged(kept.get("spec") or {}, given)
    metadata: Json = {"name": options["name"]}
    for key in ("labels", "annotations"):
        values = ownership.merged((kept.get("metadata") or {}).get(key) or {}, options[key])
        metadata.update({key: values} if values else {})
    return {
        "apiVersion": names.CLUSTERPOLICY_API,
        "kind": "ClusterPolicy",
        "metadata": metadata,
        "spec": {**spec, **_empty_blocks(spec, existing, manager)},
    }


def _empty_blocks(spec: Json, existing: Json | None, manager: str) -> Json:
    """Return the required blocks without a given field: empty, or with an explicit default.

    If all fields of a block are ours and none is given any longer, server-side apply turns the block into null, and
    then refuses null.
    """
    owners = ownership.owners_of(existing) if existing else {}
    live = (existing or {}).get("spec") or {}
    blocks = {}
    for key in REQUIRED_BLOCKS:
        if not spec.get(key):
            is_ours = _is_all_ours(f"spec.{key}", live.get(key) or {}, owners, manager)
            blocks[key] = _DEFAULTS.get(key, {"enabled": True}) if is_ours else {}
    return blocks


def _is_all_ours(path: str, block: Json, owners: t.Mapping[str, list[str]], manager: str) -> bool:
    """Return whether a block has fields, and ``manager`` alone owns every one of them."""
    for field in block:
        inside = re.compile(re.escape(f"{path}.{field}") + r"(\W|$)")
        owned_by = [managers for leaf, managers in owners.items() if inside.match(leaf)]
        if not owned_by or any(managers != [manager] for managers in owned_by):
            return False
    return bool(block)
