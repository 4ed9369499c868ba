# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which kernel the next boot uses, with which arguments, and which files say so.

What cannot be read as the boot loader reads it is unknown, and has a reason. A guess would be a reason to reboot that
no reboot removes.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries, grub_menu, grub_script
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_choice import UnknownBootError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_script import Block
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import Linux, LoadedEntry
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import UNKNOWN_TEXT
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

_MENU_OF_ENTRIES = (
    'load_env\nset default="${saved_entry}"\nif [ "${next_entry}" ]; then set default="${next_entry}"; fi\nblscfg\n'
)
_ENVIRONMENTS = ("/boot/grub2/grubenv", "/boot/grub/grubenv", "/boot/efi/EFI/redhat/grubenv")
# The boot loader's folder as GRUB and systemd-boot see it: /boot, or the EFI system partition.
_ENTRY_FOLDERS = (boot_entries.BLS_ENTRIES, "/boot/efi/loader/entries", "/efi/loader/entries")
_UNIFIED_IMAGES = ("/boot/EFI/Linux/*.efi", "/boot/efi/EFI/Linux/*.efi", "/efi/EFI/Linux/*.efi")
_LOADER_CONFIGURATIONS = ("/boot/loader/loader.conf", "/boot/efi/loader/loader.conf", "/efi/loader/loader.conf")
_LOADER_VARIABLES = "/sys/firmware/efi/efivars/Loader{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_STUB = "/sys/firmware/efi/efivars/StubInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_IMAGE = re.compile(r"(?:^|/)(?:vmlinuz|vmlinux|bzImage|Image|image)-([^/]+)$")
# kernel-install puts each kernel into a folder of its own: TOKEN/VERSION/linux.
_IMAGE_IN_FOLDER = re.compile(r"/(\d[^/]*)/(?:linux|vmlinuz)$")
_FROM_NETWORK = re.compile(r"\((?:pxe|tftp|https?|efinet)")


@dataclasses.dataclass(frozen=True)
class NextBoot:
    """The kernel of the next boot and its arguments, or None with the reason.

    ``fallback`` has the arguments with which an image of Ubuntu's clouds boots if its first try fails. ``files`` are
    what the answer was read from.
    """

    version: str | None = None
    arguments: list[str] | None = None
    fallback: list[str] | None = None
    source: str | None = None
    files: tuple[str, ...] = ()
    reason: str = ""


def next_boot(host: Host) -> NextBoot:
    """Return what the next boot uses."""
    if host.exists("/run/ostree-booted"):
        return NextBoot(reason="ostree writes the boot entry of an update only while the host shuts down")
    if host.exists(_STUB):
        return NextBoot(reason="The host boots a unified kernel image, which contains its arguments")
    if boot_entries.bootloader(host) == "systemd-boot":
        return _systemd_boot(host)
    menu = _grub_menu(host)
    if menu:
        return _grub(host, menu, host.read(menu) or "")
    if _entry_paths(host):
        # Some systems let only root read the menu, and others have it in a folder that is not mounted.
        return _grub(host, "/boot/grub2/grub.cfg", _MENU_OF_ENTRIES)
    return NextBoot(reason="Boot loader entries and grub.cfg cannot be read")


def _entry_paths(host: Host) -> list[str]:
    return [path for folder in _ENTRY_FOLDERS for path in host.glob(f"{folder}/*.conf")]


def _version(path: str, field: str = "") -> str | None:
    """Return a kernel's version from its file's name, or else from the entry's field if that looks like a version."""
    name = _IMAGE.search(path) or _IMAGE_IN_FOLDER.search(path)
    if name and UNKNOWN_TEXT not in name[1]:
        return name[1]
    return field if path != UNKNOWN_TEXT and re.match(r"\d+\.\d", field) else None


