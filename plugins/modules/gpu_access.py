#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_access
short_description: Say which namespaces may use how many GPUs, and which workloads go first
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Keeps ResourceQuotas for whole GPUs, shared GPUs and MIG devices, and PriorityClasses.
  - Writes the names of resources in the only form that a quota counts. Kubernetes accepts C(nvidia.com/gpu) and
    C(limits.nvidia.com/gpu) in a quota as well, but without an effect.
  - Changes and removes only what it has made itself.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: Every change is sent to the API server as a dry run.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  quotas:
    description:
      - The complete list of the quotas that this collection keeps in the cluster. V([]) removes them all. Without this
        option, they stay as they are.
    type: list
    elements: dict
    suboptions:
      namespace:
        description: The namespace. It must exist, unless O(create_namespaces=true).
        type: str
        required: true
      name:
        description: Name of the ResourceQuota.
        type: str
        default: gpus
      gpus:
        description:
          - >-
            How many of each resource the pods of the namespace may request together, for example
            C({nvidia.com/gpu: 4, nvidia.com/mig-1g.10gb: 7}).
          - >-
            The quota limits only the listed resources. V(0) forbids a resource. A team that may only use slices needs
            C(nvidia.com/gpu: 0) in addition to its slices.
          - With the MIG strategy V(single), and with sharing that does not rename, slices and shares are requested as
            C(nvidia.com/gpu) and count as such.
        type: dict
        required: true
  priority_classes:
    description:
      - The complete list of the PriorityClasses that this collection keeps in the cluster. V([]) removes them all.
        Without this option, they stay as they are.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the PriorityClass.
        type: str
        required: true
      value:
        description: The priority of its pods, at most V(1000000000). Pods without a class have V(0).
        type: int
        required: true
      preemption_policy:
        description:
          - Whether a pod that does not fit displaces pods of lower priority. V(Never) only puts it ahead in the queue.
        type: str
        choices: [Never, PreemptLowerPriority]
        default: Never
      description:
        description: What the class is for.
        type: str
        default: ""
  create_namespaces:
    description:
      - Make the namespaces of O(quotas) that do not exist yet. They stay when their quota is removed, since a
        team may work in them.
    type: bool
    default: false
notes:
  - The module needs permission to get, list, create, patch and delete C(resourcequotas) in all namespaces and
    C(priorityclasses.scheduling.k8s.io), and with O(create_namespaces=true) to create C(namespaces).
  - Everything is sent to the API server as a dry run before the first change, so one wrong entry leaves the cluster as
    it was.
  - The objects have the labels C(app.kubernetes.io/name=gpu-access) and C(app.kubernetes.io/managed-by=gpuops.nvidia).
  - A quota limits what pods request, so it only affects new pods. Running pods stay.
  - The value and the preemption policy of a PriorityClass cannot be changed, so the module deletes the class and
    creates it again. Existing pods keep their priority.
seealso:
  - module: gpuops.nvidia.node_taints
  - module: kubernetes.core.k8s
"""

EXAMPLES = r"""
- name: Share the GPUs among two teams, and let training wait for inference
  gpuops.nvidia.gpu_access:
    quotas:
      - namespace: research
        gpus: {nvidia.com/gpu: 16, nvidia.com/mig-1g.10gb: 14}
      - namespace: notebooks
        gpus: {nvidia.com/gpu: 0, nvidia.com/gpu.shared: 32}
    priority_classes:
      - {name: gpu-inference, value: 1000, preemption_policy: PreemptLowerPriority}
      - {name: gpu-training, value: 100}

- name: Remove all quotas and priority classes that the collection has made
  gpuops.nvidia.gpu_access:
    quotas: []
    priority_classes: []
"""

RETURN = r"""
objects:
  description: The quotas and priority classes as they are now. In check mode, as they would be.
  returned: success
  type: list
  elements: dict
  sample:
    - {object: PriorityClass gpu-training, changed: true, value: 100, preemptionPolicy: Never, description: ""}
    - {object: ResourceQuota research/gpus, changed: false, spec: {hard: {requests.nvidia.com/gpu: "16"}}}
namespaces:
  description: The namespaces that the call has made.
  returned: success
  type: list
  elements: str
  sample: [notebooks]
removed:
  description: The quotas and priority classes that the call has removed.
  returned: success
  type: list
  elements: str
  sample: [ResourceQuota old-team/gpus]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling.keep_access import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run, with_warnings

_QUOTA = ArgumentSpec(
    {
        "namespace": {"type": "str", "required": True},
        "name": {"type": "str", "default": "gpus"},
        "gpus": {"type": "dict", "required": True},
    }
)
_PRIORITY_CLASS = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "value": {"type": "int", "required": True},
        "preemption_policy": {"type": "str", "choices": ["Never", "PreemptLowerPriority"], "default": "Never"},
        "description": {"type": "str", "default": ""},
    }
)
SPEC = ArgumentSpec(
    {
        "quotas": _QUOTA.as_list(),
        "priority_classes": _PRIORITY_CLASS.as_list(),
        "create_namespaces": {"type": "bool", "default": False},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: with_warnings(*keep(Cluster(module.params, module.check_mode), module.params)))


if __name__ == "__main__":
    main()
