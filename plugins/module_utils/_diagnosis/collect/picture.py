# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the fleet's report shows: the stack, who holds and uses its GPUs, what is wrong, and what hosts say of them."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import diagnose, usage
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SPEC = ArgumentSpec(
    {
        "path": {"type": "path", "required": True},
        "title": {"type": "str", "default": "GPU fleet"},
        "mode": {"type": "str", "default": "0600"},
    }
).including(diagnose.SPEC, usage.SPEC)

_OF_GPU = ("vbios", "inforom", "gsp", "mig")
"""The facts of a GPU that the page shows."""


def picture(options: t.Mapping[str, t.Any]) -> Json:
    """Return what the page shows, from one reading of the cluster."""
    began = time.monotonic()
    usage.assert_valid(options)
    evidence, found = diagnose.examine(options)
    result = diagnose.result_of(evidence, found, None)
    pods, used = evidence.objects.get("gpupods") or [], None
    if evidence.stack and usage.is_wanted(options):
        used, gaps = usage.usage(options, evidence.stack["namespace"], pods)
        result["gaps"] += map(dataclasses.asdict, gaps)
    return {
        "taken": evidence.taken,
        "stack": evidence.stack,
        "pods": pods,
        "usage": used,
        "findings": result["findings"],
        "gaps": result["gaps"],
        "hosts": {name: {"gpus": _gpus(host.get("facts") or {})} for name, host in sorted(evidence.hosts.items())},
        "took_s": round(time.monotonic() - began, 2),
    }


def _gpus(facts: Json) -> list[Json]:
    return [{field: gpu.get(field) for field in _OF_GPU} for gpu in facts.get("gpus") or []]
