# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The NVIDIA driver, the processes that use it, and whether nouveau is blacklisted."""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._host import software
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver_parts, nvidia_packages
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import modprobe
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import driver_module, driver_origin
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, known_if, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

VERSION_FILE = "/proc/driver/nvidia/version"
CONTAINER_ROOT = "/run/nvidia/driver"
"""Where the host finds the file system of the GPU Operator's driver container."""

_CONTAINER_TRACES = ("/run/nvidia/nvidia-driver.pid", "/run/nvidia/validations/.driver-ctr-ready")
"""Files that a driver container writes, and removes only when it unloads its modules."""

_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    # Where Debian's packages put it if nvidia-alternative has set no links
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64/nvidia",
    "/usr/local/lib64",
    "/usr/local/lib",
)
_LIBRARY = "libnvidia-ml.so.1"
_UNINSTALLERS = ("/usr/bin/nvidia-uninstall", "/usr/local/bin/nvidia-uninstall")
_DGX_RELEASE = "/etc/dgx-release"
_SERVED = re.compile(r"^ *\d+ nvidia(?:-frontend|ctl)?$", re.MULTILINE)
"""The character devices of the driver in /proc/devices: nvidia and nvidiactl, and nvidia-frontend of older drivers."""
_DEVICE = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset|-nvswitch\d+|-caps)$")


def module_type(version_text: str | None) -> str | None:
    """Return whether the loaded modules are open or proprietary, from the text of /proc/driver/nvidia/version."""
    if not version_text or "NVRM version" not in version_text:
        return None
    return "open" if "Open Kernel Module" in version_text else "proprietary"


def is_loaded(host: Host) -> bool:
    """Return whether the driver's modules are loaded, even if a container hides the list of modules.

    A device file says nothing: one that was made by hand outlives the driver. The kernel lists the devices it serves.
    """
    listed = _SERVED.search(host.read("/proc/devices") or "")
    return listed is not None or any(map(host.exists, ("/sys/module/nvidia", VERSION_FILE)))


def loaded_version(host: Host) -> str | None:
    """Return the version of the loaded modules."""
    match = re.search(r"Kernel Module.*?  (\d+\.\d+[\d.]*)", host.read(VERSION_FILE) or "")
    return host.read("/sys/module/nvidia/version") or (match[1] if match else None)


def driver_root(host: Host, container_root: str = CONTAINER_ROOT) -> str:
    """Return the root folder of the driver's libraries and commands, which is a driver container's if there is one."""
    return container_root if host.exists(f"{container_root}/usr/bin/nvidia-smi") else ""


def library(host: Host, root: str) -> str | None:
    """Return the path of NVML's library below the driver's root, or None if it does not exist.

    On Debian the path leads through two links of update-alternatives.
    """
    found = (host.resolve(f"{folder}/{_LIBRARY}", root) for folder in _LIBRARY_FOLDERS)
    return next(filter(None, found), None)


def userspace_version(host: Host, root: str) -> str | None:
    """Return the version of the driver's libraries, which is part of the library's name."""
    match = re.search(r"\.so\.(\d+\.\d+[\d.]*)$", library(host, root) or "")
    return match[1] if match else None


def module_files(host: Host, root: str) -> tuple[list[str] | None, str]:
    """Return the files of the module nvidia that the running kernel has.

    The text is the source of the answer, or the reason why it is unknown.
    """
    if root or any(map(host.exists, _CONTAINER_TRACES)):
        return None, "A driver container brings its own module"
    return driver_module.files(host)


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


