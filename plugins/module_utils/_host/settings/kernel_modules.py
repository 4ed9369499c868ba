# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which kernel modules a host must not load, loads at boot, and with which options; in its files and in its initramfs images.

A blacklist that is only in /etc comes too late for what the initramfs loads, so an image that is older than the files is made anew and
looked into. A mark on the host stands from before the first file is touched until every image has proved right, so a run that was
killed in between is completed by the next.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.initramfs import file_in_image

HEADER = owners.header("kernel_modules", "modules")
MARKS = owners.records("kernel_modules")
REBUILD_TIMEOUT_S = 3600.0
SPARE = 1.1
"""An image may come out a little larger than the one before."""

_NO_SPACE = "No space left on device"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VALUE = re.compile(r"[^\s\"'#\\]+")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the owner wants."""

    owner: str
    blacklist: list[str] = dataclasses.field(default_factory=list)
    load: list[str] = dataclasses.field(default_factory=list)
    options: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def modprobe_path(self) -> str:
        """The owner's file for modprobe."""
        return f"/etc/modprobe.d/{self.owner}.conf"

    def files(self, dracut: bool) -> dict[str, str | None]:
        """Return every file that the owner may have, with its text, or None where it is not to be there."""
        options = [
            f"options {module} {' '.join(f'{key}={value}' for key, value in given.items())}"
            for module, given in self.options.items()
        ]
        modprobe = [*(f"blacklist {module}" for module in self.blacklist), *options]
        # dracut leaves /etc/modprobe.d out of images that are not made for one host only.
        items = [
            f'install_items+=" {self.modprobe_path} "',
            *([f'omit_drivers+=" {" ".join(self.blacklist)} "'] if self.blacklist else []),
        ]
        return {
            self.modprobe_path: _text(modprobe),
            f"/etc/modules-load.d/{self.owner}.conf": _text(self.load),
            f"/etc/dracut.conf.d/{self.owner}.conf": _text(items if dracut and modprobe else []),
        }


def _text(lines: t.Sequence[str]) -> str | None:
    return HEADER + "".join(f"{line}\n" for line in lines) if lines else None


def wanted_modules(options: t.Mapping[str, t.Any]) -> Wanted:
    """Read the module's options, or raise with everything that is wrong about them."""
    owners.assert_valid(options["owner"])
    if options["state"] == "absent":
        return Wanted(options["owner"])
    given = {module: values for module, values in options["options"].items() if values}
    wrong = [
        f"{name!r} is not the name of a kernel module."
        for name in (*options["blacklist"], *options["load"], *given)
        if not _NAME.fullmatch(name)
    ]
    wrong += [
        f"{name} cannot be loaded and blacklisted at once." for name in options["load"] if name in options["blacklist"]
    ]
    for module, values in given.items():
        pairs = values.items() if isinstance(values, dict) else ()
        bad = [
            f"{key}={value}"
            for key, value in pairs
            if not _NAME.fullmatch(str(key)) or not _VALUE.fullmatch(_plain(value))
        ]
        if bad or not isinstance(values, dict):
            wrong.append(
                f"The options of {module} must be a dictionary of parameters and values without blanks, quotes and #; see {', '.join(bad) or values}."
            )
    if wrong:
        raise GpuOpsError(" ".join(dict.fromkeys(wrong)), reason="Invalid")
    return Wanted(
        owner=options["owner"],
        blacklist=list(dict.fromkeys(options["blacklist"])),
        load=list(dict.fromkeys(options["load"])),
        options={
            module: {str(key): _plain(value) for key, value in values.items()} for module, values in given.items()
        },
    )


