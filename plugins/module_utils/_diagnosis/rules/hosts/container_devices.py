# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""Containers that do not get their GPUs from a runtime that would give them: devices, libraries, SELinux, CDI."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_LOST = pattern(r"Failed to initialize NVML: Unknown Error", "failed to initialize nvml: unknown error")
_NO_CGROUPS = pattern(r"^\s*no-cgroups = true", "no-cgroups = true")
_AVC = pattern(r"avc:\s+denied\s+\{ (?P<action>[\w ]+) \}.*(?:nvidia|xserver_misc_device_t).*permissive=0", "denied")
_TROUBLESHOOT = pattern(r"^\s*Target Objects\s+(?P<action>/dev/nvidia\S*)", "target objects")
_REFUSED = pattern(r"could not insert '?nvidia'?: Permission denied", "': permission denied")
_NO_LIBRARY = pattern(
    r"nvidia-container-cli(?:\.real)?: initialization error: load library failed: (?P<library>[\w.-]+): cannot open",
    "initialization error: load library failed",
)
_CDI = pattern(r"unresolvable CDI devices (?P<device>(?:[\w-]+\.)*nvidia\.com/gpu=[\w:-]+)", "unresolvable cdi devices")
_CDI_FILE = pattern(
    r"failed to stat CDI host device \\*\"(?P<file>/dev/[^\"\\]+)\\*\": no such file", "failed to stat cdi host device"
)
_GRAPHICS = "/dev/dri/"
_PROGRAM = (
    r"(?:/[\w./-]+/)?(?P<program>nvidia-c(?:ontainer-runtime-hook|ontainer-toolkit|ontainer-cli(?:\.real)?|di-hook|tk))"
)
_NO_PROGRAM = (
    pattern(rf"(?:stat|fork/exec|open) {_PROGRAM}: no such file or directory", ": no such file or directory"),
    pattern(rf'exec: \\*"{_PROGRAM}\\*": executable file not found', "executable file not found"),
)
_LDCONFIG = pattern(r"ldcache error: process \S*ldconfig\S* terminated with signal 9", "terminated with signal 9")


def _lost(view: View) -> t.Iterator[Sighting]:
    """Yield the containers without GPUs. Links that are missing on the host are the known cause."""
    rootless = set(map(seen.text_of, view.hits(_NO_CGROUPS)))
    for hit in view.hits(_LOST):
        missing = seen.state(view, hit.line.node).get("links_missing") or []
        found = matches.sighting(hit, "certain" if missing else "likely")
        if missing:
            text = f"no link below /dev/char to {', '.join(missing)}"
            found = dataclasses.replace(found, quotes=(*found.quotes, *fact(text, seen.HOST_STATE, hit.line.node)))
        if seen.text_of(hit) not in rootless:
            yield found


def _no_cgroups(view: View) -> t.Iterator[Sighting]:
    return (matches.sighting(hit, "likely") for hit in seen.together(view, _NO_CGROUPS, _LOST))


def _no_file(view: View) -> t.Iterator[Sighting]:
    """Yield the device files that a CDI specification names and that are not there."""
    for hit in view.hits(_CDI_FILE):
        if hit.values["file"].startswith(("/dev/nvidia", _GRAPHICS)):
            yield matches.sighting(hit, "certain" if hit.values["file"].startswith("/dev/nvidia") else "likely")


def _selinux(view: View) -> t.Iterator[Sighting]:
    for hit in (*view.hits(_AVC), *view.hits(_TROUBLESHOOT)):
        yield matches.sighting(hit)
    for hit in view.hits(_REFUSED):
        if seen.state(view, hit.line.node).get("selinux") not in ("permissive", "disabled"):
            yield matches.sighting(hit, "likely", action="module_load")


_TROUBLE = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html"
_DENIED_OR_MISSING = (
    "Run ausearch -m avc -ts recent on the host. If it shows denials for the container, SELinux is the cause; if it "
    "shows none, the container did not get the device files of the GPU."
)
_FOLLOWS = NOT_READY | {"WaitsForToolkit", "ValidatorKnowsNoDriver"}

