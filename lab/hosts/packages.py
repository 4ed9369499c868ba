# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Debian packages that hosts, tests of pages and copies of images need on the machine, and their installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import typing as t

from lab.errors import UnavailableError

Kind = t.Literal["containers", "vm", "browser", "images"]

# Each command, and the package that provides it.
NEEDED: dict[Kind, dict[str, str]] = {
    "containers": {
        "podman": "podman",
        "runc": "runc",  # crun does not support the hybrid cgroup hierarchy
        "iptables": "iptables",  # podman requires it even without a network
        "netavark": "netavark",
        "mmdebstrap": "mmdebstrap",
    },
    "vm": {
        "qemu-system-x86_64": "qemu-system-x86",
        "qemu-img": "qemu-utils",
        "mmdebstrap": "mmdebstrap",
        "fakeroot": "fakeroot",
        "mke2fs": "e2fsprogs",
        "sfdisk": "fdisk",
        "ssh": "openssh-client",
    },
    "browser": {"chromium": "chromium"},
    "images": {"skopeo": "skopeo"},
}
# Packages without a command: a file, and the package that provides it.
FILES: dict[Kind, dict[str, str]] = {
    "containers": {},
    "vm": {"/usr/share/seabios/bios-256k.bin": "seabios"},
    "browser": {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf": "fonts-dejavu-core"},
    "images": {},
}
WHO: dict[Kind, str] = {
    "containers": "Simulated hosts (containers)",
    "vm": "Simulated hosts (vm)",
    "browser": "Tests in a browser",
    "images": "Copies of images",
}
COMMANDS_OUTSIDE_PATH = ("/usr/lib/podman", "/usr/sbin", "/sbin")


def missing(kind: Kind) -> list[str]:
    """Return the packages that are not installed yet."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *COMMANDS_OUTSIDE_PATH])
    packages = [package for command, package in NEEDED[kind].items() if shutil.which(command, path=path) is None]
    return packages + [package for file, package in FILES[kind].items() if not os.path.exists(file)]


def require(kind: Kind) -> None:
    """Raise UnavailableError, with the reason in one sentence, if this cannot run on this machine now."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise UnavailableError(f"{WHO[kind]} need x86-64 Linux; this is {os.uname().machine} {sys.platform}.")
    if kind == "containers" and os.geteuid() != 0:
        raise UnavailableError(
            "Container hosts need root: podman starts systemd in them and mounts simulated files over /proc and /sys."
        )
    packages = ", ".join(missing(kind))
    if packages:
        raise UnavailableError(
            f"{WHO[kind]} need Debian packages. Run `make host-tools` as root to install {packages}."
        )


def provide(kind: Kind, say: t.Callable[[str], None]) -> None:
    """Install the missing packages, or raise UnavailableError with the reason."""
    packages = missing(kind)
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"Installing {', '.join(packages)}")
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *packages)
    require(kind)


def _apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=120", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise UnavailableError(f"Debian packages are missing, and apt-get {arguments[0]} failed: {last}")
