# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of a driver's rollout; specs in module_utils/_cluster/drivers/rollout/rollout_options.py."""

    DOCUMENTATION = r"""
options:
  wait:
    description:
      - Pace the rollout and wait for its end. The module holds the nodes back before it declares the driver, and then
        starts them one after the other.
      - Without it, the module returns once the driver is declared, and the operator upgrades the nodes by itself, at
        the pace of its C(upgradePolicy). Nodes that an earlier call holds back keep their driver.
    type: bool
    default: true
  canary:
    description:
      - The nodes that get their driver first, as a number, a percentage, or a list of names.
      - Others start when all of them are done and O(soak) is over. If one of them fails, the module stops starting
        nodes.
    type: raw
    default: 0
  waves:
    description:
      - How many nodes belong to each wave after the canaries, as numbers or percentages of all nodes. The last one
        applies to all further waves. Without it, all other nodes are one wave.
      - A wave starts when every node of the previous wave is done or has failed, and O(soak) is over.
    type: list
    elements: str
    default: []
  soak:
    description:
      - For how many seconds the nodes of a wave must be healthy before the next wave starts. The canaries are a wave,
        too.
      - A node is healthy while the kubelet is Ready, its driver and its validator run, and it offers GPUs. Every
        upgraded node is watched until the end of the call. A node that becomes unhealthy has failed.
    type: int
    default: 0
  max_unavailable:
    description:
      - How many nodes may be in their upgrade at a time. A number, or a percentage of the nodes.
      - While the module paces, this is the only limit. The module cordons each node that it starts, and the operator
        upgrades a cordoned node whatever C(maxParallelUpgrades) and C(maxUnavailable) say. So a failed node leaves its
        slot to the others.
    type: str
    default: "1"
  max_failed:
    description:
      - How many nodes may fail. With more, the module stops starting nodes. A number, or a percentage of the nodes.
      - A node that failed and does not serve counts for O(max_unavailable), too.
    type: str
    default: "0"
  group_by:
    description: >-
      A label of the nodes, such as V(topology.kubernetes.io/zone). Only nodes with the same value are upgraded at the
      same time, and percentages are those of the nodes with one value.
    type: str
  windows:
    description:
      - When nodes may start, such as V(22:00-04:00) or V(sat,sun 08:00-18:00). A day names the beginning of a window
        that ends after midnight. Without windows, at any time.
      - A node only starts if the window stays open for as long as the slowest node of this call has taken. The module
        waits for nodes that have started.
      - When the last window is closed, the call ends without an error, and RV(finished) is false. Make the same call
        again in the next window.
    type: list
    elements: str
    default: []
  time_zone:
    description: The time zone of O(windows), such as V(Europe/Berlin).
    type: str
    default: UTC
  timeout:
    description:
      - Seconds without progress after which a node has failed.
      - Building a driver counts as progress, for as long as the startup probe of its container allows. Waiting for a
        job (C(waitForCompletion) of the upgrade policy) does not.
      - The operator checks the nodes every two minutes, so a number below 300 makes healthy nodes fail.
    type: int
    default: 1800
  drain_timeout:
    description: >-
      Only if the operator does not upgrade by itself (C(autoUpgrade=false)): seconds that one node may take from its
      first eviction to the end of its last pod.
    type: int
    default: 600
  allow_shared:
    description: >-
      Also upgrade nodes with another active maintainer, such as a reboot by kured. Without this permission,
      such a node waits until the other one has finished, for at most O(timeout).
    type: bool
    default: false
  lease:
    description: >-
      Only with C(autoUpgrade=false): for how many seconds a hold by another machine is respected, as in
      M(gpuops.nvidia.node_maintenance). With the operator's own upgrades, two calls at once disturb each other.
    type: int
    default: 3600
  take_over:
    description: >-
      Only with C(autoUpgrade=false): resume a call of another machine before O(lease) is over. Use it if that call has
      been killed.
    type: bool
    default: false
  pause_nvsentinel:
    description: >-
      Only with C(autoUpgrade=false): keep NVSentinel away from the nodes while they are held, as in
      M(gpuops.nvidia.node_maintenance).
    type: bool
    default: false
"""
