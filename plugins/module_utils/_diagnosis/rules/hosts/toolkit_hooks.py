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
