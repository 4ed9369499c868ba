# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The DRA driver itself: lines that its programs, its chart, the kubelet and the API server write."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import dra_plugin

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/724
        (
            'could not parse "MPSSupport=false,PassthroughSupport=false," from environment variable "FEATURE_GATES" as value for flag feature-gates: unrecognized feature gate: PassthroughSupport',
            "DRAGateUnknown",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/pkg/featuregates/featuregates.go
        (
            "feature gate validation failed: feature gate DynamicMIG is currently mutually exclusive with MPSSupport",
            "DRAGatesConflict",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/pkg/featuregates/featuregates.go
        (
            "feature gate validation failed: feature gate DeviceMetadata requires PassthroughSupport to also be enabled",
            "DRAGatesConflict",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/main.go
        (
            "invalid CLI flags: --consumable-shares requires feature gate ConsumableShares to be enabled",
            "DRAGatesConflict",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/pkg/imex/imex.go
        (
            'imex configuration validation failed: imex.mode="hostManaged" requires the HostManagedIMEXDaemon feature gate to be enabled',
            "DRAGatesConflict",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/575
        (
            "error getting PCIe root for device 0: failed to resolve PCIe Root Complex for PCI Bus ID 0001:00:00.0: symlink target for PCI Bus ID 0001:00:00.0 is invalid: it must start with /sys/devices/pci: /sys/devices/LNXSYSTM:00",
            "DRARootNotOnPCI",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/nvlib.go
        (
            'Error: error creating driver: failed to create device library: failed to locate driver libraries: error locating "libnvidia-ml.so.1"',
            "DRADriverRootWrong",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/hack/kubelet-plugin-prestart.sh
        (
            "Check failed. Has the NVIDIA GPU driver been set up? It is expected to be installed under NVIDIA_DRIVER_ROOT (currently set to '/') in the host filesystem.",
            "DRADriverRootWrong",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/hack/kubelet-plugin-prestart.sh
        (
            "2026-06-16T10:40:12Z  /driver-root (/ on host): nvidia-smi: not found, libnvidia-ml.so.1: not found, current contents: [bin].",
            "DRADriverRootWrong",
            "likely",
        ),
        # https://github.com/NVIDIA/gpu-operator/tree/a22dbf671/controllers
        ("the resource.k8s.io DeviceClass API is not served by the cluster", "ResourceAPINotServed", "certain"),
        # https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
        (
            'no matches for kind "ResourceClaimTemplate" in version "resource.k8s.io/v1"',
            "ResourceAPINotServed",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/deployments/helm/dra-driver-nvidia-gpu/templates/validation.yaml
        ("No supported resource.k8s.io API version found in the cluster.", "ResourceAPINotServed", "certain"),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/766
        (
            "Failed to prepare dynamic resources: failed to fetch ResourceClaim c-0-hlldb referenced by pod c: the server could not find the requested resource",
            "KubeletAsksOldClaimAPI",
            "likely",
        ),
        # https://github.com/kubernetes/kubernetes/issues/124962
        (
            "failed registration process: RegisterPlugin error -- no handler registered for plugin type: DRAPlugin at socket /var/lib/kubelet/plugins_registry/gpu.nvidia.com-reg.sock",
            "KubeletWithoutDRA",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/device_state.go
        (
            "IMEXDaemonsWithDNSNames feature requires GPU driver version >= 570.158.01, but found 565.57.01",
            "DRANeedsNewerDriver",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/219
        (
            "resourceslices.resource.k8s.io \"x\" is forbidden: ValidatingAdmissionPolicy 'resourceslices-policy' with binding 'resourceslices-policy' denied request: this user running on node 'a' may not modify cluster resourceslices\"",
            "ResourceSliceRefused",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-cpu/pull/217
        (
            'err="create resource slice: ResourceSlice.resource.k8s.io \\"a\\" is invalid: [spec.devices[0].attributes[numa-1]: Invalid value',
            "ResourceSliceInvalid",
            "certain",
        ),
        # https://kubernetes.io/docs/reference/access-authn-authz/rbac/
        (
            'resourceslices.resource.k8s.io is forbidden: User "system:serviceaccount:dra:plugin" cannot create resource "resourceslices" in API group "resource.k8s.io" at the cluster scope',
            "DRALacksPermission",
            "certain",
        ),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/staging/src/k8s.io/dynamic-resource-allocation/resourceslice
        (
            'pool "gpu-0000", slice #0: some fields were dropped by the apiserver, probably because these features are disabled: DRADeviceTaints',
            "ClusterLacksDRAGate",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/device_state.go
        (
            "Error: error creating driver: unable to get checkpoint: checkpoint is corrupted",
            "DRACheckpointUnreadable",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/vfio-device.go
        (
            "unable to create vfio pci manager: IOMMU is not enabled in the kernel",
            "DRAPassthroughWithoutIOMMU",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/device_state.go
        (
            "FabricManagerPartitioning enabled but fabric manager library not found: no such file",
            "DRAWithoutFabricManager",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/deployments/helm/dra-driver-nvidia-gpu/templates/validation.yaml
        (
            "However, when 'resources.gpus.enabled=true' this DRA driver cannot be deployed alongside the standard GPU device plugin on the same node.",
            "DRABesideDevicePlugin",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-daemon/main.go
        ("CDI container edits did not apply -- is CDI enabled in your container runtime?", "CDIOffForDRA", "likely"),
    ],
)
def test_lines_of_a_dra_driver_that_does_not_start_or_publish(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(dra_plugin.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_the_same_words_of_another_component_are_not_about_the_dra_driver() -> None:
    """The validator of the operator uses them for a driver on the host."""
    line = diagnosed.log("failed to locate nvidia-smi: x", "nvidia-operator-validator-x7k2p", "driver-validation")
    assert not diagnosed.found(dra_plugin.RULES, line)
    found = diagnosed.found(dra_plugin.RULES, "failed to locate nvidia-smi: x")
    assert found["DRADriverRootWrong"].certainty == "possible"


def test_a_gate_that_a_container_of_the_driver_does_not_know_is_named_without_its_variable() -> None:
    text = 'invalid argument "X=true" for "--feature-gates" flag: unrecognized feature gate: X'
    line = diagnosed.log(text, "nvidia-dra-driver-gpu-kubelet-plugin-x7k2p", "gpus")
    assert diagnosed.found(dra_plugin.RULES, line)["DRAGateUnknown"].certainty == "certain"
    assert not diagnosed.found(dra_plugin.RULES, diagnosed.log(text, "node", "kubelet", "unit"))