def _fields(text: str) -> dict[str, str]:
    """Read a file of the Boot Loader Specification. Several lines of options are one."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, dummy, value = line.strip().replace("\t", " ").partition(" ")
        if name and not name.startswith("#"):
            joined = f"{fields['options']} {value.strip()}" if name == "options" and name in fields else value.strip()
            fields[name] = joined
    return fields


# ---- GRUB ------------------------------------------------------------------------------------------------------------


def _grub_menu(host: Host) -> str | None:
    """Return the path of GRUB's menu."""
    in_partition = _menus_in_the_system_partition(host) if host.exists("/sys/firmware/efi") else []
    if len(in_partition) == 1:
        return in_partition[0]
    return next((path for path in boot_entries.GRUB_MENUS if host.read(path)), None)


def _menus_in_the_system_partition(host: Host) -> list[str]:
    """Return the menus that are there. A file without entries only names the menu in another folder."""
    texts = {path: host.read(path) or "" for path in host.glob("/boot/efi/EFI/*/grub.cfg")}
    return [path for path, text in texts.items() if "menuentry" in text or "blscfg" in text]


def _grub(host: Host, menu: str, text: str) -> NextBoot:
    foreign = _other_loader(host.read("/proc/cmdline") or "")
    if foreign:
        return NextBoot(reason=foreign)
    environment = _environment(host)
    try:
        script = grub_menu.parse(text)
        boot = grub_menu.boot(script, _machine(host, menu, environment))
    except UnknownBootError as e:
        return NextBoot(reason=f"{menu} does not say what the next boot uses: {e}")
    version = _version(boot.kernel.path, boot.entry.version)
    if version is None:
        return NextBoot(reason=f"{menu} boots something else than a kernel with a version in its name")
    arguments = _known(boot.kernel)
    environment_counts = any(environment.get(name) for name in boot.variables)
    return NextBoot(
        version,
        arguments,
        _fallback(host, menu, script, boot),
        boot.entry.source or menu,
        (menu, *_of_entry(boot.entry.source), *boot.files, *(_ENVIRONMENTS if environment_counts else ())),
        "" if arguments is not None else f"The arguments in {menu} depend on what only GRUB knows",
    )


def _of_entry(source: str) -> tuple[str, ...]:
    """Return an entry's file and its folder, which changes when another entry comes or goes."""
    return (source, source.rpartition("/")[0]) if source else ()


def _other_loader(cmdline: str) -> str:
    """Return why GRUB's menu does not describe the next boot, or an empty text.

    GRUB gives every kernel the argument BOOT_IMAGE with the file's path. Other loaders leave it out, or give a name
    without a folder. A host that such a loader has started will be started by it again, whatever GRUB's files on its
    disk say.
    """
    image = next((each.partition("=")[2] for each in cmdline.split() if each.startswith("BOOT_IMAGE=")), None)
    if not cmdline or (image and image[0] in "/(" and not _FROM_NETWORK.match(image)):
        return ""
    return "This boot did not come from GRUB's menu on the disk (BOOT_IMAGE in /proc/cmdline)"


def _known(kernel: Linux) -> list[str] | None:
    return None if any(UNKNOWN_TEXT in each for each in kernel.arguments) else list(kernel.arguments)


def _fallback(host: Host, menu: str, script: Block, boot: grub_menu.Boot) -> list[str] | None:
    """Return the arguments of a second try, which Ubuntu's cloud images make if a boot without an initramfs fails."""
    environment = {**_environment(host), "initrdfail": "1"}
    if "initrdfail" not in boot.variables or environment.get("next_entry"):
        return None
    try:
        again = grub_menu.boot(script, _machine(host, menu, environment))
    except UnknownBootError:
        return None
    return _known(again.kernel) if again.kernel != boot.kernel and again.kernel.path == boot.kernel.path else None


def _environment(host: Host) -> dict[str, str]:
    environment: dict[str, str] = {}
    for path in _ENVIRONMENTS:
        environment = {**boot_entries.environment_block(host.read(path) or ""), **environment}
    return environment


