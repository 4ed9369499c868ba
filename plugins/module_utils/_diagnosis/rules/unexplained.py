# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The floor of the diagnosis: an error that no rule explains is quoted, with what is known of its component.

Healthy programs log errors, too. So these findings are warnings or notes, never more than possible, and they are left
out where a rule has found a failure in the same log or on the same node.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import whose_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, RuleSighting, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View


def _word(word: str) -> Pattern:
    """Return a pattern of a level that stands before a message, perhaps after a time and the name of a program."""
    return pattern(rf"^(?:.{{0,120}}?[\s\[(|:*])?\W?{word}\W{{0,2}}(?::|\]|\s{{2,}}|$)", word)


_LEVELS = (
    pattern(r"(?:^|[\s|\]])[EF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.-]+\.go:\d+\] ", ".go:"),  # klog
    pattern(r"\blevel=\"?(?:error|fatal|panic)\b", "level="),  # logrus, slog
    pattern(r"\"level\": ?\"(?:error|fatal|panic|dpanic)\"", '"level":'),  # zap
    *map(_word, ("error", "fatal", "panic", "critical")),
    pattern(r"\b[A-Z]\w+(?:Error|Exception): ", "error: "),  # Python
    pattern(r"^\W{0,3}[\w-]+\.go:\d+\] (?:error|failed|unable)\b", ".go:"),  # klog, whose head was cut off
    pattern(r"\bERROR +\[\d+:\d+\] ", "error "),  # DCGM
    pattern(r"\bFATAL +\[\d+:\d+\] ", "fatal "),
    pattern(r"Devices:\[\][^,]{0,20},Error:\S", ",error:"),  # a DRA driver's answer to the kubelet
)
"""How programs mark a line as an error: the forms of klog, logrus, slog, zap, glog, Python and shell scripts."""

_TROUBLE = tuple(
    pattern(rf"\b{words}", words.lower())
    for words in (
        *("failed", "failure", "unable to", "could not", "couldn't", "cannot ", "can't ", "denied", "refused"),
        *("not permitted", "not supported", "unsupported", "no such file", "not found", "timed out", "not loaded"),
        *(
            "invalid",
            "rejected",
            "exit status ",
            "exit code",
            "Please ensure",
            "is not bound",
            "not available",
            "not set for",
        ),
        *("fatal exception", "exited with status ", "too old", "too small", "mismatch", "aborted", "corrupt"),
    )
)
"""Words that mean trouble, in the lines of programs that mark no level."""

_SOFT = tuple(
    pattern(rf"\b{words}\b", words)
    for words in ("fails", "crashes", "crashing", "crashloopbackoff", "unhealthy", "stuck", "not ready")
)
"""Words that people and monitors use for trouble. Healthy programs do, too, so they count where a text has no other."""

_HARMLESS = re.compile(
    r"(?:^|[\s|\]])[IWD]\d{4} \d\d:\d\d:\d\d\.\d{6} |\blevel=\"?(?:info|warn|debug|trace)"
    r"|\"level\": ?\"(?:info|warn|debug)|\[(?:INFO|WARN(?:ING)?|DEBUG)\]|(?-i:\b(?:INFO|DEBUG|WARNING)\b)[\s:]"
    r"|\b(?:0 errors|no errors?|exit (?:status|code):? 0)\b|retry|ignoring|skipping|Detected non-Tegra platform",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"objClInitPcieChipset: \*\*\* Chipset Setup Function Error"
    r"|cannot access '/proc/driver/nvidia-nvswitch"
    r"|device health reporting is not supported by this driver"
    r"|module verification failed: signature and/or required key missing"
    r"|the object has been modified; please apply your changes to the latest version"
    r"|Failed to ensure lease exists, will retry"
)
"""What healthy machines log as an error: NVIDIA/open-gpu-kernel-modules#421, the driver container on machines without
NVSwitches, kubernetes-sigs/dra-driver-nvidia-gpu#1423. A kernel that takes modules without a signature says so
for each. Controllers and kubelets try again what another write or a slow
API server has refused once (dell/csm#1670, and Kubernetes' API conventions, "Concurrency Control and Consistency")."""
_FATAL = re.compile(r"fatal|panic|(?:^|[\s|\]])F\d{4} ", re.IGNORECASE)

_OF_GPUS = re.compile(r"nvidia|\bgpus?\b|\bcuda|nvlink|nvswitch|\bNVRM\b|\bmig\b", re.IGNORECASE)


def component_of(hit: Hit, view: View) -> str:
    """Return the key of the component that wrote a line, or an empty string."""
    return next(iter(whose_line.of_line(hit.line.text, hit.line.source)), "") or view.near(hit.line)


