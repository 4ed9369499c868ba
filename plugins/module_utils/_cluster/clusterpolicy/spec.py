# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A ClusterPolicy as data: from module options to a manifest, what is wrong with it, and what an apply would change. Pure."""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

API_VERSION = "nvidia.com/v1"
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
"""A field of each required block with what its absence means; in the other blocks that is ``enabled: true``."""

_SPELLINGS = {"useNvidiaDriverCrd": "useNvidiaDriverCRD", "hostPid": "hostPID"}
SECRET_NAME = re.compile(r"(?i)(token|password|passwd|secret|credential|api_?key)")
MASK = "VALUE_HIDDEN"


def camel(name: str) -> str:
    """Return the API's spelling of an option's name: ``kernel_module_type`` is ``kernelModuleType``."""
    head, *rest = name.split("_")
    word = head + "".join(part.capitalize() for part in rest)
    return _SPELLINGS.get(word, word)


def typed_block(options: t.Mapping[str, t.Any]) -> Json:
    """Translate a typed option with its suboptions; what is None was not given. Free-form dicts and lists stay as they are."""
    return {camel(key): value for key, value in _given(options).items()}


def _given(options: t.Mapping[str, t.Any]) -> Json:
    return {key: value for key, value in options.items() if value is not None}


def merge_spec(typed: Json, free: Json, path: str = "") -> Json:
    """Merge typed options into the free-form spec; the same field with two values is an error that names it."""
    merged = dict(free)
    for key, value in typed.items():
        where = f"{path}{key}"
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = merge_spec(value, merged[key], where + ".")
        elif merged[key] != value:
            raise GpuOpsError(
                f"spec.{where} is {merged[key]!r} but the option of its own says {value!r}. Set it in one place.",
                reason="Invalid",
            )
    return merged


def manifest(
    name: str,
    spec: Json,
    labels: t.Mapping[str, str],
    annotations: t.Mapping[str, str],
    existing: Json | None,
    manager: str,
) -> Json:
    """Return the object to apply, with the blocks that the API demands."""
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterPolicy",
        "metadata": metadata,
        "spec": {**spec, **_empty_blocks(spec, existing, manager)},
    }


def _empty_blocks(spec: Json, existing: Json | None, manager: str) -> Json:
    """Return the demanded blocks in which nothing is given: empty, or with a default spelt out.

    Server-side apply turns a block into null when the last field in it is ours and no longer given, and then refuses the null.
    """
    owners = owners_of(existing) if existing else {}
    live = (existing or {}).get("spec") or {}

    def is_all_ours(key: str) -> bool:
        parts = [
            [who for path, who in owners.items() if re.match(re.escape(f"spec.{key}.{part}") + r"(\W|$)", path)]
            for part in live.get(key) or {}
        ]
        return bool(parts) and all(found and all(who == [manager] for who in found) for found in parts)

    return {
        key: _DEFAULTS.get(key, {"enabled": True}) if is_all_ours(key) else {}
        for key in REQUIRED_BLOCKS
        if not spec.get(key)
    }


# What is wrong with it


def refuse_wrong_fields(spec: Json) -> None:
    """Raise for fields that never were or mean nothing, with the right one. ``spec`` is what the user gave."""
    for problem in _wrong_advice(spec):
        raise GpuOpsError(problem, reason="Invalid")


def refuse_contradictions(spec: Json) -> None:
    """Raise for what the API server accepts and the operator refuses late or wedges on.

    ``spec`` is the whole of it, with the defaults and with what other managers set.
    """
    for check in (_upgrade_policy, _nri, _precompiled, _images):
        for problem in check(spec):
            raise GpuOpsError(problem, reason="Invalid")


def warnings(spec: Json) -> list[str]:
    """Return what is allowed and seldom meant."""
    found = []
    daemonsets = spec.get("daemonsets") or {}
    if daemonsets.get("updateStrategy") == "OnDelete":
        found.append(
            "daemonsets.updateStrategy is OnDelete: no operand is ever updated until its pods are deleted by hand."
        )
    tolerations = daemonsets.get("tolerations")
    if tolerations and not any(item.get("key") in (None, "", "nvidia.com/gpu") for item in tolerations):
        found.append(
            "daemonsets.tolerations replaces the operator's own toleration of nvidia.com/gpu:NoSchedule, and does not list it."
        )
    driver = spec.get("driver") or {}
    if driver.get("usePrecompiled") and "." in str(driver.get("version", "")):
        found.append(
            f"driver.version is {driver['version']!r}: with usePrecompiled it is the driver branch alone, for example 595."
        )
    return found


