# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that change nodes, a few at a time; specs in module_utils/_cluster/maintenance/options.py.

    These modules also have the options of the fragments eviction and progress.
    """

    DOCUMENTATION = r"""
options:
  canary:
    description:
      - The nodes that change first, as a number, a percentage, or a list of names.
      - Others begin when all of them are done. If one of them fails, no other node is begun.
    type: raw
    default: 0
  max_unavailable:
    description: How many nodes may change at a time. A number, or a percentage of the nodes that change.
    type: str
    default: "1"
  max_failed:
    description:
      - How many nodes may fail before no further node is begun. A number, or a percentage of the nodes that change.
      - A node that failed and could not be put back counts for O(max_unavailable), too.
    type: str
    default: "0"
  group_by:
    description: >-
      A label of the nodes, such as V(topology.kubernetes.io/zone). Nodes with different values never change at the same
      time, and percentages are those of the nodes with one value.
    type: str
  drain_timeout:
    description: Seconds that one node may take from its first eviction to the end of its last pod.
    type: int
    default: 600
  allow_shared:
    description: >-
      Also change nodes on which another maintainer is at work, such as a reboot by kured. Without this permission, such
      a node waits until the other one has finished, for at most O(timeout).
    type: bool
    default: false
  lease:
    description: For how many seconds a hold by another machine is respected, as in M(gpuops.nvidia.node_maintenance).
    type: int
    default: 3600
  take_over:
    description: Resume a call of another machine before O(lease) is over. Use it if that call has been killed.
    type: bool
    default: false
  pause_nvsentinel:
    description: Keep NVSentinel away from the nodes while they are held, as in M(gpuops.nvidia.node_maintenance).
    type: bool
    default: false
"""
