# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The NVIDIA driver as the kernel and the file system show it, who uses it, and whether nouveau is out of its way."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import (
    Section,
    either,
    known,
    missing,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

VERSION_FILE = "/proc/driver/nvidia/version"
CONTAINER_ROOT = "/run/nvidia/driver"
"""Where the GPU Operator's driver container shows its file system to the host."""

_CONTAINER_TRACES = ("/run/nvidia/nvidia-driver.pid", "/run/nvidia/validations/.driver-ctr-ready")
"""What a driver container has written in this boot, and removes only with its modules."""

_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_LIBRARY = "libnvidia-ml.so.1"
# Debian's is called nvidia-current; nvidiafb and nvidia-wmi-ec-backlight are the kernel's own.
_MODULE_FILE = re.compile(r"^(\S*/nvidia(?:-current|-(?:tesla|legacy)[-\w]*)?(?:-open)?\.ko(?:\.\w+)?):", re.MULTILINE)
_DEVICE = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset|-nvswitch\d+|-caps)$")
_MODPROBE_FOLDERS = (
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/run/modprobe.d",
    "/etc/modprobe.d",
)
_COMMAND_LINE_BLACKLISTS = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist")


def module_type(version_text: str | None) -> str | None:
    """Return whether the loaded modules are the open or the proprietary ones, by /proc/driver/nvidia/version."""
    if not version_text or "NVRM version" not in version_text:
        return None
    return "open" if "Open Kernel Module" in version_text else "proprietary"


def is_loaded(host: Host) -> bool:
    """Whether the driver's modules are loaded, also where a container hides the list of modules."""
    return any(map(host.exists, ("/sys/module/nvidia", VERSION_FILE, "/dev/nvidiactl")))


def loaded_version(host: Host) -> str | None:
    """Return the version of the loaded modules."""
    match = re.search(r"Kernel Module.*?  (\d+\.\d+[\d.]*)", host.read(VERSION_FILE) or "")
    return host.read("/sys/module/nvidia/version") or (match[1] if match else None)


def driver_root(host: Host) -> str:
    """Return the folder below which the driver's libraries and commands lie: a driver container's when there is one."""
    return CONTAINER_ROOT if host.exists(f"{CONTAINER_ROOT}/usr/bin/nvidia-smi") else ""


def library(host: Host, root: str) -> str | None:
    """Return the host's path of NVML's library below the driver's root, or None when it is not there."""
    paths = (f"{root}{folder}/{_LIBRARY}" for folder in _LIBRARY_FOLDERS)
    return next((path for path in paths if host.exists(path)), None)


def userspace_version(host: Host, root: str) -> str | None:
    """Return the version of the driver's libraries: the library's link names the file that carries it."""
    path = library(host, root)
    match = re.search(r"\.so\.(\d+\.\d+[\d.]*)$", (host.target(path) or "") if path else "")
    return match[1] if match else None


def module_installed(host: Host) -> tuple[bool | None, str]:
    """Whether the running kernel has a file of the module nvidia, and what says so, or the reason why nothing does."""
    if driver_root(host) or any(map(host.exists, _CONTAINER_TRACES)):
        return None, "A driver container brings the module along"
    folder = f"/lib/modules/{host.read('/proc/sys/kernel/osrelease')}"
    listed = host.read(f"{folder}/modules.dep")
    if listed is None:
        return None, f"There is no {folder}/modules.dep"
    paths = (path if path.startswith("/") else f"{folder}/{path}" for path in _MODULE_FILE.findall(listed))
    return any(map(host.exists, paths)), f"{folder}/modules.dep"


def users(host: Host) -> list[Json] | None:
    """Return the processes that hold one of the driver's device files open, or None where those of others cannot be seen."""
    if host.exists("/proc/1") and not host.names("/proc/1/fd"):
        return None
    found = []
    for pid in host.names("/proc"):
        if not pid.isdigit():
            continue
        targets = (host.target(f"/proc/{pid}/fd/{fd}") or "" for fd in host.names(f"/proc/{pid}/fd"))
        devices = sorted({target for target in targets if _DEVICE.match(target)})
        if devices:
            found.append({"pid": int(pid), "name": host.read(f"/proc/{pid}/comm"), "devices": devices})
    return sorted(found, key=lambda user: user["pid"])


