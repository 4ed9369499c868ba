# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Claims that are not prepared or not released: lines that the DRA driver, the API server and the kubelet write."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import claims, partitions

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/kubelet/cm/dra
        (
            "FailedPrepareDynamicResources: Failed to prepare dynamic resources: plugin name gpu.nvidia.com not found in the list of registered DRA plugins",
            "DRAPluginNotRegistered",
            "likely",
        ),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/kubelet/cm/dra
        (
            "prepare dynamic resources: DRA driver compute-domain.nvidia.com is not registered",
            "DRAPluginNotRegistered",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/598
        (
            'prepare devices failed: error getting opaque device configs: error decoding config parameters: strict decoding error: unknown field "unexpectedField"',
            "ClaimConfigRefused",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/device_state.go
        (
            "prepare devices failed: error validating GPU config: active thread percentage must not be negative",
            "ClaimConfigRefused",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/webhook/main.go
        (
            'admission webhook "validate.gpu.nvidia.com" denied the request: object at spec.devices.config[0].opaque.parameters is invalid: unknown time-slice interval: Never',
            "ClaimConfigRefused",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/device_state.go
        (
            'prepare devices failed: cannot apply MigDeviceConfig to device "gpu-0" of type "gpu" (request: gpu)',
            "ClaimConfigRefused",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/api/nvidia.com/resource/v1beta1/validate.go
        (
            'error validating GPU config: "TimeSlicing" is selected as the GPU sharing strategy, but the "TimeSlicingSettings" feature gate is not enabled',
            "ClaimSharingGateOff",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/device_state.go
        (
            "requested device channel-0 is already allocated to different claim 4914da61-1a20-42b3-bf26-981025df4289",
            "DeviceHeldByOldClaim",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/device_state.go
        (
            "channel 0 already allocated by claim 4914da61-1a20-42b3 (according to checkpoint)",
            "DeviceHeldByOldClaim",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/device_state.go
        (
            "prepare devices failed: requested device is not allocatable: gpu-0-mig-1g5gb-19-0",
            "ClaimedDeviceGone",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/35
        (
            "error creating MIG device: error creating compute instance: In use by another client",
            "ClaimMIGNotCreated",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/149
        (
            "Error: unable to sync prepared devices from CRD: MIG devices found that aren't prepared to any claim",
            "DynamicMIGMeetsInstances",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1092
        (
            "Called nvml.SetMigMode(nvml.DEVICE_MIG_DISABLE) for device gpu-0-GPU-e7355cf8-5e24-4215-0f08-f1c944533c80, got activationStatus: Not Supported",
            "DynamicMIGWithoutMIG",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1268
        (
            'error binding GPU "0008:01:00.0" to driver "nvgrace-gpu-vfio-pci": open /sys/bus/pci/drivers/nvgrace-gpu-vfio-pci/bind: no such file or directory',
            "ClaimVFIODriverMissing",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/736
        (
            "CDI device injection failed: unresolvable CDI devices k8s.gpu.nvidia.com/device=gpu-1",
            "CDIOfClaimUnread",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/device_state.go
        (
            "prepare devices failed: error applying config: MPS control daemon is not yet ready: control daemon not yet ready",
            "ClaimMPSDaemonFails",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/vfio-device.go
        (
            'error waiting for GPU "0000:01:00.0" to be free: timed out waiting for gpu to be free',
            "GPUNotFreeForPassthrough",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/gpu-kubelet-plugin/device_state.go
        ("fabric manager: GPU module set [1 2 5] does not match any FM partition", "ClaimFitsNoPartition", "certain"),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/kubelet/cm/dra
        ("pod a (u) is not allowed to use ResourceClaim a-gpu (v)", "ClaimNotReserved", "likely"),
        # https://github.com/kubernetes/kubernetes/issues/139772
        ("unprepare dynamic resources: pod default/vm: ResourceClaim not created yet", "ClaimNotUnprepared", "likely"),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/kubelet/cm/dra
        (
            "old ResourceClaim with same name a-gpu and different UID u still exists (previous pod force-deleted?!)",
            "ForcedPodHoldsClaim",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/725
        ("gold-tom   armada-16-gang-469nr7    deleted,allocated,reserved   11h", "ClaimsNotReleased", "likely"),
    ],
)
def test_published_lines_of_claims(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(claims.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_a_mig_instance_that_a_claim_asks_for_is_no_layout_of_the_mig_manager() -> None:
    """Both use NVML's words. The cause of a claim explains the finding about a layout."""
    text = "error creating MIG device: error creating GPU instance for '1g.20gb': Insufficient Resources"
    found = diagnosed.found((*claims.RULES, *partitions.RULES), text)
    assert list(found) == ["ClaimMIGNotCreated"]
    assert [each.code for each in found["ClaimMIGNotCreated"].consequences] == ["MIGLayoutDoesNotFit"]


def test_a_claim_that_cannot_be_undone_follows_from_the_missing_plugin() -> None:
    found = diagnosed.found(
        claims.RULES, diagnosed.event("unprepare dynamic resources: DRA driver gpu.nvidia.com is not registered")
    )
    assert list(found) == ["DRAPluginNotRegistered"]
