# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""An owner's sysctls: one file for the next boot, the running kernel now, and the values that were there before when they go again."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners

HEADER = owners.header("kernel_sysctls", "sysctls")

_NAME = re.compile(r"[a-z][\w*-]*([./][\w*-]+)+")
_WAS = re.compile(r"^# before: (\S+) = (.*)$", re.MULTILINE)
_SET = re.compile(r"^([^#\s=]+) = (.*)$", re.MULTILINE)

Values = dict[str, str]


def plain(value: t.Any) -> str:
    """Write a value as the kernel shows it: numbers one blank apart, switches as 0 and 1."""
    return str(int(value)) if isinstance(value, bool) else " ".join(str(value).split())


def live_path(name: str) -> str:
    """Return where the running kernel has a sysctl. The first separator tells which one the name uses, as for sysctl(8)."""
    separator = next(character for character in name if character in "./")
    return "/proc/sys/" + (name if separator == "/" else name.replace("/", "\0").replace(".", "/").replace("\0", "."))


def wanted_values(options: t.Mapping[str, t.Any]) -> Values:
    """Read the module's options, or raise with everything that is wrong about them."""
    owners.assert_valid(options["owner"])
    if options["state"] == "absent":
        return {}
    wrong = [
        name
        for name, value in options["values"].items()
        if not _NAME.fullmatch(name) or not plain(value) or "\n" in str(value).strip()
    ]
    if wrong:
        raise GpuOpsError(f"These are not sysctls with a value on one line: {', '.join(wrong)}.", reason="Invalid")
    return {name: plain(value) for name, value in options["values"].items()}


class Sysctls:
    """The owner's file, and the running kernel."""

    def __init__(self, host: Host, owner: str) -> None:
        self.host = host
        self.path = f"/etc/sysctl.d/90-{owner}.conf"
        text = host.read(self.path)
        self.text = "" if text is None else f"{text}\n"
        self.owned: Values = dict(_SET.findall(self.text))
        self.original: Values = dict(_WAS.findall(self.text))

    def live(self, name: str) -> str | None:
        """Return the running kernel's value, or None when it has no such sysctl."""
        value = self.host.read(live_path(name))
        return None if value is None else plain(value)

    def target(self, wanted: Values) -> Values:
        """Return what the running kernel is to have: the owner's values, and the former ones of what the owner gives up."""
        given_up = {name: value for name, value in self.original.items() if name not in wanted}
        return {**given_up, **wanted}

    def file(self, wanted: Values) -> str:
        """Return the text of the owner's file."""
        before = {name: self.original.get(name) or self.live(name) or "" for name in wanted}
        lines = [
            line
            for name, value in wanted.items()
            for line in (f"# before: {name} = {before[name]}", f"{name} = {value}")
        ]
        return HEADER + "".join(f"{line}\n" for line in lines) if lines else ""

    def assert_known(self, wanted: Values) -> None:
        """Raise for names that the running kernel does not have."""
        unknown = [name for name in wanted if self.live(name) is None]
        if unknown:
            raise GpuOpsError(
                f"The kernel has no sysctl {', '.join(unknown)}, so none was set. Correct the name, or load the module that brings it.",
                reason="NotFound",
            )

    def set(self, values: Values) -> None:
        """Give the running kernel values. A kernel that refuses one says why."""
        for name, value in values.items():
            try:
                with open(self.host.path(live_path(name)), "w", encoding="ascii") as file:
                    file.write(f"{value}\n")
            except OSError as e:
                raise GpuOpsError(f"The kernel does not take {name} = {value}: {e.strerror}.", reason="Invalid") from e


def set_sysctls(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Bring file and kernel there, in check mode only say what would come of it."""
    wanted = wanted_values(options)
    sysctls = Sysctls(host, options["owner"])
    sysctls.assert_known(wanted)
    target = sysctls.target(wanted)
    differing = {name: value for name, value in target.items() if sysctls.live(name) not in (value, None)}
    # A container sees the sysctls of its host and may not set them.
    settable = {name: value for name, value in differing.items() if host.writable(live_path(name))}
    text = sysctls.file(wanted)
    before = {name: sysctls.live(name) for name in target}
    if not check_mode:
        # What is given up comes first and the file after it: when this ends in between, the next run still knows the former values.
        sysctls.set({name: value for name, value in settable.items() if name not in wanted})
        if text != sysctls.text:
            _store(host, sysctls.path, text)
        sysctls.set({name: value for name, value in settable.items() if name in wanted})
    return {
        "changed": bool(settable) or text != sysctls.text,
        "pending": sorted(set(differing) - set(settable)),
        "diff": [
            {"before": sysctls.text, "after": text, "before_header": sysctls.path, "after_header": sysctls.path},
            {
                "before": {name: before[name] for name in settable},
                "after": settable,
                "before_header": "kernel",
                "after_header": "kernel",
            },
        ],
    }


def _store(host: Host, path: str, text: str) -> None:
    if text:
        host.write(path, text)
    else:
        host.remove(path)
