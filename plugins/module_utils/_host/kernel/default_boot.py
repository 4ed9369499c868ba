# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The kernel that a host boots by default: an entry of GRUB's menu, or grubby's default."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import (
    boot_entries,
    grub_menu,
    grub_state,
    next_boot,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_choice import UnknownBootError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_script import Block, Command
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import BOOT_LOADER_TIMEOUT_S

DROP_IN = f"{boot_entries.GRUB_DROP_INS}/zz-gpuops-kernel.cfg"
"""It sorts last, so that its GRUB_DEFAULT counts."""
_RECOVERY = {"single", "recovery"}
_ID_OPTION = {"menuentry_id_option": "--id"}


def assert_possible(host: Host) -> None:
    """Raise if the kernel of the next boot cannot be read or chosen here."""
    upcoming = next_boot.next_boot(host)
    if upcoming.version is None:
        raise GpuOpsError(
            f"Which kernel the next boot uses is not known: {upcoming.reason}. Choose the kernel in the way of this "
            "host's boot loader, and reboot.",
            reason="Unsupported",
        )
    if not (host.which("grubby") or _has_update_grub(host)):
        raise GpuOpsError(
            "This host boots without GRUB and update-grub (Debian, Ubuntu) and without grubby (the Red Hat family). "
            "Choose the kernel in the way of its boot loader, and reboot.",
            reason="Unsupported",
        )


def _has_update_grub(host: Host) -> bool:
    return host.which("update-grub") is not None and host.exists(boot_entries.GRUB_DEFAULTS)


def boots(host: Host) -> str | None:
    """Return the kernel of the next boot, or None if that is not known."""
    return next_boot.next_boot(host).version


def choose(host: Host, release: str) -> bool:
    """Make a kernel the one that the host boots, and return whether that changed. The boot loader's files prove it.

    Where a new kernel comes first in the menu anyway, the file stays away, so that later updates are booted as before.
    """
    if boots(host) == release:
        return False
    if host.which("grubby"):
        _run(host, ["grubby", f"--set-default=/boot/vmlinuz-{release}"])
    else:
        _choose_in_grub(host, release)
    found = boots(host)
    if found != release:
        raise GpuOpsError(
            f"The boot loader was told to boot the kernel {release}, and its files still say {found or 'another one'}. "
            "Look at GRUB_DEFAULT in /etc/default/grub and at grubenv.",
            reason="BootLoader",
        )
    return True


def _choose_in_grub(host: Host, release: str) -> None:
    # The menu may be older than the kernel. Without our choice, the newest one may come first by itself.
    before = host.read(DROP_IN)
    host.remove(DROP_IN)
    _update(host, before)
    if boots(host) == release:
        return
    text = f'{owners.header("kernel_packages", "kernel")}GRUB_DEFAULT="{entry_of(host, release)}"\n'
    host.write(DROP_IN, text)
    _update(host, before)


def _update(host: Host, before: str | None) -> None:
    """Run update-grub. If it fails, the drop-in is as before."""
    try:
        _run(host, ["update-grub"])
    except GpuOpsError:
        if before is None:
            host.remove(DROP_IN)
        else:
            host.write(DROP_IN, f"{before}\n")
        raise


def _run(host: Host, command: list[str]) -> None:
    output = host.run(command, BOOT_LOADER_TIMEOUT_S)
    if not output.ok:
        message = f"{command[0]} failed, and the host boots the kernel that it booted before: {output.error}."
        raise GpuOpsError(message, reason="BootLoader")


def entry_of(host: Host, release: str) -> str:
    """Return the value of GRUB_DEFAULT that names a kernel's entry: its id, with those of its submenus before it."""
    try:
        paths = _entries(grub_menu.parse(host.read(boot_entries.GRUB_MENU) or ""), release, ())
        found = next(paths, None)
    except UnknownBootError as e:
        raise GpuOpsError(f"{boot_entries.GRUB_MENU} cannot be read: {e}.", reason="BootLoader") from e
    if found is None:
        raise GpuOpsError(
            f"{boot_entries.GRUB_MENU} has no entry for the kernel {release}. Run update-grub and look at its output.",
            reason="BootLoader",
        )
    return ">".join(each.replace(">", ">>") for each in found)


def _entries(block: Block, release: str, above: tuple[str, ...]) -> t.Iterator[tuple[str, ...]]:
    """Yield the way to each entry that boots a kernel, except those for recovery."""
    for command in block:
        if not isinstance(command, Command) or command.block is None:
            continue
        words = [_text(word) for word in command.words]
        if words[:1] and words[0] in grub_state.MENU_ENTRIES:
            way = (*above, grub_state.entry(words, ()).id)
            if words[0] == "submenu":
                yield from _entries(command.block, release, way)
            elif _loads(command.block, release):
                yield way


def _loads(block: Block, release: str) -> bool:
    lines = [[_text(word) for word in each.words] for each in block if isinstance(each, Command)]
    loaded = [line for line in lines if line[:1] and line[0] in grub_state.LINUX and len(line) > 1]
    return any(line[1].endswith(f"/vmlinuz-{release}") and not _RECOVERY & set(line) for line in loaded)


def _text(word: t.Iterable[t.Any]) -> str:
    """Return a word of the menu as it is written, with the variable before an entry's id replaced by its value."""
    return "".join(_ID_OPTION.get(part.text, "") if part.is_variable else part.text for part in word)
