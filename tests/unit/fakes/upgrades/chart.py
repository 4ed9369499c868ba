# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small chart with the same interface as the operator's, for tests of the modules that read charts."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {name}
spec:
  group: {group}
  names: {{kind: {kind}, plural: {plural}}}
  scope: Cluster
  versions:
    - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}
"""
FILES = {
    "Chart.yaml": """apiVersion: v2
name: gpu-operator
version: v26.7.0
appVersion: v26.7.0
kubeVersion: '>= 1.16.0-0'
dependencies: [{name: node-feature-discovery, version: 0.19.0, condition: nfd.enabled, repository: ''}]
""",
    "values.yaml": """nfd: {enabled: true}
clusterPolicy: {deployCR: true}
cdi: {enabled: true, nriPluginEnabled: false}
driver: {enabled: true, repository: nvcr.io/nvidia, image: driver, version: 595.91.07}
""",
    "crds/nvidia.com_clusterpolicies.yaml": CRD.format(
        name="clusterpolicies.nvidia.com", group="nvidia.com", kind="ClusterPolicy", plural="clusterpolicies"
    ),
    "templates/clusterpolicy.yaml": """{{ if .Values.clusterPolicy.deployCR }}
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  driver:
    enabled: {{ .Values.driver.enabled }}
    repository: {{ .Values.driver.repository }}
    image: {{ .Values.driver.image }}
    version: {{ .Values.driver.version | quote }}
{{ end }}
""",
    "templates/validations.yaml": """{{ if and .Values.cdi.nriPluginEnabled (not .Values.cdi.enabled) }}
{{ fail "the NRI Plugin cannot be enabled when CDI is disabled" }}
{{ end }}
""",
    "templates/hook.yaml": """apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: pre-upgrade}}
data: {image: hook}
""",
    "charts/node-feature-discovery/Chart.yaml": "apiVersion: v2\nname: node-feature-discovery\nversion: 0.19.0\n",
    "charts/node-feature-discovery/values.yaml": "worker: {}\n",
    "charts/node-feature-discovery/values.schema.json": json.dumps({"properties": {"worker": {"type": "object"}}}),
    "charts/node-feature-discovery/crds/nfd.yaml": CRD.format(
        name="nodefeatures.nfd.k8s-sigs.io", group="nfd.k8s-sigs.io", kind="NodeFeature", plural="nodefeatures"
    ),
}


def write_chart(folder: Path, **changes: t.Any) -> Path:
    """Write the chart to ``folder``. ``changes`` replace files; None leaves out a file."""
    for name, text in {**FILES, **changes}.items():
        if text is not None:
            path = folder / "gpu-operator" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder / "gpu-operator"