def driver(host: Host, container_root: str = CONTAINER_ROOT, with_users: bool = True) -> Section:
    """Return the driver's facts, without those that come from packages.

    To find its users takes a look at every open file of every process, which a busy host has a hundred thousand of.
    """
    loaded = is_loaded(host)
    root = driver_root(host, container_root)
    version = loaded_version(host) if loaded else None
    kind = module_type(host.read(VERSION_FILE)) if loaded else None
    libraries = userspace_version(host, root)
    holders, no_users = _users(host, loaded, with_users)
    facts = {
        "loaded": loaded,
        "version": version,
        "module_type": kind,
        "userspace_version": libraries,
        "matches": version == libraries if version and libraries else None,
        "containerised": bool(root),
        "users": holders,
        "platform": platform(host),
        "uninstaller": next(filter(host.exists, _UNINSTALLERS), None),
    }
    sources = {
        "loaded": known_from("sysfs"),
        "containerised": known_from(container_root),
        "users": known_if(holders, "procfs", no_users),
        "platform": known_if(facts["platform"], _DGX_RELEASE, f"There is no {_DGX_RELEASE}"),
        "uninstaller": known_if(facts["uninstaller"], "nvidia-uninstall", "nvidia-uninstall is not installed"),
    }
    module = _module(host, root)
    return Section({**facts, **module.facts}, {**sources, **_version_sources(facts), **module.sources})


def _users(host: Host, loaded: bool, wanted: bool) -> tuple[list[Json] | None, str]:
    if not loaded:
        return [], ""
    if not wanted:
        return None, "Name the subset gpus to look for the processes that use the driver"
    return users(host), "Only root can see which files other users' processes have open"


def _module(host: Host, root: str) -> Section:
    """Return the facts of the module's file, which ``modprobe nvidia`` would load."""
    paths, source = module_files(host, root)
    facts: Json = {
        "module_installed": None if paths is None else bool(paths),
        **dict.fromkeys(("installed_version", "signer", "signer_enrolled")),
    }
    sources = {"module_installed": known_if(facts["module_installed"], source, source)}
    path = driver_module.chosen(paths or [], modprobe.text(host)) if paths else None
    if path is None:
        reason = source if paths is None else "The running kernel has no module nvidia"
        return Section(facts, {**dict.fromkeys(facts, unknown(reason)), **sources})
    module = driver_module.inspect(host, path)
    facts.update(installed_version=module.version, signer=module.signer)
    sources["installed_version"] = known_if(module.version, "modinfo", module.reason or "The module has no version")
    unsigned = module.reason or "The module has no signature"
    sources["signer"] = sources["signer_enrolled"] = known_if(module.signer, "modinfo", unsigned)
    if module.signer:
        enrolled, source = driver_module.signer_enrolled(host, module.signer)
        facts["signer_enrolled"], sources["signer_enrolled"] = enrolled, known_if(enrolled, source, source)
    return Section(facts, sources)


def platform(host: Host) -> str | None:
    """Return the name and version of NVIDIA's own system, such as DGX OS 7.1.0, or None elsewhere."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', host.read(_DGX_RELEASE) or "", re.MULTILINE))
    if not release:
        return None
    version = release.get("DGX_OTA_VERSION") or release.get("DGX_SWBUILD_VERSION") or ""
    return f"DGX OS {version}".strip()


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


def with_packages(section: Section, packages: Output | None) -> Section:
    """Add the driver's packages and origin to its facts. ``packages`` is what the package manager answered."""
    found = _driver_packages(packages)
    versions = None if found is None else {name: found[name].version for name in sorted(found)}
    reason = str(packages.error) if packages else "Name the subset services to ask the package manager"
    origin = driver_origin.origin(section.facts, found)
    sources = {
        "origin": known_if(origin, "packages", reason if found is None else "The host has no driver"),
        "packages": known_if(versions, "packages", reason),
    }
    return Section({**section.facts, "origin": origin, "packages": versions}, {**section.sources, **sources})


def _driver_packages(packages: Output | None) -> dict[str, software.InstalledPackage] | None:
    """Return the packages of drivers. The installer of a .run file leaves those of the former version."""
    if packages is None or not packages.ok:
        return None
    installed = software.parse_rows(packages.stdout)
    others = nvidia_packages.matching(installed, driver_origin.OTHER_NAMES)
    named = {name: row for name, row in installed.items() if nvidia_packages.is_driver(name) or name in others}
    return {name: row for name, row in named.items() if driver_parts.is_of_a_driver(name, row.version)}
