# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operands: one row each, in the order of a reconciliation."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

Json = dict[str, t.Any]

VALIDATOR = "validator"
"""The spec block with the image of the validation init containers."""


@dataclass(frozen=True)
class Init:
    """An init container, and the spec block with its image (None: the operand's own block)."""

    name: str
    image_of: str | None = VALIDATOR
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Operand:
    """One operand.

    ``spec`` is its block of the ClusterPolicy, ``deploy`` the end of its node label, and ``default`` the value of an
    omitted ``enabled``.
    """

    state: str
    spec: str
    daemonset: str
    container: str
    deploy: str
    image_env: str
    account: str
    init: tuple[Init, ...] = ()
    default: bool = True
    sandbox: str | None = None
    """The mode of sandboxed workloads in which it runs ("" for any mode); None for an operand of containers."""
    selector: str = "app"
    part_of: str | None = None
    runtime_class: bool = False
    host_pid: bool = False
    mig_strategy: bool = False
    shares_gpus: bool = False
    """Whether it reads the configuration of the device plugin."""
    on_delete: bool = False
    ports: tuple[tuple[str, int], ...] = ()
    service: tuple[str, int] | None = None
    config_maps: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    """Node labels that its pods require besides its own."""

    @property
    def node_label(self) -> str:
        """The node label that its pods require."""
        return f"nvidia.com/gpu.deploy.{self.deploy}"

    @property
    def selected(self) -> Json:
        """The DaemonSet's selector."""
        return {self.selector: self.daemonset, **({"app.kubernetes.io/part-of": self.part_of} if self.part_of else {})}

    def enabled(self, spec: Json) -> bool:
        """Return whether a ClusterPolicy's spec enables the operand."""
        sandbox = spec.get("sandboxWorkloads") or {}
        if self.sandbox is not None:
            wrong_mode = self.sandbox not in ("", sandbox.get("mode", "kubevirt"))
            if not sandbox.get("enabled") or wrong_mode:
                return False
        if self.state in ("state-operator-validation", "state-sandbox-validation"):
            return True
        value = (spec.get(self.spec) or {}).get("enabled")
        return self.default if value is None else bool(value)


_DRIVER_MANAGER = (
    ("NVIDIA_VISIBLE_DEVICES", "void"),
    ("ENABLE_GPU_POD_EVICTION", "true"),
    ("ENABLE_AUTO_DRAIN", "false"),
    ("DRAIN_USE_FORCE", "false"),
    ("DRAIN_POD_SELECTOR_LABEL", ""),
    ("DRAIN_TIMEOUT_SECONDS", "0s"),
    ("DRAIN_DELETE_EMPTYDIR_DATA", "false"),
)
_TOOLKIT = Init("toolkit-validation")
_DRIVER = Init("driver-validation", env=(("WITH_WAIT", "true"), ("COMPONENT", "driver")))
_VFIO = Init("vfio-pci-validation")
_VGPU_DEVICES = Init("vgpu-devices-validation")
_VGPU_MANAGER = Init("vgpu-manager-validation")

