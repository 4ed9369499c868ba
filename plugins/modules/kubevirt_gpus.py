#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_gpus
short_description: Permit GPUs and vGPUs to virtual machines of KubeVirt
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Keeps entries in C(spec.configuration.permittedHostDevices) of the cluster's KubeVirt, without which no virtual
    machine gets a GPU.
  - These lists have many authors, and a plain patch replaces all of their entries. The module changes its own entries
    only, and writes them for the very version of the KubeVirt that it has read.
  - Names each resource as NVIDIA's device plugin for KubeVirt does, from the PCI id or from what the nodes offer.
  - Checks everything before the write, and says which virtual machines ask for a device and how many nodes offer it.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: The change is sent to the API server as a dry run.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Returns the lists, and the annotation that says which entries are this collection's.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  devices:
    description:
      - The devices. Entries of earlier calls stay permitted, unless O(purge=true). Without any, a call only says what
        there is.
      - With O(state=absent), the entries that have each value that is given. Without this option, all entries of this
        collection.
    type: list
    elements: dict
    suboptions:
      pci_id:
        description:
          - Vendor and device of a GPU that is passed through, for example V(10DE:2236).
          - Without O(devices[].resource_name), the name is that of NVIDIA's device plugin. The module knows the names
            of data center and professional GPUs.
        type: str
      mdev_type:
        description: Mediated device type of a vGPU, for example V(NVIDIA A10-12Q).
        type: str
      resource_name:
        description:
          - Name of the resource on the nodes, for example V(nvidia.com/GA102GL_A10).
          - It is enough alone, if the module knows which device NVIDIA's plugin offers under this name. If several GPUs
            have this name, each gets an entry.
        type: str
      external_resource_provider:
        description:
          - Whether NVIDIA's device plugin gives the devices out, and not KubeVirt's own.
          - V(false) is refused while NVIDIA's plugin runs, since both would give out the same devices.
        type: bool
        default: true
  from_nodes:
    description:
      - Also permit every GPU and vGPU that nodes with the label C(nvidia.com/gpu.workload.config=vm-passthrough) or
        C(vm-vgpu) offer now, if no entry has its resource yet.
      - It only adds entries, since a node offers nothing while its device plugin restarts.
    type: bool
    default: false
  state:
    description: Whether the devices are permitted.
    type: str
    choices: [present, absent]
    default: present
  purge:
    description:
      - Remove the entries of this collection that are not in O(devices), which has to be given. V([]) removes them all.
      - Not together with O(from_nodes=true).
    type: bool
    default: false
  allow_in_use:
    description:
      - Remove entries even if virtual machines or instance types ask for them. Running machines keep their devices, and
        cannot start again or move to another node.
      - Also needed for the first list of a KubeVirt if machines ask for devices that are not in it, since KubeVirt
        permits every device as long as there is no list.
    type: bool
    default: false
notes:
  - The module needs permission to list and patch C(kubevirts) of C(kubevirt.io), and to list C(nodes),
    C(virtualmachineinstances), C(virtualmachines), and C(virtualmachineinstancetypes) and
    C(virtualmachineclusterinstancetypes) of C(instancetype.kubevirt.io). For devices that KubeVirt itself gives out, it
    lists C(daemonsets), too.
  - The annotation C(gpuops.nvidia/permitted-gpus) of the KubeVirt lists the entries that the module has written. An
    entry of somebody else stays as it is. If it permits the same device with the same values, it is enough.
  - After the last entry has gone, C(permittedHostDevices) stays as an empty object. Without it, KubeVirt would permit
    every device.
  - A KubeVirt that a HyperConverged manages is never changed, since the HyperConverged undoes every change of it. The
    call fails and names the field of the HyperConverged, unless everything is permitted already.
seealso:
  - name: Host devices in KubeVirt
    description: What the lists mean.
    link: https://kubevirt.io/user-guide/compute/host-devices/
  - name: GPU Operator with KubeVirt
    description: NVIDIA's guide.
    link: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-kubevirt.html
"""

EXAMPLES = r"""
- name: Permit the A10 GPUs, as a whole and as vGPUs
  gpuops.nvidia.kubevirt_gpus:
    devices:
      - pci_id: 10DE:2236
      - mdev_type: NVIDIA A10-12Q

- name: Permit what the nodes offer
  gpuops.nvidia.kubevirt_gpus:
    from_nodes: true

- name: Show what is permitted, who needs it and how many nodes offer it
  gpuops.nvidia.kubevirt_gpus: {}
  register: permitted

- name: Remove every entry of this collection
  gpuops.nvidia.kubevirt_gpus:
    state: absent
"""

RETURN = r"""
kubevirt:
  description:
    - The KubeVirt, or V(null) if there is none and O(state=absent).
    - C(fields) are those by which virtual machines can ask for devices. C(hostDevices) needs the feature gate
      C(HostDevices), and C(gpus) needs the gate C(GPU) before v1.4.
  returned: success
  type: dict
  sample: {name: kubevirt, namespace: kubevirt, version: v1.9.0, fields: [gpus]}
devices:
  description: All PCI and mediated devices that are permitted now. In check mode, those that would be.
  returned: success
  type: list
  elements: dict
  contains:
    resource_name:
      description: Name of the resource.
      type: str
      sample: nvidia.com/GA102GL_A10
    pci_id:
      description: Vendor and device, or V(null) for a mediated device.
      type: str
      sample: 10DE:2236
    mdev_type:
      description: Mediated device type, or V(null) for a PCI device.
      type: str
      sample: null
    external_resource_provider:
      description: Whether a device plugin other than KubeVirt's own gives the devices out.
      type: bool
      sample: true
    ours:
      description: Whether this collection has written the entry.
      type: bool
      sample: true
    changed:
      description: Whether the call has added or changed the entry.
      type: bool
      sample: true
    nodes:
      description: How many nodes offer the resource, or V(null) if this user may not list nodes.
      type: int
      sample: 4
    allocatable:
      description: How many devices these nodes have for virtual machines together.
      type: int
      sample: 16
    users:
      description: >-
        The virtual machines and instance types that ask for the resource, machines that run with their node, or
        V(null) if this user may not list all of them.
      type: list
      elements: str
      sample: [VirtualMachineInstance research/windows on gpu-0000]
removed:
  description: The entries that the call has removed.
  returned: success
  type: list
  elements: str
  sample: ["nvidia.com/TU104GL_TESLA_T4 (10DE:1EB8)"]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.keep_permitted import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run, with_warnings

_DEVICE = ArgumentSpec(
    {
        "pci_id": {"type": "str"},
        "mdev_type": {"type": "str"},
        "resource_name": {"type": "str"},
        "external_resource_provider": {"type": "bool", "default": True},
    },
    mutually_exclusive=[("pci_id", "mdev_type")],
    required_one_of=[("pci_id", "mdev_type", "resource_name")],
)
SPEC = ArgumentSpec(
    {
        "devices": _DEVICE.as_list(),
        "from_nodes": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "purge": {"type": "bool", "default": False},
        "allow_in_use": {"type": "bool", "default": False},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: with_warnings(*keep(Cluster(module.params, module.check_mode), module.params)))


if __name__ == "__main__":
    main()
