# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Sysctls that belong to an owner: in a file for the next boot, and in the running kernel.

The file also records the kernel's former values, which come back when the owner gives up a sysctl.
"""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_HEADER = owners.header("kernel_sysctls", "sysctls")

_NAME = re.compile(r"[a-z][\w*-]*([./][\w*-]+)+")
_BEFORE_LINE = re.compile(r"^# before: (\S+) = (.*)$", re.MULTILINE)

# systemd-sysctl reads the files of these folders in the order of their names. Of equal names, the first one counts.
_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
_SETTING = re.compile(r"^[ \t]*-?[ \t]*([^\s#;=][^\s=]*)[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)

Values = dict[str, str]


def normal_value(value: t.Any) -> str:
    """Write a value as the kernel shows it: numbers separated by one blank, switches as 0 and 1."""
    return str(int(value)) if isinstance(value, bool) else " ".join(str(value).split())


def live_path(name: str) -> str:
    """Return the running kernel's file of a sysctl.

    As in sysctl(8), the first dot or slash in a name is the separator of its parts.
    """
    separator = next(character for character in name if character in "./")
    return "/proc/sys/" + (name if separator == "/" else name.translate(str.maketrans("./", "/.")))


def wanted_values(options: t.Mapping[str, t.Any]) -> Values:
    """Read the module's options, or raise an error that names everything that is wrong with them."""
    owners.assert_valid(options["owner"])
    if options["state"] == "absent":
        return {}
    wrong = [name for name, value in options["values"].items() if not _is_valid(name, value)]
    if wrong:
        raise GpuOpsError(f"These are not sysctls with a value on one line: {', '.join(wrong)}.", reason="Invalid")
    return {name: normal_value(value) for name, value in options["values"].items()}


def _is_valid(name: str, value: t.Any) -> bool:
    return bool(_NAME.fullmatch(name) and normal_value(value)) and "\n" not in str(value).strip()


class Sysctls:
    """The owner's file, and the running kernel."""

    def __init__(self, host: Host, owner: str) -> None:
        self.host = host
        self.path = f"/etc/sysctl.d/90-{owner}.conf"
        text = host.read(self.path)
        self.text = "" if text is None else f"{text}\n"
        self.original: Values = dict(_BEFORE_LINE.findall(self.text))

    def live(self, name: str) -> str | None:
        """Return the running kernel's value, or None if it does not have the sysctl."""
        value = self.host.read(live_path(name))
        return None if value is None else normal_value(value)

    def target(self, wanted: Values) -> Values:
        """Return the values for the running kernel: the owner's, and the former values of what the owner gives up."""
        given_up = {name: value for name, value in self.original.items() if name not in wanted}
        return {**given_up, **wanted}

    def differing(self, target: Values) -> Values:
        """Return the values that the running kernel does not have yet. Sysctls that it does not know are left out."""
        return {name: value for name, value in target.items() if self.live(name) not in (value, None)}

    def file(self, wanted: Values) -> str:
        """Return the text of the owner's file."""
        if not wanted:
            return ""
        text = _HEADER
        for name, value in wanted.items():
            before = self.original.get(name) or self.live(name) or ""
            text += f"# before: {name} = {before}\n{name} = {value}\n"
        return text

    def assert_known(self, wanted: Values) -> None:
        """Raise for names that the running kernel does not have."""
        unknown = [name for name in wanted if self.live(name) is None]
        if unknown:
            raise GpuOpsError(
                f"The kernel has no sysctl {', '.join(unknown)}, so the sysctls were not set. "
                "Correct the name, or load the module that provides it.",
                reason="NotFound",
            )

    def set(self, values: Values) -> None:
        """Set values in the running kernel."""
        for name, value in values.items():
            try:
                self.host.write_in_place(live_path(name), f"{value}\n")
            except OSError as e:
                raise GpuOpsError(f"The kernel refuses {name} = {value}: {e.strerror}.", reason="Invalid") from e

    def apply(self, settable: Values, wanted: Values, text: str) -> None:
        """Set values, and write the owner's file if it differs.

        Former values come back before the file changes, so that they are not lost if the run is killed.
        """
        self.set({name: value for name, value in settable.items() if name not in wanted})
        if text != self.text:
            self.store(text)
        self.set({name: value for name, value in settable.items() if name in wanted})

    def store(self, text: str) -> None:
        """Write the owner's file, or remove it if there is no text."""
        if text:
            self.host.write(self.path, text)
        else:
            self.host.remove(self.path)


def overridden(host: Host, own: str, wanted: Values) -> list[Json]:
    """Return the owner's sysctls that a file with a later name sets to another value, with that file."""
    last: dict[str, Json] = {}
    for path in _later_files(host, own):
        for key, value in _SETTING.findall(host.read(path) or ""):
            for name in (name for name in wanted if _matches(name, key)):
                last[name] = {"name": name, "value": normal_value(value), "file": path}
    return [each for each in last.values() if each["value"] != wanted[each["name"]]]


def _later_files(host: Host, own: str) -> list[str]:
    """Return the files that are read after the owner's, in their order."""
    paths: dict[str, str] = {}
    for folder in _FOLDERS:
        for name in host.names(folder):
            paths.setdefault(name, f"{folder}/{name}")
    return [paths[name] for name in sorted(paths) if name.endswith(".conf") and name > own.rpartition("/")[2]]


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name or pattern in a file means this sysctl."""
    if not any(separator in pattern for separator in "./"):
        return False
    return fnmatch.fnmatchcase(live_path(name), live_path(pattern))


def set_sysctls(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Set an owner's sysctls and return the module's result. In check mode, predict the result."""
    wanted = wanted_values(options)
    sysctls = Sysctls(host, options["owner"])
    sysctls.assert_known(wanted)
    differing = sysctls.differing(sysctls.target(wanted))
    # A container sees its host's sysctls, but cannot set them.
    settable = {name: value for name, value in differing.items() if host.writable(live_path(name))}
    before = {name: sysctls.live(name) for name in settable}
    text = sysctls.file(wanted)
    if not check_mode:
        sysctls.apply(settable, wanted, text)
    pending, others = sorted(set(differing) - set(settable)), overridden(host, sysctls.path, wanted)
    return {
        "changed": bool(settable) or text != sysctls.text,
        "pending": pending,
        "overridden": others,
        "warnings": list(_warnings(pending, others)),
        "diff": [
            _diff(sysctls.path, sysctls.text, text),
            _diff("kernel", before, settable),
        ],
    }


def _warnings(pending: list[str], others: list[Json]) -> t.Iterator[str]:
    if pending:
        yield f"{', '.join(pending)} cannot be set in the running kernel from here. The next boot sets it."
    for other in others:
        name, value, path = other["name"], other["value"], other["file"]
        yield f"{path} sets {name} to {value} at the next boot, because it is read last. Remove the line there."


def _diff(header: str, before: t.Any, after: t.Any) -> Json:
    return {"before": before, "after": after, "before_header": header, "after_header": header}
