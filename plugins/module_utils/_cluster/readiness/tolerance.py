# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a user tolerates in a fleet: which nodes count, how many of them may be unready, and how many there must be.

`JudgedScope` has the GPU nodes that are judged, and those that are left out with the reason's code.
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SPEC = ArgumentSpec(
    {
        "node_selector": {"type": "str", "default": ""},
        "exclude_nodes": {"type": "list", "elements": "str", "default": []},
        "max_unready": {"type": "str", "default": "0"},
        "min_nodes": {"type": "int", "default": 1},
    }
)

Test = t.Callable[[t.Mapping[str, str]], bool]

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<name>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)
"""One requirement of a label selector, in the grammar of Kubernetes without ``>`` and ``<``."""


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Which GPU nodes count (`judges`), how many of them may be unready (`allowed`), and how many must be ready."""

    node_selector: str = ""
    exclude_nodes: tuple[str, ...] = ()
    max_unready: str = "0"
    min_nodes: int = 1

    def allowed(self, total: int) -> int:
        """Return how many of ``total`` nodes may be unready. A percentage is rounded down."""
        number, percent = parse_limit(self.max_unready)
        return math.floor(total * number / 100) if percent else number


NOTHING = Tolerance()
"""Every GPU node must be ready, and there must be one."""


@dataclasses.dataclass(frozen=True)
class JudgedScope:
    """The GPU nodes: those that are judged, and those that are left out, by the code of the reason.

    The reasons are `VIRTUAL`, `NOT_SELECTED`, `EXCLUDED`, `SWITCHED_OFF` and `TOLERATED`.
    """

    judged: list[Json]
    left_out: t.Mapping[str, list[Json]]

    @property
    def outside(self) -> list[Json]:
        """All nodes that are left out. Operands may run on them all the same."""
        return [node for found in self.left_out.values() for node in found]

    def without(self, unready: t.Container[str]) -> JudgedScope:
        """Return the scope without these unready nodes, which the user tolerates."""
        judged = [node for node in self.judged if objects.name_of(node) not in unready]
        tolerated = [node for node in self.judged if objects.name_of(node) in unready]
        return JudgedScope(judged, {**self.left_out, TOLERATED: tolerated})


VIRTUAL = "VirtualMachineNodes"
NOT_SELECTED = "NodesNotSelected"
EXCLUDED = "NodesExcluded"
SWITCHED_OFF = "OperandsSwitchedOff"
TOLERATED = "NodesTolerated"


def scope_of(all_nodes: t.Iterable[Json], spec: Json, tolerance: Tolerance) -> JudgedScope:
    """Return which GPU nodes are judged: those for containers that the user selects and that are not switched off."""
    tests = parse_selector(tolerance.node_selector)
    excluded = frozenset(tolerance.exclude_nodes)
    judged: list[Json] = []
    left_out: dict[str, list[Json]] = {}
    for node in all_nodes:
        if not nodes.is_gpu_node(node):
            continue
        why = _why_left_out(node, spec, tests, excluded)
        (left_out.setdefault(why, []) if why else judged).append(node)
    return JudgedScope(judged, left_out)


def _why_left_out(node: Json, spec: Json, tests: list[Test], excluded: frozenset[str]) -> str:
    """Return the code of the reason why a GPU node is not judged, or an empty string."""
    labels = objects.labels_of(node)
    if not nodes.runs_containers(node, spec):
        return VIRTUAL
    if not all(test(labels) for test in tests):
        return NOT_SELECTED
    if objects.name_of(node) in excluded:
        return EXCLUDED
    return SWITCHED_OFF if nodes.is_switched_off(node) and operands.obeys_switch(spec) else ""


def of_options(options: t.Mapping[str, t.Any]) -> Tolerance:
    """Return the tolerance that a module's options ask for. Raises `GpuOpsError` for values that have no meaning."""
    parse_selector(options["node_selector"])
    parse_limit(options["max_unready"])
    if options["min_nodes"] < 0:
        raise GpuOpsError(f"min_nodes is {options['min_nodes']}, but a number of nodes is 0 or more.", reason="Invalid")
    names = tuple(options["exclude_nodes"] or ())
    return Tolerance(options["node_selector"], names, options["max_unready"], options["min_nodes"])


def parse_limit(text: str, option: str = "max_unready") -> tuple[int, bool]:
    """Return the number, and whether it is a percentage."""
    found = re.fullmatch(r"\s*(\d+)\s*(%?)\s*", text)
    if not found or (found[2] and int(found[1]) > 100):
        raise GpuOpsError(
            f"{option} is {text!r}. Give a number of nodes such as 3, or a percentage such as 5%.", reason="Invalid"
        )
    return int(found[1]), bool(found[2])


def parse_selector(text: str) -> list[Test]:
    """Return the requirements of a label selector as tests of labels: ``pool=a,zone in (x,y),!spot``."""
    tests: list[Test] = []
    position, text = 0, text.strip()
    while position < len(text):
        found = _REQUIREMENT.match(text, position)
        if not found or (found[0].rstrip().endswith(",") and found.end() == len(text)):
            raise GpuOpsError(
                f"node_selector {text!r} is not a label selector of Kubernetes: the part {text[position:]!r} cannot be "
                "read. Write for example pool=a,zone in (x,y),!spot.",
                reason="Invalid",
            )
        tests.append(_test(found))
        position = found.end()
    return tests


def _test(found: re.Match[str]) -> Test:
    """Return one requirement as a test of labels. As in Kubernetes, ``!=`` and ``notin`` accept an absent label."""
    if found["absent"]:
        return lambda labels: found["name"] not in labels
    key = found["key"]
    if found["set"]:
        values = {value.strip() for value in found["values"].split(",")}
        return lambda labels: (labels.get(key) in values) == (found["set"] == "in")
    if found["operator"]:
        return lambda labels: (labels.get(key) == found["value"]) == (found["operator"] != "!=")
    return lambda labels: key in labels
