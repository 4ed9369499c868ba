#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_partition
short_description: Divide the GPUs of a host into MIG instances, now and at every boot
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Sets the MIG mode of GPUs, and creates GPU instances and compute instances, on hosts without Kubernetes or before
    they join a cluster. In a cluster with the GPU Operator, its MIG manager does this.
  - Compares the layout with what exists. Instances that fit the layout stay, with the processes in them. The module
    destroys and creates only the difference, in an order that always fits.
  - If processes use an instance that the layout removes, the task fails before its first change, and names them. If the
    driver refuses a step, the steps before it are undone.
  - A reboot removes the instances, and the mode too from Hopper on. A systemd unit restores them at boot, before
    container runtimes and the kubelet start.
  - Asks the driver's own library, so the host only needs the driver and its own Python.
attributes:
  check_mode:
    description: Can run in check mode and returns what a run would change.
    support: full
  diff_mode:
    description: Returns the layout of each GPU, and the script of the unit, before and after.
    support: full
options:
  layout:
    description:
      - The layout of each GPU. GPUs outside of the entries stay as they are.
    type: list
    elements: dict
    required: true
    suboptions:
      gpus:
        description:
          - The GPUs of this entry, each by index, UUID or PCI address.
          - V(all) means all GPUs that the other entries leave out.
        type: list
        elements: str
        default: [all]
      mode:
        description: Whether MIG is on. V(disabled) also destroys all instances.
        type: str
        choices: [enabled, disabled]
        default: enabled
      instances:
        description:
          - How many instances of each profile, such as C(1g.10gb=7). C(1c.3g.40gb) is a compute instance in a GPU
            instance C(3g.40gb); as many as possible share one GPU instance.
          - An empty dictionary destroys all instances. Without this option and O(layout[].placements), the instances
            stay as they are.
        type: dict
      placements:
        description: The instances with their places, instead of O(layout[].instances).
        type: list
        elements: dict
        suboptions:
          profile:
            description: Profile of the GPU instance, such as V(3g.40gb).
            type: str
            required: true
          start:
            description: The first memory slice of the instance, as C(nvidia-smi mig -lgipp) lists the possible ones.
            type: int
            required: true
          compute_instances:
            description: The compute instances in it, such as V(1c.3g.40gb). By default one that has all of it.
            type: list
            elements: str
  persistent:
    description:
      - Restore the layout at every boot with the systemd unit C(gpuops-mig-partition.service), which runs
        C(nvidia-smi).
      - V(false) takes the GPUs of O(layout) out of the unit. The module removes an empty unit.
    type: bool
    default: true
  allow_kubernetes_node:
    description:
      - Also change a host that has a kubelet. Set this only if the cluster has no MIG manager, which would undo the
        layout.
    type: bool
    default: false
  after_drain:
    description:
      - In check mode, plan as if the processes in the way had ended, since the pods to which they belong leave the node
        before a run. A run itself fails while processes are in the way.
    type: bool
    default: false
  driver_root:
    description: Path to the file system of a driver container. The module refuses such a driver.
    type: path
    default: /run/nvidia/driver
  timeout:
    description: Seconds that the driver may take to report the GPUs, and again to change them.
    type: int
    default: 300
notes:
  - An Ampere GPU takes a new mode with a reset, for which it must be free. While a process such as DCGM holds it, the
    mode stays pending, RV(pending) names the processes, and the unit creates the instances at the next boot. Later GPUs
    take the mode at once.
  - MIG turns off peer-to-peer traffic with other GPUs, through NVLink and through PCIe.
seealso:
  - module: gpuops.nvidia.gpu_facts
"""

EXAMPLES = r"""
- name: Divide every GPU into seven instances
  gpuops.nvidia.mig_partition:
    layout:
      - instances: {1g.10gb: 7}

- name: Divide the first GPU with fixed places, and keep the others whole
  gpuops.nvidia.mig_partition:
    layout:
      - gpus: [0]
        placements:
          - {profile: 3g.40gb, start: 4, compute_instances: [2c.3g.40gb, 1c.3g.40gb]}
          - {profile: 2g.20gb, start: 0}
      - mode: disabled
  register: partitioned

- name: Say what a reboot is needed for
  ansible.builtin.debug:
    var: partitioned.pending
  when: partitioned.reboot_required
"""

RETURN = r"""
gpus:
  description: >-
    The GPUs as they are now, in check mode as they would be. V(mig) is the same as in the facts of
    M(gpuops.nvidia.gpu_facts). V(layout) is text.
  returned: success
  type: list
  elements: dict
  sample:
    - index: 0
      uuid: GPU-4f8d2a10-6c1e-4a53-9b1d-0d6f0a3c1e01
      pci_address: "0000:18:00.0"
      product: NVIDIA H100 80GB HBM3
      mig:
        mode: true
        pending: true
        instances:
          - index: 0
            gpu_instance: 2
            compute_instance: 0
            memory_mib: 40320
            profile: 3g.40gb
            uuid: MIG-1f5a3c52-4fcb-5b2a-8b7c-7c1a2d3e4f50
        gpu_instances:
          - id: 2
            profile: 3g.40gb
            start: 4
            size: 4
            compute_instances: [{id: 0, profile: 3g.40gb, start: 0, size: 3}]
      layout: ["  4-7: 3g.40gb"]
steps:
  description: The steps that were done, in check mode those that would be.
  returned: success
  type: list
  elements: str
  sample: ["GPU 0: turn MIG on", "GPU 0: create 3g.40gb at 4"]
pending:
  description: >-
    GPUs whose mode takes effect only with a reset, why, and the processes that hold them. V(text) is all of this as a
    sentence. Stop those processes and run the task again, or reboot.
  returned: success
  type: list
  elements: dict
  sample:
    - gpu: 0
      uuid: GPU-4f8d2a10-6c1e-4a53-9b1d-0d6f0a3c1e01
      reason: Processes hold the GPU open
      held_by: [{pid: 1207, name: nv-hostengine, user: root}]
      text: >-
        GPU 0 (NVIDIA A100-SXM4-80GB, 0000:18:00.0) takes the MIG mode on with a reset: Processes hold the GPU open.
        Processes hold it: 1207 (nv-hostengine, root). Stop what holds it and run this again, or reboot.
reboot_required:
  description: Whether any GPU is pending.
  returned: success
  type: bool
  sample: false
processes:
  description: The processes that block the change.
  returned: when the reason of the failure is InUse
  type: list
  elements: dict
  sample: [{gpu: 0, pid: 40121, name: python3, user: alice}]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.partition import partition
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

_PLACEMENT = ArgumentSpec(
    {
        "profile": {"type": "str", "required": True},
        "start": {"type": "int", "required": True},
        "compute_instances": {"type": "list", "elements": "str"},
    }
)
_ENTRY = ArgumentSpec(
    {
        "gpus": {"type": "list", "elements": "str", "default": ["all"]},
        "mode": {"type": "str", "choices": ["enabled", "disabled"], "default": "enabled"},
        "instances": {"type": "dict"},
        "placements": _PLACEMENT.as_list(),
    },
    mutually_exclusive=[("instances", "placements")],
)
SPEC = ArgumentSpec(
    {
        "layout": _ENTRY.as_list(required=True),
        "persistent": {"type": "bool", "default": True},
        "allow_kubernetes_node": {"type": "bool", "default": False},
        "after_drain": {"type": "bool", "default": False},
        "driver_root": {"type": "path", "default": "/run/nvidia/driver"},
        "timeout": {"type": "int", "default": 300},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: partition(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
