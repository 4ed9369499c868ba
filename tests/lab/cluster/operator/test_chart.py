# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in's chart accepts and refuses the same values as NVIDIA's chart."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster.controlplane import toolchain
from lab.cluster.operator import CHART

DRA = "resource.k8s.io/v1/DeviceClass"
Objects = dict[tuple[str, str], dict[str, t.Any]]


@pytest.fixture(scope="module")
def helm() -> Path:
    return toolchain.provide(lambda line: None)["helm"]


def template(helm: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [helm, "template", "gpu-operator", CHART, "--namespace=gpu-operator", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def render(helm: Path, *options: str) -> Objects:
    answer = template(helm, *options)
    assert answer.returncode == 0, answer.stderr
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(answer.stdout) if item}


def policy(helm: Path, *options: str) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", render(helm, *options)["ClusterPolicy", "cluster-policy"]["spec"])


def test_default_images_carry_the_release(helm: Path) -> None:
    objects = render(helm)
    deployment = objects["Deployment", "gpu-operator"]["spec"]["template"]
    assert deployment["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/gpu-operator:v26.7.0"
    assert deployment["metadata"]["labels"]["app"] == "gpu-operator"
    assert objects["ClusterPolicy", "cluster-policy"]["spec"]["validator"]["version"] == "v26.7.0"


def test_pod_deletion_is_renamed(helm: Path) -> None:
    upgrade = policy(helm, "--set=driver.upgradePolicy.gpuPodDeletion.force=true")["driver"]["upgradePolicy"]
    assert upgrade["podDeletion"] == {"force": True, "timeoutSeconds": 300, "deleteEmptyDir": False}
    assert "gpuPodDeletion" not in upgrade


def test_an_nvidiadriver_gets_the_driver_settings(helm: Path) -> None:
    objects = render(helm, "--set=driver.nvidiaDriverCRD.enabled=true,driver.version=1.2")
    driver = objects["ClusterPolicy", "cluster-policy"]["spec"]["driver"]
    assert set(driver) == {"enabled", "useNvidiaDriverCRD", "upgradePolicy"}
    assert objects["NVIDIADriver", "default"]["spec"]["version"] == "1.2"


def test_false_is_omitted_where_the_chart_tests_for_it(helm: Path) -> None:
    assert "enabled" not in policy(helm, "--set=sandboxDevicePlugin.enabled=false")["sandboxDevicePlugin"]
    assert policy(helm, "--set=dcgm.enabled=false")["dcgm"]["enabled"] is False


def test_node_feature_discovery_is_optional(helm: Path) -> None:
    worker = ("DaemonSet", "gpu-operator-node-feature-discovery-worker")
    labels = render(helm)[worker]["spec"]["template"]["metadata"]["labels"]
    assert (labels["app.kubernetes.io/name"], labels["role"]) == ("node-feature-discovery", "worker")
    assert worker not in render(helm, "--set=nfd.enabled=false")


def test_deploy_cr_off_omits_the_clusterpolicy(helm: Path) -> None:
    assert not [name for kind, name in render(helm, "--set=clusterPolicy.deployCR=false") if kind == "ClusterPolicy"]


def test_a_gpucluster_in_place_of_the_clusterpolicy(helm: Path) -> None:
    objects = render(
        helm,
        "--set=clusterPolicy.deployCR=false,gpuCluster.deployCR=true,driver.nvidiaDriverCRD.enabled=true",
        f"--api-versions={DRA}",
    )
    assert ("GPUCluster", "gpu-cluster") in objects


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ("gpuCluster.deployCR=true", "exclude each other"),
        ("clusterPolicy.deployCR=false,gpuCluster.deployCR=true", "driver.nvidiaDriverCRD.enabled=true"),
        (
            "clusterPolicy.deployCR=false,gpuCluster.deployCR=true,driver.nvidiaDriverCRD.enabled=true",
            "Dynamic Resource Allocation",
        ),
        ("cdi.enabled=false,cdi.nriPluginEnabled=true", "cdi.enabled"),
        ("toolkit.enabled=false,cdi.nriPluginEnabled=true", "toolkit.enabled"),
        ("devicePlugin.config.create=true,devicePlugin.config.name=a", "devicePlugin.config.data"),
        ("devicePlugin.config.create=true,devicePlugin.config.data.a=b", "devicePlugin.config.name"),
    ],
)
def test_refused_values(helm: Path, values: str, word: str) -> None:
    answer = template(helm, f"--set={values}")
    assert answer.returncode != 0
    assert word in answer.stderr


@pytest.mark.parametrize("path", sorted(CHART.rglob("crds/*.yaml")), ids=lambda path: path.name)
def test_schemas_are_structural(path: Path) -> None:
    for crd in yaml.safe_load_all(path.read_text()):
        for version in crd["spec"]["versions"]:
            assert version["schema"]["openAPIV3Schema"]["type"] == "object"