def _wrong_advice(spec: Json) -> t.Iterator[str]:
    driver = spec.get("driver") or {}
    kind = driver.get("kernelModuleType")
    if kind in ("precompiled", "runcompiled"):
        yield (
            f"driver.kernelModuleType is {kind!r}, which never existed: it is auto, open or proprietary. "
            "For precompiled drivers set driver.usePrecompiled: true."
        )
    if "useOpenKernelModules" in driver:
        yield "driver.useOpenKernelModules has no effect any more. Set driver.kernelModuleType: open (or auto, which chooses by GPU) instead."
    if "gpuPodDeletion" in (driver.get("upgradePolicy") or {}):
        yield (
            "driver.upgradePolicy.gpuPodDeletion is the name of the Helm value. In a ClusterPolicy the field is "
            "driver.upgradePolicy.podDeletion; the API drops the other, and upgrades then stop with a node cordoned."
        )
    mig = spec.get("mig") or {}
    for wrong in ("config", "profile", "devices"):
        if wrong in mig:
            yield (
                f"mig.{wrong} is not a field of the ClusterPolicy, which only has mig.strategy (none, single, mixed). "
                "A node's layout is the name of one mig-parted config in its label nvidia.com/mig.config, for example all-1g.10gb."
            )
    if "certManager" in spec:
        yield "certManager is not a field of the ClusterPolicy: the GPU Operator does not need cert-manager."


def _upgrade_policy(spec: Json) -> t.Iterator[str]:
    policy = (spec.get("driver") or {}).get("upgradePolicy")
    if not policy or not policy.get("autoUpgrade"):
        return
    missing = [block for block in ("waitForCompletion", "podDeletion", "drain") if policy.get(block) is None]
    if missing:
        names = ", ".join(f"driver.upgradePolicy.{block}" for block in missing)
        yield f"{names} must be given when autoUpgrade is true (an empty {{}} takes the defaults): without it a driver upgrade stops with a node cordoned."


def _nri(spec: Json) -> t.Iterator[str]:
    cdi = spec.get("cdi") or {}
    if not cdi.get("nriPluginEnabled"):
        return
    if cdi.get("enabled") is False:
        yield "cdi.nriPluginEnabled needs cdi.enabled: true."
    if (spec.get("toolkit") or {}).get("enabled") is False:
        yield "cdi.nriPluginEnabled needs toolkit.enabled: true, because the toolkit runs the plugin."


def _precompiled(spec: Json) -> t.Iterator[str]:
    if not (spec.get("driver") or {}).get("usePrecompiled"):
        return
    for key, name in (("gds", "GPUDirect Storage"), ("gdrcopy", "GDRCopy")):
        if (spec.get(key) or {}).get("enabled"):
            yield f"{key}.enabled does not work with driver.usePrecompiled: {name} has no precompiled modules. Set one of the two to false."


def _images(spec: Json) -> t.Iterator[str]:
    for key, block in spec.items():
        if not isinstance(block, dict) or block.get("enabled") is False:
            continue
        given = [part for part in ("repository", "image", "version") if block.get(part)]
        if given and given != ["image"] and len(given) < 3:
            missing = [part for part in ("repository", "image", "version") if part not in given]
            yield f"{key}: repository, image and version go together (or image alone with its whole path); {' and '.join(missing)} is missing."


# What the API server says of it


def explain_refusal(error: GpuOpsError, known: Json | None) -> GpuOpsError:
    """Turn the API server's refusal of an apply into one sentence in the user's words.

    ``known`` is the CRD's schema of the spec when it could be read; it serves to suggest the right name.
    """
    if error.reason == "Conflict":
        return _conflict(error)
    # The API server calls a field that does not fit the schema an internal error (500) of its own.
    mistyped = re.search(r"failed to create typed patch object \([^)]*\): (.*)", error.msg)
    if error.reason != "Invalid" and not mistyped:
        return error
    unknown = re.findall(r'unknown field "([^"]+)"|\.([\w.\[\]]+): field not declared in schema', error.msg)
    if unknown:
        fields = [a or b for a, b in unknown]
        hint = _suggest(fields[0], known) if known else ""
        return GpuOpsError(
            f"The ClusterPolicy CRD has no field {', '.join(fields)}.{hint}", reason="Invalid", fields=fields
        )
    causes = [
        f"{cause.get('field')}: {cause.get('message')}"
        for cause in error.details.get("causes") or []
        if cause.get("field")
    ]
    emptied = [
        str(cause["field"])
        for cause in error.details.get("causes") or []
        if 'must be of type object: "null"' in str(cause.get("message"))
    ]
    if emptied:
        where = ", ".join(dict.fromkeys(emptied))
        return GpuOpsError(
            f"Server-side apply cannot empty {where}: give at least one of its fields, for example its default.",
            reason="Invalid",
        )
    said = "; ".join(dict.fromkeys(causes)) or (mistyped[1].lstrip(".") if mistyped else error.msg)
    return GpuOpsError(
        f"The API server refuses this ClusterPolicy: {said}", reason="Invalid", causes=error.details.get("causes")
    )


