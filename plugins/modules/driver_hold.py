#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_hold
short_description: Keep the drivers of all GPU nodes as they are while something else changes
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A new version of the GPU Operator renders the pods of the driver anew. Before v26.7, the operator then evicts GPU
    pods and replaces the driver on every node, even if the driver's version stays.
  - This module gives each node that has a driver container the operator's own label
    C(nvidia.com/gpu-driver-upgrade.skip=true), and notes that the label is its own. The operator then leaves the
    driver's pods alone until a rollout of the driver lets the nodes go one by one, or this module takes the label away.
  - A label that a user has set stays as it is.
  - While a node keeps an old pod of the driver, the operator reports the ClusterPolicy as not ready. The modules of
    this collection know that, and judge the rest.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists the nodes that are kept.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  state:
    description:
      - V(present) keeps the drivers of all nodes. It fails if the operator is replacing a driver at that moment,
        because nothing stops that.
      - V(absent) takes the module's own labels away where the driver's pod is of the newest revision, so that nothing
        happens to it. With O(everything), it takes all of them away.
    type: str
    choices: [present, absent]
    default: present
  everything:
    description:
      - Take the labels also from nodes with an old pod of the driver. The operator then replaces these pods at the pace
        of its own upgrade policy.
      - If GPU pods run there, it needs O(allow_disruption).
    type: bool
    default: false
  allow_disruption:
    description: Let the operator evict the GPU pods of the nodes that are let go.
    type: bool
    default: false
  namespace:
    description: Namespace of the operator.
    type: str
    default: gpu-operator
seealso:
  - module: gpuops.nvidia.clusterpolicy
"""

EXAMPLES = r"""
- name: Keep the drivers while the operator changes
  gpuops.nvidia.driver_hold:

- name: Let go of the nodes that run the newest driver pod
  gpuops.nvidia.driver_hold:
    state: absent
"""

RETURN = r"""
newly_held:
  description: Nodes that nobody kept before.
  returned: success
  type: list
  elements: str
  sample: [gpu-0000, gpu-0001]
released:
  description: Nodes that are kept no more.
  returned: success
  type: list
  elements: str
  sample: []
held:
  description: Nodes that keep their driver after the call, those of users included.
  returned: success
  type: list
  elements: str
  sample: [gpu-0000, gpu-0001]
users:
  description: Nodes that a user, or a maintenance, keeps.
  returned: success
  type: list
  elements: str
  sample: []
outdated:
  description: Nodes whose driver pod is not of the newest revision.
  returned: success
  type: list
  elements: str
  sample: [gpu-0000]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.hold import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "everything": {"type": "bool", "default": False},
    "allow_disruption": {"type": "bool", "default": False},
    "namespace": {"type": "str", "default": "gpu-operator"},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True)
    try:
        result = keep(Cluster(module.params, module.check_mode), module.params)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    except KeyboardInterrupt:
        module.fail_json(msg="The call was interrupted. Run it again; it goes on.", reason="Interrupted")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
