# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines that are near to what a rule looks for, and of which it must say nothing: another program, or all is well.

They are read by all rules together, as explain reads a pasted text. The tests of the rules have further ones.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.catalogue import RULES

from tests.unit import diagnosed

NEAR: dict[str, t.Sequence[str]] = {
    # Drivers, and hosts
    "CompilerMismatch": ("Performing Compiler check.", "Compiler version check passed"),
    "DriverLibrariesMissing": (
        "nvidia-container-cli: initialization error: load library failed: /usr/lib/libcuda.so: invalid ELF header",
        "INFO[0000] Using /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.560.35.03",
    ),
    "DriverNotLoaded": (
        "modprobe: FATAL: Module nvidia_fs not found in directory /lib/modules/6.8.0-31-generic",
        "NVIDIA-SMI has failed because you do not have suffient permissions. Please try running as an administrator.",
    ),
    "DriverStillInUse": (
        "Unloading NVIDIA driver kernel modules...",
        "rmmod: ERROR: Module nvidia_drm is in use",
    ),
    "DriverToolkitMissing": (
        'INFO DriverToolkit {"image": "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:e5e6de"}',
        "OpenShift DriverToolkit image is available for RHCOS 416.94.202407030122-0",
        "ocpHasDriverToolkitImageStream: driver-toolkit imagestream found",
    ),
    "FabricManagerMismatch": (
        "Fabric Manager version is : 580.95.05, NVIDIA GPU driver interface version 580.95.05 matches",
        "systemd[1]: Version mismatch, kernel version 6.8 user version 6.5",
    ),
    "FabricManagerWithoutSwitches": (
        "request to query NVSwitch device information from NVSwitch driver failed with error: Insufficient permissions",
        "Detected Pre-NVL5 system",
    ),
    "GPUBarUnassigned": (
        "pci 0000:18:00.0: BAR 1: assigned [mem 0x38000000000-0x39fffffffff 64bit pref]",
        "pci 0000:03:00.0: BAR 13: no space for [io  size 0x1000]",
    ),
    "GPUDoesNotAnswer": ("Unable to determine the device name of /dev/nvidia0", "GPU 0000:18:00.0: answers again"),
    "InfoROMCorrupt": ("        Inforom Version\n            Image Version  : G520.0200.00.05",),
    "ModuleForOtherKernel": (
        "nvidia_uvm: module license 'Dual MIT/GPL'",
        "zfs: disagrees about version of symbol module_layout",
        "filename: nvidia.ko\nversion magic: 6.8.0-31-generic SMP preempt mod_unload",
    ),
    "NVLSMMissing": ("The mlx5_core and ib_umad kernel modules have been loaded",),
    "OpenModulesUnsupported": (
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
        "This feature is not supported by open drivers yet",
    ),
    # Runtimes
    "CgroupDriversDiffer": ('cgroupDriver="systemd" is the default, which the docker cgroup driver shares',),
    "RuntimeDefaultUndefined": ('      default_runtime_name = "runc"',),
    "RuntimeTemplateReplaced": ("toml: unexpected token type in inline table: expected comma",),
    "ToolkitHookKilled": ("train.service: Main process exited, code=killed: terminated with signal 9",),
    "ToolkitSocketWrong": (
        "unable to dial: dial unix /runtime/sock-dir/containerd.sock: connect: connection refused",
        "Successfully signaled containerd on /runtime/sock-dir/containerd.sock",
    ),
    # Images and admission
    "CertificateNotValidNow": ("certificate rotation: the certificate has expired and was renewed",),
    "ContextConstraintsRefuse": ("validated against security context constraint: privileged",),
    "ImageIncomplete": ('"image": "k8s-device-plugin", "repository": "nvcr.io/nvidia", "version": ""',),
    "ImageNameInvalid": ("could parse the image name nvcr.io/nvidia/dcgm:4.2.3",),
    "PodSecurityPolicyRefuses": ("Warning: policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+",),
    "PodSecurityRefuses": (
        'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        'pod-security.kubernetes.io/enforce: restricted, violates PodSecurity is only audited',
    ),
    "PriorityClassMissing": ("PriorityClass with name gpu-high was found",),
    "PriorityClassRefused": ("insufficient quota to match these scopes: [{BestEffort Exists []}]",),
    "PullSecretMissing": ("retrieved image pull secrets (ngc-secret)",),
    "QuotaRefuses": ("Warning: 90 % of quota used; requests above it would have exceeded quota",),
    "RegistryProxyFails": ('Get "https://example.com/api": proxyconnect tcp: dial tcp 10.0.0.9:3128: i/o timeout',),
    "RegistryRateLimited": (
        'Get "https://api.github.com/rate": 429 Too Many Requests',
        "Waited for 1.2s due to client-side throttling, not priority and fairness",
    ),
    "RuntimeClassMissing": ('INFO Found Resource, updating... {"RuntimeClass": "nvidia"}',),
    "ServiceAccountMissing": ('INFO Found Resource, skipping update {"ServiceAccount": "nvidia-driver"}',),
    # Pods that ask for GPUs
    "DevicePluginForgotten": ("can't allocate unregistered device gpu.intel.com/i915, which is unexpected",),
    "DevicesTakenForPod": (
        "requested number of devices unavailable for gpu.intel.com/i915. Requested: 1, Available: 0",
    ),
    "LostGPUBlocksAdmission": (
        "GetPreferredAllocation rpc failed with err: rpc error: code = Unimplemented",
        "nvml: GPU is lost",
    ),
    "NoHealthyGPUForPod": (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices squat.ai/zigbee, which",
    ),
    "PodAsksForSeveralShares": ("maximum request size for shared resources is unlimited",),
    # The device plugin, MIG and sharing
    "DeviceHealthUnwatched": ("Failed to start health check: retrying in 5 s",),
    "DevicePluginCannotRegister": ("Registered device plugin for 'nvidia.com/gpu' with Kubelet",),
    "DevicePluginGaveUpGPU": (
        "skipping event {Device:{Handle:0x7f} EventType:8 EventData:43}: application error",
        "XidCriticalError: Xid=48 on Device=GPU-1; it is not one of this container's devices",
    ),
    "MIGLayoutDoesNotFit": ("Successfully created GPU instance ID 9 on GPU 0 using profile MIG 3g.40gb (ID 9)",),
    "MIGLayoutRefused": ("Validating the selected MIG configuration",),
    "MIGLayoutUnknown": ("Selecting specific MIG config... all-1g.10gb is present",),
    "MIGNotCapable": ("    MIG capable: false",),
    "MIGProfileMisnamed": ("Supported MIG Device specified 1g.10gb",),
    "MPSDaemonMissing": (
        "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",
        "MPS daemon is ready",
    ),
    "PluginConfigEmpty": ("2 configuration files available",),
    "PluginConfigMissing": ("Updating to config: time-sliced; the specified config exists",),
    "PluginConfigStuck": ("created symlink /config/config.yaml -> /available-configs/config-3",),
    # The validator and metrics
    "CUDARefusesTest": ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",),
    "DeviceLinksFail": ("Creating symlinks under /dev/char for all NVIDIA device nodes",),
    "DriverOnHostAndInContainer": (
        "nvidia.com/gpu.deploy.driver=pre-installed",
        "The driver was not pre-installed, so it is built now",
    ),
    "DriverRootWrong": ("lstat /run/nvidia/driver/usr/bin: permission denied",),
    "ExporterLacksPrivilege": ('level=info msg="Collecting DCP Metrics"',),
    "ExporterWithoutPodLabels": ('level=info msg="pod labels: app, team"',),
    "ExporterWithoutPods": (
        "failure connecting to /run/dbus/system_bus_socket",
        'level=info msg="Kubernetes metrics collection enabled!"',
    ),
    "ExporterWithoutProfiling": ('level=info msg="Not collecting DCP metrics: switched off by --collect-dcp=false"',),
    "MountNotShared": ('path "/run/nvidia" is mounted on "/run" and is a shared mount',),
    "ValidatorArchitecture": ("RuntimeError: CUDA error: no kernel image is available for execution on the device",),
    "ValidatorKnowsNoDriver": (
        "chroot: failed to run command 'nvidia-persistenced': No such file or directory",
        "driver is ready",
    ),
    "ValidatorNewerThanDriver": (
        "torch: UserWarning: CUDA initialization: CUDA driver version is insufficient for CUDA runtime version",
    ),
    "WaitsForDriver": ("driver validations are ready",),
    "WaitsForToolkit": ("nvidia container toolkit is set up",),
    # The operator and Node Feature Discovery
    "AccountNotPermitted": (
        'secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "default"',
    ),
    "NFDLabelsMissing": ('INFO Number of nodes with GPU label {"NodeCount": 1}', "NFD labels found on 4 nodes"),
    "NoGPUNodeFound": ('INFO Number of GPU nodes in the cluster {"count": 3}',),
    "OperatorLosesLease": ("successfully acquired lease gpu-operator/53822513.nvidia.com",),
    "UpgradeSpecMissing": ("gpuPodDeletion: {force: false, timeoutSeconds: 300}",),
}  # fmt: skip


@pytest.mark.parametrize(("code", "line"), [(code, line) for code, lines in NEAR.items() for line in lines])
def test_a_line_that_is_near_gives_no_finding_of_the_rule(code: str, line: str) -> None:
    assert code not in diagnosed.found(RULES, *line.splitlines())
    assert code not in diagnosed.found(RULES, *map(diagnosed.event, line.splitlines()))


def test_every_near_miss_is_of_a_rule_that_exists() -> None:
    assert set(NEAR) - {rule.code for rule in RULES} == set()
