# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.manifests import (
    Rendered,
    images,
    operator_image,
    parse_manifests,
)

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


def policy(**spec: object) -> Rendered:
    blocks = ("driver", "toolkit", "dcgm", "nodeStatusExporter", "gds", "vgpuManager", "validator")
    base: dict = {name: {"repository": "r", "image": name.lower(), "version": "1"} for name in blocks}
    base["driver"]["manager"] = {"repository": "r", "image": "manager", "version": "1"}
    for name, change in spec.items():
        base[name] = {**base.get(name, {}), **change} if isinstance(change, dict) else change
    return Rendered({}, [{"kind": "ClusterPolicy", "spec": base}])


def test_an_omitted_enabled_has_the_operators_default() -> None:
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


@pytest.mark.parametrize("key", ["gds", "gdrcopy"])
def test_kernel_modules_run_when_they_are_enabled(key: str) -> None:
    block = {"repository": "r", "image": key, "version": "1"}
    assert f"r/{key}:1" in images(policy(**{key: {**block, "enabled": True}}))
    assert f"r/{key}:1" not in images(policy(**{key: block}))


@pytest.mark.parametrize(
    "key",
    ["vgpuManager", "vgpuDeviceManager", "vfioManager", "sandboxDevicePlugin", "kataSandboxDevicePlugin", "ccManager"],
)
def test_every_operand_of_virtual_machines_has_its_images(key: str) -> None:
    parts = {
        "enabled": True,
        "repository": "r",
        "image": "operand",
        "version": "1",
        "driverManager": {"repository": "r", "image": "helper", "version": "2"},
    }
    found = images(policy(sandboxWorkloads={"enabled": True}, **{key: parts}))
    assert {"r/operand:1", "r/helper:2"} <= set(found)


def test_a_clusterpolicy_without_a_spec_has_no_images_of_its_own() -> None:
    assert images(Rendered({}, [{"kind": "ClusterPolicy"}])) == []


def operator(name: str, image: str) -> dict:
    containers = [{"name": "gpu-operator", "image": image}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": {"template": template}}


def test_the_operators_own_image() -> None:
    rendered = Rendered({}, [operator("nfd-master", "nfd:1"), operator("gpu-operator", "r/gpu-operator:v26.7.0")])
    assert operator_image(rendered) == "r/gpu-operator:v26.7.0"
    assert operator_image(Rendered({}, [operator("nfd-master", "nfd:1")])) is None


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
        f"---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n{metadata}\nspec: {{group: "
        f"example.com}}\n"
    )
    assert list(rendered.crds) == ["things.example.com"]
    assert rendered.objects == []
