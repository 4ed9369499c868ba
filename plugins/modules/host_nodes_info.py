#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_nodes_info
short_description: Find the cluster's nodes of hosts, whatever their names
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Finds the node of each host by machine ID, system UUID, addresses and names, which M(gpuops.nvidia.gpu_facts)
    reports in its subset V(node) and the kubelet reports about its node. One call serves the whole fleet.
  - Weighs all identities together. Matching identities count for a node, and those that are known on both sides and
    differ count against it. Names count half. So the module finds the right node in spite of cloned machine IDs, reused
    names and reinstalled hosts.
  - A host with a kubelet that fits no node gets a failure that names similar nodes. A host without a kubelet that fits
    no node is not a node.
  - Without a configured cluster, a host without a kubelet is not a node, and a host with a kubelet gets a failure. If a
    cluster is configured and does not answer, the module fails.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.read_only
options:
  hosts:
    description: The hosts.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: What the host is called in the result and in messages, such as its name in the inventory.
        type: str
        required: true
      node:
        description: Name of its node, if it is known. The module then skips the comparison.
        type: str
      machine_id:
        description: Its machine ID.
        type: str
      system_uuid:
        description: Its UUID according to the firmware.
        type: str
      addresses:
        description: Its addresses.
        type: list
        elements: str
        default: []
      names:
        description: Its names, such as its hostname and its name in the inventory.
        type: list
        elements: str
        default: []
      kubelet:
        description: Whether a kubelet belongs to it (C(present)), whether it runs (C(active)) and what says so (C(by)).
        type: dict
      former_boot_id:
        description:
          - The boot ID that the node reported before the host was rebooted. The node counts as Ready only with another.
          - A node stays Ready for some time after its host has shut down.
        type: str
  wait_timeout:
    description:
      - For how many seconds to wait until all of these nodes are Ready. V(0) does not wait.
      - The API server may be unreachable during this time.
    type: int
    default: 0
notes:
  - The module needs permission to list nodes.
seealso:
  - module: gpuops.nvidia.gpu_facts
  - module: gpuops.nvidia.node_maintenance
"""

EXAMPLES = r"""
- name: Gather what identifies the hosts
  gpuops.nvidia.gpu_facts:
    gather_subset: [node]

- name: Find the nodes of all hosts
  gpuops.nvidia.host_nodes_info:
    hosts: "{{ ansible_play_hosts | map('extract', hostvars) | map(attribute='identity') }}"
  delegate_to: localhost
  run_once: true
  vars:
    identity: "{{ ansible_facts.gpuops.node | combine({'name': inventory_hostname}) }}"

- name: Wait for a node after a reboot of its host
  gpuops.nvidia.host_nodes_info:
    hosts:
      - name: gpu1.example.com
        node: ip-10-20-3-7
        former_boot_id: 0c5d8b1e-2f55-4f0e-9d58-0f5bb6ee2a11
    wait_timeout: 1800
"""

RETURN = r"""
nodes:
  description: What was found for each host, by O(hosts[].name).
  returned: success
  type: dict
  contains:
    node:
      description: Name of the host's node, or null.
      type: str
      sample: ip-10-20-3-7
    by:
      description: What the host and the node have in common.
      type: list
      elements: str
      sample: [machine ID, system UUID, address]
    failure:
      description: Why the node of the host is unknown, or an empty string.
      type: str
      sample: ""
    ready:
      description: Whether the node is Ready, in the host's present boot.
      type: bool
      sample: true
    boot_id:
      description: The boot ID that the node reports.
      type: str
      sample: 0c5d8b1e-2f55-4f0e-9d58-0f5bb6ee2a11
    unschedulable:
      description: Whether the node is cordoned.
      type: bool
      sample: false
    purposes:
      description: The purposes for which M(gpuops.nvidia.node_maintenance) holds the node.
      type: list
      elements: str
      sample: []
  sample:
    gpu1.example.com:
      node: ip-10-20-3-7
      by: [machine ID, system UUID, address]
      failure: ""
      ready: true
      boot_id: 0c5d8b1e-2f55-4f0e-9d58-0f5bb6ee2a11
      unschedulable: false
      purposes: []
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.host_nodes import find
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

HOST = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "node": {"type": "str"},
        "machine_id": {"type": "str"},
        "system_uuid": {"type": "str"},
        "addresses": {"type": "list", "elements": "str", "default": []},
        "names": {"type": "list", "elements": "str", "default": []},
        "kubelet": {"type": "dict"},
        "former_boot_id": {"type": "str"},
    }
)
SPEC = ArgumentSpec(
    {
        "hosts": HOST.as_list(required=True),
        "wait_timeout": {"type": "int", "default": 0},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: find(module.params, lambda: Cluster(module.params)), minimums={"wait_timeout": 0})


if __name__ == "__main__":
    main()
