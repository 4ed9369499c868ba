# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which modules modprobe's configuration and the kernel's command line keep from being loaded."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

_MODPROBE_FOLDERS = (
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/run/modprobe.d",
    "/etc/modprobe.d",
)
_COMMANDS_THAT_DO_NOTHING = ("/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true", "false", "true")
_COMMAND_LINE_BLACKLISTS = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist")


def files(host: Host) -> list[str]:
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


def text(host: Host) -> str:
    """Return modprobe's configuration as one text."""
    return "\n".join(host.read(path) or "" for path in files(host))


def blocks_module(text: str, module: str) -> bool:
    """Return whether a modprobe configuration keeps a module from being loaded for a device.

    It either blacklists the module, or replaces loading it with an empty command.
    """
    return any(_blocks(line.split(), module) for line in text.splitlines())


def _blocks(words: t.Sequence[str], module: str) -> bool:
    if len(words) < 2 or _normal(words[1]) != _normal(module):
        return False
    return words[0] == "blacklist" or (
        words[0] == "install" and len(words) > 2 and words[2] in _COMMANDS_THAT_DO_NOTHING
    )


def _normal(module: str) -> str:
    return module.replace("-", "_")


def argument_blocks_module(argument: str, module: str) -> bool:
    """Return whether a kernel argument keeps a module from being loaded."""
    name, dummy, value = argument.partition("=")
    return name in _COMMAND_LINE_BLACKLISTS and _normal(module) in map(_normal, value.split(","))
