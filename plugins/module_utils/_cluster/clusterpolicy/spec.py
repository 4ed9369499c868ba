# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the module's options ask for, normalised and checked once, and the ClusterPolicy to apply for it. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import mistakes, ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# The module's options that are blocks of the spec

COMPONENT_BLOCK = ArgumentSpec(
    {
        "enabled": {"type": "bool"},
        "repository": {"type": "str"},
        "image": {"type": "str"},
        "version": {"type": "str"},
        "env": {"type": "list", "elements": "dict"},
    }
)
UPGRADE_POLICY = ArgumentSpec(
    {
        "auto_upgrade": {"type": "bool"},
        "max_parallel_upgrades": {"type": "int"},
        "max_unavailable": {"type": "str"},
        "wait_for_completion": {"type": "dict"},
        "pod_deletion": {"type": "dict"},
        "drain": {"type": "dict"},
    }
)
_DRIVER = ArgumentSpec(
    {
        "enabled": {"type": "bool"},
        "repository": {"type": "str"},
        "image": {"type": "str"},
        "version": {"type": "str"},
        # No choices: web pages recommend a type that does not exist (precompiled), and our error names the right field.
        "kernel_module_type": {"type": "str"},
        "use_precompiled": {"type": "bool"},
        "use_nvidia_driver_crd": {"type": "bool"},
        "upgrade_policy": UPGRADE_POLICY.as_dict(),
    }
)
DAEMONSETS_BLOCK = ArgumentSpec(
    {
        "labels": {"type": "dict"},
        "annotations": {"type": "dict"},
        "tolerations": {"type": "list", "elements": "dict"},
        "priority_class_name": {"type": "str"},
        "update_strategy": {"type": "str", "choices": ["RollingUpdate", "OnDelete"]},
        "rolling_update": {"type": "dict"},
    }
)
_BLOCKS: t.Mapping[str, ArgumentSpec] = {
    **{operand.option: COMPONENT_BLOCK for operand in operands.OPERANDS if operand is not operands.VALIDATOR},
    "driver": _DRIVER,
    "device_plugin": ArgumentSpec({"config": {"type": "dict"}}).including(COMPONENT_BLOCK),
    **dict.fromkeys(operands.SIBLINGS, COMPONENT_BLOCK),
    "mig": ArgumentSpec({"strategy": {"type": "str", "choices": ["none", "single", "mixed"]}}),
    "cdi": ArgumentSpec({"enabled": {"type": "bool"}, "nri_plugin_enabled": {"type": "bool"}}),
    "daemonsets": DAEMONSETS_BLOCK,
}
BLOCK_OPTIONS = ArgumentSpec({name: block.as_dict() for name, block in _BLOCKS.items()})
"""The blocks that have typed options. Any other field goes into the option ``spec``."""


# From options to a request


@dataclasses.dataclass(frozen=True)
class PolicyRequest:
    """What the options ask for, as every later step takes it."""

    name: str
    namespace: str
    is_present: bool
    spec: Json
    """The fields that are given, in the API's spelling."""
    labels: Json
    annotations: Json
    purges: bool
    adopts: bool
    forces: bool
    next_schema: Json | None
    """The schema of the CRD that will be installed before the apply. It matters in check mode."""
    operator_version: str | None
    allows_disruption: bool
    only_warns: bool
    """Whether a check warns where a run would refuse."""
    assumes_held: bool
    assumes_removed: bool
    """Whether a check judges as if a GPUCluster were removed."""
    tolerated: tolerance.Tolerance
    waits: bool
    timeout_s: int
    progress_path: str | None


def request_of(options: t.Mapping[str, t.Any]) -> PolicyRequest:
    """Return what the options ask for. Raises `GpuOpsError` for what cannot be meant, whatever the cluster is like."""
    refuse_below(options, wait_timeout=0)
    is_present = options["state"] == "present"
    tolerated = tolerance.of_options(options) if is_present else tolerance.NOTHING
    spec = desired_spec(options) if is_present else {}
    mistakes.refuse_wrong_fields(spec)
    return PolicyRequest(
        name=options["name"],
        namespace=options["namespace"],
        is_present=is_present,
        spec=spec,
        labels=options["labels"],
        annotations=options["annotations"],
        purges=options["purge"],
        adopts=options["adopt"],
        forces=options["force"],
        next_schema=options["schema"] or None,
        operator_version=options["operator_version"],
        allows_disruption=options["allow_disruption"],
        only_warns=_check_refusal.only_warns(options, check_mode=True),
        assumes_held=options["assume_held"],
        assumes_removed=options["assume_removed"],
        tolerated=tolerated,
        waits=options["wait"],
        timeout_s=options["wait_timeout"],
        progress_path=options["progress_path"],
    )


def desired_spec(options: t.Mapping[str, t.Any]) -> Json:
    """Return the spec that the options ask for. Raises `GpuOpsError` for two values of one field or a wrong type."""
    return merged_spec(options, _BLOCKS)


def merged_spec(options: t.Mapping[str, t.Any], blocks: t.Iterable[str]) -> Json:
    """Return the spec of these options that are blocks, merged with the option ``spec``. Raises as `desired_spec`."""
    typed = {field_name(name): block_of(options[name]) for name in blocks if options[name] is not None}
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


# From a request to the object to apply

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


def manifest(request: PolicyRequest, existing: Json | None, manager: str) -> Json:
    """Return the object to apply: what is given, what the manager set earlier unless it purges, and required blocks.

    Server-side apply resets a field that its owner applied earlier and now leaves out.
    """
    kept = {} if request.purges or existing is None else ownership.applied_by(existing, manager)
    metadata, spec = with_kept(kept, request.spec, request.labels, request.annotations)
    return {
        "apiVersion": names.CLUSTERPOLICY_API,
        "kind": "ClusterPolicy",
        "metadata": {"name": request.name, **metadata},
        "spec": {**spec, **_empty_blocks(spec, existing, manager)},
    }


def with_kept(kept: Json, spec: Json, labels: Json, annotations: Json) -> tuple[Json, Json]:
    """Return the labels and annotations of an object, and its spec: what is given, and what is ``kept`` of before."""
    metadata: Json = {}
    for key, given in (("labels", labels), ("annotations", annotations)):
        values = ownership.merged((kept.get("metadata") or {}).get(key) or {}, given)
        metadata.update({key: values} if values else {})
    return metadata, ownership.merged(kept.get("spec") or {}, spec)


def _empty_blocks(spec: Json, existing: Json | None, manager: str) -> Json:
    """Return the required blocks without a given field: empty, or with an explicit default.

    If all fields of a block are ours and all are left out now, server-side apply turns the block into null, and
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
