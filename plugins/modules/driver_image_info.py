#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_image_info
short_description: >-
  Plumbing of the playbook upgrade_kernel: find out whether nodes would get a driver container with another kernel
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A precompiled driver container has an image for each kernel. This module works out, from the ClusterPolicy or the
    NVIDIADrivers in the cluster, which image a node would pull with another kernel, and asks its registry for it.
  - An image that is not precompiled serves every kernel of its system. It builds the driver with the kernel's headers,
    which is known to work only where a Ready node runs this driver with this kernel.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: This module only reads.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.registry
options:
  kernels:
    description: The kernel of each node, by the node's name.
    type: dict
    required: true
  policy_name:
    description: Name of the ClusterPolicy. If it is empty, the only one in the cluster.
    type: str
    default: ""
  namespace:
    description: Namespace of the operator. If it is empty, the one that the ClusterPolicy's status names.
    type: str
    default: ""
seealso:
  - module: gpuops.nvidia.driver_container
  - module: gpuops.nvidia.kernel_packages
"""

EXAMPLES = r"""
- name: Ask for the images of a kernel
  gpuops.nvidia.driver_image_info:
    kernels:
      gpu-0000: 6.8.0-60-generic
"""

RETURN = r"""
nodes:
  description: The image of each node.
  returned: success
  type: dict
  contains:
    image:
      description: The image that the node would pull. Empty without a driver container.
      type: str
      sample: nvcr.io/nvidia/driver:595-6.8.0-60-generic-ubuntu24.04
    precompiled:
      description: Whether the image is for one kernel.
      type: bool
      sample: true
    problem:
      description: Why the node would be left without a driver, or an empty string.
      type: str
      sample: ""
    unproved:
      description: >-
        What no Ready node is known to run, if the driver is built on the node: the image, the kernel and the
        architecture. An empty string if a node runs it in a driver pod that is ready and of the newest revision, and
        for a precompiled driver.
      type: str
      sample: ""
  sample:
    gpu-0000:
      image: nvcr.io/nvidia/driver:595-6.8.0-60-generic-ubuntu24.04
      precompiled: true
      problem: ""
      unproved: ""
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import REGISTRY
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "kernels": {"type": "dict", "required": True},
        "registry": REGISTRY.as_dict(default={}, apply_defaults=True),
        "policy_name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: kernels.look(Cluster(module.params), module.params))


if __name__ == "__main__":
    main()