RULES = (
    Rule(
        code="DevicesLostAfterReload",
        title="Containers lost their GPUs",
        severity="failure",
        cause="A container that had GPUs can no longer open them. systemd has set up its cgroup again, for example "
        "after systemctl daemon-reload, without the GPUs that the runtime had allowed.",
        remedy="Delete the pods that have lost their GPUs, so that they start again. To prevent it, use CDI "
        "(cdi.enabled: true in operator_values, and playbooks/site.yml), or create the links under /dev/char on the "
        "host (nvidia-ctk system create-dev-char-symlinks --create-all).",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/251",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1227",
        ),
        check=_lost,
        patterns=(_LOST, _NO_CGROUPS),
        explains=NOT_READY | {"UnhealthyGPUs"},
        unlike=dict.fromkeys(("XidOffTheBus", "XidReset", "GPUDoesNotAnswer"), seen.CONTAINER_OR_GPU),
    ),
    Rule(
        code="NoCgroupsSet",
        title="The toolkit does not let containers open GPUs",
        severity="failure",
        cause="The container toolkit is configured with no-cgroups = true, which is for rootless containers only. "
        "Other containers see the GPUs but may not open them.",
        remedy="Set no-cgroups = false in /etc/nvidia-container-runtime/config.toml, and delete the pods that fail, so "
        "that they start again.",
        sources=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/580",),
        check=_no_cgroups,
        patterns=(_LOST, _NO_CGROUPS),
        explains=NOT_READY | {"DevicesLostAfterReload"},
    ),
    Rule(
        code="SELinuxDenies",
        title="SELinux denies the GPU",
        severity="failure",
        cause="SELinux does not let a container or a program use NVIDIA's driver ({action}).",
        remedy="Install container-selinux, let containers use devices (setsebool -P container_use_devices on), and "
        "restore the labels of the driver's files (restorecon -Rv /usr/bin/nvidia* /dev/nvidia*). If a driver "
        "container may not load its module (module_load), install the driver on the host: set gpuops_driver: host and "
        "run playbooks/site.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/553",
            "https://github.com/fedora-selinux/selinux-policy/issues/1695",
            "https://github.com/NVIDIA/nvidia-docker/issues/814",
        ),
        check=_selinux,
        patterns=(_AVC, _TROUBLESHOOT, _REFUSED),
        explains=seen.NO_DRIVER,
        unlike={"ModuleSignatureRefused": seen.SELINUX_OR_SIGNATURE, "NVMLPermissionDenied": _DENIED_OR_MISSING},
    ),
    Rule(
        code="DriverLibrariesMissing",
        title="The toolkit does not find the driver's libraries",
        severity="failure",
        cause="NVIDIA's runtime does not find {library}. It looks for the driver in the wrong place, or there is no "
        "driver.",
        remedy="With a driver container, look at the driver's pod first. With a driver on the host, set "
        "driver.enabled: false in operator_values, let hostPaths.driverInstallDir not name the root of a driver "
        "container, and run playbooks/site.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/511",
            "https://github.com/NVIDIA/gpu-operator/issues/625",
        ),
        patterns=(_NO_LIBRARY,),
        certainty="likely",
        explains=_FOLLOWS,
        unlike={"DriverNotLoaded": seen.LOADED_OR_NOT},
    ),
    Rule(
        code="CDIDeviceUnknown",
        title="CDI does not know the GPU",
        severity="failure",
        cause="A container asks for {device} through CDI, but no CDI specification on the node lists it. The "
        "specification is missing, is older than the driver, or only lists the device all.",
        remedy="Delete the pod of the container toolkit, so that it writes /var/run/cdi again, or run nvidia-ctk cdi "
        "generate --output=/etc/cdi/nvidia.yaml on the host. Remove runtimeClassName: nvidia-cdi from pods that ask "
        "for GPUs, because they need none.",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1239",
            "https://github.com/gpustack/gpustack/issues/4130",
            "https://github.com/NVIDIA/gpu-operator/issues/531",
        ),
        patterns=(_CDI,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="CDISpecificationStale",
        title="A CDI specification names a device file that is not there",
        severity="failure",
        cause="The CDI specification of the node gives containers {file}, and the host has no such file. The "
        "specification is older than the last boot or the last change of the GPUs, or a module of the driver is not "
        "loaded.",
        remedy="Run `nvidia-smi` on the host, which creates the device files that are missing. Then delete the node's "
        "pod of the container toolkit, so that it writes /var/run/cdi again, or run nvidia-ctk cdi generate "
        "--output=/etc/cdi/nvidia.yaml on the host.",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/885",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1246",
            "https://github.com/cncf-tags/container-device-interface/blob/main/pkg/cdi/container-edits_unix.go",
        ),
        check=_no_file,
        patterns=(_CDI_FILE,),
        explains=_FOLLOWS,
    ),
    Rule(
        code="ToolkitProgramMissing",
        title="A program of the container toolkit is missing",
        severity="failure",
        cause="The container runtime is set up to use NVIDIA's container toolkit, and its program {program} is not "
        "there. The toolkit was removed or only half installed, or the toolkit's pod has not written its files again "
        "after a reboot.",
        remedy="If the operator brings the toolkit, delete the node's pod nvidia-container-toolkit-daemonset, so that "
        "a new one writes the programs. If the toolkit belongs to the host, run playbooks/site.yml with "
        "host_driver_toolkit: true, which installs the package again.",
        sources=(
            "https://github.com/NVIDIA/nvidia-docker/issues/1017",
            "https://github.com/NVIDIA/nvidia-container-toolkit/blob/main/internal/modifier/stable.go",
        ),
        patterns=_NO_PROGRAM,
        explains=_FOLLOWS,
    ),
    Rule(
        code="ToolkitHookKilled",
        title="The toolkit's hook was killed",
        severity="failure",
        cause="NVIDIA's hook ran ldconfig inside the container, and the kernel killed it. Usually the memory limit of "
        "the container is too small for ldconfig.",
        remedy="Raise the memory limit of the pod, or give GPUs through CDI (cdi.enabled and cdi.default in the "
        "operator's values), which does not run this hook.",
        sources=("https://github.com/NVIDIA/k8s-device-plugin/issues/1400",),
        patterns=(_LDCONFIG,),
        certainty="likely",
        explains=_FOLLOWS,
        unlike={"HostOutOfMemory": seen.HOST_OR_LIMIT},
    ),
)
