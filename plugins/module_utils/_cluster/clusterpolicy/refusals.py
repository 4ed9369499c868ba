# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Explain in the user's terms why the API server refuses a ClusterPolicy. Pure."""

from __future__ import annotations

import difflib
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover, spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def explain(error: GpuOpsError, schema: Json | None, kind: str = "ClusterPolicy") -> GpuOpsError:
    """Return the API server's refusal of an apply as one sentence in the user's terms.

    ``schema`` is the CRD's schema of the spec, if it could be read, and is used to suggest the right name.
    """
    if error.reason == "Conflict":
        return _conflict(error)
    mistyped = _mistyped(error.msg)
    if error.reason != "Invalid" and mistyped is None:
        return error
    fields = _unknown_fields(error.msg)
    if fields:
        return unknown(fields, schema, kind)
    return _wrong_values(error, mistyped, kind)


def unknown(fields: list[str], schema: Json | None, kind: str = "ClusterPolicy") -> GpuOpsError:
    """Return the error for fields that the CRD does not have."""
    hint = (_suggestion(fields[0], schema) if schema else "") or _in_the_apis_spelling(fields[0])
    message = f"The {kind} CRD has no field {', '.join(fields)}.{hint}"
    return GpuOpsError(message, reason="Invalid", fields=fields)


def refused_fields(error: GpuOpsError) -> list[str]:
    """Return the fields that an explained error is about: unknown ones, or those with a wrong value."""
    causes: list[Json] = error.details.get("causes") or []
    found = error.details.get("fields") or [cause["field"] for cause in causes if cause.get("field")]
    return list(dict.fromkeys(str(field) for field in found))


def without_helm(error: GpuOpsError) -> GpuOpsError | None:
    """Return a refusal without the conflicts with Helm, or None if Helm alone was in the way."""
    if error.reason != "Conflict":
        return error
    causes: list[Json] = error.details.get("causes") or []
    others = [cause for cause in causes if not handover.is_helm(_manager(cause))]
    if causes and not others:
        return None
    return GpuOpsError(error.msg, **{**error.details, "causes": others})


def _mistyped(message: str) -> str | None:
    """Return what does not fit the schema. The API server reports a wrong type as an internal error (500)."""
    found = re.search(r"failed to create typed patch object \([^)]*\): (.*)", message)
    return found[1].lstrip(".") if found else None


def _unknown_fields(message: str) -> list[str]:
    pattern = r'unknown field "([^"]+)"|\.([\w.\[\]]+): field not declared in schema'
    return [strict or typed for strict, typed in re.findall(pattern, message)]


def _wrong_values(error: GpuOpsError, mistyped: str | None, kind: str) -> GpuOpsError:
    causes: list[Json] = error.details.get("causes") or []
    emptied = [str(cause["field"]) for cause in causes if 'must be of type object: "null"' in str(cause.get("message"))]
    if emptied:
        fields = first_few(list(dict.fromkeys(emptied)))
        message = f"Server-side apply cannot empty {fields}: give at least one of its fields, for example its default."
        return GpuOpsError(message, reason="Invalid")
    named = [f"{cause.get('field')}: {cause.get('message')}" for cause in causes if cause.get("field")]
    problem = first_few(list(dict.fromkeys(named)), separator="; ") or mistyped or error.msg
    message = f"The API server refuses this {kind}: {problem}"
    return GpuOpsError(message, reason="Invalid", causes=error.details.get("causes"))


def _conflict(error: GpuOpsError) -> GpuOpsError:
    causes: list[Json] = error.details.get("causes") or []
    conflicts = [{"field": str(cause.get("field", "")).lstrip("."), "manager": _manager(cause)} for cause in causes]
    if not conflicts:
        return error
    owned = first_few([f"{conflict['field']} ({conflict['manager']})" for conflict in conflicts])
    remedy = "Leave them out, change them where they are managed, or set force: true to take them over."
    if all(handover.is_helm(conflict["manager"]) for conflict in conflicts):
        remedy = "Change them in the Helm values, or set adopt: true once the release has no ClusterPolicy any more."
    message = f"Another manager owns fields with other values: {owned}. {remedy}"
    return GpuOpsError(message, reason="Conflict", conflicts=conflicts)


def _manager(cause: Json) -> str:
    found = re.search(r'conflict with "([^"]+)"', str(cause.get("message", "")))
    return found[1] if found else "unknown manager"


def _in_the_apis_spelling(field: str) -> str:
    """Return a hint for a field that is written like an option."""
    *blocks, wrong = field.split(".")
    return f" Did you mean {'.'.join([*blocks, spec.field_name(wrong)])}?" if "_" in wrong else ""


def _suggestion(field: str, schema: Json) -> str:
    *blocks, wrong = field.removeprefix("spec.").split(".")
    for block in blocks:
        schema = (schema.get("properties") or {}).get(block) or {}
    close = difflib.get_close_matches(wrong, list(schema.get("properties") or {}), n=1)
    return f" Did you mean {'.'.join(['spec', *blocks, close[0]])}?" if close else ""
