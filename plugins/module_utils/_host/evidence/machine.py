# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""What else of a host a diagnosis asks for: dkms, device files, cgroups, SELinux, keys that wait."""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DKMS = ["dkms", "status"]
MOK = ["mokutil", "--list-new"]

_DKMS = re.compile(
    r"^(?P<module>[\w.+-]+)(?:/|, )(?P<version>[^,:\s]+)(?:, (?P<kernel>[^,:]+), [^,:]+)?: (?P<state>[\w-]+)",
    re.MULTILINE,
)
_KUBELET = ("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env")
_CGROUP_DRIVER = re.compile(r"(?:^cgroupDriver:\s*|--cgroup-driver=)[\"']?(systemd|cgroupfs)\b", re.MULTILINE)
_AUDIT, _AUDIT_BYTES = "/var/log/audit/audit.log", 2**20
_DENIAL = re.compile(
    r"^type=AVC msg=audit\((?P<time>\d+)[^\n]{0,800}\bdenied\b[^\n]{0,800}nvidia[^\n]{0,800}$", re.MULTILINE
)


def dkms(output: Output) -> list[Json] | None:
    """Return the modules that dkms has, from both forms of its answer, or None without an answer."""
    return [found.groupdict() for found in _DKMS.finditer(output.stdout)] if output.ok else None


def mok_pending(output: Output) -> bool | None:
    """Return whether a key waits for the next boot to be enrolled."""
    return bool(output.stdout.strip()) if output.ok else None


def devices(host: Host) -> list[str]:
    """Return the names of the driver's device files."""
    return [name for name in host.names("/dev") if name.startswith("nvidia")]


def links_missing(host: Host) -> list[str]:
    """Return the device files without a link below /dev/char, through which systemd finds them."""
    files = [name for name in devices(host) if name not in ("nvidia-caps", "nvidia-caps-imex-channels")]
    linked = {host.link_name(f"/dev/char/{name}") for name in host.names("/dev/char")} if files else set()
    return [name for name in files if name not in linked]


def driver_gpus(host: Host) -> list[str] | None:
    """Return the PCI addresses of the GPUs that the driver has. Only names are read, which cannot hang."""
    return host.names("/proc/driver/nvidia/gpus") if host.exists("/proc/driver/nvidia/gpus") else None


def cgroups(host: Host) -> Json:
    """Return the version of cgroups, and how the kubelet manages them if its files say so."""
    found = (_CGROUP_DRIVER.search(host.read(path) or "") for path in _KUBELET)
    return {
        "version": 2 if host.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
        "kubelet": next((each[1] for each in found if each), None),
    }


def selinux(host: Host) -> str:
    """Return the mode of SELinux: enforcing, permissive or disabled."""
    return {"1": "enforcing", "0": "permissive"}.get(host.read("/sys/fs/selinux/enforce") or "", "disabled")


def denials(host: Host, most: int) -> list[str]:
    """Return the newest denials of SELinux since the boot that name NVIDIA. With auditd, the kernel log lacks them."""
    booted = re.search(r"^btime (\d+)$", host.read("/proc/stat") or "", re.MULTILINE)
    since = int(booted[1]) if booted else 0
    try:
        with host.stream(_AUDIT) as file:
            file.seek(max(0, host.size(_AUDIT) - _AUDIT_BYTES))
            text = file.read(_AUDIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [found[0] for found in _DENIAL.finditer(text) if int(found["time"]) >= since][-most:]
