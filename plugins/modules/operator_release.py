#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operator_release
short_description: "Plumbing of the role operator: prepare a cluster for a run of Helm on the GPU Operator's release"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Runs right before C(helm), and reads the cluster itself, because a mistake would remove the drivers of all nodes.
  - Refuses to install a second operator beside one that the Operator Lifecycle Manager installed, a GPUCluster beside a
    ClusterPolicy or the other way round, and a change that evicts GPU pods without permission.
  - Settles who owns the ClusterPolicy. If the chart can leave it to its user, the module keeps a ClusterPolicy of Helm
    when the release no longer contains it. If the chart always contains its own, the module hands the ClusterPolicy
    over to Helm.
  - Restores the objects of the release that somebody deleted or edited. Helm ignores them while the chart and the
    values stay the same. Edited custom resources stay as they are.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: A change that evicts GPU pods without permission fails, unless O(check_refusal=warn).
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists the steps, not whole objects.
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
options:
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
  supports_deploy_cr:
    description:
      - Whether the chart can leave the ClusterPolicy to its user.
      - Usually RV(gpuops.nvidia.operator_chart_info#module:supports_deploy_cr).
    type: bool
    default: true
  clusterpolicy:
    description:
      - The ClusterPolicy that the chart and the values result in. It is compared with the one in the cluster to find
        changes that replace driver pods.
      - Usually RV(gpuops.nvidia.operator_chart_info#module:clusterpolicy).
    type: dict
  gpucluster:
    description:
      - The GPUCluster that the chart and the values result in.
      - Usually RV(gpuops.nvidia.operator_chart_info#module:gpucluster).
    type: dict
  nvidiadrivers:
    description:
      - The NVIDIADrivers that the chart and the values result in. They are compared with those in the cluster, as the
        ClusterPolicy is.
      - Usually RV(gpuops.nvidia.operator_chart_info#module:nvidiadrivers).
    type: list
    elements: dict
    default: []
  chart_path:
    description:
      - Folder or archive of the chart. With it, the module applies the chart's CRDs, as M(gpuops.nvidia.operator_crds)
        does, if RV(crds_first=true), and compares the chart with the release for RV(is_deployed).
      - Usually RV(gpuops.nvidia.operator_chart_info#module:chart_path).
    type: path
  values:
    description: The values that Helm gets for the release.
    type: dict
    default: {}
  binary_path:
    description: Path of the C(helm) executable. The default is the one on E(PATH).
    type: path
  operator_image:
    description:
      - Image of the operator that the chart installs. Another operator renders a new DaemonSet for the driver.
      - Usually RV(gpuops.nvidia.operator_chart_info#module:operator_image).
    type: str
  app_version:
    description: Version of the operator that the chart installs, to recognise a downgrade.
    type: str
  helm_timeout:
    description: Time limit of a Helm operation, in Helm's notation.
    type: str
    default: 5m0s
  break_lock:
    description:
      - Remove the lock of a Helm operation that is half a minute older than O(helm_timeout) by the API server's clock,
        which a Helm process leaves behind when it is killed.
      - Without this permission, and for a younger lock, the module fails.
    type: bool
    default: false
  allow_disruption:
    description:
      - Allow changes that replace driver pods or restart container runtimes while pods use GPUs, or that let MIG
        managers divide these GPUs.
    type: bool
    default: false
  assume_held:
    description:
      - In check mode, judge as if all nodes kept their driver, as M(gpuops.nvidia.driver_hold) ensures in a real run.
      - It only has an effect in check mode. In a real run, the labels of the nodes decide.
    type: bool
    default: false
  assume_removed:
    description:
      - In check mode, judge as if the ClusterPolicy or GPUCluster of the other stack were removed, as the role
        P(gpuops.nvidia.stack_move#role) ensures in a real run.
    type: bool
    default: false
requirements:
  - helm >= 3.12
  - PyYAML
seealso:
  - module: gpuops.nvidia.operator_chart_info
  - module: gpuops.nvidia.operator_crds
  - module: gpuops.nvidia.clusterpolicy
  - module: kubernetes.core.helm
"""

EXAMPLES = r"""
- name: Prepare the release
  gpuops.nvidia.operator_release:
    supports_deploy_cr: "{{ chart.supports_deploy_cr }}"
    clusterpolicy: "{{ chart.clusterpolicy }}"
    gpucluster: "{{ chart.gpucluster }}"
    nvidiadrivers: "{{ chart.nvidiadrivers }}"
    operator_image: "{{ chart.operator_image }}"
    app_version: "{{ chart.chart.app_version }}"
    chart_path: "{{ chart.chart_path }}"
    values: "{{ my_gpu_operator_values }}"
  register: prepared

- name: Install or upgrade the release
  kubernetes.core.helm:
    release_name: gpu-operator
    release_namespace: gpu-operator
    chart_ref: "{{ chart.chart_path }}"
    release_values: "{{ my_gpu_operator_values }}"
    skip_crds: true
  when: not prepared.is_deployed
"""

RETURN = r"""
adopts:
  description: Whether Helm owns the ClusterPolicy until M(gpuops.nvidia.clusterpolicy) takes it over.
  returned: success
  type: bool
  sample: false
downgrade:
  description: Whether the chart is older than the release in the cluster.
  returned: success
  type: bool
  sample: false
crds_first:
  description:
    - Whether the chart's CRDs must be applied before Helm.
    - Those of an older chart are applied after Helm, because they lack fields that the newer ClusterPolicy uses, unless
      the CRD in the cluster refuses the older ClusterPolicy.
  returned: success
  type: bool
  sample: true
is_deployed:
  description:
    - Whether the newest revision of the release is this chart, in this version, with these values. Then there is no
      need to run Helm.
    - Always V(false) without O(chart_path).
  returned: success
  type: bool
  sample: false
has_quota:
  description: Whether the namespace has the ResourceQuota with which the role C(operator) admits critical pods.
  returned: success
  type: bool
  sample: false
crds:
  description:
    - The result for each CRD of the chart, as M(gpuops.nvidia.operator_crds) returns it.
    - Empty without O(chart_path), and with RV(crds_first=false).
  returned: success
  type: list
  elements: dict
  sample: []
clusterpolicy_schema:
  description:
    - The schema that a ClusterPolicy will have with this chart, for O(gpuops.nvidia.clusterpolicy#module:schema).
  returned: in check mode, if the CRDs were applied
  type: dict
  sample: {type: object}
restored:
  description: Objects of the release that were restored.
  returned: success
  type: list
  elements: dict
  contains:
    object:
      description: Kind and name of the object.
      type: str
      sample: ServiceAccount gpu-operator
    was:
      description: C(deleted) or C(edited).
      type: str
      sample: deleted
disruption:
  description:
    - What interrupts running GPU pods, with at most 20 of these pods and of their nodes by name.
    - C(pods_total) is null if this user may not list pods.
  returned: success
  type: dict
  sample:
    changes:
      - field: operator
        before: v26.3
        after: v26.7
        effect: the operator evicts GPU pods and replaces the driver, node by node
        operand: driver
    pods: [ml/train-0]
    pods_total: 1
    nodes: [gpu-0000]
    nodes_total: 1
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import Helm
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import prepare
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "release_name": {"type": "str", "default": "gpu-operator"},
        "release_namespace": {"type": "str", "default": "gpu-operator"},
        "policy_name": {"type": "str", "default": "cluster-policy"},
        "supports_deploy_cr": {"type": "bool", "default": True},
        "clusterpolicy": {"type": "dict"},
        "gpucluster": {"type": "dict"},
        "nvidiadrivers": {"type": "list", "elements": "dict", "default": []},
        "chart_path": {"type": "path"},
        "values": {"type": "dict", "default": {}},
        "binary_path": {"type": "path"},
        "operator_image": {"type": "str"},
        "app_version": {"type": "str"},
        "helm_timeout": {"type": "str", "default": "5m0s"},
        "break_lock": {"type": "bool", "default": False},
        "allow_disruption": {"type": "bool", "default": False},
        "assume_held": {"type": "bool", "default": False},
        "assume_removed": {"type": "bool", "default": False},
    },
).including(CONNECTION, CHECK_REFUSAL)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: prepare.ensure(
            Cluster(module.params, module.check_mode),
            module.params,
            Helm(module, module.params["binary_path"]) if module.params["chart_path"] else None,
        ),
        secrets=["clusterpolicy", "gpucluster", "nvidiadrivers", "values"],
        libraries={"PyYAML": HAS_YAML},
        passed_on=("clusterpolicy_schema",),
    )


if __name__ == "__main__":
    main()
