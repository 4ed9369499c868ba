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
      - Others start when all of them are done and O(soak) is over. If one of them fails, the module stops starting
        nodes.
    type: raw
    default: 0
  waves:
    description:
      - How many nodes belong to each wave after the canaries, as numbers or percentages of all nodes. The last one
        holds for all further waves. Without it, all other nodes are one wave.
      - A wave begins when every node of the wave before it is done or has failed, and O(soak) is over.
    type: list
    elements: str
    default: []
  soak:
    description:
      - For how many seconds the nodes of a wave must be well before the next wave begins. The canaries are a wave, too.
      - A node is well while it offers what it was changed to, and its kubelet is Ready. Every changed node is watched
        until the end of the call. One that is no longer well has failed.
    type: int
    default: 0
  max_unavailable:
    description: How many nodes may change at a time. A number, or a percentage of the nodes that change.
    type: str
    default: "1"
  max_failed:
    description:
      - How many nodes may fail. With more, the module stops starting nodes. A number, or a percentage of the nodes that
        change.
      - A node that failed and could not be put back counts for O(max_unavailable), too.
    type: str
    default: "0"
  group_by:
    description: >-
      A label of the nodes, such as V(topology.kubernetes.io/zone). Only nodes with the same value change at the same
      time, and percentages are those of the nodes with one value.
    type: str
  windows:
    description:
      - When nodes may be begun, such as V(22:00-04:00) or V(sat,sun 08:00-18:00). A day names the beginning of a window
        that ends after midnight. Without windows, at any time.
      - A node is only begun if the window is still open for as long as the slowest node of this call has taken. Nodes
        that have begun are waited for, and nodes that an earlier call has left cordoned are finished at any time.
      - When the last window is closed, the call ends without an error, and RV(finished) is false. The same call
        continues in the next window.
    type: list
    elements: str
    default: []
  time_zone:
    description: The time zone of O(windows), such as V(Europe/Berlin).
    type: str
    default: UTC
  drain_timeout:
    description: Seconds that one node may take from its first eviction to the end of its last pod.
    type: int
    default: 600
  allow_shared:
    description: >-
      Also change nodes with another active maintainer, such as a reboot by kured. Without this permission, such
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
