#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_claims
short_description: Offer GPUs by claims, with device classes, claim templates and quotas
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Keeps DeviceClasses, ResourceClaimTemplates, ResourceClaims, and quotas for them, on a cluster whose GPUs NVIDIA's
    driver for Dynamic Resource Allocation (DRA) gives out.
  - Checks everything before the first write. Kubernetes itself checks the CEL expressions in a dry run; the module
    counts what each class selects, and compares the driver's parameters with the driver's own types and feature gates.
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
  classes:
    description:
      - The complete list of the DeviceClasses that this collection keeps in the cluster. V([]) removes them all.
        Without this option, they stay as they are.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the class. Those of NVIDIA, such as C(gpu.nvidia.com), stay with NVIDIA's operator.
        type: str
        required: true
      type:
        description: Whole GPUs, MIG devices, or GPUs that are passed through to virtual machines.
        type: str
        choices: [gpu, mig, vfio]
        default: gpu
      product:
        description: Only devices with this C(productName), for example V(NVIDIA H100 80GB HBM3).
        type: str
      profile:
        description: Only MIG devices with this profile, for example V(1g.10gb).
        type: str
      memory_min:
        description:
          - Only devices with at least this much memory, as a quantity. The driver says V(81559Mi) for an H100 with 80
            GB, so V(79Gi) selects it and V(80Gi) does not.
        type: str
      architecture:
        description: Only devices of this architecture, for example V(Hopper).
        type: str
      cel:
        description:
          - Further CEL expressions. A device must meet all of them.
          - Only Kubernetes evaluates them, so the module can say no more than how many devices the class selects at
            most.
        type: list
        elements: str
      extended_resource:
        description:
          - Name of an extended resource by which pods without claims get devices of this class, for example
            V(nvidia.com/gpu), so that old manifests keep working.
          - It needs the feature gate C(DRAExtendedResource) of Kubernetes, which is on from 1.36.
        type: str
      config: &config
        description:
          - >-
            The driver's parameters, C(GpuConfig), C(MigDeviceConfig) or C(VfioDeviceConfig), for example
            C({sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}}).
          - C(apiVersion) and C(kind) may be left out if the type of the devices is known.
          - A template's or a claim's parameters replace those of its class.
        type: dict
  templates:
    description:
      - The complete list of the ResourceClaimTemplates that this collection keeps in the cluster. V([]) removes them
        all. Without this option, they stay as they are.
      - Each pod that names a template gets a claim of its own.
    type: list
    elements: dict
    suboptions: &claim
      name:
        description: The name, the same in all its namespaces.
        type: str
        required: true
      namespaces:
        description: The namespaces. They must exist.
        type: list
        elements: str
        required: true
      device_class:
        description: The DeviceClass.
        type: str
        required: true
      count:
        description: Number of devices. All devices of a claim are on one node.
        type: int
        default: 1
      all:
        description:
          - All devices of the class on one node instead of O(templates[].count). A quota counts such a claim as 32
            devices.
        type: bool
        default: false
      cel:
        description: CEL expressions that the devices must meet in addition to those of the class.
        type: list
        elements: str
      match_attributes:
        description:
          - Attributes that must have one value for all devices of a claim, with their domain, for example
            V(resource.kubernetes.io/pcieRoot) or V(gpu.nvidia.com/parentUUID).
        type: list
        elements: str
      capacity:
        description:
          - >-
            How much of a device's capacity the claim takes, for a driver with consumable shares, for example
            C({memory: 10Gi}) or C({shares: 1}).
          - It needs the feature gate C(ConsumableShares) of the driver, without which the claim would get a whole
            device, and C(DRAConsumableCapacity) of Kubernetes, which is on from 1.36.
        type: dict
      config: *config
      admin_access:
        description:
          - Give access to devices that others hold, for monitoring. Such a claim takes no device away.
          - The namespace needs the label C(resource.kubernetes.io/admin-access=true), which the module never sets.
        type: bool
        default: false
  claims:
    description:
      - The complete list of the ResourceClaims that this collection keeps in the cluster. V([]) removes them all.
        Without this option, they stay as they are.
      - All pods that name a claim share its devices.
    type: list
    elements: dict
    suboptions: *claim
  quotas:
    description:
      - The complete list of the ResourceQuotas for claims that this collection keeps in the cluster. V([]) removes them
        all. Without this option, they stay as they are.
    type: list
    elements: dict
    suboptions:
      namespace:
        description: The namespace. It must exist.
        type: str
        required: true
      name:
        description: Name of the ResourceQuota.
        type: str
        default: gpu-claims
      devices:
        description: How many devices of each class the claims of the namespace may ask for together.
        type: dict
      claims:
        description: How many ResourceClaims the namespace may have.
        type: int
  unmatched:
    description:
      - What to do if a class that is new or changes selects no device that the driver offers now. V(warn) suits a class
        for nodes that are still to come.
    type: str
    choices: [fail, warn]
    default: fail
  allow_in_use:
    description:
      - Remove classes, templates and claims that are no longer listed even if claims that wait, templates or pods still
        need them.
    type: bool
    default: false
