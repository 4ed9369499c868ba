# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options that the ClusterPolicy and the GPUCluster have in common; module_utils/_cluster/clusterpolicy/spec.py."""

    DOCUMENTATION = r"""
options:
  namespace:
    description: Namespace of the operator, where the operands run.
    type: str
    default: gpu-operator
  spec:
    description:
      - Fields of the spec in the API's spelling, for everything that has no option in this module.
      - They are merged with the options. A null resets a field that was given before to its default.
    type: dict
    default: {}
  labels:
    description: Labels of the object.
    type: dict
    default: {}
  annotations:
    description: Annotations of the object.
    type: dict
    default: {}
  dcgm:
    description: The standalone DCGM host engine.
    type: dict
    suboptions: &component
      enabled:
        description: Whether the operator deploys it.
        type: bool
      repository:
        description: Registry and path of the image.
        type: str
      image:
        description: Name of the image.
        type: str
      version:
        description: Tag or digest of the image.
        type: str
      env:
        description: Environment variables of its container, each with C(name) and C(value).
        type: list
        elements: dict
  dcgm_exporter:
    description: The exporter of GPU metrics.
    type: dict
    suboptions: *component
  daemonsets:
    description: Settings of every operand's DaemonSet.
    type: dict
    suboptions:
      labels:
        description: Labels of the pods.
        type: dict
      annotations:
        description: Annotations of the pods.
        type: dict
      tolerations:
        description:
          - Tolerations of the pods. They replace the operator's default toleration of C(nvidia.com/gpu:NoSchedule).
        type: list
        elements: dict
      priority_class_name:
        description: Priority class of the pods.
        type: str
      update_strategy:
        description: How operands other than the driver are updated. With V(OnDelete), delete a pod to update it.
        type: str
        choices: [RollingUpdate, OnDelete]
      rolling_update:
        description: Settings of the rolling update, in the API's spelling (C(maxUnavailable)).
        type: dict
  force:
    description: Take over fields that another manager (Helm, kubectl) owns and has set to another value.
    type: bool
    default: false
  wait:
    description: Wait until the stack is ready, or until the operands are gone.
    type: bool
    default: true
"""
