#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operator_images_info
short_description: List the container images that a configuration of the operator needs, and ask a mirror for them
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Completes the images of a rendered chart. The operator adds the system of the nodes, and for a precompiled driver
    their kernel, to the tags of the driver, GPUDirect Storage, GDRCopy and the vGPU manager.
  - With O(mirror), asks it for each image, for the architectures of the nodes, and for the digests in O(digests). It
    fails if one is missing there.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would return.
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
  images:
    description: RV(gpuops.nvidia.operator_chart_info#module:images) of the rendered chart.
    type: list
    elements: str
    default: []
  clusterpolicy:
    description: RV(gpuops.nvidia.operator_chart_info#module:clusterpolicy) of the rendered chart, if it has one.
    type: dict
  nvidiadrivers:
    description: RV(gpuops.nvidia.operator_chart_info#module:nvidiadrivers) of the rendered chart.
    type: list
    elements: dict
    default: []
  chart_version:
    description: Version of the chart, such as V(v26.7.0). Older lines complete the tags of some systems differently.
    type: str
  systems:
    description: What the GPU nodes run.
    type: list
    elements: dict
    default: []
    suboptions:
      system:
        description: ID and version of C(/etc/os-release), such as V(ubuntu24.04) or V(rhel9.6).
        type: str
        required: true
      kernels:
        description: Kernels of these nodes, as C(uname -r) prints them. Precompiled drivers need them.
        type: list
        elements: str
        default: []
      architectures:
        description: Architectures of these nodes. The mirror is asked whether it has the images for all of them.
        type: list
        elements: str
        choices: [amd64, arm64]
        default: []
  from_nodes:
    description:
      - Read the systems, kernels and architectures of the GPU nodes from the cluster as well. Before the operator is
        there, no node is known to have GPUs, and all nodes count.
    type: bool
    default: false
  more:
    description: Further images, such as the workload of a proof.
    type: list
    elements: str
    default: []
  mirror:
    description:
      - Registry and folder of the mirror, such as V(registry.example.com/mirror). It has each image under its own path,
        C(nvcr.io/nvidia/driver) as C(registry.example.com/mirror/nvidia/driver).
      - It is asked with the credentials in O(registry).
    type: str
  digests:
    description: Digests that the images must have in the mirror, by the names of the images.
    type: dict
    default: {}
seealso:
  - module: gpuops.nvidia.operator_chart_info
  - module: gpuops.nvidia.image_mirror
"""

EXAMPLES = r"""
- name: Render the chart
  gpuops.nvidia.operator_chart_info:
    chart_ref: ./gpu-operator-v26.7.0.tgz
    values: {driver: {usePrecompiled: true, version: "595"}}
  register: chart

- name: List the images for two systems
  gpuops.nvidia.operator_images_info:
    images: "{{ chart.images }}"
    clusterpolicy: "{{ chart.clusterpolicy }}"
    nvidiadrivers: "{{ chart.nvidiadrivers }}"
    chart_version: "{{ chart.chart.app_version }}"
    systems:
      - {system: ubuntu24.04, kernels: [6.8.0-60-generic]}
      - {system: rhel9.6, kernels: [5.14.0-570.12.1.el9_6.x86_64]}
"""

RETURN = r"""
images:
  description: The images, by name. Also returned if the mirror lacks some of them.
  returned: success
  type: list
  elements: dict
  contains:
    image:
      description: Name of the image at its publisher.
      type: str
      sample: nvcr.io/nvidia/driver:595.91.07-ubuntu24.04
    purpose:
      description: What it is for.
      type: str
      sample: driver on ubuntu24.04
    mirror_image:
      description: Its name in the mirror, or an empty string without O(mirror).
      type: str
      sample: registry.example.com/mirror/nvidia/driver:595.91.07-ubuntu24.04
    state:
      description: >-
        The mirror's answer, which is V(exists), V(missing), V(differs) (it has another digest), V(refused),
        V(unreachable) or V(unasked).
      type: str
      sample: exists
    message:
      description: What is wrong, or an empty string.
      type: str
      sample: ""
skopeo_sync:
  description: The images in the form that C(skopeo sync --src yaml) reads. Also returned if the mirror lacks some.
  returned: success
  type: dict
  sample:
    nvcr.io:
      images:
        nvidia/driver: [595.91.07-ubuntu24.04]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import REGISTRY
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images.look_at_images import look
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

_SYSTEM = ArgumentSpec(
    {
        "system": {"type": "str", "required": True},
        "kernels": {"type": "list", "elements": "str", "default": []},
        "architectures": {"type": "list", "elements": "str", "choices": ["amd64", "arm64"], "default": []},
    }
)
SPEC = ArgumentSpec(
    {
        "images": {"type": "list", "elements": "str", "default": []},
        "clusterpolicy": {"type": "dict"},
        "nvidiadrivers": {"type": "list", "elements": "dict", "default": []},
        "chart_version": {"type": "str"},
        "systems": _SYSTEM.as_list(default=[]),
        "from_nodes": {"type": "bool", "default": False},
        "more": {"type": "list", "elements": "str", "default": []},
        "mirror": {"type": "str"},
        "digests": {"type": "dict", "default": {}},
        "registry": REGISTRY.as_dict(default={}, apply_defaults=True),
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: look(module.params))


if __name__ == "__main__":
    main()