def driver(host: Host) -> Section:
    """Return the driver's facts."""
    loaded = is_loaded(host)
    root = driver_root(host)
    version = loaded_version(host) if loaded else None
    kind = module_type(host.read(VERSION_FILE)) if loaded else None
    userspace = userspace_version(host, root)
    holders = users(host) if loaded else []
    installed, why = module_installed(host)
    facts = {
        "loaded": loaded,
        "version": version,
        "module_type": kind,
        "module_installed": installed,
        "userspace_version": userspace,
        "matches": version == userspace if version and userspace else None,
        "containerised": bool(root),
        "users": holders,
    }
    no_module = "The module nvidia is not loaded" if not loaded else "sysfs does not say"
    no_library = f"{_LIBRARY} is not installed"
    return Section(
        facts,
        {
            "loaded": known("sysfs"),
            "version": either(version, "sysfs", no_module),
            "module_type": either(kind, VERSION_FILE, no_module),
            "module_installed": either(installed, why, why),
            "userspace_version": either(userspace, _LIBRARY, no_library),
            "matches": either(facts["matches"], f"sysfs, {_LIBRARY}", no_module if version is None else no_library),
            "containerised": known(CONTAINER_ROOT),
            "users": either(holders, "procfs", "Only root sees what the processes of others have open"),
        },
    )


def nouveau(host: Host, cmdline: t.Sequence[str]) -> Section:
    """Return whether nouveau is loaded, and whether and where it is kept from loading."""
    files = [path for path in modprobe_files(host) if bars_module(host.read(path) or "", "nouveau")]
    by_argument = any(barred_by_argument(argument, "nouveau") for argument in cmdline)
    facts = {
        "loaded": host.exists("/sys/module/nouveau"),
        "blacklisted": bool(files) or by_argument,
        "in_initramfs": None,
        "files": files,
    }
    return Section(
        facts,
        {
            "loaded": known("sysfs"),
            "blacklisted": known("/proc/cmdline" if by_argument and not files else "modprobe.d"),
            "files": known("modprobe.d"),
            "in_initramfs": missing("Reading an initramfs takes seconds: name the subset initramfs to have it read"),
        },
    )


def modprobe_files(host: Host) -> list[str]:
    """Return modprobe's configuration files that count: of the same name, the one in the folder with the highest precedence."""
    by_name = {
        name: f"{folder}/{name}"
        for folder in _MODPROBE_FOLDERS
        for name in host.names(folder)
        if name.endswith(".conf")
    }
    return [by_name[name] for name in sorted(by_name)]


def bars_module(text: str, module: str) -> bool:
    """Whether a modprobe configuration keeps a module from loading for a device: blacklisted, or installed by a command that does nothing."""
    words = (line.split() for line in text.splitlines())
    return any(
        line[:2] == ["blacklist", module] or (line[:2] == ["install", module] and line[2:3] in _DO_NOTHING)
        for line in words
    )


_DO_NOTHING = (["/bin/false"], ["/bin/true"], ["/usr/bin/false"], ["/usr/bin/true"], ["false"], ["true"])


def barred_by_argument(argument: str, module: str) -> bool:
    """Whether a kernel argument keeps a module from loading."""
    name, dummy, value = argument.partition("=")
    return name in _COMMAND_LINE_BLACKLISTS and module in value.split(",")


def nouveau_in_initramfs(host: Host, kernel: str) -> tuple[bool | None, str]:
    """Whether the kernel's initramfs brings nouveau, and the command that says so or the reason why nobody does."""
    reason = f"There is no initramfs of the kernel {kernel} in /boot"
    for command, image in (
        ("lsinitramfs", f"/boot/initrd.img-{kernel}"),
        ("lsinitrd", f"/boot/initramfs-{kernel}.img"),
    ):
        if host.exists(image):
            output = host.run([command, image], timeout_s=60)
            if output.ok:
                return re.search(r"/nouveau\.ko(\.\w+)?(\s|$)", output.stdout) is not None, command
            reason = str(output.error)
    return None, reason
