# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.nfd import (
    Installation,
    installations,
    workers,
)


def worker(
    image: str,
    *,
    name: str = "nfd-worker",
    release: str | None = None,
    command: list[str] | None = None,
    container: str = "worker",
) -> dict:
    annotations = {"meta.helm.sh/release-name": release} if release else {}
    containers = [{"name": container, "image": image, "command": command or []}]
    return {
        "metadata": {"name": name, "namespace": "nfd", "annotations": annotations},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def test_a_worker_is_recognized_by_its_image_and_its_release_by_helms_annotation() -> None:
    found = installations(
        [worker("registry.k8s.io/nfd/node-feature-discovery:v0.19.0", release="gpu-operator"), worker("busybox")]
    )
    assert found == [Installation("nfd", "nfd-worker", "gpu-operator")]
    assert found[0].belongs_to("gpu-operator", "nfd")
    assert not found[0].belongs_to("gpu-operator", "gpu-operator")
    assert not found[0].belongs_to("other", "nfd")
    assert str(found[0]) == "nfd/nfd-worker"


def test_workers_are_the_daemonsets_themselves() -> None:
    item = worker("registry.k8s.io/nfd/node-feature-discovery:v0.19.0")
    assert workers([worker("busybox"), item]) == [item]


def test_without_helm_there_is_no_release() -> None:
    item = worker("mirror.example.com/nfd-worker:1")
    item["metadata"]["annotations"] = None
    assert installations([item]) == [Installation("nfd", "nfd-worker", None)]


def test_the_topology_updater_sets_no_labels() -> None:
    image = "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"
    assert (
        installations([worker(image, command=["nfd-topology-updater"]), worker(image, container="topology-updater")])
        == []
    )
