# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_nodes
short_description: Hosts and groups from the GPU nodes of a Kubernetes cluster
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Makes a host of each GPU node, with what the node says of its GPUs, its driver, MIG, sharing and the state of the
    stack in the variable C(gpu_node), and its address in C(ansible_host).
  - It sends one request for all nodes, one for what they offer by claims (Dynamic Resource Allocation), and only with
    O(free=true) others for the pods with GPUs and their claims.
  - The file of the inventory must end with C(gpu_nodes.yml) or C(gpu_nodes.yaml).
  - C(gpu_node) has the keys of RV(gpuops.nvidia.gpu_stack_info#module:nodes) but C(allocated), C(slices), C(left_out)
    and C(waiting_for), and besides C(state), C(zone), C(region), C(instance_type), C(addresses) and C(labels).
  - What a node offers by claims is in C(gpu_node.devices), and counted under the name of its DeviceClass,
    V(gpu.nvidia.com), V(mig.nvidia.com) or V(vfio.gpu.nvidia.com), beside the resources of a device plugin. On a node
    that offers its GPUs by claims alone, C(product), C(gpus) and C(memory_mib) are those of its devices.
  - C(gpu_node.devices) and C(gpu_node.claimable) are null if this user may not list ResourceSlices.
  - C(gpu_node.state) is C(ready), C(degraded) (fewer devices than the node has, or with O(free=true) an unhealthy GPU
    that a pod holds), C(without_gpus), C(cordoned), C(dividing), C(upgrading), C(failed) (an upgrade or a MIG change)
    or C(down) (the kubelet is not Ready).
  - C(gpu_node.device_health) is null without O(free=true), which reads the pods.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - constructed
  - inventory_cache
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [gpuops.nvidia.gpu_nodes]
  group:
    description: The group of all hosts. The playbooks of this collection act on C(gpu_hosts).
    type: str
    default: gpu_hosts
  node_selector:
    description: Labels that a node must have.
    type: dict
    default: {}
  all_nodes:
    description: Also make hosts of nodes without GPUs.
    type: bool
    default: false
  addresses:
    description:
      - Kinds of addresses in the order of preference. The first one that a node has becomes C(ansible_host).
      - With an empty list, Ansible connects to the name of the node.
    type: list
    elements: str
    default: [InternalIP, Hostname, ExternalIP]
  free:
    description:
      - Also count the GPUs that pods and claims hold, as C(gpu_node.allocated), and those that are free, as
        C(gpu_node.free). A node that is cordoned or down has no free GPUs.
      - A device is free if no claim has it, no taint keeps claims away, and what it shares with other devices is left.
        If this user may not list ResourceClaims, no device counts as free.
    type: bool
    default: false
"""

EXAMPLES = r"""
# fleet.gpu_nodes.yml: all GPU nodes of the current context, in the group gpu_hosts
---
plugin: gpuops.nvidia.gpu_nodes

# ansible-inventory -i fleet.gpu_nodes.yml --graph shows groups by model, zone, driver and state
---
plugin: gpuops.nvidia.gpu_nodes
kubeconfig: ~/.kube/config
context: production
keyed_groups:
  - {prefix: model, key: "gpu_node.product | default('unknown', true)"}
  - {prefix: zone, key: "gpu_node.zone | default('unknown', true)"}
  - {prefix: driver, key: "gpu_node.driver | default('unknown', true)"}
  - {prefix: state, key: gpu_node.state}
  - {prefix: device, key: "gpu_node.devices | default([], true) | map(attribute='type') | unique"}
groups:
  divided: gpu_node.mig.config | default('all-disabled', true) != 'all-disabled'
  by_claims: gpu_node.claimable | default(false, true)
  tainted_devices: gpu_node.devices | default([], true) | map(attribute='taints') | flatten | length > 0
  idle: gpu_node.free.values() | sum > 0
compose:
  ansible_user: "'ops'"
free: true
strict: true

# The nodes of one pool, with a cache of five minutes
---
plugin: gpuops.nvidia.gpu_nodes
node_selector:
  pool: training
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/gpuops/inventory
cache_timeout: 300
"""

import os
import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.display import Display
from ansible_collections.gpuops.nvidia.plugins.module_utils import _gate
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.inventory import node_hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

ENDINGS = ("gpu_nodes.yml", "gpu_nodes.yaml")

Option = t.Callable[[str], t.Any]
"""Returns the value of an option."""


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Hosts from the nodes of a cluster."""

    NAME = "gpuops.nvidia.gpu_nodes"

    def verify_file(self, path: str) -> bool:
        """Return whether a file may be for this plugin."""
        is_file: bool = t.cast(t.Any, super()).verify_file(path)
        return is_file and path.endswith(ENDINGS)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        """Add the hosts of one file. Raises AnsibleParserError with one sentence if the cluster cannot be read."""
        t.cast(t.Any, super()).parse(inventory, loader, path, cache)
        base = t.cast(t.Any, self)  # Ansible's own classes have no types.
        base._read_config_data(path)
        key, option = base.get_cache_key(path), base.get_option
        hosts = base._cache.get(key) if option("cache") and cache else None
        if hosts is None:
            hosts = _read(path, option)
            if option("cache"):
                base._cache[key] = hosts
        inventory.add_group(option("group"))
        for host in hosts:
            self._add(host["name"], host["variables"], option)

    def _add(self, name: str, variables: Json, option: Option) -> None:
        base, strict = t.cast(t.Any, self), option("strict")
        base.inventory.add_host(name, group=option("group"))
        for key, value in variables.items():
            base.inventory.set_variable(name, key, value)
        base._set_composite_vars(option("compose"), variables, name, strict=strict)
        base._add_host_to_composed_groups(option("groups"), variables, name, strict=strict)
        base._add_host_to_keyed_groups(option("keyed_groups"), variables, name, strict=strict)


def _read(path: str, option: Option) -> list[Json]:
    """Return the hosts as they are now."""
    options = {name: option(name) for name in CONNECTION.options}
    if isinstance(options["kubeconfig"], str):
        # Relative to the file that names it, as all paths in an inventory.
        given = os.path.expanduser(options["kubeconfig"])
        given = os.path.join(os.path.dirname(os.path.abspath(path)), given)
        if not os.path.exists(given):
            raise AnsibleParserError(
                f"The kubeconfig {given} does not exist. Its path begins at the inventory's folder."
            )
        options["kubeconfig"] = given
    try:
        return node_hosts.hosts(
            Cluster(options),
            option("node_selector"),
            not option("all_nodes"),
            option("free"),
            option("addresses"),
            lambda sentence: Display().warning(_gate.sentence(sentence)),
        )
    except GpuOpsError as e:
        raise AnsibleParserError(_gate.sentence(e.msg)) from e
