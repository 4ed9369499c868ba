#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_layout
short_description: Publish MIG layouts of your own
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Builds and checks MIG layouts, publishes them as a ConfigMap, and makes the ClusterPolicy use it
    (C(migManager.config.name)). M(gpuops.nvidia.mig_config) then gives them to nodes.
  - Checks each layout on the nodes for which it is meant, as their labels describe them. The profiles must exist on the
    GPUs, the instances must fit there with their places, the indices must exist, and each filter must be valid.
    NVIDIA's own check (C(nvidia-mig-parted assert --valid-config)) leaves all of that out.
  - Works out targets such as "as many V(2g.20gb) as fit" for each GPU model.
  - The ConfigMap also contains NVIDIA's own layouts, because the MIG manager reads only this file as soon as the
    ClusterPolicy names it. A layout that a node's label names keeps its place and its meaning.
  - The field of the ClusterPolicy has a field manager of its own (V(gpuops.nvidia-mig)), so that
    M(gpuops.nvidia.clusterpolicy) and the role P(gpuops.nvidia.operator#role) leave it alone.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  state:
    description:
      - V(present) publishes O(layouts).
      - V(absent) removes O(layouts). Without O(layouts), or after the last one, it removes the ConfigMap, and resets
        the field of the ClusterPolicy.
    type: str
    choices: [present, absent]
    default: present
  layouts:
    description:
      - Layouts by name. With O(state=absent), only the names matter.
      - A layout is a list of entries as in mig-parted's configuration, or a mapping with C(entries). An entry has
        C(devices) (V(all) or a list of GPU indices; default V(all)), C(device_filter) (a PCI device such as
        V("0x20B010DE"), or a list), C(mig_enabled) (default V(true) if there are C(mig_devices)), and C(mig_devices)
        (profiles with their counts). Of several entries for a GPU, the last one counts.
      - 'Or a layout is a target for all GPUs: C(fit) (a profile, of which as many as fit), C(mig_devices) (profiles
        with their counts) with or without C(fill) (a profile, of which as many as fit beside them), or
        C(balanced: true). V(2g) is the plain profile with two compute slices of each model. Where models differ, each
        gets an entry with a filter.'
      - C(node_selector) in a mapping says by labels which nodes a layout is meant for. Without it, it is meant for all
        nodes whose GPUs MIG can divide and that one of its filters matches.
    type: dict
  purge:
    description: Remove the layouts that earlier calls have published and that O(layouts) does not contain.
    type: bool
    default: false
  allow_unchecked:
    description:
      - Publish a layout even if it cannot be checked, because its nodes do not exist yet, the profiles of a GPU model
        are unknown, or the labels do not say how many GPUs a node has.
    type: bool
    default: false
  allow_unattended:
    description:
      - Publish also if MIG managers then divide the GPUs of nodes that are in service, which interrupts their pods.
      - When the ClusterPolicy names another ConfigMap, all MIG managers start again, and each applies the label of its
        node unless it has done so successfully. So the module refuses a publication as long as a node with a label that
        was never applied, or that failed, has pods on its GPUs or is not cordoned.
      - With check mode, it returns such nodes in RV(unattended), so that they can be drained first. The role
        P(gpuops.nvidia.mig#role) does so.
    type: bool
    default: false
  config_map:
    description: Name of the ConfigMap, in the namespace of the operator.
    type: str
    default: gpuops-mig-layouts
  policy_name:
    description: Name of the ClusterPolicy. If it is empty, the module takes the oldest one, which the operator serves.
    type: str
    default: ""
  namespace:
    description:
      - Namespace of the operator, where the operands run. If it is empty, the one in the ClusterPolicy's status.
    type: str
    default: ""
notes:
  - The kubelet shows an edited ConfigMap to the MIG manager within about a minute. A node that gets a new layout before
    that fails.
  - When the ClusterPolicy first names a ConfigMap, the operator replaces the pods of the MIG manager. GPU pods keep
    running on all nodes whose label has the state C(success).
seealso:
  - module: gpuops.nvidia.mig_config
  - module: gpuops.nvidia.clusterpolicy
"""

EXAMPLES = r"""
- name: Publish a layout for inference and one for training
  gpuops.nvidia.mig_layout:
    layouts:
      inference:
        fit: 1g
      training:
        mig_devices:
          3g: 1
        fill: 1g

- name: Publish a layout in which GPU 0 stays whole, for the nodes of one pool
  gpuops.nvidia.mig_layout:
    layouts:
      one-whole:
        node_selector:
          pool: a100
        entries:
          - devices: all
            mig_devices:
              2g.20gb: 3
          - devices: [0]
            mig_enabled: false

- name: Remove a layout
  gpuops.nvidia.mig_layout:
    state: absent
    layouts:
      one-whole: {}

- name: Go back to NVIDIA's layouts
  gpuops.nvidia.mig_layout:
    state: absent
"""

RETURN = r"""
config_map:
  description: Namespace and name of the ConfigMap.
  returned: success
  type: str
  sample: gpu-operator/gpuops-mig-layouts
layouts:
  description:
    - What each of O(layouts) means. C(nodes) is the number of nodes for which it is meant. C(models) has the instances
      on a GPU of each model, a drawing of where they lie, and how many instances of each profile could be added.
  returned: success
  type: dict
  sample:
    training:
      nodes: 4
      models:
        H100-80GB:
          - mig_devices: {1g.10gb: 4, 3g.40gb: 1}
            drawn: "|1g.10gb|1g.10gb|1g.10gb|1g.10gb|            3g.40gb            |"
            addable: {}
content:
  description: The content of the ConfigMap, as O(gpuops.nvidia.mig_config#module:content) takes it.
  returned: success
  type: str
  sample: |
    version: v1
    mig-configs: {}
unattended:
  description: The nodes whose GPUs MIG managers divide because of this call.
  returned: success
  type: list
  elements: str
  sample: []
nodes:
  description: The nodes whose layout would disappear or change, or that have to be drained first.
  returned: if that is why the module failed
  type: list
  elements: str
  sample: [gpu-0000]
problems:
  description: What is wrong with a layout, each problem with its entry and nodes.
  returned: if that is why the module failed
  type: list
  elements: str
  sample: ["layouts.mine[0]: H100-80GB holds at most 1 x 7g.80gb, and 9 are wanted (nodes gpu-0000)"]
unchecked:
  description: What could not be checked.
  returned: if that is why the module failed
  type: list
  elements: str
  sample: ["mine on gpu-0000: the profiles of NVIDIA-H100 are unknown"]
conflicts:
  description: The field of the ClusterPolicy that another manager owns with another value, with its manager.
  returned: if that is why the module failed
  type: list
  elements: dict
  sample:
    - field: spec.migManager.config.name
      manager: helm
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish.publish_layouts import publish
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "layouts": {"type": "dict"},
        "purge": {"type": "bool", "default": False},
        "allow_unchecked": {"type": "bool", "default": False},
        "allow_unattended": {"type": "bool", "default": False},
        "config_map": {"type": "str", "default": "gpuops-mig-layouts"},
        "policy_name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
    },
    required_if=[("state", "present", ("layouts",))],
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: publish(Cluster(module.params, module.check_mode), module.params, module.warn))


if __name__ == "__main__":
    main()
