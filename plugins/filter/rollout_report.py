# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_report
short_description: >-
  Plumbing of the playbooks that change hosts: report how far the hosts of a rollout are, and whether it may continue
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Judges all hosts of a run by the stages that each of them has passed. A host without a report after its batch was
    lost in the middle of the run.
options:
  _input:
    description: >-
      The hosts of the run. One that has changed has C(passed=change). One that was left out says at which stage
      (C(left_out_at), one of C(check), C(prepare), C(plan) and C(change)) and why (C(reason)). One whose change is
      postponed says why in C(postponed).
    type: dict
    required: true
  over:
    description: The last stage before the batches that is over for all hosts.
    type: str
    choices: ["", check, prepare, plan]
    default: ""
  alive:
    description: Names of the hosts that were still reachable when that stage was over.
    type: list
    elements: str
    default: []
  batches:
    description: The batches of P(gpuops.nvidia.rollout_plan#filter).
    type: list
    elements: dict
    default: []
  begun:
    description: Number of the last batch that has started.
    type: int
    default: 0
  ended:
    description: Number of the last batch that has ended.
    type: int
    default: 0
  max_failed:
    description: How many hosts may fail or be left out, as a number, or as a percentage of the hosts of the run.
    type: raw
    default: 0
  sizes:
    description: As in P(gpuops.nvidia.rollout_plan#filter). It is checked here, before anything changes.
    type: raw
    default: 1
  canary:
    description: As in P(gpuops.nvidia.rollout_plan#filter). All canaries must succeed.
    type: raw
    default: 0
  former:
    description: The content of the rollout file that an earlier run wrote.
    type: dict
    default: {}
  predicted:
    description: Whether this is a check, which leaves the hosts as they are.
    type: bool
    default: false
seealso:
  - plugin: gpuops.nvidia.rollout_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show how far the hosts are
  ansible.builtin.debug:
    msg: "{{ {'gpu-01': {}, 'gpu-02': {'left_out_at': 'check', 'reason': 'No GPU'}}
      | gpuops.nvidia.rollout_report(over='check', alive=['gpu-01']) }}"
"""

RETURN = r"""
_value:
  description: The report.
  type: dict
  contains:
    stop:
      description: The sentences with which the run must stop. Empty if it may continue.
      type: str
    lines:
      description: The report for people, a table of the hosts that are out or still wait, and the totals.
      type: list
      elements: str
    content:
      description: >-
        The content of the rollout file, with C(format), C(canary), C(counts) and the C(hosts). Each host has a C(state)
        (C(waiting), C(changing), C(done), C(current), C(postponed), C(failed) or C(left out)), and where they apply its
        C(batch) and the C(reason).
      type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import former as former_run
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import progress
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.batches import Batch
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NAMES = {"sizes": "gpuops_serial", "canary": "gpuops_canary", "max_out": "gpuops_max_failed", "members": "hosts"}


def rollout_report(
    hosts: t.Mapping[str, Json],
    over: str = "",
    alive: t.Iterable[str] = (),
    batches: t.Iterable[Json] = (),
    begun: int = 0,
    ended: int = 0,
    max_failed: t.Any = 0,
    sizes: t.Any = 1,
    canary: t.Any = 0,
    former: Json | None = None,
    predicted: bool = False,
) -> Json:
    """Return how far the hosts are."""
    fleet = {name: progress.MemberEvidence(**evidence) for name, evidence in hosts.items()}
    there = frozenset(alive)
    planned = [Batch(each["number"], tuple(each["hosts"]), each["canary"], each["group"]) for each in batches]
    wishes = RolloutRequest(sizes, canary, None, max_failed, _NAMES)
    try:
        wishes.check(fleet)
        before = former_run.parse(former)
        seen = progress.look(fleet, planned, progress.Position(over, there, begun, ended), wishes, before)
    except GpuOpsError as error:
        raise AnsibleFilterError(error.msg) from error
    return {
        "stop": seen.stop,
        "lines": progress.lines(seen, "hosts", predicted),
        "content": progress.content(seen, before),
    }


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"rollout_report": rollout_report}
