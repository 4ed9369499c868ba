#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operator_crds
short_description: Apply the CRDs of the GPU Operator's chart before the chart itself
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Helm installs the CRDs of a chart only once, and the chart's own upgrade hook leaves out some of them. With an old
    CRD, the API server drops new fields, or the new operator does not start.
  - This module applies every CRD that the chart contains with the given values by server-side apply, and waits until
    the API server serves them. It only creates and updates CRDs.
  - CRDs of a Node Feature Discovery that was installed separately from this release stay as they are.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Shows the CRDs with the versions and fields that appear, vanish or change, not whole schemas.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  chart_path:
    description: Folder or archive of the chart, for example RV(gpuops.nvidia.operator_chart_info#module:chart_path).
    type: path
    required: true
  values:
    description: Helm values of the release. They decide which CRDs the chart contains.
    type: dict
    default: {}
  release_name:
    description: Name of the Helm release.
    type: str
    default: gpu-operator
  release_namespace:
    description: Namespace of the Helm release.
    type: str
    default: gpu-operator
  kube_version:
    description: Kubernetes version to render the chart for. The default is the cluster's.
    type: str
  api_versions:
    description: API versions to render the chart for, in addition to those that the cluster serves.
    type: list
    elements: str
    default: []
  binary_path:
    description: Path of the C(helm) executable. The default is the one on E(PATH).
    type: path
  wait_timeout:
    description: Seconds to wait for the API server to serve the CRDs.
    type: int
    default: 60
requirements:
  - helm >= 3.12
  - PyYAML
seealso:
  - module: gpuops.nvidia.operator_chart_info
"""

EXAMPLES = r"""
- name: Apply the CRDs of the chart
  gpuops.nvidia.operator_crds:
    chart_path: "{{ chart.chart_path }}"
    values: "{{ my_gpu_operator_values }}"
"""

RETURN = r"""
clusterpolicy_schema:
  description:
    - The schema that a ClusterPolicy will have with this chart, for O(gpuops.nvidia.clusterpolicy#module:schema).
  returned: in check mode
  type: dict
  sample: {type: object}
crds:
  description: The result for each CRD of the chart.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the CRD.
      type: str
      sample: clusterpolicies.nvidia.com
    result:
      description: C(created), C(updated), C(unchanged) or C(skipped).
      type: str
      sample: updated
    reason:
      description: Why the CRD was skipped, or an empty string.
      type: str
      sample: ""
    changes:
      description: Versions and fields that appear, vanish or change, at most twenty.
      type: list
      elements: str
      sample: ["+ v1 spec.hostPaths.kubeletRootDir"]
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.crds import SERVED_S, apply_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import RENDER_OPTIONS, Helm
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "chart_path": {"type": "path", "required": True},
        "wait_timeout": {"type": "int", "default": SERVED_S},
    },
).including(CONNECTION, RENDER_OPTIONS)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: apply_chart(
            Helm(module, module.params["binary_path"]), Cluster(module.params, module.check_mode), module.params
        ),
        secrets=["values"],
        minimums={"wait_timeout": 0},
        libraries={"PyYAML": HAS_YAML},
        passed_on=("clusterpolicy_schema",),
    )


if __name__ == "__main__":
    main()
