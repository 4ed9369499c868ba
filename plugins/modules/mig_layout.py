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
    GPUs, the instances must find a place there (their sum is not enough), the indices must exist, and each filter must
    be readable. NVIDIA's own check (C(nvidia-mig-parted assert --valid-config)) does none of that.
  - Works out targets such as "as many V(2g.20gb) as fit" for each GPU model.
  - The ConfigMap also contains NVIDIA's own layouts, because the MIG manager reads no other file as soon as the
    ClusterPolicy names one. A layout that a node's label names is neither removed nor changed in its meaning.
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
      - V(absent) removes O(layouts). Without O(layouts), or after the last one, it removes the ConfigMap, and gives the
        field of the ClusterPolicy back.
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
      - Publish a layout also if it cannot be checked. No node may be there yet, the profiles of a GPU model may be
        unknown, or no label may tell how many GPUs a node has.
    type: bool
    default: false
  config_map:
    description: Name of the ConfigMap, in the namespace of the operator.
    type: str
    default: gpuops-mig-layouts
  policy_name:
    description: Name of the ClusterPolicy. If it is empty, the oldest one is meant, which the operator serves.
    type: str
    default: ""
  namespace:
    description:
      - Namespace of the operator, where the operands run. If it is empty, the one in the ClusterPolicy's status.
    type: str
    default: ""
notes:
  - The kubelet shows an edited ConfigMap to the MIG manager within about a minute. A new layout that is given to a node
    before that fails there.
  - When the ClusterPolicy begins to name a ConfigMap, the operator replaces the pods of the MIG manager. GPU pods go
    on.
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
nodes:
  description: The nodes whose layout would be gone or changed.
  returned: if that is why the module failed
  type: list
  elements: str
  sample: [gpu-0000]
problems:
  description: What is wrong with a layout, each problem with its place and nodes.
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

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish.run import publish
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "layouts": {"type": "dict"},
    "purge": {"type": "bool", "default": False},
    "allow_unchecked": {"type": "bool", "default": False},
    "config_map": {"type": "str", "default": "gpuops-mig-layouts"},
    "policy_name": {"type": "str", "default": ""},
    "namespace": {"type": "str", "default": ""},
}
RELATIONS: dict[str, t.Any] = {"required_if": [("state", "present", ("layouts",))]}


def main() -> t.NoReturn:
    module = Module(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True, **RELATIONS)
    try:
        result = publish(Cluster(module.params, module.check_mode), module.params, module.warn)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
