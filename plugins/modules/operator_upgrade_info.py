#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operator_upgrade_info
short_description: >-
  Plumbing of the role operator_upgrade: say what an upgrade means for a cluster, and what would block it
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Compares the release that Helm has deployed with the wanted one, and finds the steps between them in a table of what
    is known about each.
  - An unknown step, a jump over a release, and a change that this cluster is not ready for are failures among the
    findings. The module itself fails only if it cannot find out.
  - Also checks the operator's memory limit on a large fleet, fields of the ClusterPolicy that the new operator lacks,
    and unfinished driver upgrades. It warns of nodes whose MIG layout was never applied, because an upgrade starts the
    MIG managers again.
  - If the new operator asks for a driver's image by another name, as on Red Hat Enterprise Linux, the module asks the
    registry whether that image exists.
  - It only reads.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: It only reads.
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
  app_version:
    description:
      - Release of the operator that the new chart installs.
      - Usually RV(gpuops.nvidia.operator_chart_info#module:chart), its key C(app_version).
    type: str
    required: true
  transitions:
    description:
      - What is known of each step, with the keys C(from), C(to), C(since), C(last), C(verdict), C(restarts),
        C(changes), C(back) and C(sources).
      - Without it, what the collection knows counts.
    type: list
    elements: dict
  values:
    description: Helm values for the new chart.
    type: dict
    default: {}
  clusterpolicy_schema:
    description:
      - Schema of a ClusterPolicy with the new chart. Without it, fields are not compared.
      - Usually RV(gpuops.nvidia.operator_crds#module:clusterpolicy_schema), which that module returns in check mode.
    type: dict
  release_name:
    description: Name of the Helm release.
    type: str
    default: gpu-operator
  release_namespace:
    description: Namespace of the Helm release.
    type: str
    default: gpu-operator
  policy_name:
    description: Name of the ClusterPolicy.
    type: str
    default: cluster-policy
  accept:
    description: Checks whose failures become warnings, by RV(findings[].check).
    type: list
    elements: str
    default: []
  force:
    description: Make warnings of all failures.
    type: bool
    default: false
requirements:
  - PyYAML
seealso:
  - module: gpuops.nvidia.operator_snapshot
  - module: gpuops.nvidia.operator_chart_info
"""

EXAMPLES = r"""
- name: Look at the upgrade to the chart that was fetched
  gpuops.nvidia.operator_upgrade_info:
    app_version: "{{ chart.chart.app_version }}"
    values: "{{ my_gpu_operator_values }}"
"""

RETURN = r"""
installed:
  description: Versions of the release that Helm has deployed.
  returned: success
  type: dict
  sample: {app_version: v26.3.3, chart_version: v26.3.3}
direction:
  description: C(up), C(back) or C(none).
  returned: success
  type: str
  sample: up
verdict:
  description: The worst verdict of all steps, C(safe), C(manual), C(unknown) or C(blocked).
  returned: success
  type: str
  sample: manual
steps:
  description: The steps of the jump.
  returned: success
  type: list
  elements: str
  sample: [v26.3 to v26.7]
stops:
  description: Releases to stop at on the way, because NVIDIA supports only one step at a time.
  returned: success
  type: list
  elements: str
  sample: []
restarts:
  description: What restarts whatever happens to the drivers, of C(operator), C(operands) and C(runtime).
  returned: success
  type: list
  elements: str
  sample: [operator, operands, runtime]
driver:
  description:
    - What the operator does to driver pods that are not kept. C(evicts) means that it evicts GPU pods and reloads the
      driver, node by node. C(in_place) means that it cordons the node and restarts the pod. C(none) means that it
      leaves the pods alone.
  returned: success
  type: str
  sample: evicts
driver_pin:
  description:
    - Helm values with which the new chart keeps the driver that the cluster has. Empty if the values name a driver, or
      if no driver container runs.
  returned: success
  type: dict
  sample: {driver: {repository: nvcr.io/nvidia, image: driver, version: 580.126.20}}
sources:
  description: Sources of the knowledge about the steps.
  returned: success
  type: list
  elements: str
  sample: ["https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v26-7-0"]
findings:
  description: What would block the upgrade, and what to know. Failures come first.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check or of the change.
      type: str
      sample: path
    level:
      description: C(failure) or C(warning).
      type: str
      sample: failure
    message:
      description: What was found.
      type: str
      sample: NVIDIA supports upgrades to the next release only, and v25.10.1 to v26.7.0 are 2 steps.
    remedy:
      description: What to do about it.
      type: str
      sample: Upgrade to v26.3.3, then to v26.7.0, one run for each.
    nodes:
      description: The first few nodes concerned.
      type: list
      elements: str
      sample: []
    count:
      description: How many nodes are concerned.
      type: int
      sample: 0
summary:
  description: Number of findings at each level.
  returned: success
  type: dict
  sample: {failures: 1, warnings: 0, ok: 0}
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import REGISTRY
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.assess import info
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "app_version": {"type": "str", "required": True},
        "transitions": {"type": "list", "elements": "dict"},
        "values": {"type": "dict", "default": {}},
        "clusterpolicy_schema": {"type": "dict"},
        "release_name": {"type": "str", "default": "gpu-operator"},
        "release_namespace": {"type": "str", "default": "gpu-operator"},
        "policy_name": {"type": "str", "default": "cluster-policy"},
        "accept": {"type": "list", "elements": "str", "default": []},
        "force": {"type": "bool", "default": False},
        "registry": REGISTRY.as_dict(default={}, apply_defaults=True),
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: info(Cluster(module.params), module.params),
        secrets=["values"],
        libraries={"PyYAML": HAS_YAML},
    )


if __name__ == "__main__":
    main()
