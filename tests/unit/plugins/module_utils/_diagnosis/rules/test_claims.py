# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceClaims and ComputeDomains: the lines that the DRA driver, the API server and the kubelet write."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import claims

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/575
        (
            "error getting PCIe root for device 0: failed to resolve PCIe Root Complex for PCI Bus ID 0001:00:00.0: symlink target for PCI Bus ID 0001:00:00.0 is invalid: it must start with /sys/devices/pci: /sys/devices/LNXSYSTM:00",
            "DRARootNotOnPCI",
            "certain",
        ),
        # https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/cmd/gpu-kubelet-plugin/nvlib.go
        (
            'Error: error creating driver: failed to create device library: failed to locate driver libraries: error locating "libnvidia-ml.so.1"',
            "DRADriverRootWrong",
            "likely",
        ),
        # https://github.com/NVIDIA/gpu-operator/tree/a22dbf671/controllers
        (
            "the resource.k8s.io DeviceClass API is not served by the cluster",
            "ResourceAPINotServed",
            "certain",
        ),
        # https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
        (
            'no matches for kind "ResourceClaimTemplate" in version "resource.k8s.io/v1"',
            "ResourceAPINotServed",
            "certain",
        ),
        # https://github.com/kubernetes/kubernetes/tree/master/pkg/kubelet/cm/dra
        (
            "FailedPrepareDynamicResources: Failed to prepare dynamic resources: plugin name gpu.nvidia.com not found in the list of registered DRA plugins",
            "DRAPluginNotRegistered",
            "likely",
        ),
        # https://github.com/kubernetes/kubernetes/tree/master/pkg/kubelet/cm/dra
        (
            "prepare dynamic resources: DRA driver compute-domain.nvidia.com is not registered",
            "DRAPluginNotRegistered",
            "likely",
        ),
        # https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/cmd/compute-domain-kubelet-plugin
        (
            "error getting cliqueID: unexpected number of unique CliqueIDs found on devices",
            "FabricCliquesDiffer",
            "likely",
        ),
        # https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/cmd/compute-domain-kubelet-plugin
        (
            "prepare devices failed: error asserting ComputeDomain Ready: current node not ready in ComputeDomain",
            "ComputeDomainNotReady",
            "likely",
        ),
        # https://github.com/NVIDIA/aicr/pull/2520
        ("Failed to allocate Imex session ... NV_ERR_IN_USE", "IMEXSessionInUse", "likely"),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/948
        ("[ERROR] Failed to get new memory reference with rc: 87", "IMEXEnsembleChanged", "possible"),
        # https://github.com/NVIDIA/nvbandwidth/issues/39
        (
            "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&handle, size, &prop, 0 )",
            "IMEXChannelMissing",
            "possible",
        ),
    ],
)
def test_published_lines_of_claims(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(claims.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_the_same_words_of_another_component_are_not_about_claims() -> None:
    """The validator of the operator uses them for a driver on the host."""
    line = diagnosed.log("failed to locate nvidia-smi: x", "nvidia-operator-validator-x7k2p", "driver-validation")
    assert not diagnosed.found(claims.RULES, line)
    assert diagnosed.found(claims.RULES, "failed to locate nvidia-smi: x")["DRADriverRootWrong"].certainty == "possible"