def _left(view: View, sightings: t.Sequence[RuleSighting]) -> list[Hit]:
    """Return the lines with an error, each once, that stand where no rule has found a failure. The fatal ones first."""
    causes = [each for each in sightings if each.rule.patterns or each.rule.check]
    failures = [each.sighting for each in causes if each.rule.severity == "failure"]
    places = {
        (quote.node, quote.source.rpartition(" line ")[0] or quote.source) for s in failures for quote in s.quotes
    }
    nodes = {each.node for each in failures} - {""}
    texts = {quote.text for each in causes for quote in each.sighting.quotes}
    found: dict[str, Hit] = {}
    for each in (*_LEVELS, *_TROUBLE):
        for hit in view.hits(each):
            harmless = _KNOWN if each in _LEVELS else _HARMLESS
            is_marked = not harmless.search(hit.line.text) and not _KNOWN.search(hit.line.text)
            is_told = hit.line.text in texts or hit.line.node in nodes or seen.text_of(hit) in places
            if is_marked and not is_told and (hit.line.kind != "event" or not sightings):
                found.setdefault(hit.line.text, hit)
    return sorted(found.values(), key=lambda hit: not _FATAL.search(hit.line.text))


def _cluster(view: View) -> object:
    """Return the state of a cluster that was looked at. What a pasted table shows is none."""
    return None if view.evidence.is_pasted else view.evidence.stack


def _is_of_gpus(hit: Hit, component: str) -> bool:
    return component not in whose_line.GENERAL or bool(_OF_GPUS.search(hit.line.text))


def _errors(view: View, sightings: t.Sequence[RuleSighting]) -> t.Iterator[Sighting]:
    """Yield the errors of known components. In a text, those without a word about GPUs count if there is no other.

    The kernel marks no line as an error, and healthy hosts have many that read like one. Those of a live host do not
    count: rules know what it says of GPUs.
    """
    is_live = bool(_cluster(view) or view.evidence.hosts)
    passed_over = {"", "kernel"} if is_live else {""}
    left = [(hit, key) for hit in _left(view, sightings) if (key := component_of(hit, view)) not in passed_over]
    of_gpus = [each for each in left if _is_of_gpus(*each)]
    for hit, key in of_gpus or ([] if _cluster(view) or sightings else left):
        yield matches.sighting(hit, "possible", **whose_line.BY_KEY[key].values)


def _strangers(view: View, sightings: t.Sequence[RuleSighting]) -> t.Iterator[Sighting]:
    """Yield the errors of programs that nothing names, if a text has nothing else."""
    if _cluster(view) or sightings:
        return
    left = _left(view, sightings)
    if not any(component_of(hit, view) for hit in left):
        yield from (matches.sighting(hit, "possible") for hit in left)


def _told(view: View, sightings: t.Sequence[RuleSighting]) -> t.Iterator[Sighting]:
    """Yield what a pasted text tells of GPUs in other words than those of an error, if it has nothing else."""
    if not view.evidence.is_pasted or sightings or _left(view, sightings):
        return
    for hit in (hit for each in _SOFT for hit in view.hits(each)):
        if _OF_GPUS.search(hit.line.text) and not _HARMLESS.search(hit.line.text):
            yield matches.sighting(hit, "possible")


RULES = (
    Rule(
        code="UnexplainedError",
        title="An error that no rule explains",
        severity="warning",
        cause="{component} reports errors that no rule knows. {does}. {awaited}. What it needs, and what may be "
        "missing: {needs}.",
        remedy="{look}.",
        sources=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",),
        certainty="possible",
        rest=_errors,
        patterns=(*_LEVELS, *_TROUBLE),
    ),
    Rule(
        code="UnknownError",
        title="An error of a program that the text does not name",
        severity="ok",
        cause="These lines were read, and no rule knows what they mean. Nothing in them names the program that wrote "
        "them.",
        remedy="Give the name of the program and the lines around them: the whole log, the description of the pod "
        "(kubectl describe pod), and the kernel log of the node (journalctl -k -b).",
        sources=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",),
        certainty="possible",
        rest=_strangers,
        patterns=(*_LEVELS, *_TROUBLE),
    ),
    Rule(
        code="TroubleToldInWords",
        title="A text tells of trouble with GPUs",
        severity="ok",
        cause="These lines tell that something does not work, and show no error of a program that rules know.",
        remedy="Give the evidence itself: the log of the program, the description of its pod (kubectl describe pod), "
        "and the kernel log of the node (journalctl -k -b). Or run playbooks/diagnose.yml on the cluster.",
        sources=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",),
        certainty="possible",
        rest=_told,
        patterns=_SOFT,
    ),
)
