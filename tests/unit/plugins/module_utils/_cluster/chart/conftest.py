# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A chart whose templates use values that its ``values.yaml`` lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

METADATA = """
apiVersion: v2
name: gpu-operator
version: v26.7.0
appVersion: v26.7.0
dependencies:
  - {name: node-feature-discovery, condition: nfd.enabled}
  - {name: other, alias: renamed}
"""

VALUES = """
nfd: {enabled: true}
clusterPolicy: {deployCR: true}
driver:
  enabled: true
  version: 595.91.07
  env: []
  resources: {}
  nodeSelector: {}
operator:
  annotations: {scc: restricted}
  resources: {limits: {cpu: 500m}}
  logging: {level: info}
"""

TEMPLATE = """
{{ if .Values.driver.livenessProbe }}{{ end }}
{{- with .Values.operator.annotations }}{{ toYaml . }}{{ end }}
{{ toYaml .Values.operator.resources | nindent 4 }}
{{ .Values.validator.cuda.env }}
{{ .Values.driver.env.deeper }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chart = tmp_path / "gpu-operator"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(METADATA)
    (chart / "values.yaml").write_text(VALUES)
    (chart / "templates" / "clusterpolicy.yaml").write_text(TEMPLATE)
    (chart / "templates" / "NOTES.txt").write_text("{{ .Values.notKnownByNotes }}")
    return chart
