#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_hold
short_description: >-
  Plumbing of the role operator_upgrade: keep the drivers of all GPU nodes as they are while something else changes
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A new version of the GPU Operator renders new pods for the driver. Before v26.7, the operator then evicts GPU
    pods and replaces the driver on every node, even if the driver's version stays.
  - This module gives each node that has a driver container the operator's own label
    C(nvidia.com/gpu-driver-upgrade.skip=true), and notes that the label is its own. The operator then leaves the
    driver's pods alone until a rollout of the driver releases the nodes one by one, or this module removes the label.
  - A label that a user has set stays as it is.
  - While a node keeps an old pod of the driver, the operator reports the ClusterPolicy as not ready. The modules of
    this collection allow for that, and judge the rest of the stack.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists the nodes that are kept.
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  state:
    description:
      - V(present) keeps the drivers of all nodes. It fails if the operator is replacing a driver at that moment,
        because that cannot be stopped.
      - V(absent) removes the module's own labels from nodes whose driver pod is of the newest revision and therefore
        keeps running. With O(everything), it removes all of them.
    type: str
    choices: [present, absent]
    default: present
  everything:
    description:
      - Also remove the labels from nodes with an old pod of the driver. The operator then replaces these pods at the
        pace of its own upgrade policy.
      - If GPU pods run there, it needs O(allow_disruption).
    type: bool
    default: false
  allow_disruption:
    description: Let the operator evict the GPU pods of the released nodes.
    type: bool
    default: false
  keep_version:
    description:
      - V(true) also marks the driver's version in the ClusterPolicy as kept, by the field manager
        V(gpuops.nvidia-kept-driver). The role P(gpuops.nvidia.operator#role) then leaves the version as it is until
        M(gpuops.nvidia.driver_container) declares one. V(false) removes the mark. Without a value, the mark stays.
      - NVIDIADrivers need no mark.
    type: bool
  namespace:
    description: Namespace of the operator.
    type: str
    default: gpu-operator
seealso:
  - module: gpuops.nvidia.clusterpolicy
"""

EXAMPLES = r"""
- name: Keep the drivers while the operator changes
  gpuops.nvidia.driver_hold:

- name: Release the nodes that run the newest driver pod
  gpuops.nvidia.driver_hold:
    state: absent
"""

RETURN = r"""
newly_held:
  description: Nodes that were not held before the call.
  returned: success
  type: list
  elements: str
  sample: [gpu-0000, gpu-0001]
released:
  description: Nodes that the call has released.
  returned: success
  type: list
  elements: str
  sample: []
held:
  description: Nodes that keep their driver after the call, including those that users hold.
  returned: success
  type: list
  elements: str
  sample: [gpu-0000, gpu-0001]
users:
  description: Nodes that a user or a maintenance holds.
  returned: success
  type: list
  elements: str
  sample: []
outdated:
  description: Nodes whose driver pod is older than the newest revision.
  returned: success
  type: list
  elements: str
  sample: [gpu-0000]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.driver_hold import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "everything": {"type": "bool", "default": False},
        "allow_disruption": {"type": "bool", "default": False},
        "keep_version": {"type": "bool"},
        "namespace": {"type": "str", "default": "gpu-operator"},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: keep(Cluster(module.params, module.check_mode), module.params),
        interrupted="The call was interrupted. Run it again to continue.",
    )


if __name__ == "__main__":
    main()
