# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: verification
short_description: "Plumbing of the role verify: turn the results about a GPU stack into one list of checks"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Combines the results of M(gpuops.nvidia.gpu_stack_info), M(gpuops.nvidia.gpu_smoke_test) and
    M(gpuops.nvidia.dcgm_exporter_info) into a list of checks. Each GPU node has one of each kind (C(gpus), C(smoke),
    C(dcgm)), which is passed, failed, or skipped with a reason.
  - A check that fails on a node that C(left_out) of M(gpuops.nvidia.gpu_stack_info) names counts as skipped.
  - P(gpuops.nvidia.junit#filter) and P(gpuops.nvidia.verification_report#filter) accept the list.
positional: smoke, dcgm, expected_gpus, min_nodes
options:
  _input:
    description: Result of M(gpuops.nvidia.gpu_stack_info).
    type: dict
    required: true
  smoke:
    description: Result of M(gpuops.nvidia.gpu_smoke_test).
    type: dict
  dcgm:
    description: Result of M(gpuops.nvidia.dcgm_exporter_info).
    type: dict
  expected_gpus:
    description:
      - Number of GPUs or their shares that a node must offer, by the node's name. A node that does not exist fails.
      - >-
        For MIG devices, numbers of resources, for example C({gpu-0000: {nvidia.com/mig-1g.10gb: 7}}). Where pods get
        GPUs by claims, numbers of devices by DeviceClass, for example C({gpu-0000: {mig.nvidia.com: 7}}).
      - Every other node must offer all GPUs and MIG devices (with sharing, all their replicas) that GPU Feature
        Discovery counts on it.
    type: dict
    default: {}
  min_nodes:
    description: Minimum number of GPU nodes to verify.
    type: int
    default: 1
seealso:
  - plugin: gpuops.nvidia.verification_report
    plugin_type: filter
  - plugin: gpuops.nvidia.junit
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the checks of the stack to a file that CI reads
  ansible.builtin.copy:
    content: "{{ stack | gpuops.nvidia.verification(smoke=smoke, dcgm=dcgm) | gpuops.nvidia.junit('gpu-stack') }}"
    dest: reports/gpu-stack.xml
    mode: "0644"
"""

RETURN = r"""
_value:
  description:
    - The checks. Each has C(classname) (C(stack), C(gpus), C(smoke) or C(dcgm)), C(name) (the node or the part of the
      stack), C(failure) and C(skipped). The latter two are the reason, or an empty string.
    - Checks that ran a workload also have C(time) and C(output).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health, names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Check = dict[str, t.Any]

_LEFT_OUT = {
    tolerance.SWITCHED_OFF: f"The label {names.OPERANDS_SWITCH}=false keeps the operands away from the node.",
    tolerance.VIRTUAL: "The node's GPUs are for virtual machines.",
    tolerance.EXCLUDED: "The node is excluded.",
    tolerance.NOT_SELECTED: "The node selector does not select the node.",
    tolerance.TOLERATED: "The node is not ready, and as many unready nodes are tolerated.",
}


def verification(
    stack: t.Any,
    smoke: Json | None = None,
    dcgm: Json | None = None,
    expected_gpus: dict[str, int | dict[str, int]] | None = None,
    min_nodes: int = 1,
) -> list[Check]:
    """Return every check with its result."""
    if not isinstance(stack, dict) or not {"nodes", "operands", "verdict"} <= stack.keys():
        raise AnsibleFilterError("gpuops.nvidia.verification needs the result of gpuops.nvidia.gpu_stack_info.")
    smoke, dcgm = smoke or {}, dcgm or {}
    left_out = {node["name"]: _why_left_out(node["left_out"]) for node in stack["nodes"]}
    judged = sum(not reason for reason in left_out.values())
    return [
        _check("stack", "operands", _operands(stack["verdict"])),
        _check("stack", "nodes", _count(judged, int(min_nodes))),
        *_tested(smoke),
        *_gpus(stack["nodes"], expected_gpus or {}, left_out),
        *_workloads(smoke, left_out),
        *_exporters(dcgm, left_out, _exporter_is_off(stack)),
    ]


def _why_left_out(code: str | None) -> str:
    return _LEFT_OUT.get(code, f"The node is left out ({code}).") if code else ""


def _check(classname: str, name: str, failure: str = "", skipped: str = "", **more: t.Any) -> Check:
    return {"classname": classname, "name": name, "failure": failure, "skipped": skipped, **more}


def _excused(check: Check, excuse: str) -> Check:
    """Return the check, skipped instead of failed if there is an excuse for its node."""
    if not excuse or not check["failure"]:
        return check
    is_tolerated = excuse == _LEFT_OUT[tolerance.TOLERATED]
    return {**check, "failure": "", "skipped": f"{excuse} {check['failure']}" if is_tolerated else excuse}


# ---- the stack ----------------------------------------------------------------------------------------------------


def _operands(verdict: Json) -> str:
    if verdict["state"] == "ready":
        return ""
    blocking = [reason for reason in verdict["reasons"] if reason["level"] != "note"]
    sentences = [f"{reason['message']} {reason['remedy']}".strip() for reason in blocking]
    return first_few(sentences, separator=" ") or str(verdict["message"])


def _count(found: int, wanted: int) -> str:
    if found >= wanted:
        return ""
    return (
        f"The cluster has {found} GPU nodes, but at least {wanted} are expected. "
        "Check that Node Feature Discovery runs and that the nodes have joined the cluster."
    )


def _tested(smoke: Json) -> t.Iterator[Check]:
    if "too_few_tested" in smoke:
        yield _check("stack", "tested", smoke["too_few_tested"])


# ---- the GPUs that pods can get -----------------------------------------------------------------------------------


def _gpus(nodes: list[Json], expected: t.Mapping[str, t.Any], left_out: dict[str, str]) -> t.Iterator[Check]:
    by_name = {node["name"]: node for node in nodes}
    for name in sorted({*by_name, *expected}):
        node = by_name.get(name)
        failure = _offered(node, expected.get(name)) if node else "The node is missing, or has no GPU."
        yield _excused(_check("gpus", name, failure), "" if name in expected else left_out.get(name, ""))


def _offered(node: Json, wanted: int | dict[str, int] | None) -> str:
    """Return what is wrong with the GPUs that pods can get, and with those that they hold."""
    return " ".join(filter(None, [_allocatable(node, wanted), _held(node)]))


def _held(node: Json) -> str:
    """Return which of the GPUs that pods hold are unhealthy. A node may go on to offer them."""
    found = device_health.counted_sick(node)
    remedy = "Look for Xid errors in journalctl -k on the node, and drain it to reset the GPU or reboot."
    return f"Pods hold {found} ({device_health.sick_text(node)}). {remedy}" if found else ""


def _allocatable(node: Json, wanted: int | dict[str, int] | None) -> str:
    """Compare the GPUs that pods can get with the GPUs that the node should offer."""
    if wanted is not None:
        return _unlike(_by_resource(node), wanted)
    if str(node["product"]).endswith("-MIG-INVALID"):
        return "The node's MIG devices do not fit the MIG strategy single. Correct the label nvidia.com/mig.config."
    withheld = _withheld(node["slices"])
    if not withheld:
        return ""
    who = "NVIDIA's DRA driver" if node.get("devices") else "the device plugin"
    return f"Pods can get {withheld}. See the log of {who}'s pod on the node."


def _by_resource(node: Json) -> dict[str, int]:
    """Return what pods can get by resource, and by DeviceClass where they get it by claims."""
    found = dict(node["allocatable"])
    for part in node["slices"]:
        if part["resource"] in names.DEVICE_CLASSES.values():
            found[part["resource"]] = found.get(part["resource"], 0) + part["allocatable"]
    return found


def _unlike(offered: dict[str, int], wanted: int | dict[str, int]) -> str:
    """Compare with what a user expects: a number of GPUs or their shares, or numbers of resources."""
    if not isinstance(wanted, dict):
        found = _whole_gpus(offered)
        return "" if found == int(wanted) else f"Pods can get {found} GPUs, but {wanted} are expected."
    wrong = [
        f"{offered.get(name, 0)} {name}, but {number} are expected"
        for name, number in sorted(wanted.items())
        if offered.get(name, 0) != int(number)
    ]
    return f"Pods can get {first_few(wrong)}." if wrong else ""


def _withheld(slices: list[Json]) -> str:
    """Return what the node has and pods cannot get, such as ``1 of 2 GPUs``, or an empty string."""
    short = [part for part in slices if part["allocatable"] < part["expected"]]
    if short:
        return f"{short[0]['allocatable']} of {short[0]['expected']} {_title(short[0])}"
    return "" if any(part["allocatable"] for part in slices) else "0 of 0 GPUs"


def _title(part: Json) -> str:
    if part["resource"].startswith(names.MIG_RESOURCE_PREFIX):
        return str(part["resource"])
    return f"MIG devices {part['profile']}" if part["profile"] else "GPUs"


def _whole_gpus(resources: dict[str, int]) -> int:
    """Count the GPUs, or with sharing (``nvidia.com/gpu.shared``) their shares. Do not count MIG devices."""
    is_whole = (names.GPU_RESOURCE, names.DRA_DRIVER)
    return sum(amount for name, amount in resources.items() if name.startswith(is_whole))


# ---- workloads and metrics ----------------------------------------------------------------------------------------


def _workloads(smoke: Json, left_out: dict[str, str]) -> t.Iterator[Check]:
    """Yield one check for each node: its result, or why it is missing. Empty if the test was not asked for."""
    if not smoke.get("msg") and "results" not in smoke:
        return
    yield from _could_not_start("smoke", "workload", smoke)
    could_not_start = bool(smoke.get("msg")) and "results" not in smoke
    missing = "The test could not start." if could_not_start else "Check mode runs no workload."
    checks = {row["node"]: _workload(row) for row in smoke.get("results") or []}
    yield from _by_node("smoke", checks, left_out, missing)


def _workload(row: Json) -> Check:
    reason = "" if row["passed"] else row["reason"] or "The workload did not pass."
    failure, skipped = ("", reason) if row["skipped"] else (reason, "")
    return _check("smoke", row["node"], failure, skipped, time=row["seconds"], output=row["log"])


def _exporters(dcgm: Json, left_out: dict[str, str], is_off: bool) -> t.Iterator[Check]:
    """Yield one check for each node, as `_workloads` does."""
    if not dcgm.get("msg") and "results" not in dcgm:
        return
    rows = dcgm.get("results") or []
    checks = {row["node"]: _check("dcgm", row["node"], "" if row["ok"] else row["reason"]) for row in rows}
    if is_off:
        off = "The ClusterPolicy switches the DCGM exporter off (dcgmExporter.enabled: false)."
        left_out = {name: left_out.get(name) or off for name in (*checks, *left_out)}
    else:
        yield from _could_not_start("dcgm", "exporter", dcgm)
    missing = "The test could not start."
    if rows:
        missing = f"The operator deploys no exporter to the node (label {operands.DCGM_EXPORTER.deploy_label})."
    yield from _by_node("dcgm", checks, left_out, missing)


def _by_node(classname: str, checks: dict[str, Check], excuses: dict[str, str], missing: str) -> t.Iterator[Check]:
    """Yield one check for each node: its result, or why it is missing."""
    for name in sorted({*checks, *excuses}):
        excuse = excuses.get(name, "")
        yield _excused(checks[name], excuse) if name in checks else _check(classname, name, skipped=excuse or missing)


def _exporter_is_off(stack: Json) -> bool:
    states = [row["state"] for row in stack["operands"] if row["operand"] == operands.DCGM_EXPORTER.name]
    return states == ["disabled"]


def _could_not_start(classname: str, name: str, result: Json) -> t.Iterator[Check]:
    """Yield a failed check for a test that could not start."""
    message = result.get("msg") or result.get("reason") or ""
    if message and not result.get("results"):
        yield _check(classname, name, str(message))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"verification": verification}
