# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: change_plan
short_description: >-
  Plumbing of the role host_change: decide what has to interrupt the work on a host, and whether it may
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Decides for one host, from what was found there and in the cluster, whether it needs a change or a reboot, whether
    that is permitted, and whether a node must be drained for it. The role C(host_change) acts on the result.
options:
  _input:
    description:
      - What was found. C(host) is its name, C(facts) are its facts, C(record) is what an earlier run has recorded
        there (empty without one), C(driver) is the plan of the role C(host_driver), C(kernel) that of the role
        C(host_kernel), and C(reboots) are further reasons for a reboot, such as those that check mode predicts.
      - C(nodes) is the result of M(gpuops.nvidia.host_nodes_info).
    type: dict
    required: true
  allowed:
    description: The permission, true or false. Without it, a needed change is refused.
    type: bool
  drain:
    description: Whether to drain the host's node.
    type: bool
    default: true
  take_over:
    description: Whether to resume the change of another run, which may still be active.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Decide what to do
  ansible.builtin.set_fact:
    plan: "{{ found | gpuops.nvidia.change_plan(allowed=true) }}"
  vars:
    found:
      host: "{{ inventory_hostname }}"
      facts: "{{ gathered.ansible_facts.gpuops }}"
      nodes: "{{ looked_up }}"
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    state:
      description: V(none), V(due), V(postponed) or V(refused).
      type: str
    reason:
      description: Why the change is refused or postponed, or an empty string.
      type: str
    reasons:
      description: Why the host needs a change.
      type: list
      elements: str
    change:
      description: Whether the driver, its services or the container runtimes change.
      type: bool
    kernel:
      description: Whether the host gets another kernel.
      type: bool
    finish:
      description: Whether only the proof and the return of the node are left to do.
      type: bool
    back:
      description: Whether an earlier run was restoring the former driver.
      type: bool
    stage:
      description: How far an earlier run came, or an empty string.
      type: str
    node:
      description: The node of the host, or null.
      type: str
    undrained:
      description: Why the host is changed without a drain, or an empty string.
      type: str
    run:
      description: This run for the record on the host, with its C(machine) and its C(process) there.
      type: dict
  sample:
    state: due
    reason: ""
    reasons: ["The kernel runs without the configured arguments iommu=pt"]
    change: false
    kernel: false
    finish: false
    back: false
    stage: ""
    node: gpu-0001
    undrained: ""
    run: {machine: controller-1, process: 4711}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _runs

BACK = "back"
"""The stage of a run that is on its way back to the former driver."""

_LEFT_BACK = "An earlier run was on its way back to the former driver"


def change_plan(found: Json, allowed: bool | None = None, drain: bool = True, take_over: bool = False) -> Json:
    """Return what a host needs, and whether it is permitted."""
    row, unknown = _node(found, drain)
    # A reinstalled host has lost its record. Its node is still held.
    stage = (found.get("record") or {}).get("stage") or ("drain" if _is_held(row) else "")
    reasons = _reasons(found, stage)
    plan: Json = {
        "state": "due" if reasons or stage else "none",
        "reason": "",
        "reasons": reasons,
        "change": bool(_interruptions(found, stage)),
        "kernel": bool(_of_kernel(found)) and stage != BACK,
        "finish": bool(stage) and (not reasons or allowed is False),
        "back": stage == BACK,
        "stage": stage,
        "node": row.get("node"),
        "undrained": _undrained(row, drain),
        "run": _runs.this_run(),
    }
    # A host in the middle of a change is about to be different, so even a proof is too early.
    other = _runs.refusal(found["host"], found.get("record") or {}, take_over)
    if other:
        return {**plan, "state": "refused", "reason": other}
    if plan["state"] == "due" and allowed is False and not plan["finish"]:
        return {**plan, "state": "postponed", "reason": _needs(found, plan)}
    refused = _refusal(found, plan, allowed, row) or unknown
    if plan["state"] == "due" and refused:
        return {**plan, "state": "refused", "reason": refused}
    return plan


def _interruptions(found: Json, stage: str) -> list[str]:
    """Return why the driver, its services or the runtimes change here.

    Packages whose change interrupts no work are left to the caller, unless an earlier run has left the host without
    them.
    """
    driver = found.get("driver") or {}
    if driver.get("interrupts"):
        return driver.get("interrupt_reasons") or ["The driver changes"]
    transaction = driver.get("transaction") or {}
    was_cut_off = driver.get("action") == "complete"
    is_incomplete = bool(stage and (transaction.get("install") or transaction.get("remove") or was_cut_off))
    return ["An earlier run did not finish the change of the driver"] if is_incomplete else []


def _of_kernel(found: Json) -> list[str]:
    """Return why the kernel changes: another one is wanted for the next boot, or runs until then."""
    kernel = found.get("kernel") or {}
    if not (kernel.get("changed") or kernel.get("reboot_required")):
        return []
    return [f"The kernel {kernel['release']} is wanted, and {kernel['running']} runs"]


def _refused(found: Json) -> str:
    """Return why the wanted driver or kernel cannot be had, or an empty string."""
    plans = (found.get("driver") or {}, found.get("kernel") or {})
    return next((str(plan["refused"]) for plan in plans if plan.get("refused")), "")


def _reasons(found: Json, stage: str) -> list[str]:
    refused = [_refused(found)] if _refused(found) else []
    reboots = [*(found["facts"]["reboot"]["reasons"] or []), *(found.get("reboots") or [])]
    back = [_LEFT_BACK] if stage == BACK else []
    every = [*refused, *_interruptions(found, stage), *_of_kernel(found), *reboots, *back]
    return list(dict.fromkeys(reason.rstrip(".") for reason in every))


def _node(found: Json, drain: bool) -> tuple[Json, str]:
    """Return the row about the host's node, and why the node is not known."""
    if not drain:
        return {}, ""
    nodes = found.get("nodes") or {}
    if "nodes" not in nodes and nodes.get("msg"):
        return {}, str(nodes["msg"])
    row = (nodes.get("nodes") or {}).get(found["host"]) or {}
    return row, row.get("failure", "")


def _is_held(row: Json) -> bool:
    return "change" in row.get("purposes", [])


def _undrained(row: Json, drain: bool) -> str:
    if row.get("node"):
        return ""
    return "it has no kubelet, and no node of a cluster fits it" if drain else "host_change_drain is false"


def _refusal(found: Json, plan: Json, allowed: bool | None, row: Json) -> str:
    if _refused(found):
        return _refused(found)
    if allowed is not None or plan["finish"]:
        return ""
    remedy = "Set host_change_allowed to true to allow the interruption, or to false to skip the change."
    return f"{_needs(found, plan)}{_left(plan, row)} {remedy}"


def _needs(found: Json, plan: Json) -> str:
    what = "a change that interrupts its work" if plan["change"] or plan["back"] else "a reboot"
    return f"{found['host']} needs {what}: {'. '.join(plan['reasons'])}."


def _left(plan: Json, row: Json) -> str:
    """Return what an earlier run has left, as the node says it: a drain that failed has put the node back."""
    if _is_held(row):
        return f" An earlier run has drained the node {row['node']} for it, which stays out of service."
    return " An earlier run did not finish it." if plan["stage"] else ""


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"change_plan": change_plan}
