#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_move_info
short_description: "Plumbing of the role stack_move: what a move between the device plugin and claims finds and does"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Says where a move is, which pods must go, and what stands in the way. It reads only.
  - Fails if a finding is a failure, or if pods use GPUs and O(allow_disruption) is not set.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: This module reads only.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
options:
  to:
    description: How pods shall get GPUs.
    type: str
    choices: [claims, device_plugin]
    required: true
  namespace:
    description: Namespace of the operator.
    type: str
    default: gpu-operator
  has_cdi:
    description: Whether the containerds older than 2.0 have CDI switched on in their own configuration.
    type: bool
    default: false
  drop_sharing:
    description: Whether to give up sharing by the device plugin.
    type: bool
    default: false
  allow_disruption:
    description: Whether pods that use GPUs may be evicted.
    type: bool
    default: false
  force:
    description: Whether this includes pods without a controller, which nobody starts again.
    type: bool
    default: false
  delete_emptydir_data:
    description: Whether this includes pods with emptyDir volumes, whose data is lost.
    type: bool
    default: false
seealso:
  - module: gpuops.nvidia.gpucluster
  - module: gpuops.nvidia.clusterpolicy
"""

EXAMPLES = r"""
- name: See what a move to claims would do
  gpuops.nvidia.stack_move_info:
    to: claims
    allow_disruption: true
"""

RETURN = r"""
needed:
  description: Whether there is anything to do.
  returned: always
  type: bool
  sample: true
step:
  description: Where the move is. V(drain), V(install), V(prove) or V(done).
  returned: always
  type: str
  sample: drain
nodes:
  description: The GPU nodes.
  returned: always
  type: list
  elements: str
  sample: [gpu-0000]
held:
  description: The nodes that an earlier run has taken out of service.
  returned: always
  type: list
  elements: str
  sample: []
policy:
  description: Name of the ClusterPolicy, or null.
  returned: always
  type: str
  sample: cluster-policy
workloads:
  description: Who holds GPUs, by namespace and owner.
  returned: always
  type: list
  elements: dict
  sample:
    - namespace: ml
      owner: ReplicaSet/train-7d8
      pods: 2
      gpus: {"nvidia.com/gpu": 16}
findings:
  description: What stands in the way (C(level) is V(failure)), and what the move costs (V(warning)).
  returned: always
  type: list
  elements: dict
  sample: []
summary:
  description: How many findings there are of each level.
  returned: always
  type: dict
  sample: {failures: 0, warnings: 0, ok: 0}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack_move import move_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "to": {"type": "str", "choices": ["claims", "device_plugin"], "required": True},
        "namespace": {"type": "str", "default": "gpu-operator"},
        "has_cdi": {"type": "bool", "default": False},
        "drop_sharing": {"type": "bool", "default": False},
        "allow_disruption": {"type": "bool", "default": False},
        "force": {"type": "bool", "default": False},
        "delete_emptydir_data": {"type": "bool", "default": False},
    },
).including(CONNECTION, CHECK_REFUSAL)


def main() -> t.NoReturn:
    run(SPEC, lambda module: move_plan.plan(Cluster(module.params, module.check_mode), module.params, module.warn))


if __name__ == "__main__":
    main()