def _plain(value: t.Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


# ---- the initramfs --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Image:
    """One initramfs image and the kernel that it is for."""

    path: str
    kernel: str


class Initramfs:
    """The host's images and the tool that makes them: initramfs-tools or dracut."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.images = images(host)
        tools = [
            name
            for name, command in (("initramfs-tools", "update-initramfs"), ("dracut", "dracut"))
            if host.which(command)
        ]
        self.tool = tools[0] if tools else None
        if self.images and not self.tool:
            raise GpuOpsError(
                "The host has initramfs images, and neither update-initramfs nor dracut to make them anew. Install initramfs-tools or dracut.",
                reason="Unsupported",
            )

    def older_than(self, path: str) -> bool:
        """Whether some image was made before a file was written."""
        return any(self.host.changed_at(image.path) < self.host.changed_at(path) for image in self.images)

    def assert_room(self) -> None:
        """Raise when an image could not be made: where there is no room, the old ones stay, and so does everything else."""
        if not self.images:
            return
        self.host.assert_writable("/boot", "kernel modules")
        needed, free = SPARE * max(self.host.size(image.path) for image in self.images), self.host.free_bytes("/boot")
        if free < needed:
            raise GpuOpsError(
                f"/boot has {free / 2**20:.0f} MiB left, and making an initramfs needs {needed / 2**20:.0f} MiB. Nothing was changed. "
                "Remove kernels that are no longer used.",
                reason="NoSpace",
            )

    def rebuild(self, wanted: Wanted) -> None:
        """Make every image anew and prove that it holds the owner's file, or raise; an image that fails does not replace the old one."""
        text = wanted.files(dracut=True)[wanted.modprobe_path]
        if self.tool == "dracut":
            for image in self.images:
                self._dracut(image, wanted.modprobe_path, text)
            return
        output = self.host.run(["update-initramfs", "-u", "-k", "all"], REBUILD_TIMEOUT_S)
        if not output.ok:
            raise _not_made("The initramfs", output)
        for image in self.images:
            self._assert_holds(image, image.path, wanted.modprobe_path, text)

    def _dracut(self, image: Image, path: str, text: str | None) -> None:
        # dracut removes the image that it fails to write, so it gets another name until it has proved right.
        draft = f"{image.path}.gpuops"
        try:
            output = self.host.run(["dracut", "--force", draft, image.kernel], REBUILD_TIMEOUT_S)
            if not output.ok:
                raise _not_made(f"The initramfs for {image.kernel}", output)
            self._assert_holds(image, draft, path, text)
            self.host.move(draft, image.path)
        finally:
            self.host.remove(draft)

    def _assert_holds(self, image: Image, built: str, path: str, text: str | None) -> None:
        inside = file_in_image(self.host, built, path)
        if (inside is None) != (text is None):
            raise GpuOpsError(
                f"The new initramfs for {image.kernel} {'is without' if text else 'still holds'} {path}.",
                reason="Initramfs",
            )
        if inside != text:
            raise GpuOpsError(
                f"The new initramfs for {image.kernel} holds another {path} than the host.", reason="Initramfs"
            )


def _not_made(what: str, output: Output) -> GpuOpsError:
    # The tools say it long before their last line.
    full = _NO_SPACE in output.stdout + output.stderr
    remedy = (
        f"{_NO_SPACE}. Remove kernels that are no longer used, or make room in /var/tmp, and run this again"
        if full
        else f"{output.error}"
    )
    return GpuOpsError(
        f"{what} could not be made, and the old one is kept: {remedy}.", reason="NoSpace" if full else "Initramfs"
    )


def images(host: Host) -> list[Image]:
    """Return the images of installed kernels; those of removed kernels, rescue and crash kernels are left alone."""
    found = []
    for path in (*host.glob("/boot/initrd.img-*"), *host.glob("/boot/initramfs-*.img")):
        kernel = path.split("-", 1)[1]
        kernel = kernel[: -len(".img")] if kernel.endswith(".img") else kernel
        if host.exists(f"/lib/modules/{kernel}"):
            found.append(Image(path, kernel))
    return found


# ---- the running kernel ---------------------------------------------------------------------------------------------------------


def loaded(host: Host) -> set[str] | None:
    """Return the names of the loaded modules, or None where the kernel knows no modules."""
    text = host.read("/proc/modules")
    return None if text is None else {line.split()[0] for line in text.splitlines() if line}


def is_there(host: Host, module: str, modules: set[str]) -> bool:
    """Whether a module is loaded, or part of the kernel."""
    name = module.replace("-", "_")
    return name in modules or host.exists(f"/sys/module/{name}")


def reboot_reasons(host: Host, wanted: Wanted) -> list[str]:
    """Say what of the owner's wishes only a reboot fulfils."""
    modules = loaded(host) or set()
    reasons = [
        f"{module} is loaded although it is blacklisted"
        for module in wanted.blacklist
        if module.replace("-", "_") in modules
    ]
    for module, values in wanted.options.items():
        for key, value in values.items():
            now = host.read(f"/sys/module/{module.replace('-', '_')}/parameters/{key}")
            if now is not None and _truth(now) != _truth(value):
                reasons.append(f"{module} runs with {key}={now} instead of {value}")
    return reasons


def _truth(value: str) -> str:
    return {"y": "1", "n": "0"}.get(value.strip().lower(), value.strip())


def load(host: Host, names: t.Sequence[str], dry_run: bool) -> None:
    """Load modules, or only ask whether that would work."""
    for name in names:
        output = host.run(["modprobe", *(["--dry-run"] if dry_run else []), name], 60.0)
        if not output.ok:
            raise GpuOpsError(
                f"The kernel module {name} cannot be loaded, and nothing was changed: {output.error}.",
                reason="ModuleNotLoaded",
            )


# ---- all of it ------------------------------------------------------------------------------------------------------------------


class Files:
    """The owner's files before and after."""

    def __init__(self, host: Host, wanted: Wanted, dracut: bool) -> None:
        self.host = host
        self.after = wanted.files(dracut)
        self.before = {path: _with_newline(host.read(path)) for path in self.after}

    @property
    def changed(self) -> list[str]:
        """Return the paths of the files that differ."""
        return [path for path, text in self.after.items() if text != self.before[path]]

    def put(self, texts: t.Mapping[str, str | None]) -> None:
        """Write or remove the files that differ."""
        for path in self.changed:
            text = texts[path]
            if text is None:
                self.host.remove(path)
            else:
                self.host.write(path, text)

    def diff(self) -> list[dict[str, str]]:
        """Return one part for each file that differs."""
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


def set_modules(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Bring the host's modules there, in check mode only say what would come of it."""
    wanted = wanted_modules(options)
    initramfs = Initramfs(host)
    files = Files(host, wanted, initramfs.tool == "dracut")
    mark = f"{MARKS}/{wanted.owner}.pending"
    for_boot = [path for path in files.changed if "modules-load" not in path]
    stale = bool(for_boot) or host.exists(mark) or initramfs.older_than(wanted.modprobe_path)
    rebuild = stale and bool(initramfs.images)
    modules = loaded(host)
    to_load = (
        []
        if modules is None or not options["load_now"]
        else [name for name in wanted.load if not is_there(host, name, modules)]
    )
    changed = bool(files.changed or rebuild or to_load or host.exists(mark))
    if rebuild:
        initramfs.assert_room()
    load(host, to_load, dry_run=check_mode)
    if changed and not check_mode:
        _apply(host, files, mark, initramfs if rebuild else None, wanted)
    reasons = reboot_reasons(host, wanted)
    return {
        "changed": changed,
        "files": [path for path, text in files.after.items() if text is not None],
        "initramfs": {"tool": initramfs.tool, "rebuilt": rebuild, "images": [image.path for image in initramfs.images]},
        "loaded": to_load,
        "reboot_required": bool(reasons),
        "reboot_reasons": reasons,
        "diff": files.diff(),
    }


def _apply(host: Host, files: Files, mark: str, initramfs: Initramfs | None, wanted: Wanted) -> None:
    if initramfs:
        host.write(mark, "The initramfs images may not hold what /etc/modprobe.d says.\n")
    try:
        files.put(files.after)
        if initramfs:
            initramfs.rebuild(wanted)
    except GpuOpsError:
        # The mark stays: some images may hold the new files already.
        files.put(files.before)
        raise
    host.remove(mark)
