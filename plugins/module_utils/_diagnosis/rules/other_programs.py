# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What programs of several kinds say before they do any work: a library or an answer that does not fit, a sandbox."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_LIBRARY = pattern(
    r"(?P<program>/?[\w./-]*nvidia-[\w.-]+): error while loading shared libraries: (?P<library>[\w.+-]+)",
    "error while loading shared libraries: ",
)
"""The words of the dynamic linker (glibc, elf/dl-error.c), before a program of NVIDIA's has started."""

_TOO_LARGE = pattern(
    r"grpc: received message larger than max \((?P<size>\d+) vs\. (?P<limit>\d+)\)", "received message larger than max"
)
_SANDBOX = (
    pattern(r"registering nvproxy driver: unsupported Nvidia driver ver(?:sion)?", "registering nvproxy driver"),
    pattern(r"unsupported Nvidia driver version: \d", "unsupported nvidia driver version: "),
)
_SANDBOX_ENDS = pattern(r"cannot read client sync file: waiting for sandbox to start: EOF", "client sync file")
_UNMOUNTED = pattern(r"umount: /proc/driver/nvidia: not mounted", "umount: /proc/driver/nvidia")

RULES = (
    Rule(
        code="ProgramLibraryMissing",
        title="A program of the toolkit lacks a library of the system",
        severity="failure",
        cause="The program {program} needs the library {library}, and the system has none that fits. It ends with exit "
        "status 127 before it does anything, so the driver is not the cause.",
        remedy="Run ldd {program} on the host: it marks what is missing. Install the package with the library, or on "
        "an immutable system (Talos, Flatcar) use the extension of the toolkit that fits the system's release.",
        sources=("https://github.com/siderolabs/extensions/issues/751",),
        patterns=(_LIBRARY,),
        certainty="likely",
        explains=NOT_READY | {"ToolkitHookFails"},
    ),
    Rule(
        code="AnswerTooLarge",
        title="An answer is larger than a program accepts",
        severity="failure",
        cause="A program accepts answers of up to {limit} bytes (gRPC) and got {size}. dcgm-exporter asks the kubelet "
        "for the devices of all pods of the node, finished ones included, so many pods make the answer too large. It "
        "then gives no metrics.",
        remedy="Delete finished pods of the node: kubectl get pods -A --field-selector spec.nodeName=NODE shows how "
        "many there are. Then use a newer release of dcgm-exporter (playbooks/upgrade_operator.yml).",
        sources=("https://github.com/NVIDIA/dcgm-exporter/issues/509",),
        patterns=(_TOO_LARGE,),
        certainty="likely",
    ),
    Rule(
        code="SandboxDriverUnsupported",
        title="gVisor does not know the version of the driver",
        severity="failure",
        cause="The pod runs in gVisor, whose nvproxy passes calls to the driver only for versions that it knows, and "
        "the version of this node is none of them.",
        remedy="Run runsc nvproxy list-supported-drivers on the node. Use a driver from that list "
        "(playbooks/upgrade_driver.yml, which drains each node), or a newer release of gVisor.",
        sources=(
            "https://github.com/google/gvisor/issues/12773",
            "https://gvisor.dev/docs/user_guide/gpu/#driver-versions",
        ),
        patterns=_SANDBOX,
        explains=frozenset({"SandboxDoesNotStart"}),
    ),
    Rule(
        code="SandboxDoesNotStart",
        title="A sandbox of gVisor ends at once",
        severity="failure",
        cause="gVisor's sandbox ended before it had started, and the runtime quotes no reason. With GPUs, the usual "
        "one is a driver version that nvproxy does not know.",
        remedy="Run runsc nvproxy list-supported-drivers on the node, and compare the driver's version (nvidia-smi "
        "--query-gpu=driver_version --format=csv). For the reason itself, set debug and debug-log in runsc.toml, and "
        "start the pod again.",
        sources=("https://github.com/google/gvisor/issues/12773",),
        patterns=(_SANDBOX_ENDS,),
        certainty="possible",
    ),
    Rule(
        code="ProcDriverNotMounted",
        title="A tool expects a mount that the toolkit no longer makes",
        severity="failure",
        cause="The tool unmounts /proc/driver/nvidia in a container, as nvkind does. The container toolkit from 1.18.0 "
        "on puts GPUs in through CDI and mounts nothing there.",
        remedy="Use a release of the tool that knows toolkit 1.18, or toolkit 1.17 on this host.",
        sources=("https://github.com/NVIDIA/nvkind/issues/61",),
        patterns=(_UNMOUNTED,),
        certainty="likely",
    ),
)
