# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disk of the virtual machines: Debian with GRUB for BIOS, built without a loop device, a mount or root."""

from __future__ import annotations

import json
import os
import shlex
import struct
import subprocess
import tempfile
import time
import typing as t
import uuid
from pathlib import Path

from lab.errors import LabError
from lab.hosts import folders

SUITE = "bookworm"
PACKAGES = (
    "ca-certificates", "dbus", "grub-pc-bin", "grub2-common", "initramfs-tools", "iproute2", "kmod",
    "linux-image-amd64", "lz4", "openssh-server", "pciutils", "procps", "python3", "python3-apt", "python3-debian",
    "systemd-sysv", "udev",
)  # fmt: skip
# With the default (all modules, zstd), building an initramfs takes more than ten minutes in emulation.
INITRAMFS = "COMPRESS=lz4\nMODULES=list\n"
INITRAMFS_MODULES = "virtio_pci\nvirtio_blk\next4\ncrc32c_generic\n"
SIZE_MIB = 4096
BOOT_SECTOR, BOOT_SECTORS, ROOT_SECTOR = 2048, 2048, 4096
CUSTOMIZE = Path(__file__).parent / "customize.sh"

Say = t.Callable[[str], None]


def folder() -> Path:
    """Return the folder with the disk and the SSH key. Its name depends on the recipe."""
    return folders.cache() / "vm" / folders.key(SUITE, *PACKAGES, Path(__file__), CUSTOMIZE)


def disk() -> Path:
    """Return the path of the disk that every machine starts from, and that stays as it is."""
    return folder() / "disk.qcow2"


def key() -> Path:
    """Return the path of the private SSH key for root on the machines."""
    return folder() / "id_ed25519"


def provide(say: Say) -> None:
    """Build the disk if it does not exist."""
    with folders.lock(folder().parent / "build.lock"):
        if disk().exists():
            return
        started = time.monotonic()
        folder().mkdir(parents=True, exist_ok=True)
        if not key().exists():
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuops-hosts", "-f", str(key()))
        with tempfile.TemporaryDirectory(dir=folder()) as work:
            _build(Path(work))
        say(f"Built the disk of the virtual machines in {time.monotonic() - started:.0f} s")


def _build(work: Path) -> None:
    identity = str(uuid.uuid4())
    archive, root, raw = work / "root.tar", work / "root", work / "disk.raw"
    _debootstrap(archive, identity)
    root.mkdir()
    _partition(raw)
    # fakeroot keeps the owners of files for a user who is not root.
    unpack = f"tar -C {shlex.quote(str(root))} --numeric-owner -xf {shlex.quote(str(archive))}"
    extended = f"offset={ROOT_SECTOR * 512},lazy_itable_init=0"
    mkfs = (
        f"mke2fs -q -t ext4 -O ^metadata_csum_seed,^orphan_file -U {identity} -L root -E {extended} "
        f"-d {shlex.quote(str(root))} {shlex.quote(str(raw))} {_root_sectors(raw) // 2}k"
    )
    _run("fakeroot", "--", "sh", "-ec", f"{unpack}; {mkfs}")
    _boot_loader(work, root, raw)
    _run("qemu-img", "convert", "-O", "qcow2", str(raw), str(work / "disk.qcow2"))
    (work / "disk.qcow2").rename(disk())


def _debootstrap(archive: Path, identity: str) -> None:
    conf = "$1/etc/initramfs-tools"
    _run(
        "mmdebstrap", "--quiet", "--variant=minbase", f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        '--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "locale", "doc", "info")),
        f"--include={','.join(PACKAGES)}",
        f'--essential-hook=mkdir -p "{conf}/conf.d"; printf {shlex.quote(INITRAMFS)} > "{conf}/conf.d/test"; '
        f'printf {shlex.quote(INITRAMFS_MODULES)} > "{conf}/modules"',
        f'--customize-hook={shlex.quote(str(CUSTOMIZE))} "$1" {identity} {shlex.quote(str(key()))}.pub',
        SUITE, str(archive),
    )  # fmt: skip


def _partition(raw: Path) -> None:
    with raw.open("wb") as file:
        file.truncate(SIZE_MIB << 20)
    table = f"""label: gpt
start={BOOT_SECTOR}, size={BOOT_SECTORS}, type=21686148-6449-6E6F-744E-656564454649, name=bios
start={ROOT_SECTOR}, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=root
"""
    _run("sfdisk", "--quiet", str(raw), stdin=table)


def _root_sectors(raw: Path) -> int:
    table = json.loads(_run("sfdisk", "--json", str(raw)))
    return int(table["partitiontable"]["partitions"][1]["size"])


def _boot_loader(work: Path, root: Path, raw: Path) -> None:
    """Install GRUB on a disk file: boot.img in the first sector, the core in its partition, its position in both."""
    modules = root / "usr/lib/grub/i386-pc"
    core = work / "core.img"
    options = ["-d", str(modules), "-O", "i386-pc", "-p", "(hd0,gpt2)/boot/grub", "-o", str(core)]
    _run(str(root / "usr/bin/grub-mkimage"), *options, "biosdisk", "part_gpt", "ext2")
    content, boot = bytearray(core.read_bytes()), bytearray((modules / "boot.img").read_bytes()[:440])
    if len(content) > BOOT_SECTORS * 512:
        raise LabError(f"GRUB's core image has {len(content)} bytes, but its partition has only {BOOT_SECTORS * 512}.")
    struct.pack_into("<Q", content, 0x1F4, BOOT_SECTOR + 1)  # The rest of the core follows its first sector.
    struct.pack_into("<Q", boot, 0x5C, BOOT_SECTOR)
    with raw.open("r+b") as file:
        file.write(boot)
        file.seek(BOOT_SECTOR * 512)
        file.write(content)


def _run(*command: str, stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout
