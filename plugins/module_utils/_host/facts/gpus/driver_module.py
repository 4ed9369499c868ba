# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The file of the driver's module that the running kernel would load: its version and who signed it."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

# Debian calls the module nvidia-current. The modules nvidiafb and nvidia-wmi-ec-backlight belong to the kernel.
_MODULE_FILE = re.compile(r"^(\S*/nvidia(?:-current|-(?:tesla|legacy)[-\w]*)?(?:-open)?\.ko(?:\.\w+)?):", re.MULTILINE)
# Debian's modprobe.d says which module to load instead: install nvidia modprobe -i nvidia-current $CMDLINE_OPTS
_REPLACED = re.compile(r"^\s*install\s+nvidia\s+.*modprobe\s.*-i\s+(nvidia[-\w]*)", re.MULTILINE)
KEYS = "/proc/keys"


@dataclasses.dataclass(frozen=True)
class ModuleFile:
    """The module's file, and what modinfo says about it. ``reason`` says why that is unknown."""

    path: str
    version: str | None = None
    signer: str | None = None
    reason: str | None = None


def files(host: Host) -> tuple[list[str] | None, str]:
    """Return the files of the module nvidia of the running kernel, under any name.

    The text is the source of the answer, or the reason why it is unknown.
    """
    folder = f"/lib/modules/{host.read('/proc/sys/kernel/osrelease')}"
    listed = host.read(f"{folder}/modules.dep")
    if listed is None:
        return None, f"There is no {folder}/modules.dep"
    paths = [path if path.startswith("/") else f"{folder}/{path}" for path in _MODULE_FILE.findall(listed)]
    return [path for path in paths if host.exists(path)], f"{folder}/modules.dep"


def chosen(paths: list[str], modprobe: str) -> str | None:
    """Return the file that ``modprobe nvidia`` loads, with the text of modprobe's configuration."""
    replaced = _REPLACED.findall(modprobe)
    name = replaced[-1] if replaced else "nvidia"
    named = [path for path in paths if path.rpartition("/")[2].partition(".ko")[0] == name]
    return next(iter(named or paths), None)


def inspect(host: Host, path: str) -> ModuleFile:
    """Ask modinfo about the module's file."""
    output = host.run(["modinfo", host.path(path)])
    if not output.ok:
        return ModuleFile(path, reason=output.error)
    return ModuleFile(path, _field(output.stdout, "version"), _field(output.stdout, "signer"))


def _field(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}:\s+(\S.*)$", text, re.MULTILINE)
    return match[1].strip() if match else None


def signer_enrolled(host: Host, signer: str) -> tuple[bool | None, str]:
    """Return whether the kernel trusts a signer of modules.

    It does if the signer's certificate is in one of the kernel's keyrings, or will be at the next boot because it is
    among the machine owner's keys. The text is the source of the answer, or the reason why it is unknown.
    """
    keys = host.read(KEYS) or ""
    # A key of a certificate is described as "<organization>: <common name>: <id>", the former two if they differ.
    if re.search(rf" asymmetri (?:.*: )?{re.escape(signer)}: [0-9a-f]+:", keys):
        return True, KEYS
    enrolled = host.run(["mokutil", "--list-enrolled"])
    if re.search(rf"Subject:.*\bCN ?= ?{re.escape(signer)}\s*(?:$|[,/])", enrolled.stdout, re.MULTILINE):
        return True, "mokutil"
    if " asymmetri " in keys:
        return False, KEYS
    if enrolled.ok:
        return False, "mokutil"
    return None, f"{KEYS} shows no certificate, and {enrolled.error}"
