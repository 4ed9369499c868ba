# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The container toolkit's hook fails for one container: its own faults, stale caches, and what stands in its way."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_IMEX = pattern(r"error parsing IMEX info: unsupported IMEX channel value: (?P<value>\w+)", "error parsing imex info")
_STALE = pattern(
    r"nvidia-container-cli(?:\.real)?: (?:detection|mount) error: (?:open|stat|file lookup) failed: "
    r"(?P<file>/\S+\.so\.(?P<version>\d{3}\.\d[\d.]*)): no such file",
    "no such file",
)
_FILTER = pattern(
    r"failed to add device rules: unable to generate new device filter program", "failed to add device rules"
)
_HOOK = pattern(
    r"error executing hook `?(?P<hook>/[\w/.-]*nvidia-c(?:ontainer-runtime-hook|ontainer-toolkit|di-hook|tk))`? "
    r"\(exit code: (?P<exit>\d+)\)",
    "error executing hook",
)
_REQUIRES = pattern(
    r"requirement error: unsatisfied condition: (?P<wants>(?:cuda|driver|brand|arch)\s*(?:>=|[<>=!]=?)\s*[\w.]+)",
    "unsatisfied condition: ",
)
_REFRESH = pattern(
    r"nvidia-cdi-refresh\.service: (?:Start request repeated|Failed with)|Failed to start nvidia-cdi-refresh\.service",
    "nvidia-cdi-refresh.service",
)
_SHADOWED = pattern(r"runtime/cgo: pthread_create failed: Invalid argument", "pthread_create failed: invalid argument")

_TOOLKIT = "https://github.com/NVIDIA/nvidia-container-toolkit/"
_FOLLOWS = NOT_READY | {"WaitsForToolkit"}

RULES = (
    Rule(
        code="ToolkitIMEXFault",
        title="This release of the container toolkit refuses IMEX channels",
        severity="failure",
        cause="The container toolkit refuses the IMEX channel {value}, which images and pods may ask for. That is a "
        "fault of release 1.17.0.",
        remedy="Update the container toolkit to 1.17.1 or newer: playbooks/upgrade_operator.yml, or "
        "playbooks/site.yml with host_driver_toolkit: true.",
        sources=(f"{_TOOLKIT}pull/776", "https://github.com/pytorch/test-infra/pull/5852"),
        patterns=(_IMEX,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="LibraryCacheStale",
        title="The toolkit looks for libraries of another driver",
        severity="failure",
        cause="The toolkit looks for {file}, and the host has no such file: the driver was changed from {version}, and "
        "the linker's cache or a link still names the former one.",
        remedy="Run ldconfig on the host, and ldconfig -p | grep {version}: it should print nothing. If it does, "
        "remove what is left of the former driver. With CDI, run nvidia-ctk cdi generate "
        "--output=/etc/cdi/nvidia.yaml.",
        sources=("https://github.com/ublue-os/aurora/issues/606",),
        patterns=(_STALE,),
        certainty="likely",
        explains=_FOLLOWS,
    ),
    Rule(
        code="DeviceFilterRefused",
        title="The toolkit cannot let the container open its GPU",
        severity="failure",
        cause="The toolkit adds the GPU to the device filter of the container's cgroup (eBPF), and the kernel refuses "
        "the new filter. The toolkit is too old for this kernel or this container runtime.",
        remedy="Update the container toolkit. Or give GPUs through CDI, which needs no such filter: cdi.enabled: true "
        "in operator_values, and playbooks/site.yml.",
        sources=(f"{_TOOLKIT}issues/396",),
        patterns=(_FILTER,),
        certainty="likely",
        explains=_FOLLOWS,
    ),
    Rule(
        code="ToolkitHookFails",
        title="The toolkit's hook fails",
        severity="failure",
        cause="NVIDIA's hook {hook} ended with exit code {exit} while it set up the container. The runtime does not "
        "quote what the hook said: the driver may not be loaded, its libraries not be found, or SELinux refuse them.",
        remedy="Run journalctl -u crio -g nvidia on the node for the hook's own words, nvidia-container-cli -k -d "
        "/dev/stderr info, and ausearch -m avc -ts recent.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/1598",),
        patterns=(_HOOK,),
        certainty="possible",
        explains=_FOLLOWS,
    ),
    Rule(
        code="ImageNeedsNewerDriver",
        title="An image demands more than the node's driver offers",
        severity="failure",
        cause="The image demands {wants} (NVIDIA_REQUIRE_CUDA), and the driver of the node does not offer it. So the "
        "toolkit refuses to start the container.",
        remedy="Run nvidia-smi on the node: its first line shows the newest CUDA of the driver. Use an image for that "
        "CUDA, or bring the driver to a newer branch (playbooks/upgrade_driver.yml, which drains the node). A program "
        "that is known to work with this driver starts with NVIDIA_DISABLE_REQUIRE=true in its environment.",
        sources=(
            "https://github.com/SyneRBI/PETRIC2/issues/27",
            "https://github.com/ggml-org/llama.cpp/issues/9665",
            "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
        ),
        patterns=(_REQUIRES,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="CDIRefreshFails",
        title="The host's CDI specification is not renewed",
        severity="warning",
        cause="The service nvidia-cdi-refresh fails on the host, so /var/run/cdi/nvidia.yaml is missing or as old as "
        "the driver before. Containers that ask for nvidia.com/gpu through CDI then do not start, or get files that "
        "are gone.",
        remedy="Run nvidia-ctk cdi generate >/dev/null on the host for the reason: no driver is loaded, the "
        "service ran before the GPU was ready, or the toolkit does not fit the driver. Repair that, then run "
        "systemctl restart nvidia-cdi-refresh.",
        sources=(f"{_TOOLKIT}issues/1517", f"{_TOOLKIT}issues/1611"),
        patterns=(_REFRESH,),
        certainty="likely",
    ),
    Rule(
        code="LibrariesShadowed",
        title="Libraries of the host hide those of a container",
        severity="failure",
        cause="A program cannot start a thread, because it loads another libc than that of its image. A folder of the "
        "host with system libraries is mounted and comes first in LD_LIBRARY_PATH.",
        remedy="Run ldd on the program in the container. Mount only the driver's root (such as /driver-root with "
        "NVIDIA_DRIVER_ROOT=/) rather than /usr/lib of the host, and take it out of LD_LIBRARY_PATH.",
        sources=("https://github.com/confidential-dot-ai/confidential-os-builder/pull/57",),
        patterns=(_SHADOWED,),
        certainty="possible",
        explains=NOT_READY,
    ),
)
