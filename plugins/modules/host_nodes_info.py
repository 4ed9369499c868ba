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
  - No single identity decides. Each one that agrees speaks for a node, and each one that is known on both sides and
    differs speaks against it; names count half. So cloned machine IDs, reused names and reinstalled hosts do not lead
    to the wrong node.
  - A host with a kubelet that no node fits gets a failure that names the nodes that come near. A host without a kubelet
    that no node fits is no node.
  - If no cluster is configured at all, a host without a kubelet is no node, and one with a kubelet gets a failure. If a
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
        description: Name of its node, if it is known. Then nothing is compared.
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
      - The API server may be away for as long.
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
      description: Why the node of the host is not known, or an empty string.
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
      description: For what M(gpuops.nvidia.node_maintenance) holds the node.
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

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.host_nodes import find
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below

HOST: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "node": {"type": "str"},
    "machine_id": {"type": "str"},
    "system_uuid": {"type": "str"},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "names": {"type": "list", "elements": "str", "default": []},
    "kubelet": {"type": "dict"},
    "former_boot_id": {"type": "str"},
}
OPTIONS: dict[str, t.Any] = {
    "hosts": {"type": "list", "elements": "dict", "required": True, "options": HOST},
    "wait_timeout": {"type": "int", "default": 0},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True)
    try:
        refuse_below(module.params, wait_timeout=0)
        result = find(module.params, lambda: Cluster(module.params))
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
