# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: junit
short_description: "Plumbing of the role verify: render check results as JUnit XML"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Turns a list of check results into one JUnit test suite that CI systems can read.
  - Leaves out characters that XML does not allow, such as color codes in a log.
  - The document follows the schema of Jenkins (C(junit-10.xsd)), which other CI systems also read.
positional: suite
options:
  _input:
    description: The checks.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the check, for example the name of a node.
        type: str
        required: true
      classname:
        description: Group that the check belongs to.
        type: str
        default: ""
      time:
        description: Duration of the check in seconds.
        type: float
        default: 0
      failure:
        description: Whether the check failed, or the reason for the failure.
        type: raw
        default: false
      skipped:
        description: Whether the check was skipped, or the reason for skipping it.
        type: raw
        default: false
      message:
        description: The reason, if O(_input[].failure) or O(_input[].skipped) is V(true).
        type: str
        default: ""
      output:
        description: Output of the check, for example a log.
        type: str
        default: ""
  suite:
    description: Name of the test suite.
    type: str
    default: gpuops.nvidia
seealso:
  - plugin: gpuops.nvidia.verification
    plugin_type: filter
  - plugin: gpuops.nvidia.verification_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the results of the GPU smoke test to a file that CI reads
  ansible.builtin.copy:
    content: "{{ checks | gpuops.nvidia.junit('gpu-smoke-test') }}"
    dest: reports/gpu-smoke-test.xml
    mode: "0644"
  vars:
    checks:
      - name: gpu-0000
        classname: gpu_smoke_test
        time: 4.2
      - name: gpu-0001
        classname: gpu_smoke_test
        failure: "The workload ended with status 1: no CUDA-capable device is detected"
        output: "{{ smoke_log }}"
"""

RETURN = r"""
_value:
  description: The JUnit XML document.
  type: str
"""

import re
import typing as t
import xml.etree.ElementTree as ET

from ansible.errors import AnsibleFilterError

_NOT_XML = re.compile("\x1b\\[[0-9;]*[A-Za-z]|[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Complete color codes, and characters that XML does not allow."""


def junit(checks: t.Any, suite: str = "gpuops.nvidia") -> str:
    """Render the checks as one JUnit test suite."""
    if not isinstance(checks, list) or not all(isinstance(check, dict) and check.get("name") for check in checks):
        raise AnsibleFilterError("gpuops.nvidia.junit needs a list of dictionaries that each have a name.")
    failed = sum(bool(check.get("failure")) for check in checks)
    skipped = sum(bool(check.get("skipped")) and not check.get("failure") for check in checks)
    counts = {
        "name": suite,
        "tests": len(checks),
        "failures": failed,
        "errors": 0,
        "skipped": skipped,
        "time": _seconds(sum(map(_time, checks))),
    }
    root = ET.Element("testsuite", {key: _clean(value) for key, value in counts.items()})
    for check in checks:
        _add(root, check)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add(root: ET.Element, check: dict[str, t.Any]) -> None:
    attributes = {"classname": check.get("classname") or "", "name": check["name"], "time": _seconds(_time(check))}
    case = ET.SubElement(root, "testcase", {key: _clean(value) for key, value in attributes.items()})
    for kind in ("failure", "skipped"):
        outcome = check.get(kind)
        if outcome:
            reason = outcome if isinstance(outcome, str) else check.get("message") or ""
            element = ET.SubElement(case, kind, {"message": _clean(reason)})
            if kind == "failure":  # strict readers require the type, and some show only the text
                element.set("type", "failed")
                element.text = _clean(reason)
            break
    if check.get("output"):
        ET.SubElement(case, "system-out").text = _clean(check["output"])


def _time(check: dict[str, t.Any]) -> float:
    try:
        return float(check.get("time") or 0)
    except (TypeError, ValueError) as e:
        raise AnsibleFilterError(
            f"gpuops.nvidia.junit: the time of {check['name']} is not a number: {check['time']!r}."
        ) from e


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _clean(value: t.Any) -> str:
    return _NOT_XML.sub("", str(value))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"junit": junit}
