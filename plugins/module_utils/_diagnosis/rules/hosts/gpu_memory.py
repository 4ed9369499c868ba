# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The memory of GPUs: rows that are remapped, pages that are retired, and ECC. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_ROWS = pattern(r"^\s*Remapped Rows\s*$", "remapped rows")
_ROWS_PENDING = pattern(r"^\s*Pending\s+: Yes\s*$", ": yes")
_ROWS_FAILED = pattern(r"^\s*Remapping Failure Occurred\s+: Yes\s*$", "remapping failure occurred")


def _rows(wanted: t.Callable[[Json], str | None], line: Pattern) -> t.Callable[[View], t.Iterator[Sighting]]:
    """Return a check of the facts, and of what nvidia-smi -q writes below Remapped Rows."""

    def check(view: View) -> t.Iterator[Sighting]:
        yield from seen.in_facts(wanted)(view)
        for hit in seen.together(view, line, _ROWS):
            if not seen.gpus(view, hit.line.node):
                yield matches.sighting(hit)

    return check


def _row_pending(gpu: Json) -> str | None:
    rows = gpu.get("remapped_rows") or {}
    return "remapped_rows.pending: true" if rows.get("pending") and not rows.get("failure") else None


def _row_failed(gpu: Json) -> str | None:
    return "remapped_rows.failure: true" if (gpu.get("remapped_rows") or {}).get("failure") else None


def _uncorrected(gpu: Json) -> str | None:
    count = (gpu.get("ecc") or {}).get("uncorrected")
    return f"ecc.uncorrected: {count} since the driver was loaded" if count else None


def _ecc_pending(gpu: Json) -> str | None:
    ecc = gpu.get("ecc") or {}
    known = ecc.get("enabled") is not None and ecc.get("pending") is not None
    differs = known and ecc["enabled"] != ecc["pending"]
    return f"ecc.enabled: {ecc['enabled']}, ecc.pending: {ecc['pending']}".lower() if differs else None


def _page_pending(gpu: Json) -> str | None:
    return "retired_pages.pending: true" if (gpu.get("retired_pages") or {}).get("pending") else None


_MEMORY = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html"
_SMI = "https://manpages.ubuntu.com/manpages/plucky/man1/nvidia-smi.1.html"

RULES = (
    Rule(
        code="RowRemapPending",
        title="Memory rows wait to be remapped",
        severity="warning",
        cause="The GPU has found bad rows in its memory. Spare rows replace them at the next reset.",
        remedy="Drain the node, and reset the GPU (nvidia-smi --gpu-reset -i ADDRESS) or reboot.",
        sources=(_MEMORY, "https://github.com/leptonai/gpud/pull/80"),
        check=_rows(_row_pending, _ROWS_PENDING),
        patterns=(_ROWS, _ROWS_PENDING),
        explains=frozenset({"UnhealthyGPUs"}),
    ),
    Rule(
        code="RowRemapFailed",
        title="Memory rows cannot be remapped",
        severity="failure",
        cause="The GPU has bad rows of memory and no spare rows left for them.",
        remedy=seen.TO_SERVICE,
        sources=(_MEMORY, "https://github.com/awslabs/awsome-distributed-ai/pull/1190"),
        check=_rows(_row_failed, _ROWS_FAILED),
        patterns=(_ROWS, _ROWS_FAILED),
        explains=frozenset({"UnhealthyGPUs", "RowRemapPending", "MemoryUncorrectable"}),
    ),
    Rule(
        code="MemoryUncorrectable",
        title="Uncorrectable memory errors",
        severity="warning",
        cause="The GPU has had memory errors that ECC could not correct since the driver was loaded.",
        remedy="Drain the node, and reset the GPU (nvidia-smi --gpu-reset -i ADDRESS). If the errors come back, run "
        "DCGM's diagnosis (dcgmi diag -r 3), and send the GPU to service if it fails.",
        sources=(_MEMORY,),
        check=seen.in_facts(_uncorrected),
        explains=frozenset({"UnhealthyGPUs"}),
    ),
    Rule(
        code="ECCChangePending",
        title="A change of ECC waits for a reset",
        severity="warning",
        cause="The GPU's ECC mode was changed, and the change takes effect only at the next reset.",
        remedy="Drain the node, and reset the GPU (nvidia-smi --gpu-reset -i ADDRESS) or reboot.",
        sources=(_SMI,),
        check=seen.in_facts(_ecc_pending),
    ),
    Rule(
        code="PagesRetiredPending",
        title="Memory pages wait to be retired",
        severity="warning",
        cause="The GPU has found bad pages in its memory. The driver stops using them when it starts the next time.",
        remedy="Drain the node, and reboot it.",
        sources=(_SMI, "https://github.com/azure/azhpc-diagnostics/issues/75"),
        check=seen.in_facts(_page_pending),
        explains=frozenset({"UnhealthyGPUs"}),
    ),
)
