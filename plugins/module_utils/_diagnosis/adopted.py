# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the judge of the stack and the preflight checks have found already, as sightings. Pure.

Each of them keeps its own code, words and remedy. Rules name these codes in ``explains``: the code of a reason of the
verdict, ``Preflight`` or ``HostPreflight`` with the name of the check in CamelCase (``PreflightNfd``), and
``OperandWaiting`` for a pod of an operand that is not ready on a node.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import (
    DOCS,
    Quote,
    Rule,
    RuleSighting,
    Sighting,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.order import operand_of, with_stage
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

WAITING = Rule(
    code="OperandWaiting",
    title="An operand is not ready",
    severity="failure",
    cause="The pod of {operand} is {stage}, and no rule knows why.",
    remedy="Read the log of its containers (kubectl logs --all-containers), and its events (kubectl describe pod).",
    sources=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",),
    explains=frozenset({"OperandWaiting", "OperandsPaused", "StateNotReady", "NoAllocatableGPUs"}),
)

POD_REASONS = frozenset({"PodsNotReady", "NotScheduled", "RollingOut", "CrashLoopBackOff", *pods.NEVER_STARTS})
"""Reasons that count pods and name one of them. Here, each pod is an `OperandWaiting` of its own node instead."""

NOT_READY = frozenset(
    {
        *("OperandWaiting", *POD_REASONS, "PodsRefused", "StateNotReady", "NoAllocatableGPUs", "OperandMissing"),
        "NodeOffersNoDevices",
        # The operator waits for the validator only so long.
        "UpgradeValidationTimeout",
        # The driver's manager pauses the others until the driver runs.
        "OperandsPaused",
    }
)
"""What follows from anything that keeps an operand from running."""

VERDICT_PAGE, CHECKS_PAGE = f"{DOCS}/reference/verdict.html", f"{DOCS}/tasks/preflight.html"
"""The pages that explain the codes of the verdict and of the checks."""

LAST_LINES = 2
"""How many lines are quoted of a log that no rule understands."""

_TITLES = {"StateNotReady": "The operator does not call the stack ready"}
"""Titles for codes whose words alone say too little."""

_LEVELS: dict[str, Level] = {"failed": "failure", "progressing": "warning", "note": "ok"}


def adopted(view: View) -> t.Iterator[RuleSighting]:
    """Yield what is known without a rule of the diagnosis."""
    yield from _waiting(view)
    yield from _reasons(view)
    for finding in view.evidence.preflight:
        for node in finding.get("nodes") or ("",):
            yield from _checked("Preflight", finding, node)
    for node, host in sorted(view.evidence.hosts.items()):
        for finding in host.get("preflight") or []:
            yield from _checked("HostPreflight", finding, node)


def _waiting(view: View) -> t.Iterator[RuleSighting]:
    pods, last = _pods(view), _last_lines(view)
    for node, row in sorted(view.rows.items()):
        for operand, status in sorted((row.get("waiting_for") or {}).items()):
            quotes = (Quote(f"{operand}: {status}", "pods", node), *last.get((node, operand), ()))
            values = {"operand": operand, "status": status, "stage": with_stage(operand, status)}
            pod = pods.get((node, operand), "")
            yield RuleSighting(WAITING, Sighting(node, pod, quotes, "certain", values, operand))


def _pods(view: View) -> dict[tuple[str, str], str]:
    """Return the pod of each operand on each node, in words, where it was read."""
    found = {}
    for pod in view.evidence.pods:
        name = f"pod {full_name(pod)}"
        found[str((pod.get("spec") or {}).get("nodeName") or ""), operand_of(name)] = name
    return found


def _last_lines(view: View) -> dict[tuple[str, str], tuple[Quote, ...]]:
    """Return the last lines of the logs of each operand on each node."""
    found: dict[tuple[str, str], tuple[Quote, ...]] = {}
    owners: dict[str, str] = {}
    for line in view.evidence.lines:
        if line.kind == "pod" and line.text.strip():
            operand = owners.setdefault(line.object, operand_of(line.object))
            quote = Quote(line.text, line.source, line.node)
            found[line.node, operand] = (*found.get((line.node, operand), ()), quote)[-LAST_LINES:]
    return found


def _reasons(view: View) -> t.Iterator[RuleSighting]:
    """Yield the reasons of the verdict. A reason about pods is left out if its pods are known by node."""
    for reason in view.reasons:
        by_node = any(reason.get("operand") in (row.get("waiting_for") or {}) for row in view.rows.values())
        if reason["code"] in POD_REASONS and by_node:
            continue
        rule = Rule(
            code=reason["code"],
            title=_TITLES.get(reason["code"]) or _words(reason["code"]),
            severity=_LEVELS[reason["level"]],
            cause="{message}.",
            remedy="{remedy}." if reason.get("remedy") else "",
            sources=(),
            page=VERDICT_PAGE,
        )
        values = {"message": reason["message"], "remedy": reason.get("remedy") or ""}
        pod, operand = reason.get("pod") or "", reason.get("operand") or ""
        for node in reason.get("nodes") or [reason.get("node") or ""]:
            yield RuleSighting(rule, Sighting(node, pod, (), "certain", values, operand))


def _checked(prefix: str, finding: Json, node: str) -> t.Iterator[RuleSighting]:
    if finding["level"] == "ok":
        return
    code = prefix + "".join(word.capitalize() for word in finding["check"].split("_"))
    subject = finding["check"].removeprefix("host_").replace("_", " ")
    title = f"Check of the {'host' if prefix == 'HostPreflight' else 'cluster'}: {subject}"
    rule = Rule(
        code, title, finding["level"], "{message}.", "{remedy}." if finding.get("remedy") else "", (), page=CHECKS_PAGE
    )
    values = {"message": finding["message"], "remedy": finding.get("remedy") or ""}
    yield RuleSighting(rule, Sighting(node, "", (), "certain", values))


_WORD = re.compile(r"[A-Z]+s?(?=[A-Z][a-z]|$)|[A-Z][a-z]+")


def _words(code: str) -> str:
    """Return a code in CamelCase as words: ``No allocatable GPUs``."""
    first, *others = _WORD.findall(code) or [code]
    return " ".join([first, *(word.lower() if word[1:].islower() else word for word in others)])
