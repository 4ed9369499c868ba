#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operator_chart_info
short_description: Resolve, check and render the GPU Operator's Helm chart
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Finds the chart in a Helm repository, an OCI registry, an archive or a folder, and renders it once with the given
    values. It connects to a cluster only with O(use_cluster=true).
  - Returns what the other steps need, such as the local path of the chart, the ClusterPolicy that the values result in,
    the names of the CRDs, and the images.
  - If the chart refuses a value, the task fails with the chart's own message. The module warns about values that the
    chart does not know, because Helm silently ignores them.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would return.
    support: full
    details: A remote chart is downloaded to O(dest) in check mode too.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
    details: This module leaves the cluster as it is.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  chart_ref:
    description:
      - The chart, given as the name of a chart in O(chart_repo_url), as C(repository/chart) of a repository that Helm
        knows, as an C(oci://) or C(https://) URL, or as the path of an archive or a folder.
    type: str
    required: true
  chart_repo_url:
    description: URL of the Helm repository that holds the chart.
    type: str
  chart_version:
    description: Version of the chart. The default is the newest.
    type: str
  chart_digest:
    description:
      - Digest of the chart's archive, as V(sha256:) and what C(sha256sum) prints. An archive with another digest is
        refused, whether it was fetched now or lay in O(dest).
      - Without it, the chart is whatever its source serves.
    type: str
  chart_keyring:
    description:
      - File with the public keys of those who may sign the chart, as C(gpg --export) writes it. An archive is refused
        unless its provenance file says that one of them signed it, whether it was fetched now or lay in O(dest).
      - If the publisher of the chart does not sign it, use O(chart_digest).
    type: path
    version_added: 0.1.0
  dest:
    description:
      - Folder to keep a remote chart in. It is created if it does not exist. If it already has an archive of exactly
        O(chart_version), the module uses this archive instead of contacting the repository.
      - Without this option, RV(chart_path) is null for a remote chart.
    type: path
  release_name:
    description: Name of the Helm release to render.
    type: str
    default: gpu-operator
  release_namespace:
    description: Namespace to render the release for.
    type: str
    default: gpu-operator
  values:
    description: Helm values, as in NVIDIA's documentation.
    type: dict
    default: {}
  use_cluster:
    description:
      - Render the chart for the cluster of the connection options, with its Kubernetes version and the APIs that it
        serves. Charts refuse or leave out what a cluster cannot serve.
    type: bool
    default: false
  kube_version:
    description:
      - Kubernetes version to render the chart for. The default is the cluster's with O(use_cluster=true), and else
        Helm's own.
    type: str
  api_versions:
    description: Additional API versions to render the chart for, for example V(resource.k8s.io/v1/DeviceClass).
    type: list
    elements: str
    default: []
  binary_path:
    description: Path of the C(helm) executable. The default is the one on E(PATH).
    type: path
  registry_username:
    description: User name for the Helm repository or OCI registry, for example V($oauthtoken) for NGC.
    type: str
  registry_password:
    description: Password or API key for the Helm repository or OCI registry. It is kept off the command line.
    type: str
  registry_ca_file:
    description: Certificate authority of the Helm repository or OCI registry.
    type: path
  registry_plain_http:
    description: Use HTTP instead of HTTPS for the OCI registry.
    type: bool
    default: false
requirements:
  - helm >= 3.12
  - PyYAML
seealso:
  - module: gpuops.nvidia.operator_crds
  - module: gpuops.nvidia.clusterpolicy
"""

EXAMPLES = r"""
- name: Fetch NVIDIA's chart and render it
  gpuops.nvidia.operator_chart_info:
    chart_ref: gpu-operator
    chart_repo_url: https://helm.ngc.nvidia.com/nvidia
    chart_version: v26.7.0
    dest: ~/.cache/charts
    values:
      driver:
        version: 595.91.07
  register: chart

- name: List the images that a mirror must hold
  ansible.builtin.debug:
    var: chart.images

- name: Render a chart from a folder for a specific Kubernetes version
  gpuops.nvidia.operator_chart_info:
    chart_ref: ./charts/gpu-operator
    kube_version: 1.36.0

- name: Render a chart for this cluster, with a GPUCluster, which needs Dynamic Resource Allocation
  gpuops.nvidia.operator_chart_info:
    chart_ref: ./charts/gpu-operator
    use_cluster: true
    values:
      clusterPolicy: {deployCR: false}
      gpuCluster: {deployCR: true}
      driver: {nvidiaDriverCRD: {enabled: true}}
"""

RETURN = r"""
chart:
  description: The chart's own name and versions.
  returned: success
  type: dict
  sample: {name: gpu-operator, version: v26.7.0, app_version: v26.7.0, kube_version: ">= 1.16.0-0"}
chart_path:
  description: Path of the chart on this machine, or null if it is remote and O(dest) is not set.
  returned: success
  type: str
  sample: /home/user/.cache/charts/gpu-operator-v26.7.0.tgz
supports_deploy_cr:
  description: Whether the chart has C(clusterPolicy.deployCR), so that Helm need not own the ClusterPolicy.
  returned: success
  type: bool
  sample: true
clusterpolicy:
  description:
    - The ClusterPolicy that the values result in, or null if they disable it.
    - It is to be applied, so it contains the secrets of the values. Use C(no_log) for the task.
  returned: success
  type: dict
  sample:
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {driver: {enabled: true}}
gpucluster:
  description: The GPUCluster that the values result in, or null. It contains the secrets of the values.
  returned: success
  type: dict
nvidiadrivers:
  description: The NVIDIADrivers that the values result in. They contain the secrets of the values.
  returned: success
  type: list
  elements: dict
  sample: []
crds:
  description: Names of the CRDs that the chart contains with these values.
  returned: success
  type: list
  elements: str
  sample: [clusterpolicies.nvidia.com, nvidiadrivers.nvidia.com]
roles:
  description: The RBAC roles that the release would create, with the permissions that they grant.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: ClusterRole
      name: gpu-operator
      namespace: null
      rules: [{apiGroups: [apps], resources: [daemonsets], verbs: [get, list, watch]}]
operator_image:
  description: Image of the operator itself, or null for a chart without an operator.
  returned: success
  type: str
  sample: nvcr.io/nvidia/gpu-operator:v26.7.0
images:
  description:
    - Images of the operator, its dependencies and the enabled operands.
    - The operator completes the tag of the driver's image for each operating system.
  returned: success
  type: list
  elements: str
  sample: [nvcr.io/nvidia/gpu-operator:v26.7.0, nvcr.io/nvidia/k8s-device-plugin:v0.20.0]
unknown_values:
  description: Values that the chart does not know, as paths.
  returned: success
  type: list
  elements: str
  sample: [driver.useOpenKernelModules]
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import RENDER_OPTIONS, Helm
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.info import chart_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run, with_warnings

SPEC = ArgumentSpec(
    {
        "use_cluster": {"type": "bool", "default": False},
        "chart_ref": {"type": "str", "required": True},
        "chart_repo_url": {"type": "str"},
        "chart_version": {"type": "str"},
        "dest": {"type": "path"},
        "registry_username": {"type": "str", "no_log": False},
        "registry_password": {"type": "str", "no_log": True},
        "registry_ca_file": {"type": "path"},
        "chart_digest": {"type": "str"},
        "chart_keyring": {"type": "path", "no_log": False},
        "registry_plain_http": {"type": "bool", "default": False},
    },
    required_together=[("registry_username", "registry_password")],
).including(CONNECTION, RENDER_OPTIONS)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: with_warnings(
            *chart_info(
                Helm(module, module.params["binary_path"]),
                module.params,
                Served(Cluster(module.params)) if module.params["use_cluster"] else None,
            )
        ),
        libraries={"PyYAML": HAS_YAML},
        passed_on=("clusterpolicy", "gpucluster", "nvidiadrivers"),
    )


if __name__ == "__main__":
    main()