def _machine(host: Host, menu: str, environment: t.Mapping[str, str]) -> grub_menu.BootMachine:
    efi = host.exists("/sys/firmware/efi")
    return grub_menu.BootMachine(
        prefix=menu.rpartition("/")[0],
        platform="efi" if efi or host.machine() != "x86_64" else "pc",
        cpu={"aarch64": "arm64"}.get(host.machine(), host.machine()),
        environment=environment,
        read=host.read,
        entries=lambda value_of: _menu_entries(host, value_of),
    )


def _menu_entries(host: Host, value_of: t.Callable[[str], str]) -> list[LoadedEntry]:
    """Return the entries of the Boot Loader Specification in the order of GRUB's menu."""
    paths = sorted(_entry_paths(host), key=lambda path: boot_entries.version_key(_name(path)), reverse=True)
    return [_menu_entry(path, _fields(host.read(path) or ""), value_of) for path in paths]


def _name(path: str) -> str:
    return path.rpartition("/")[2][: -len(".conf")]


def _menu_entry(path: str, fields: t.Mapping[str, str], value_of: t.Callable[[str], str]) -> LoadedEntry:
    options = re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda name: value_of(name[1] or name[2]), fields.get("options", ""))
    try:
        block = grub_script.parse(f"linux {fields.get('linux', '/')} {options}")
    except grub_script.ScriptError:
        block = ()
    return LoadedEntry(fields.get("title", ""), _name(path), block, False, path, fields.get("version", ""))


# ---- systemd-boot ----------------------------------------------------------------------------------------------------


def _systemd_boot(host: Host) -> NextBoot:
    if any(map(host.glob, _UNIFIED_IMAGES)):
        return NextBoot(reason="systemd-boot also shows unified kernel images, which contain their arguments")
    usable = _usable_entries(host)
    if len({(each.get("sort-key"), each.get("machine-id")) for each in usable.values()}) != 1:
        return NextBoot(reason="The entries of systemd-boot belong to no or to several systems")
    wanted = _systemd_boot_default(host)
    if wanted.startswith(("@", "auto-")):
        return NextBoot(reason=f"systemd-boot boots {wanted}")
    newest = sorted(usable, key=lambda path: boot_entries.version_key(usable[path].get("version", "")), reverse=True)
    chosen = next((path for path in newest if fnmatch.fnmatchcase(_identity(path), wanted)), newest[0])
    return _of_systemd_boot(chosen, usable[chosen])


def _usable_entries(host: Host) -> dict[str, dict[str, str]]:
    """Return the entries, except those without a successful boot: their counter ends with +0."""
    paths = [path for path in _entry_paths(host) if not re.search(r"\+0(-\d+)?\.conf$", path)]
    return {path: _fields(host.read(path) or "") for path in paths}


def _of_systemd_boot(path: str, fields: t.Mapping[str, str]) -> NextBoot:
    version = _version(fields.get("linux", ""), fields.get("version", ""))
    if version is None:
        return NextBoot(reason=f"{path} has no kernel with a version")
    arguments = boot_entries.split_arguments(fields.get("options", ""))
    return NextBoot(version, arguments, None, path, (path, path.rpartition("/")[0], *_LOADER_CONFIGURATIONS))


def _identity(path: str) -> str:
    """Return the id of an entry, which is its file's name without the counter of tries."""
    return re.sub(r"\+\d+(-\d+)?(?=\.conf$)", "", path.rpartition("/")[2])


def _systemd_boot_default(host: Host) -> str:
    """Return the pattern of the chosen entry's id, or an empty text."""
    for name in ("EntryOneShot", "EntryDefault"):
        value = (host.read_bytes(_LOADER_VARIABLES.format(name)) or b"")[4:].decode("utf-16-le", "replace")
        if value.strip("\0"):
            return value.strip("\0")
    texts = (host.read(path) or "" for path in _LOADER_CONFIGURATIONS)
    return next((_fields(text)["default"] for text in texts if "default" in _fields(text)), "")