notes:
  - The module needs permission to get, list, create, patch and delete C(deviceclasses), C(resourceclaimtemplates) and
    C(resourceclaims) of C(resource.k8s.io) and C(resourcequotas), and to list C(resourceslices), C(pods) and, to know
    the driver's feature gates, C(gpuclusters.nvidia.com) and C(daemonsets).
  - Everything is sent to the API server as a dry run before the first change, so one wrong entry leaves the cluster as
    it was.
  - The objects have the labels C(app.kubernetes.io/name=gpu-claims) and C(app.kubernetes.io/managed-by=gpuops.nvidia).
  - A ResourceClaimTemplate cannot be changed, so the module deletes it and creates it again. Pods that exist keep the
    claims of the former one. A ResourceClaim is replaced only while no pod uses it.
seealso:
  - module: gpuops.nvidia.gpu_access
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Offer large GPUs to a team, and one shared GPU to its notebooks
  gpuops.nvidia.gpu_claims:
    classes:
      - {name: large-gpu, memory_min: 79Gi}
    templates:
      - {name: training, namespaces: [research], device_class: large-gpu, count: 4}
    claims:
      - name: notebooks
        namespaces: [research]
        device_class: gpu.nvidia.com
        config: {sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Short}}}
    quotas:
      - {namespace: research, devices: {large-gpu: 16, gpu.nvidia.com: 1}}

- name: Let pods that ask for nvidia.com/gpu get GPUs by a class
  gpuops.nvidia.gpu_claims:
    classes:
      - {name: whole-gpu, extended_resource: nvidia.com/gpu}

- name: Remove everything that the module has made
  gpuops.nvidia.gpu_claims:
    classes: []
    templates: []
    claims: []
    quotas: []
"""

RETURN = r"""
classes:
  description:
    - How many devices each class selects that is declared or that a template or a claim names, and how many of them
      are free, at the beginning of the call.
    - If V(exact) is V(false), the class has CEL that only Kubernetes evaluates. Then the numbers are the most that
      there can be, or V(null) for a class that somebody else has made.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: large-gpu, devices: 32, free: 12, offered: 64, exact: true}
objects:
  description: The objects as they are now. In check mode, as they would be.
  returned: success
  type: list
  elements: dict
  sample:
    - object: ResourceQuota research/gpu-claims
      changed: false
      spec: {hard: {large-gpu.deviceclass.resource.k8s.io/devices: "16"}}
removed:
  description: The objects that the call has removed.
  returned: success
  type: list
  elements: str
  sample: [ResourceClaimTemplate old-team/training]
former_templates:
  description: The templates that have been replaced, each with the pods that keep the claims of the former one.
  returned: success
  type: dict
  sample: {research/training: [research/train-0]}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.keep_claims import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run, with_warnings

_CLASS = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "type": {"type": "str", "choices": ["gpu", "mig", "vfio"], "default": "gpu"},
        "product": {"type": "str"},
        "profile": {"type": "str"},
        "memory_min": {"type": "str"},
        "architecture": {"type": "str"},
        "cel": {"type": "list", "elements": "str"},
        "extended_resource": {"type": "str"},
        "config": {"type": "dict"},
    }
)
_CLAIM = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "namespaces": {"type": "list", "elements": "str", "required": True},
        "device_class": {"type": "str", "required": True},
        "count": {"type": "int", "default": 1},
        "all": {"type": "bool", "default": False},
        "cel": {"type": "list", "elements": "str"},
        "match_attributes": {"type": "list", "elements": "str"},
        "capacity": {"type": "dict"},
        "config": {"type": "dict"},
        "admin_access": {"type": "bool", "default": False},
    }
)
_QUOTA = ArgumentSpec(
    {
        "namespace": {"type": "str", "required": True},
        "name": {"type": "str", "default": "gpu-claims"},
        "devices": {"type": "dict"},
        "claims": {"type": "int"},
    }
)
SPEC = ArgumentSpec(
    {
        "classes": _CLASS.as_list(),
        "templates": _CLAIM.as_list(),
        "claims": _CLAIM.as_list(),
        "quotas": _QUOTA.as_list(),
        "unmatched": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
        "allow_in_use": {"type": "bool", "default": False},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: with_warnings(*keep(Cluster(module.params, module.check_mode), module.params)))


if __name__ == "__main__":
    main()
