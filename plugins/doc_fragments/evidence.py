# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules that examine a cluster; specs in module_utils/_diagnosis/collect/diagnose.py."""

    DOCUMENTATION = r"""
options:
  allocated:
    description:
      - Also count the GPUs that pods hold. This reads all pods outside the operator's namespace, which takes a while in
        a cluster with many pods.
    type: bool
    default: true
  exporters:
    description:
      - Also ask the DCGM exporter of each node for its metrics, through the API server's port forwarding. A pod is
        ready even if its exporter serves an empty page.
      - This takes one request per node, and the verbs C(get) and C(create) on C(pods/portforward) in the operator's
        namespace.
    type: bool
    default: false
  hosts:
    description:
      - What the GPU hosts say, by the name of the host or of its node. Each has some of the keys C(facts) (the facts of
        M(gpuops.nvidia.gpu_facts), from C(ansible_facts.gpuops)), C(preflight) (the findings of
        M(gpuops.nvidia.host_preflight_info)), and C(state) and C(lines) (of M(gpuops.nvidia.host_evidence_info)).
      - A host that could not be examined has C(unreachable) instead, with the reason.
      - A host's node is the one that its key C(node) names. Without it, the node is found by the host's machine ID,
        system UUID, addresses and names.
    type: dict
    default: {}
  pinned:
    description:
      - The values that machines must have, by GPU model. The first entry whose O(pinned[].product) fits applies.
        Without it, machines that should be equal are compared with each other.
    type: list
    elements: dict
    default: []
    suboptions:
      product:
        description: >-
          Pattern of GPU models, as in the label C(nvidia.com/gpu.product), with C(*) and C(?). Without it, all models.
        type: str
      driver:
        description: Version of the driver.
        type: str
      kernel:
        description: Release of the kernel.
        type: str
      vbios:
        description: Version of the VBIOS.
        type: str
      inforom:
        description: Version of the infoROM.
        type: str
      gsp:
        description: Version of the GSP firmware.
        type: str
      ecc:
        description: Whether ECC is on (V(true) or V(false)).
        type: str
      power_limit_w:
        description: Power limit in watts.
        type: str
      graphics_clock_mhz:
        description: Highest graphics clock in MHz.
        type: str
      memory_clock_mhz:
        description: Highest memory clock in MHz.
        type: str
      application_clock_mhz:
        description: Graphics clock for applications in MHz.
        type: str
      bar1_mib:
        description: Size of BAR1 in MiB, the window through which the PCI bus reaches the GPU's memory.
        type: str
      persistence_mode:
        description: Whether persistence mode is on (V(true) or V(false)).
        type: str
      mig_mode:
        description: Whether MIG is on (V(true) or V(false)).
        type: str
  max_pods:
    description: How many failing pods are read with their logs, some of each operand and status.
    type: int
    default: 60
"""