def _conflict(error: GpuOpsError) -> GpuOpsError:
    causes = error.details.get("causes") or []
    owned = [f"{str(cause.get('field', '')).lstrip('.')} ({_manager(cause)})" for cause in causes]
    if not owned:
        return error
    return GpuOpsError(
        f"Another manager owns fields with other values: {', '.join(owned)}. Leave them out, change them where they are managed, "
        "or set force: true to take them over.",
        reason="Conflict",
        conflicts=[{"field": str(cause.get("field", "")).lstrip("."), "manager": _manager(cause)} for cause in causes],
    )


def _manager(cause: Json) -> str:
    found = re.search(r'conflict with "([^"]+)"', str(cause.get("message", "")))
    return found[1] if found else "unknown manager"


def _suggest(field: str, schema: Json) -> str:
    parts = field.removeprefix("spec.").split(".")
    for part in parts[:-1]:
        schema = (schema.get("properties") or {}).get(part) or {}
    close = difflib.get_close_matches(parts[-1], list(schema.get("properties") or {}), n=1)
    return f" Did you mean {'.'.join(['spec', *parts[:-1], close[0]])}?" if close else ""


# What an apply changes


@dataclasses.dataclass(frozen=True)
class Plan:
    """What an apply would do. ``before`` and ``after`` are for a diff: our part of the object, secrets masked."""

    changed: bool
    before: Json
    after: Json


def plan(existing: Json | None, predicted: Json | None, manager: str) -> Plan:
    """Compare the object as it is with the API server's own prediction (a dry run); None is an object that is not there."""
    before, after = _comparable(existing, manager), _comparable(predicted, manager)
    return Plan(before != after, mask(before), mask(after))


def _comparable(item: Json | None, manager: str) -> Json:
    if item is None:
        return {}
    metadata = item["metadata"]
    seen: Json = {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": {"name": metadata["name"]},
        "spec": item.get("spec") or {},
    }
    for key in ("labels", "annotations"):
        if metadata.get(key):
            seen["metadata"][key] = metadata[key]
    # Taking over a field of the same value is a change too: from then on the value is ours to keep.
    seen["fields owned by " + manager] = sorted(path for path, owners in owners_of(item).items() if manager in owners)
    return seen


def mask(value: t.Any) -> t.Any:
    """Hide the values of environment variables whose name says that they are secret."""
    if isinstance(value, list):
        return [mask(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_secret(value):
        return {**value, "value": MASK}
    return {key: mask(item) for key, item in value.items()}


def _is_secret(entry: Json) -> bool:
    return isinstance(entry.get("name"), str) and bool(entry.get("value")) and bool(SECRET_NAME.search(entry["name"]))


def secrets_in(value: t.Any) -> t.Iterator[str]:
    """Yield the values that `mask` hides. Very short ones are left out: they would be hidden in ordinary words too."""
    if isinstance(value, list):
        for item in value:
            yield from secrets_in(item)
    elif isinstance(value, dict):
        if _is_secret(value) and len(str(value["value"])) >= 6:
            yield str(value["value"])
        for item in value.values():
            yield from secrets_in(item)


def owners_of(item: Json) -> dict[str, list[str]]:
    """Return the managers of each leaf field, from managedFields, for example ``{"spec.driver.version": ["helm"]}``."""
    owners: dict[str, list[str]] = {}
    for entry in item["metadata"].get("managedFields") or []:
        if entry.get("subresource"):
            continue
        for path in _leaves(entry.get("fieldsV1") or {}):
            owners.setdefault(path, []).append(str(entry.get("manager")))
    return owners


def _leaves(fields: Json, path: str = "") -> t.Iterator[str]:
    for key, value in fields.items():
        if key == ".":
            continue
        kind, dummy, name = key.partition(":")
        where = f"{path}.{name}" if kind == "f" and path else name if kind == "f" else f"{path}[{name}]"
        children = {child: below for child, below in value.items() if child != "."}
        if children:
            yield from _leaves(children, where)
        else:
            yield where


def strip_managed(item: Json) -> Json:
    """Return the object without managedFields, which no reader wants, and with secrets masked."""
    return t.cast(
        Json,
        mask({**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}),
    )
