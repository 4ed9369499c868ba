# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import driver_chart

from tests.unit.fakes.claimed import separate_driver
from tests.unit.fakes.stack import Json


def test_the_release_of_the_chart_is_named_with_the_way_out() -> None:
    (found,) = driver_chart.separate_drivers([separate_driver()])
    assert str(found) == (
        "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu-kubelet-plugin, of Helm's release nvidia-dra-driver-gpu/dra"
    )
    assert found.way_out.endswith("Then run: helm uninstall dra --namespace nvidia-dra-driver-gpu.")
    assert found.way_out.index("ComputeDomains") < found.way_out.index("helm uninstall")


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("x-kubelet-plugin", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.1"),
        ("x-kubelet-plugin", "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1"),
        ("nvidia-dra-driver-gpu-kubelet-plugin", "mirror.example.com/dra:1"),
    ],
)
def test_every_line_of_the_chart_is_known(name: str, image: str) -> None:
    assert driver_chart.separate_drivers([separate_driver(name, image)])


def changed(**metadata: t.Any) -> Json:
    item = separate_driver()
    return {**item, "metadata": {**item["metadata"], **metadata}}


def test_that_of_the_operator_and_one_that_runs_nowhere_are_none() -> None:
    owned = changed(ownerReferences=[{"kind": "GPUCluster", "name": "gpu-cluster"}])
    idle = {**separate_driver(), "status": {"desiredNumberScheduled": 0}}
    assert driver_chart.separate_drivers([owned, idle, separate_driver("other", "example.com/other:1")]) == []


def test_one_that_helm_has_not_installed_goes_where_it_comes_from() -> None:
    labels = {"helm.toolkit.fluxcd.io/name": "dra", "helm.toolkit.fluxcd.io/namespace": "flux"}
    (found,) = driver_chart.separate_drivers([changed(labels=labels, annotations={})])
    assert "Flux (HelmRelease flux/dra)" in str(found) and "helm uninstall" not in found.way_out
    assert "(the label helm.toolkit.fluxcd.io/name)" in found.way_out


def test_daemonsets_of_one_release_are_one_driver() -> None:
    assert len(driver_chart.separate_drivers([separate_driver(), separate_driver("nvidia-dra-driver-2")])) == 1