OPERANDS = (
    Operand(
        "state-driver",
        "driver",
        "nvidia-driver-daemonset",
        "nvidia-driver-ctr",
        "driver",
        "DRIVER_IMAGE",
        "nvidia-driver",
        (Init("k8s-driver-manager", "driver.manager", _DRIVER_MANAGER),),
        host_pid=True,
        on_delete=True,
        config_maps=("nvidia-driver-startup-probe",),
    ),
    Operand(
        "state-container-toolkit",
        "toolkit",
        "nvidia-container-toolkit-daemonset",
        "nvidia-container-toolkit-ctr",
        "container-toolkit",
        "CONTAINER_TOOLKIT_IMAGE",
        "nvidia-container-toolkit",
        (_DRIVER,),
        host_pid=True,
        config_maps=("nvidia-container-toolkit-entrypoint",),
    ),
    Operand(
        "state-operator-validation",
        "validator",
        "nvidia-operator-validator",
        "nvidia-operator-validator",
        "operator-validator",
        "VALIDATOR_IMAGE",
        "nvidia-operator-validator",
        (
            _DRIVER,
            Init("toolkit-validation", env=(("WITH_WAIT", "false"), ("COMPONENT", "toolkit"))),
            Init("cuda-validation", env=(("WITH_WAIT", "false"), ("COMPONENT", "cuda"))),
            Init(
                "plugin-validation", env=(("COMPONENT", "plugin"), ("WITH_WAIT", "false"), ("WITH_WORKLOAD", "false"))
            ),
        ),
        part_of="gpu-operator",
        runtime_class=True,
    ),
    Operand(
        "state-device-plugin",
        "devicePlugin",
        "nvidia-device-plugin-daemonset",
        "nvidia-device-plugin",
        "device-plugin",
        "DEVICE_PLUGIN_IMAGE",
        "nvidia-device-plugin",
        (_TOOLKIT,),
        runtime_class=True,
        mig_strategy=True,
        shares_gpus=True,
        config_maps=("nvidia-device-plugin-entrypoint",),
    ),
    Operand(
        "state-mps-control-daemon",
        "devicePlugin",
        "nvidia-device-plugin-mps-control-daemon",
        "mps-control-daemon-ctr",
        "device-plugin",
        "DEVICE_PLUGIN_IMAGE",
        "nvidia-device-plugin",
        (_TOOLKIT, Init("mps-control-daemon-mounts", None)),
        runtime_class=True,
        host_pid=True,
        mig_strategy=True,
        shares_gpus=True,
        needs=(("nvidia.com/mps.capable", "true"),),
    ),
    Operand(
        "state-dcgm",
        "dcgm",
        "nvidia-dcgm",
        "nvidia-dcgm-ctr",
        "dcgm",
        "DCGM_IMAGE",
        "nvidia-dcgm",
        (_TOOLKIT,),
        runtime_class=True,
        ports=(("dcgm", 5555),),
        service=("nvidia-dcgm", 5555),
    ),
    Operand(
        "state-dcgm-exporter",
        "dcgmExporter",
        "nvidia-dcgm-exporter",
        "nvidia-dcgm-exporter",
        "dcgm-exporter",
        "DCGM_EXPORTER_IMAGE",
        "nvidia-dcgm-exporter",
        (_TOOLKIT,),
        runtime_class=True,
        ports=(("metrics", 9400),),
        service=("nvidia-dcgm-exporter", 9400),
    ),
    Operand(
        "gpu-feature-discovery",
        "gfd",
        "gpu-feature-discovery",
        "gpu-feature-discovery",
        "gpu-feature-discovery",
        "GFD_IMAGE",
        "nvidia-gpu-feature-discovery",
        (_TOOLKIT,),
        part_of="nvidia-gpu",
        runtime_class=True,
        mig_strategy=True,
        shares_gpus=True,
    ),
    Operand(
        "state-mig-manager",
        "migManager",
        "nvidia-mig-manager",
        "nvidia-mig-manager",
        "mig-manager",
        "MIG_MANAGER_IMAGE",
        "nvidia-mig-manager",
        (_TOOLKIT,),
        runtime_class=True,
        host_pid=True,
        config_maps=("nvidia-mig-manager-entrypoint", "default-mig-parted-config", "default-gpu-clients"),
    ),
    Operand(
        "state-node-status-exporter",
        "nodeStatusExporter",
        "nvidia-node-status-exporter",
        "nvidia-node-status-exporter",
        "node-status-exporter",
        "VALIDATOR_IMAGE",
        "nvidia-node-status-exporter",
        default=False,
        ports=(("node-status", 8000),),
        service=("nvidia-node-status-exporter", 8000),
    ),
    Operand(
        "state-vgpu-manager",
        "vgpuManager",
        "nvidia-vgpu-manager-daemonset",
        "nvidia-vgpu-manager-ctr",
        "vgpu-manager",
        "VGPU_MANAGER_IMAGE",
        "nvidia-vgpu-manager",
        (Init("k8s-driver-manager", "vgpuManager.driverManager"),),
        default=False,
        sandbox="",
        host_pid=True,
        on_delete=True,
    ),
    Operand(
        "state-vgpu-device-manager",
        "vgpuDeviceManager",
        "nvidia-vgpu-device-manager",
        "nvidia-vgpu-device-manager",
        "vgpu-device-manager",
        "VGPU_DEVICE_MANAGER_IMAGE",
        "nvidia-vgpu-device-manager",
        (_VGPU_MANAGER,),
        default=False,
        sandbox="",
        config_maps=("default-vgpu-devices-config",),
    ),
    Operand(
        "state-sandbox-validation",
        "validator",
        "nvidia-sandbox-validator",
        "nvidia-sandbox-validator",
        "sandbox-validator",
        "VALIDATOR_IMAGE",
        "nvidia-sandbox-validator",
        (Init("cc-manager-validation"), _VFIO, _VGPU_MANAGER, _VGPU_DEVICES),
        sandbox="",
        part_of="gpu-operator",
    ),
    Operand(
        "state-vfio-manager",
        "vfioManager",
        "nvidia-vfio-manager",
        "nvidia-vfio-manager",
        "vfio-manager",
        "VFIO_MANAGER_IMAGE",
        "nvidia-vfio-manager",
        (Init("k8s-driver-manager", "vfioManager.driverManager"),),
        default=False,
        sandbox="",
        selector="name",
    ),
    Operand(
        "state-sandbox-device-plugin",
        "sandboxDevicePlugin",
        "nvidia-sandbox-device-plugin-daemonset",
        "nvidia-sandbox-device-plugin-ctr",
        "sandbox-device-plugin",
        "SANDBOX_DEVICE_PLUGIN_IMAGE",
        "nvidia-sandbox-device-plugin",
        (_VFIO, _VGPU_DEVICES),
        default=False,
        sandbox="kubevirt",
    ),
    Operand(
        "state-kata-device-plugin",
        "kataSandboxDevicePlugin",
        "nvidia-kata-sandbox-device-plugin-daemonset",
        "nvidia-kata-sandbox-device-plugin-ctr",
        "kata-sandbox-device-plugin",
        "KATA_SANDBOX_DEVICE_PLUGIN_IMAGE",
        "nvidia-kata-sandbox-device-plugin",
        (_VFIO,),
        default=False,
        sandbox="kata",
    ),
    Operand(
        "state-cc-manager",
        "ccManager",
        "nvidia-cc-manager",
        "nvidia-cc-manager",
        "cc-manager",
        "CC_MANAGER_IMAGE",
        "nvidia-cc-manager",
        default=False,
        sandbox="kata",
        selector="name",
    ),
)
