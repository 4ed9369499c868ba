# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The NVIDIA driver, the processes that use it, and whether nouveau is blacklisted."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import (
    Section,
    known_from,
    known_if,
    unknown,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

VERSION_FILE = "/proc/driver/nvidia/version"
CONTAINER_ROOT = "/run/nvidia/driver"
"""Where the host finds the file system of the GPU Operator's driver container."""

_CONTAINER_TRACES = ("/run/nvidia/nvidia-driver.pid", "/run/nvidia/validations/.driver-ctr-ready")
"""Files that a driver container writes, and removes only when it unloads its modules."""

_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_LIBRARY = "libnvidia-ml.so.1"
# Debian calls the module nvidia-current. The modules nvidiafb and nvidia-wmi-ec-backlight belong to the kernel.
_MODULE_FILE = re.compile(r"^(\S*/nvidia(?:-current|-(?:tesla|legacy)[-\w]*)?(?:-open)?\.ko(?:\.\w+)?):", re.MULTILINE)
_DEVICE = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset|-nvswitch\d+|-caps)$")
_MODPROBE_FOLDERS = (
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/run/modprobe.d",
    "/etc/modprobe.d",
)
_COMMANDS_THAT_DO_NOTHING = ("/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true", "false", "true")
_COMMAND_LINE_BLACKLISTS = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist")


def module_type(version_text: str | None) -> str | None:
    """Return whether the loaded modules are open or proprietary, from the text of /proc/driver/nvidia/version."""
    if not version_text or "NVRM version" not in version_text:
        return None
    return "open" if "Open Kernel Module" in version_text else "proprietary"


def is_loaded(host: Host) -> bool:
    """Return whether the driver's modules are loaded, even if a container hides the list of modules."""
    return any(map(host.exists, ("/sys/module/nvidia", VERSION_FILE, "/dev/nvidiactl")))


def loaded_version(host: Host) -> str | None:
    """Return the version of the loaded modules."""
    match = re.search(r"Kernel Module.*?  (\d+\.\d+[\d.]*)", host.read(VERSION_FILE) or "")
    return host.read("/sys/module/nvidia/version") or (match[1] if match else None)


def driver_root(host: Host) -> str:
    """Return the root folder of the driver's libraries and commands, which is a driver container's if there is one."""
    return CONTAINER_ROOT if host.exists(f"{CONTAINER_ROOT}/usr/bin/nvidia-smi") else ""


def library(host: Host, root: str) -> str | None:
    """Return the path of NVML's library below the driver's root, or None if it does not exist."""
    paths = (f"{root}{folder}/{_LIBRARY}" for folder in _LIBRARY_FOLDERS)
    return next((path for path in paths if host.exists(path)), None)


def userspace_version(host: Host, root: str) -> str | None:
    """Return the version of the driver's libraries, which is part of the name that the library's link points to."""
    path = library(host, root)
    match = re.search(r"\.so\.(\d+\.\d+[\d.]*)$", (host.link_name(path) or "") if path else "")
    return match[1] if match else None


def module_installed(host: Host) -> tuple[bool | None, str]:
    """Return whether the running kernel has a file of the module nvidia.

    The text is the source of the answer, or the reason why it is unknown.
    """
    if driver_root(host) or any(map(host.exists, _CONTAINER_TRACES)):
        return None, "A driver container brings its own module"
    folder = f"/lib/modules/{host.read('/proc/sys/kernel/osrelease')}"
    listed = host.read(f"{folder}/modules.dep")
    if listed is None:
        return None, f"There is no {folder}/modules.dep"
    paths = (path if path.startswith("/") else f"{folder}/{path}" for path in _MODULE_FILE.findall(listed))
    return any(map(host.exists, paths)), f"{folder}/modules.dep"


