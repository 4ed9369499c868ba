# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Kernel modules that belong to an owner: those to blacklist, those to load at boot, and their options.

The settings are in files and in the initramfs images, because a blacklist that is only in /etc comes too late for a
module that the initramfs loads. An image that is older than the files is rebuilt and verified. A mark stays on the host
from the first change until every image is verified, so that the next run can complete a run that was killed.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import modprobe
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.initramfs import Initramfs
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_HEADER = owners.header("kernel_modules", "modules")
MARKS = owners.records("kernel_modules")

NVIDIA_OPTIONS = "/proc/driver/nvidia/params"
_NVREG = "NVreg_"
# The only option that the driver shows by another name (kernel-open/nvidia/nv-reg.h).
_SHOWN_AS = {"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VALUE = re.compile(r"[^\s\"'#\\]+")


@dataclasses.dataclass(frozen=True)
class WantedModules:
    """The settings that an owner wants."""

    owner: str
    blacklist: list[str] = dataclasses.field(default_factory=list)
    load: list[str] = dataclasses.field(default_factory=list)
    options: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def modprobe_path(self) -> str:
        """The owner's file for modprobe. The last of several values of an option counts, and the files are sorted."""
        return f"/etc/modprobe.d/zz-{self.owner}.conf"

    @property
    def former_path(self) -> str:
        """The file that earlier releases of this collection wrote."""
        return f"/etc/modprobe.d/{self.owner}.conf"

    def modprobe_text(self) -> str | None:
        """Return the text of the owner's file for modprobe, or None if it should not exist."""
        options = [f"options {module} {' '.join(_pairs(values))}" for module, values in self.options.items()]
        return _text([*(f"blacklist {module}" for module in self.blacklist), *options])

    def files(self, dracut: bool) -> dict[str, str | None]:
        """Return every file that the owner may have with its text, or with None if the file should not exist."""
        modprobe = self.modprobe_text()
        return {
            self.modprobe_path: modprobe,
            f"/etc/modules-load.d/{self.owner}.conf": _text(self.load),
            f"/etc/dracut.conf.d/{self.owner}.conf": self._dracut_text() if dracut and modprobe else None,
        }

    def _dracut_text(self) -> str | None:
        # By default, dracut puts /etc/modprobe.d only into images for the host that it runs on.
        lines = [f'install_items+=" {self.modprobe_path} "']
        if self.blacklist:
            lines.append(f'omit_drivers+=" {" ".join(self.blacklist)} "')
        return _text(lines)


def _text(lines: t.Sequence[str]) -> str | None:
    return _HEADER + "".join(f"{line}\n" for line in lines) if lines else None


def _pairs(values: t.Mapping[t.Any, t.Any]) -> list[str]:
    return [f"{key}={value}" for key, value in values.items()]


def wanted_modules(options: t.Mapping[str, t.Any]) -> WantedModules:
    """Read the module's options, or raise an error that names everything that is wrong with them."""
    owners.assert_valid(options["owner"])
    if options["state"] == "absent":
        return WantedModules(options["owner"])
    parameters = {module: values for module, values in options["options"].items() if values}
    problems = [*_name_problems(options, parameters), *_parameter_problems(parameters)]
    if problems:
        raise GpuOpsError(" ".join(dict.fromkeys(problems)), reason="Invalid")
    return WantedModules(
        owner=options["owner"],
        blacklist=list(dict.fromkeys(options["blacklist"])),
        load=list(dict.fromkeys(options["load"])),
        options={module: {str(key): _plain(values[key]) for key in values} for module, values in parameters.items()},
    )


def _name_problems(options: t.Mapping[str, t.Any], parameters: t.Iterable[str]) -> list[str]:
    names = (*options["blacklist"], *options["load"], *parameters)
    problems = [f"{name!r} is not the name of a kernel module." for name in names if not _NAME.fullmatch(name)]
    both = [name for name in options["load"] if name in options["blacklist"]]
    return problems + [f"{name} cannot be loaded and blacklisted at the same time." for name in both]


def _parameter_problems(parameters: t.Mapping[str, t.Any]) -> list[str]:
    problems = []
    for module, values in parameters.items():
        wrong = _invalid_pairs(values) if isinstance(values, dict) else str(values)
        if wrong:
            problems.append(
                f"The options of {module} must be a dictionary of parameters and values without blanks, quotes or #. "
                f"This is not: {wrong}."
            )
    return problems


def _invalid_pairs(values: t.Mapping[t.Any, t.Any]) -> str:
    wrong = {
        key: value
        for key, value in values.items()
        if not _NAME.fullmatch(str(key)) or not _VALUE.fullmatch(_plain(value))
    }
    return ", ".join(_pairs(wrong))


def _plain(value: t.Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def loaded(host: Host) -> set[str] | None:
    """Return the names of the loaded modules, or None if the kernel does not support modules."""
    text = host.read("/proc/modules")
    return None if text is None else {line.split()[0] for line in text.splitlines() if line}


def not_loaded(host: Host, names: t.Sequence[str]) -> list[str]:
    """Return the modules that are neither loaded nor built into the kernel. Without module support, the list is
    empty."""
    modules = loaded(host)
    if modules is None:
        return []
    kernel_names = {name: name.replace("-", "_") for name in names}
    return [name for name in names if kernel_names[name] not in modules and not _is_built_in(host, kernel_names[name])]


def _is_loaded(host: Host, kernel_name: str) -> bool:
    # Modules that are built into the kernel have a folder in sysfs, too, but no state.
    return kernel_name in (loaded(host) or ()) or host.exists(f"/sys/module/{kernel_name}/initstate")


def _is_built_in(host: Host, kernel_name: str) -> bool:
    return host.exists(f"/sys/module/{kernel_name}")


def reboot_reasons(host: Host, wanted: WantedModules) -> list[str]:
    """Return the settings that take effect only at the next boot."""
    blacklisted = [module for module in wanted.blacklist if _is_loaded(host, module.replace("-", "_"))]
    reasons = [f"{module} is loaded although it is blacklisted" for module in blacklisted]
    for module, values in wanted.options.items():
        for key, value in values.items():
            current = in_force(host, module, key)
            if current is not None and _normal(current) != _normal(value):
                reasons.append(f"{module} runs with {key}={current} instead of {value}")
    return reasons


def in_force(host: Host, module: str, key: str) -> str | None:
    """Return the value that an option has in the loaded module, or None if that cannot be seen.

    NVIDIA's driver publishes its options in a file of its own, and none in sysfs.
    """
    if module != "nvidia":
        return host.read(f"/sys/module/{module.replace('-', '_')}/parameters/{key}")
    name = key[len(_NVREG) :] if key.startswith(_NVREG) else key
    shown = re.search(rf"^{re.escape(_SHOWN_AS.get(name, name))}: (.*)$", host.read(NVIDIA_OPTIONS) or "", re.MULTILINE)
    return shown[1].strip('"') if shown else None


def _normal(value: str) -> str:
    """Write a switch as a number, since the kernel shows it as Y or N, and a number as the driver shows it."""
    plain = {"y": "1", "n": "0"}.get(value.strip().lower(), value.strip())
    try:
        return str(int(plain, 0) % 2**32)
    except ValueError:
        return plain


def overridden(host: Host, wanted: WantedModules) -> list[Json]:
    """Return the owner's options that a file which modprobe reads later sets to another value, with that file."""
    found: dict[tuple[str, str], Json] = {}
    paths = modprobe.files(host)
    later = [path for path in paths if path.rpartition("/")[2] > wanted.modprobe_path.rpartition("/")[2]]
    for path in later:
        for line in (host.read(path) or "").splitlines():
            verb, *words = line.split() or [""]
            for pair in words[1:] if verb == "options" else []:
                key, dummy, value = pair.partition("=")
                row = {"module": words[0], "name": key, "value": value, "file": path}
                found[words[0].replace("-", "_"), key] = row
    options = wanted.options.items()
    ours = {(module.replace("-", "_"), key): value for module, values in options for key, value in values.items()}
    return [row for name, row in found.items() if name in ours and _normal(row["value"]) != _normal(ours[name])]


def load(host: Host, names: t.Sequence[str], dry_run: bool) -> None:
    """Load modules, or only check that they can be loaded."""
    for name in names:
        output = host.run(["modprobe", *(["--dry-run"] if dry_run else []), name], 60.0)
        if not output.ok:
            raise GpuOpsError(
                f"The kernel module {name} cannot be loaded, and the host was not changed: {output.error}. "
                "Install the package that has it, such as linux-modules-extra-<kernel> or kernel-modules-extra.",
                reason="ModuleNotLoaded",
            )


class Files:
    """The owner's files before and after the change."""

    def __init__(self, host: Host, wanted: WantedModules, dracut: bool) -> None:
        self.host = host
        self.after = wanted.files(dracut)
        if (host.read(wanted.former_path) or "").startswith(_HEADER.rstrip()):
            self.after[wanted.former_path] = None
        self.before = {path: _with_newline(host.read(path)) for path in self.after}

    @property
    def changed(self) -> list[str]:
        """The paths of the files that differ."""
        return [path for path, text in self.after.items() if text != self.before[path]]

    @property
    def for_images(self) -> list[str]:
        """The paths of the files that differ and that the images contain or depend on."""
        return [path for path in self.changed if "modules-load" not in path]

    @property
    def wanted(self) -> list[str]:
        """The paths of the files that should exist."""
        return [path for path, text in self.after.items() if text is not None]

    def write(self, texts: t.Mapping[str, str | None]) -> None:
        """Write or remove the files that differ."""
        for path in self.changed:
            text = texts[path]
            if text is None:
                self.host.remove(path)
            else:
                self.host.write(path, text)

    def diff(self) -> list[dict[str, str]]:
        """Return a diff for each file that differs."""
        return [
            {
                "before": self.before[path] or "",
                "after": self.after[path] or "",
                "before_header": path,
                "after_header": path,
            }
            for path in self.changed
        ]


def _with_newline(text: str | None) -> str | None:
    return None if text is None else f"{text}\n"


def set_modules(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Set an owner's modules and return the module's result. In check mode, predict the result."""
    with host.locked():
        return _set_modules(host, options, check_mode)


def _set_modules(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    wanted = wanted_modules(options)
    initramfs = Initramfs(host)
    files = Files(host, wanted, initramfs.tool == "dracut")
    mark = f"{MARKS}/{wanted.owner}.pending"
    rebuild = _is_stale(host, files, initramfs, wanted, mark)
    to_load = not_loaded(host, wanted.load) if options["load_now"] else []
    changed = bool(files.changed or rebuild or to_load or host.exists(mark))
    if files.for_images or rebuild:
        initramfs.assert_possible()
    load(host, to_load, dry_run=check_mode)
    if changed and not check_mode:
        _apply(host, files, mark, initramfs if rebuild else None, wanted)
    reasons, others = reboot_reasons(host, wanted), overridden(host, wanted)
    return {
        "changed": changed,
        "files": files.wanted,
        "initramfs": initramfs.summary(rebuild),
        "loaded": to_load,
        "reboot_required": bool(reasons),
        "reboot_reasons": reasons,
        "overridden": others,
        "warnings": [
            f"{each['file']} sets {each['name']} of {each['module']} to {each['value']}, because it is read last. "
            "Remove the line there."
            for each in others
        ],
        "diff": files.diff(),
    }


def _is_stale(host: Host, files: Files, initramfs: Initramfs, wanted: WantedModules, mark: str) -> bool:
    """Return whether an image may differ from the owner's files. Modules to load at boot do not affect the images."""
    if not initramfs.images:
        return False
    return bool(files.for_images) or host.exists(mark) or initramfs.older_than(wanted.modprobe_path)


def _apply(host: Host, files: Files, mark: str, initramfs: Initramfs | None, wanted: WantedModules) -> None:
    if initramfs:
        host.write(mark, "The initramfs images may differ from the files in /etc/modprobe.d.\n")
    try:
        files.write(files.after)
        if initramfs:
            initramfs.rebuild(wanted.modprobe_path, wanted.modprobe_text())
    except GpuOpsError:
        # The mark stays, because some images may already contain the new files.
        files.write(files.before)
        raise
    host.remove(mark)
