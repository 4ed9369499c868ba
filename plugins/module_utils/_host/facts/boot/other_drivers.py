# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The kernel's own drivers of NVIDIA's GPUs: nouveau, and its successor nova, whose parts are nova_core and nova_drm.

NVIDIA's driver cannot be loaded while one of them has a GPU.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import modprobe
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, unknown

MODULES = ("nouveau", "nova_core", "nova_drm")
_IN_INITRAMFS = re.compile(r"/(?:nouveau|nova[-_]core|nova[-_]drm)\.ko(\.\w+)?(\s|$)")


def nouveau(host: Host, cmdline: t.Sequence[str]) -> Section:
    """Return whether these drivers are loaded, whether they are blacklisted, and in which files.

    ``blacklisted`` is nouveau's, because few kernels have nova.
    """
    texts = {path: host.read(path) or "" for path in modprobe.files(host)}
    modules = {name: _module(host, name, texts.values(), cmdline) for name in MODULES}
    files = [path for path, text in texts.items() if any(modprobe.blocks_module(text, name) for name in MODULES)]
    facts = {
        "loaded": any(module["loaded"] for module in modules.values()),
        "blacklisted": modules["nouveau"]["blacklisted"],
        "in_initramfs": None,
        "files": files,
        "modules": modules,
    }
    return Section(
        facts,
        {
            "loaded": known_from("sysfs"),
            "blacklisted": known_from(
                "modprobe.d" if files or not modules["nouveau"]["blacklisted"] else "/proc/cmdline"
            ),
            "files": known_from("modprobe.d"),
            "modules": known_from("sysfs, modprobe.d, /proc/cmdline"),
            "in_initramfs": unknown("Reading an initramfs takes seconds. Name the subset initramfs to read it"),
        },
    )


def _module(host: Host, name: str, texts: t.Iterable[str], cmdline: t.Sequence[str]) -> dict[str, bool]:
    by_file = any(modprobe.blocks_module(text, name) for text in texts)
    by_argument = any(modprobe.argument_blocks_module(argument, name) for argument in cmdline)
    return {"loaded": host.exists(f"/sys/module/{name}"), "blacklisted": by_file or by_argument}


def loaded(facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of the loaded ones, from the facts."""
    return [name for name, module in facts["modules"].items() if module["loaded"]]


def in_initramfs(host: Host, kernel: str) -> tuple[bool | None, str]:
    """Return whether the kernel's initramfs contains one of these drivers.

    The text is the source of the answer, or the reason why it is unknown.
    """
    reason = f"There is no initramfs of the kernel {kernel} in /boot"
    # dracut of Debian and of SUSE uses names of its own, and comes without lsinitramfs.
    images = (f"/boot/{name}" for name in (f"initrd.img-{kernel}", f"initramfs-{kernel}.img", f"initrd-{kernel}"))
    for image in filter(host.exists, images):
        command = "lsinitramfs" if host.which("lsinitramfs") else "lsinitrd"
        output = host.run([command, image], timeout_s=60)
        if output.ok:
            return _IN_INITRAMFS.search(output.stdout) is not None, command
        reason = str(output.error)
    return None, reason