def users(host: Host) -> list[Json] | None:
    """Return the processes that have a device file of the driver open, or None without the permission to see them."""
    if host.exists("/proc/1") and not host.names("/proc/1/fd"):
        return None
    found = []
    for pid in host.names("/proc"):
        if not pid.isdigit():
            continue
        targets = (host.link_name(f"/proc/{pid}/fd/{fd}") or "" for fd in host.names(f"/proc/{pid}/fd"))
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
    libraries = userspace_version(host, root)
    holders = users(host) if loaded else []
    installed, source_or_reason = module_installed(host)
    facts = {
        "loaded": loaded,
        "version": version,
        "module_type": kind,
        "module_installed": installed,
        "userspace_version": libraries,
        "matches": version == libraries if version and libraries else None,
        "containerised": bool(root),
        "users": holders,
    }
    sources = {
        "loaded": known_from("sysfs"),
        "module_installed": known_if(installed, source_or_reason, source_or_reason),
        "containerised": known_from(CONTAINER_ROOT),
        "users": known_if(holders, "procfs", "Only root can see which files other users' processes have open"),
    }
    return Section(facts, {**sources, **_version_sources(facts)})


def _version_sources(facts: Json) -> dict[str, dict[str, str | None]]:
    no_module = "sysfs does not say" if facts["loaded"] else "The module nvidia is not loaded"
    no_library = f"{_LIBRARY} is not installed"
    no_match = no_module if facts["version"] is None else no_library
    return {
        "version": known_if(facts["version"], "sysfs", no_module),
        "module_type": known_if(facts["module_type"], VERSION_FILE, no_module),
        "userspace_version": known_if(facts["userspace_version"], _LIBRARY, no_library),
        "matches": known_if(facts["matches"], f"sysfs, {_LIBRARY}", no_match),
    }


def nouveau(host: Host, cmdline: t.Sequence[str]) -> Section:
    """Return whether nouveau is loaded, whether it is blacklisted, and in which files."""
    files = [path for path in modprobe_files(host) if blocks_module(host.read(path) or "", "nouveau")]
    by_argument = any(argument_blocks_module(argument, "nouveau") for argument in cmdline)
    facts = {
        "loaded": host.exists("/sys/module/nouveau"),
        "blacklisted": bool(files) or by_argument,
        "in_initramfs": None,
        "files": files,
    }
    return Section(
        facts,
        {
            "loaded": known_from("sysfs"),
            "blacklisted": known_from("/proc/cmdline" if by_argument and not files else "modprobe.d"),
            "files": known_from("modprobe.d"),
            "in_initramfs": unknown("Reading an initramfs takes seconds. Name the subset initramfs to read it"),
        },
    )


def modprobe_files(host: Host) -> list[str]:
    """Return modprobe's configuration files.

    Of files with the same name, modprobe reads only the one in the folder with the highest precedence.
    """
    by_name = {
        name: f"{folder}/{name}"
        for folder in _MODPROBE_FOLDERS
        for name in host.names(folder)
        if name.endswith(".conf")
    }
    return [by_name[name] for name in sorted(by_name)]


def blocks_module(text: str, module: str) -> bool:
    """Return whether a modprobe configuration keeps a module from being loaded for a device.

    It either blacklists the module, or replaces loading it with a command that does nothing.
    """
    return any(_blocks(line.split(), module) for line in text.splitlines())


def _blocks(words: t.Sequence[str], module: str) -> bool:
    if words[:2] == ["blacklist", module]:
        return True
    return words[:2] == ["install", module] and words[2:3] != [] and words[2] in _COMMANDS_THAT_DO_NOTHING


def argument_blocks_module(argument: str, module: str) -> bool:
    """Return whether a kernel argument keeps a module from being loaded."""
    name, dummy, value = argument.partition("=")
    return name in _COMMAND_LINE_BLACKLISTS and module in value.split(",")


def nouveau_in_initramfs(host: Host, kernel: str) -> tuple[bool | None, str]:
    """Return whether the kernel's initramfs contains nouveau.

    The text is the source of the answer, or the reason why it is unknown.
    """
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
