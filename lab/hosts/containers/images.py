# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images of the container hosts: a root file system of Debian packages, and a flavour for each distribution."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import typing as t
from pathlib import Path

from lab.errors import LabError
from lab.hosts import folders
from lab.hosts.containers.podman import Podman

FLAVOURS = ("debian", "ubuntu", "rhel")
RECIPE = Path(__file__).parent / "image"
SUITE = "bookworm"
PACKAGES = (
    "binutils", "cron", "dbus", "grub2-common", "initramfs-tools", "iproute2", "kmod", "pciutils", "procps", "python3",
    "python3-apt", "systemd-sysv", "udev", "zstd",
)  # fmt: skip
EL_PACKAGES = ("createrepo-c", "dnf", "dracut", "python3-dnf", "dnf-plugins-core", "python3-rpm", "rpm")

Say = t.Callable[[str], None]


def name(flavour: str) -> str:
    """Return the name of an image. Its tag depends on the recipe and on the release of the machine's kernel."""
    files = sorted(path for path in RECIPE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    tag = folders.key(SUITE, *PACKAGES, *EL_PACKAGES, os.uname().release, Path(__file__), *files)
    return f"localhost/gpuops-host-{flavour}:{tag}"


def provide(podman: Podman, flavours: t.Iterable[str], say: Say) -> None:
    """Build the images that do not exist yet."""
    wanted = [flavour for flavour in dict.fromkeys(flavours) if not podman.succeeds("image", "exists", name(flavour))]
    if not wanted:
        return
    with folders.lock(podman.home / "build.lock"):
        for flavour in wanted:
            if not podman.succeeds("image", "exists", name(flavour)):
                _provide_base(podman, say)
                _build(podman, flavour, say)


def _base() -> str:
    return f"localhost/gpuops-host-base:{folders.key(SUITE, *PACKAGES)}"


def _provide_base(podman: Podman, say: Say) -> None:
    if podman.succeeds("image", "exists", _base()):
        return
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=podman.home) as folder:
        tar = f"{folder}/root.tar"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root"]
        command += ['--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"']
        command += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "locale", "doc", "info")]
        command += [f"--include={','.join(PACKAGES)}", SUITE, tar]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"mmdebstrap could not build the root file system: {done.stderr.strip()[-800:]}")
        podman("import", tar, _base())
    _remove_others(podman, _base())
    say(f"Built the root file system in {time.monotonic() - started:.0f} s")


def _build(podman: Podman, flavour: str, say: Say) -> None:
    started = time.monotonic()
    arguments = {"BASE": _base(), "KERNEL": os.uname().release, "EL_PACKAGES": " ".join(EL_PACKAGES)}
    options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    options += [f"--target={flavour}", f"--tag={name(flavour)}", f"--file={RECIPE / 'Containerfile'}"]
    # Only apt uses the network.
    podman("build", "--network=host", *options, str(RECIPE))
    _remove_others(podman, name(flavour))
    say(f"Built the image {flavour} in {time.monotonic() - started:.0f} s")


def _remove_others(podman: Podman, kept: str) -> None:
    """Remove the images of earlier recipes that no container uses."""
    repository = kept.partition(":")[0]
    for other in podman("images", "--format", "{{.Repository}}:{{.Tag}}", repository).split():
        if other != kept:
            podman.succeeds("rmi", other)
