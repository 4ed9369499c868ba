# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import chart as _chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.chart import (
    ChartFiles,
    check_values,
    images,
    parse_manifests,
    read_chart,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import image_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

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


def archive(folder: Path) -> Path:
    path = folder.parent / "chart.tgz"
    with tarfile.open(path, "w:gz") as out:
        out.add(folder, "gpu-operator")
    return path


def test_a_folder_and_its_archive_read_the_same(folder: Path) -> None:
    chart = read_chart(str(folder))
    assert read_chart(str(archive(folder))) == chart
    assert chart.metadata["appVersion"] == "v26.7.0"
    assert chart.supports_deploy_cr
    assert chart.subcharts == {"node-feature-discovery", "renamed"}
    assert "livenessProbe" in chart.templates and "notKnownByNotes" not in chart.templates


def test_an_older_chart_cannot_leave_the_clusterpolicy_to_others(folder: Path) -> None:
    (folder / "values.yaml").unlink()
    assert not read_chart(str(folder)).supports_deploy_cr


def test_what_is_no_chart_says_so(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(GpuOpsError, match=r"it has no Chart.yaml"):
        read_chart(str(tmp_path))
    broken = tmp_path / "broken.tgz"
    broken.write_bytes(b"no archive")
    with pytest.raises(GpuOpsError, match="Cannot read the chart at"):
        read_chart(str(broken))
    broken.write_bytes(archive(folder).read_bytes()[:200])
    with pytest.raises(GpuOpsError, match="Cannot read the chart at"):
        read_chart(str(broken))
    (folder / "values.yaml").write_text("a: [")
    with pytest.raises(GpuOpsError, match="Cannot read the chart at") as e:
        read_chart(str(folder))
    assert e.value.reason == "ChartNotFound"


RENDERED = """---
# Source: gpu-operator/crds/nvidia.com_clusterpolicies.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.18.0
  name: clusterpolicies.nvidia.com
spec: {group: nvidia.com}
---
# Source: gpu-operator/templates/empty.yaml
---
kind: CustomResourceDefinition
metadata:
  name: "nodefeatures.nfd.k8s-sigs.io"
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpu-operator}
spec:
  template:
    spec:
      containers:
        - name: gpu-operator
          image: nvcr.io/nvidia/gpu-operator:v26.7.0
          env:
            - {name: DRIVER_MANAGER_IMAGE, value: "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0"}
            - {name: OPERATOR_NAMESPACE, value: x}
            - {name: EMPTY_IMAGE, value: ""}
"""


def test_manifests_are_split_and_crds_stay_text() -> None:
    rendered = parse_manifests(RENDERED)
    assert list(rendered.crds) == ["clusterpolicies.nvidia.com", "nodefeatures.nfd.k8s-sigs.io"]
    assert "controller-gen" in rendered.crds["clusterpolicies.nvidia.com"]
    assert [item["kind"] for item in rendered.objects] == ["Deployment"]
    assert rendered.of_kind("Deployment") and not rendered.of_kind("ClusterPolicy")


def test_images_of_workloads_and_their_variables() -> None:
    assert images(parse_manifests(RENDERED)) == [
        "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0",
        "nvcr.io/nvidia/gpu-operator:v26.7.0",
    ]


@pytest.mark.parametrize(
    ("block", "image"),
    [
        (
            {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"},
            "nvcr.io/nvidia/driver:595.91.07",
        ),
        ({"repository": "r", "image": "i", "version": "sha256:ab"}, "r/i@sha256:ab"),
        ({"image": "mirror/driver@sha256:cd"}, "mirror/driver@sha256:cd"),
        ({"image": "driver", "version": "1"}, None),
        ({"repository": "r", "version": "1"}, None),
        ({"image": ""}, None),
        ({}, None),
    ],
)
def test_image_of_composes_as_the_operator_does(block: dict, image: str | None) -> None:
    assert image_of(block) == image


def policy(**spec: object) -> _chart.Rendered:
    blocks = ("driver", "toolkit", "dcgm", "nodeStatusExporter", "gds", "vgpuManager", "validator")
    base: dict = {name: {"repository": "r", "image": name.lower(), "version": "1"} for name in blocks}
    base["driver"]["manager"] = {"repository": "r", "image": "manager", "version": "1"}
    for name, change in spec.items():
        base[name] = {**base.get(name, {}), **change} if isinstance(change, dict) else change
    return _chart.Rendered({}, [{"kind": "ClusterPolicy", "spec": base}])


def test_an_absent_enabled_means_what_the_operator_means() -> None:
    assert images(policy()) == ["r/dcgm:1", "r/driver:1", "r/manager:1", "r/toolkit:1", "r/validator:1"]


def test_disabled_operands_pull_nothing() -> None:
    off = {"enabled": False}
    assert images(policy(driver=off, toolkit=off, dcgm=off, validator=None)) == []


def test_driver_comes_from_nvidiadrivers_when_they_are_used() -> None:
    rendered = policy(driver={"useNvidiaDriverCRD": True})
    rendered.objects.append(
        {"kind": "NVIDIADriver", "spec": {"repository": "r", "image": "pool", "version": "2", "env": [{"name": "a"}]}}
    )
    assert images(rendered) == ["r/dcgm:1", "r/pool:2", "r/toolkit:1", "r/validator:1"]


def test_sandbox_operands_need_sandbox_workloads() -> None:
    assert "r/vgpumanager:1" not in images(policy(vgpuManager={"enabled": True}))
    assert "r/vgpumanager:1" in images(policy(vgpuManager={"enabled": True}, sandboxWorkloads={"enabled": True}))


def unknown(values: dict, folder: Path) -> dict[str, str]:
    return dict(check_values(values, read_chart(str(folder))))


def test_known_values_pass(folder: Path) -> None:
    values = {
        "driver": {
            "version": "1",
            "livenessProbe": {"periodSeconds": 1},
            "nodeSelector": {"any": "thing"},
            "env": [{"name": "a"}],
        },
        "operator": {"annotations": {"mine": "x"}, "resources": {"requests": {"cpu": 1}}},
        "validator": {"cuda": {"env": []}},
        "node-feature-discovery": {"worker": {"anything": 1}},
        "renamed": {"x": 1},
        "global": {"y": 1},
        "nfd": {"enabled": False},
    }
    assert unknown(values, folder) == {}


def test_misspelt_values_are_named_with_what_was_meant(folder: Path) -> None:
    found = unknown(
        {"driver": {"verison": "1"}, "drivers": {}, "operator": {"logging": {"lvel": "x"}}, "zzz": 1}, folder
    )
    assert found == {
        "driver.verison": "Did you mean driver.version?",
        "drivers": "Did you mean driver?",
        "operator.logging.lvel": "Did you mean operator.logging.level?",
        "zzz": "Helm ignores it. Remove it or correct its name.",
    }


def test_wrong_advice_meets_the_right_field(folder: Path) -> None:
    assert (
        "driver.kernelModuleType"
        in unknown({"driver": {"useOpenKernelModules": True}}, folder)["driver.useOpenKernelModules"]
    )


@pytest.mark.parametrize("value", ["precompiled", True, ["open"]])
def test_a_kernel_module_type_that_cannot_be_is_refused(folder: Path, value: object) -> None:
    with pytest.raises(GpuOpsError, match=r"driver.usePrecompiled") as e:
        unknown({"driver": {"kernelModuleType": value}}, folder)
    assert e.value.reason == "ValuesRefused"


@pytest.mark.parametrize("values", [{"driver": None}, {"driver": "text"}, {"driver": {"kernelModuleType": "open"}}])
def test_odd_blocks_do_not_trip_the_check(values: dict) -> None:
    assert check_values(values, ChartFiles({}, {"driver": {"kernelModuleType": "auto"}}, "")) == []


@pytest.mark.parametrize(
    "metadata",
    [
        "metadata:\n  name: things.example.com",
        "metadata: {name: things.example.com}",
        "metadata: {labels: {a: b}, name: things.example.com}",
    ],
)
def test_crds_are_found_in_any_style(metadata: str) -> None:
    rendered = parse_manifests(
        f"---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n{metadata}\nspec: {{group: example.com}}\n"
    )
    assert list(rendered.crds) == ["things.example.com"]
    assert rendered.objects == []
