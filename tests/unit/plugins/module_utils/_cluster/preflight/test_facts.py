# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.facts import facts

from tests.unit.plugins.module_utils._cluster.preflight.clusters import bare, node, snapshot


def test_facts() -> None:
    found = facts(snapshot(nodes=[node("a"), node("b", kernel="6.11"), bare("cpu", runtime="docker://1")]))
    assert found == {
        "kubernetes_version": "v1.36.3",
        "nodes": 3,
        "gpu_nodes": ["a", "b"],
        "container_runtimes": {"containerd://2.1.4": 2},
        "operating_systems": {"ubuntu 24.04": 2},
        "kernels": {"6.8.0-60-generic": 1, "6.11": 1},
        "nfd": ["gpu-operator"],
        "platforms": {"unknown": 2},
        "preset": None,
        "cloud": None,
        "namespace": None,
    }
    assert facts(snapshot(nodes=[bare()]))["gpu_nodes"] is None
    assert (
        facts(snapshot(nodes=[node(labels={"feature.node.kubernetes.io/pci-10de.present": None})]))["gpu_nodes"] == []
    )


@pytest.mark.parametrize("labels", [{}, {"a": "b"}])
def test_facts_include_the_namespace(labels: dict[str, str]) -> None:
    namespace = {"metadata": {"name": "gpu-operator", **({"labels": labels} if labels else {})}}
    assert facts(snapshot(namespace=namespace))["namespace"] == {"name": "gpu-operator", "labels": labels}
