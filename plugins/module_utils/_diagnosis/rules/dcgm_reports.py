# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What DCGM's health checks and the monitors of nodes that ask it report: an error by its name or number."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import dcgm_errors
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View, text_of_line

_REPORTED = (
    pattern(r"\bDCGM_FR_(?P<error>[A-Z0-9_]+)\b", "dcgm_fr_"),
    pattern(r"\bDCGMHealthCode(?P<error>\d{1,3})\b", "dcgmhealthcode"),
    pattern(
        r"DCGM detected issues in health check system with error code (?P<error>\d{1,3})\b", "dcgm detected issues"
    ),
)
_LISTED = 8
"""A text with more different errors than these is a table of them, such as a monitor's settings."""

_IMEX = 122
_XID = 101
"""DCGM reports any Xid with this one. Its number stands beside it, and rules about Xids say more."""

_DCGM = "https://github.com/NVIDIA/DCGM/blob/72fa3feaa67d716a75323a8f47c34ff3ee73f824/dcgmlib/src/dcgm_errors.c"


def _error(hit: Hit) -> dcgm_errors.DCGMError | None:
    named = hit.values["error"]
    return dcgm_errors.BY_NUMBER.get(int(named)) if named.isdigit() else dcgm_errors.BY_NAME.get(named.upper())


def _reported(view: View) -> list[tuple[Hit, dcgm_errors.DCGMError]]:
    """Return the errors that texts report, without those of a text that only lists them."""
    found = [(hit, error) for each in _REPORTED for hit in view.hits(each) if (error := _error(hit))]
    named: dict[tuple[str, str], set[int]] = {}
    for hit, error in found:
        named.setdefault(text_of_line(hit.line), set()).add(error.number)
    return [(hit, error) for hit, error in found if len(named[text_of_line(hit.line)]) <= _LISTED]


def _of(*advice: dcgm_errors.Advice) -> t.Callable[[View], t.Iterator[Sighting]]:
    """Return the check of the errors with such an advice."""

    def check(view: View) -> t.Iterator[Sighting]:
        for hit, error in view.once(_reported):
            if error.advice in advice and error.number not in (_IMEX, _XID):
                yield matches.sighting(hit, "likely", meaning=error.meaning, code=f"DCGM_FR_{error.name}")

    return check


def _imex(view: View) -> t.Iterator[Sighting]:
    for hit, error in view.once(_reported):
        if error.number == _IMEX:
            yield matches.sighting(hit, "likely")


RULES = (
    Rule(
        code="DCGMFindsFault",
        title="DCGM takes a GPU for faulty",
        severity="failure",
        cause="DCGM's health check reports {meaning} ({code}). It advises to take the GPU out of service, or to reset "
        "it.",
        remedy="Look at the GPU first: nvidia-smi -q -i NUMBER, and journalctl -k -g 'NVRM: Xid' on the node. Then "
        "drain the node (kubectl drain NODE --ignore-daemonsets), which interrupts its workloads, reset the GPU or "
        "reboot the node, and run dcgmi diag -r 3. If the error comes back, have the GPU replaced.",
        sources=(_DCGM,),
        check=_of("isolate", "reset"),
        patterns=_REPORTED,
    ),
    Rule(
        code="DCGMReportsTrouble",
        title="DCGM's health check reports an error",
        severity="warning",
        cause="DCGM's health check reports {meaning} ({code}). By itself that does not make the GPU faulty: DCGM "
        "advises to watch it, to look closer, or to change a setting.",
        remedy="Run dcgmi health -c on the node, and dcgmi diag -r 1 while no workload uses the GPU. Compare "
        "nvidia-smi -q with that of an equal node.",
        sources=(_DCGM,),
        check=_of("triage", "monitor", "configure"),
        patterns=_REPORTED,
    ),
    Rule(
        code="IMEXReportedUnhealthy",
        title="DCGM finds no IMEX that is ready",
        severity="warning",
        cause="DCGM's health check reports IMEX as not ready. IMEX matters only where GPUs of several nodes share "
        "NVLink (GB200 NVL72 and alike). Elsewhere, and where the DRA driver starts IMEX in the pods of a "
        "ComputeDomain, no daemon of the host runs, and the report is a false alarm.",
        remedy="Run kubectl get computedomains -A. With the DRA driver, or on machines without multi-node NVLink, let "
        "the monitor ignore DCGM_FR_IMEX_UNHEALTHY (122). On an NVL72 with IMEX on the host, run nvidia-imex-ctl -N "
        "and systemctl status nvidia-imex.",
        sources=(
            "https://github.com/NVIDIA/DCGM/issues/308",
            "https://github.com/aws/eks-node-monitoring-agent/pull/63",
        ),
        check=_imex,
        patterns=_REPORTED,
    ),
)
