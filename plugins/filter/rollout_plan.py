# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_plan
short_description: "Plumbing of the playbooks that change hosts: plan the batches in which hosts change"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - The first batch is the canary, after hosts that prove for others what nobody has proved yet. Hosts in the middle of
    a change come next, then all others, then those that failed in the former run.
options:
  _input:
    description: Names of the hosts that change, in the order of the inventory.
    type: list
    elements: str
    required: true
  sizes:
    description: >-
      Number of hosts in a batch, as a number, a percentage, or a list of both, whose last value applies to all further
      batches. A percentage is one of the hosts that change, or of those in the same group.
    type: raw
    default: 1
  canary:
    description: >-
      Hosts of the first batch, as a number, a percentage, or a list of names. Canaries of an unfinished former run are
      skipped if they need no change.
    type: raw
    default: 0
  groups:
    description: The group of each host, such as its rack. Hosts of one batch are in the same group.
    type: dict
  former:
    description: The content of the rollout file, as P(gpuops.nvidia.rollout_report#filter) returned it.
    type: dict
    default: {}
  resuming:
    description: Names of hosts whose own record says that they are in the middle of a change.
    type: list
    elements: str
    default: []
  unproved:
    description: >-
      What nobody has proved yet, by the name of the host that needs it. Of several hosts with the same text, the first
      is a canary in a batch of its own.
    type: dict
    default: {}
seealso:
  - plugin: gpuops.nvidia.rollout_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the batches, one of them with a single host
  ansible.builtin.debug:
    msg: "{{ groups['gpu_hosts'] | gpuops.nvidia.rollout_plan(sizes='25%', canary=1) }}"
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    batches:
      description: >-
        The batches, in order. Each has its C(number), C(hosts), whether it is the C(canary), and its C(group) if all
        its hosts have the same.
      type: list
      elements: dict
    order:
      description: All hosts in the order of the batches.
      type: list
      elements: str
    waves:
      description: >-
        How many hosts each run of consecutive batches has. As C(serial) of a play, it lets the run continue after the
        loss of a whole batch.
      type: list
      elements: int
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import batches
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import former as former_run
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NAMES = {"sizes": "gpuops_serial", "canary": "gpuops_canary", "groups": "gpuops_batch_by"}


def rollout_plan(
    hosts: t.Iterable[str],
    sizes: t.Any = 1,
    canary: t.Any = 0,
    groups: t.Mapping[str, t.Any] | None = None,
    former: Json | None = None,
    resuming: t.Iterable[str] = (),
    unproved: t.Mapping[str, str] | None = None,
) -> Json:
    """Return the batches in which the hosts change."""
    try:
        wishes = RolloutRequest(sizes, canary, groups, names=_NAMES)
        planned = batches.plan(list(hosts), wishes, former_run.parse(former), frozenset(resuming), unproved)
    except GpuOpsError as error:
        raise AnsibleFilterError(error.msg) from error
    return {
        "batches": [
            {"number": each.number, "hosts": list(each.members), "canary": each.canary, "group": each.group}
            for each in planned
        ],
        "order": [member for each in planned for member in each.members],
        "waves": batches.waves(planned),
    }


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"rollout_plan": rollout_plan}
