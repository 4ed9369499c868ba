# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Platforms on which the stack behaves in another way: Talos and other immutable systems, Jetson, WSL2."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_VERSION = pattern(
    r"error processing OS major version (?P<version>[\w.-]+): strconv\.Atoi", "error processing os major version"
)
_MINOR = pattern(
    r"error getting GPU device minor number: Not Supported", "error getting gpu device minor number: not supported"
)
_WSL = pattern(r"WSL environment detected but no adapters were found", "wsl environment detected but no adapters")
_READ_ONLY = pattern(
    r"(?:mkdir|open|creat|rename|symlink|write|remove)\w* [^/]{0,80}?(?P<path>/(?:usr|opt|etc|lib|var)[\w/.-]*)"
    r".{0,120}read-only file system",
    "read-only file system",
    of=("toolkit", "driver", "validator", "device-plugin", "mig-manager", "dra", "containerd"),
)

_OPERATOR = "https://github.com/NVIDIA/gpu-operator/"

RULES = (
    Rule(
        code="OSVersionNotParsed",
        title="The operator cannot read the version of the node's system",
        severity="failure",
        cause="The operator takes the version of the node's operating system from its labels and cannot read "
        "{version}: this release expects a number. Versions that begin with v, such as those of Talos, are read from "
        "v26.3.1 on. Until then it changes nothing on the cluster.",
        remedy="Run playbooks/upgrade_operator.yml to v26.3.1 or newer.",
        sources=(f"{_OPERATOR}issues/2239",),
        patterns=(_VERSION,),
        explains=NOT_READY | {"OperatorNotAvailable"},
    ),
    Rule(
        code="DevicePathsNotSupported",
        title="The GPUs of this platform have no device numbers for the device plugin",
        severity="failure",
        cause="NVML does not support the minor numbers of GPUs on this platform: that is so on Tegra (Jetson) and "
        "under WSL2. What needs the paths of devices does not work there, such as sharing by MPS.",
        remedy="Share GPUs by time-slicing (sharing_configs of playbooks/sharing.yml), or not at all, on these nodes. "
        "On Jetson, use the device plugin with its discovery strategy tegra; under WSL2, a release of the device "
        "plugin from v0.15 on.",
        sources=(
            "https://github.com/NVIDIA/k8s-device-plugin/issues/1412",
            "https://github.com/NVIDIA/k8s-device-plugin/tree/1b826acc6/internal/rm",
        ),
        patterns=(_MINOR,),
        explains=NOT_READY,
    ),
    Rule(
        code="WSLWithoutGPU",
        title="WSL shows no GPU to Linux",
        severity="failure",
        cause="The toolkit runs under WSL2 and finds no adapter (/dev/dxg): Windows has no driver with support for "
        "WSL, or the container does not see the device.",
        remedy="Run nvidia-smi in the WSL distribution itself. If it fails, update NVIDIA's driver in Windows (never "
        "install one in WSL) and run wsl --update; if it works, run the container privileged or with /dev/dxg.",
        sources=(
            "https://docs.nvidia.com/cuda/wsl-user-guide/",
            "https://github.com/NVIDIA/libnvidia-container/blob/main/src/nvc.c",
        ),
        patterns=(_WSL,),
        certainty="likely",
    ),
    Rule(
        code="HostReadOnly",
        title="A component cannot write on an immutable system",
        severity="failure",
        cause="The component writes below {path}, and the file system of the host is read-only there. Talos, "
        "Bottlerocket, Flatcar and Container-Optimized OS keep most of their files so.",
        remedy="Use the driver and the toolkit of the system itself (driver.enabled: false and toolkit.enabled: false "
        "in operator_values, then playbooks/site.yml), or give the toolkit a folder that is writable "
        "(toolkit.installDir).",
        sources=(
            f"{_OPERATOR}issues/2382",
            "https://github.com/siderolabs/talos/issues/8402",
        ),
        patterns=(_READ_ONLY,),
        certainty="likely",
        explains=NOT_READY,
    ),
)
