#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_slices
short_description: Make NVIDIA's driver for claims offer the MIG instances that nodes have now, and prove it
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - NVIDIA's driver for Dynamic Resource Allocation looks at the GPUs of a node when it starts. After a change of MIG it
    offers devices that are gone until its pod starts again.
  - Compares the newest generation of a node's ResourceSlices with what the host has, by the UUIDs of GPUs and MIG
    instances. Where they differ, deletes the driver's pod on the node, waits for its successor, and proves that the
    slices are complete and equal to the host.
  - Then starts the stack's own pods on the node that watch its devices by a claim with admin access, such as the
    exporter, since their claims name devices that are gone.
  - Fails while claims have GPUs of such a node. Drain it first with M(gpuops.nvidia.node_maintenance). The role
    P(gpuops.nvidia.mig_partition#role) does all of it.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.progress
options:
  nodes:
    description: The nodes, each with what its host has.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      gpus:
        description: The GPUs of the host, as RV(gpuops.nvidia.mig_partition#module:gpus) or in the facts of
          M(gpuops.nvidia.gpu_facts).
        type: list
        elements: dict
        required: true
  after_drain:
    description: Whether the nodes are drained before a run. Check mode then warns of claims instead of failing.
    type: bool
    default: false
  timeout:
    description: Seconds to wait for the new slices.
    type: int
    default: 300
notes:
  - The ClusterRole C(gpuops-mig) that ships with the role preflight has the permissions that the module needs.
  - With the driver's feature gate C(DynamicMIG), the driver makes the MIG instances, and the module refuses.
seealso:
  - module: gpuops.nvidia.mig_partition
  - module: gpuops.nvidia.gpu_claims
"""

EXAMPLES = r"""
- name: Look at the GPUs of the hosts
  gpuops.nvidia.gpu_facts:
    gather_subset: [min, gpus]

- name: Offer what they have
  gpuops.nvidia.mig_slices:
    nodes:
      - name: gpu-0000
        gpus: "{{ ansible_facts.gpuops.gpus }}"
  delegate_to: localhost
  become: false
"""

RETURN = r"""
nodes:
  description: The nodes, in the order of the option.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0000
    changed:
      description: Whether its driver offered something else than the host has.
      type: bool
      sample: true
    before:
      description: What was offered, whole GPUs as C(gpu) and MIG instances by profile.
      type: dict
      sample: {gpu: 8}
    after:
      description: What the host has, and what the newest slices offer after a run.
      type: dict
      sample: {"1g.10gb": 56}
    differs:
      description: What the slices lacked, and what they offered that is gone, or an empty string.
      type: str
      sample: lacks 56 x 1g.10gb and offers 8 x gpu, which are gone
    restarts:
      description: The pods that are started again, as C(namespace/name).
      type: list
      elements: str
      sample: [gpu-operator/nvidia-dra-driver-kubelet-plugin-x7k2p]
    users:
      description: The pods whose claims have GPUs of the node. They must go first.
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.republish import republish
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run, with_warnings

NODE_GPUS = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "gpus": {"type": "list", "elements": "dict", "required": True},
    }
)
SPEC = ArgumentSpec(
    {
        "nodes": NODE_GPUS.as_list(required=True),
        "after_drain": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 300},
    }
).including(CONNECTION, PROGRESS)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: with_warnings(*republish(Cluster(module.params, module.check_mode), module.params)),
        interrupted=GOES_ON,
    )


if __name__ == "__main__":
    main()
