# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which component a line is of."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import whose_line


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("pod gpu-operator/nvidia-driver-daemonset-x7k2p, container k8s-driver-manager", "driver-manager"),
        ("pod gpu-operator/nvidia-driver-daemonset-x7k2p, container nvidia-driver-ctr", "driver"),
        ("pod gpu-operator/nvidia-dcgm-exporter-x7k2p, container toolkit-validation", "validator"),
        ("pod nvidia-dra-driver-gpu-kubelet-plugin-x7k2p, container compute-domains", "dra"),
        ("pod gpu-operator-7f8b9c, container gpu-operator", "operator"),
        ("journal of kubelet", "kubelet"),
        ("journal of nvidia-fabricmanager", "fabric-manager"),
        ("kernel log", "kernel"),
        ("event of pod gpu-operator/nvidia-driver-daemonset-x7k2p", ""),
        ("bug.txt line 7", ""),
        ("", ""),
    ],
)
def test_the_component_of_a_source(source: str, key: str) -> None:
    assert whose_line.of_source(source) == key


@pytest.mark.parametrize("operand", operands.OPERANDS, ids=lambda each: each.name)
def test_every_operand_is_a_component(operand: operands.Operand) -> None:
    """Its pods and its container are known, and are of one component."""
    by_pod = whose_line.of_source(f"pod gpu-operator/{operand.daemonset}-x7k2p")
    by_container = whose_line.of_source(f"pod gpu-operator/x, container {operand.container}")
    assert by_pod == by_container != ""


def test_a_line_of_the_kubelet_that_quotes_the_toolkit_is_of_both() -> None:
    text = "failed to start container: nvidia-container-cli: mount error"
    assert whose_line.of_line(text, "journal of kubelet") == ("kubelet", "toolkit")
    assert whose_line.of_line(text, "") == ("toolkit",)
    assert whose_line.of_line("the fan is loud", "") == ()


def test_no_two_components_have_one_key() -> None:
    assert len(whose_line.BY_KEY) == len(whose_line.COMPONENTS)


def test_the_lines_around_name_the_component_of_a_line_without_a_name() -> None:
    assert whose_line.near(["Error: unable to load config", "error running nvidia-toolkit: exit status 1"]) == "toolkit"
    assert whose_line.near(["mig-parted failed", "error running nvidia-toolkit"]) == "", "two components: nobody knows"
    assert whose_line.near(["kubelet[7]: error", "CUDA error: unknown"]) == "", "these quote anything"
    assert whose_line.near([]) == ""


@pytest.mark.parametrize(
    ("text", "key"),
    [
        # https://github.com/Mellanox/doca-driver-build/issues/52
        ("++ eval '/etc/init.d/openibd restart'", "network-driver"),
        # https://github.com/kubevirt/kubevirt/issues/17694
        ("Process exited prior to exec: libvirt: error : cannot limit locked memory", "libvirt"),
        # https://github.com/kata-containers/kata-containers/issues/10470
        ("timed out connecting to vsock 1521785742:1024: unknown", "kata"),
        # https://github.com/NVIDIA/k8s-device-plugin/issues/1094
        ("[2024-12-10 06:38:01.120 Control    64] Accepting connection...", "device-plugin"),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/1517
        ("Failed to start nvidia-cdi-refresh.service - Refresh NVIDIA CDI specification file.", "toolkit"),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1218
        ("Warning  FailedPrepareDynamicResources  22s   kubelet            Failed to prepare", "kubelet"),
    ],
)
def test_lines_that_strangers_posted_name_their_component(text: str, key: str) -> None:
    assert whose_line.of_line(text, "")[0] == key
