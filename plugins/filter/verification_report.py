# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: verification_report
short_description: "Plumbing of the role verify: render checks as lines that a person reads"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Counts how many checks of each group passed, failed and were skipped, and says why. Nodes with the same reason share
    a line, so that the report of a large fleet stays short.
options:
  _input:
    description: The checks, as P(gpuops.nvidia.verification#filter) returns them.
    type: list
    elements: dict
    required: true
seealso:
  - plugin: gpuops.nvidia.verification
    plugin_type: filter
  - plugin: gpuops.nvidia.junit
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show what was proven
  ansible.builtin.debug:
    msg: "{{ verify_result.checks | gpuops.nvidia.verification_report }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
  sample:
    - "stack: 3 passed"
    - "gpus: 4 passed"
    - "smoke: 2 passed, 1 failed, 1 skipped"
    - "  failed: The workload ended with status 1: no CUDA-capable device is detected (gpu-0002)"
    - "  skipped: The node is cordoned. (gpu-0003)"
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

OUTCOMES = ("passed", "failed", "skipped")


def verification_report(checks: t.Any) -> list[str]:
    """Return a line of counts for each group of checks, followed by the reasons."""
    if not isinstance(checks, list) or not all(isinstance(check, dict) and check.get("name") for check in checks):
        raise AnsibleFilterError("gpuops.nvidia.verification_report needs a list of checks that each have a name.")
    groups: dict[str, list[dict[str, t.Any]]] = {}
    for check in checks:
        groups.setdefault(str(check.get("classname") or ""), []).append(check)
    return [line for group, found in groups.items() for line in _lines(group, found)]


def _lines(group: str, checks: list[dict[str, t.Any]]) -> t.Iterator[str]:
    outcomes = [_outcome(check) for check in checks]
    counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in OUTCOMES if outcome in outcomes]
    yield f"{group}: {', '.join(counts)}"
    for outcome, key in (("failed", "failure"), ("skipped", "skipped")):
        reasons: dict[str, list[str]] = {}
        for check in checks:
            if _outcome(check) == outcome:
                reasons.setdefault(str(check[key]), []).append(str(check["name"]))
        yield from (f"  {outcome}: {reason} ({first_few(names)})" for reason, names in reasons.items())


def _outcome(check: dict[str, t.Any]) -> str:
    if check.get("failure"):
        return "failed"
    return "skipped" if check.get("skipped") else "passed"


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"verification_report": verification_report}
