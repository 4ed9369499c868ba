# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""GRUB of Debian and derivatives: an owner's drop-in for grub-mkconfig, and update-grub."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.boot_entries import (
    GRUB_DROP_INS,
    GRUB_MENU,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import grub_entries, owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.argument_rules import Args
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import (
    BOOT_LOADER_TIMEOUT_S,
    BootLoader,
    Record,
    missing_arguments,
    remove_arguments,
)


class GrubDropIn(BootLoader):
    """Debian and derivatives: a drop-in file for grub-mkconfig, and update-grub.

    The drop-in's name sorts last, and the kernel uses the last of several arguments with the same name.
    """

    name = "grub"
    folders = (GRUB_DROP_INS, "/boot/grub")
    _PENDING = "# update-grub has not run since this was changed from: "

    @property
    def path(self) -> str:
        """The owner's drop-in."""
        return f"{GRUB_DROP_INS}/zz-{self.owner}.cfg"

    def record(self) -> Record:
        text = self.host.read(self.path) or ""
        found = re.search(r'^GRUB_CMDLINE_LINUX_DEFAULT="\$GRUB_CMDLINE_LINUX_DEFAULT (.*)"$', text, re.MULTILINE)
        pending = re.search(f"^{re.escape(self._PENDING)}(.*)$", text, re.MULTILINE)
        return Record(
            args=boot_entries.split_arguments(found[1]) if found else [],
            pending=pending is not None,
            previous=boot_entries.split_arguments(pending[1]) if pending else [],
        )

    def entries(self) -> list[Args]:
        return [entry.arguments for entry in grub_entries.read(self.host.read(GRUB_MENU) or "") if entry.generated]

    def foreign_entries_without(self, wanted: Args) -> list[str]:
        entries = [entry for entry in grub_entries.read(self.host.read(GRUB_MENU) or "") if not entry.generated]
        return [entry.title for entry in entries if missing_arguments([entry.arguments], wanted)]

    def predict(self, arguments: t.Sequence[str], record: Record, entries: list[Args], wanted: Args) -> Args:
        return remove_arguments(arguments, record.current_and_previous) + list(wanted)

    def apply(self, record: Record, entries: list[Args], wanted: Args) -> None:
        previous, menu = self.host.read(self.path), self.host.read(GRUB_MENU)
        self.host.write(self.path, self._text(wanted, record.current_and_previous))
        try:
            self._update_grub(wanted)
        except GpuOpsError:
            self._restore(previous)
            if self.host.read(GRUB_MENU) != menu:
                self._restore_menu(record, wanted)
            raise
        if wanted:
            self.host.write(self.path, self._text(wanted))
        else:
            self.host.remove(self.path)

    def _update_grub(self, wanted: Args) -> None:
        output = self.host.run(["update-grub"], BOOT_LOADER_TIMEOUT_S)
        if not output.ok:
            raise GpuOpsError(
                f"update-grub failed, and the kernel arguments are left as they were: {output.error}.",
                reason="BootLoader",
            )
        entries = self.entries()
        if wanted and not entries:
            raise GpuOpsError(
                f"update-grub ran, but {GRUB_MENU} has no entry of a kernel, so the kernel arguments are left as "
                "they were. Install a kernel, or set the arguments where this host's kernel comes from.",
                reason="BootLoader",
            )
        missing = missing_arguments(entries, wanted)
        if missing:
            raise GpuOpsError(
                f"update-grub ran, but {GRUB_MENU} still lacks {' '.join(missing)}, so the kernel arguments are "
                f"left as they were. A file that is read after {self.path} overrides GRUB_CMDLINE_LINUX_DEFAULT, or "
                "/etc/grub.d does not use it.",
                reason="BootLoader",
            )

    def _restore(self, previous: str | None) -> None:
        if previous is None:
            self.host.remove(self.path)
        else:
            self.host.write(self.path, f"{previous}\n")

    def _restore_menu(self, record: Record, wanted: Args) -> None:
        """Write the menu again, from the drop-in that was put back."""
        output = self.host.run(["update-grub"], BOOT_LOADER_TIMEOUT_S)
        if not output.ok:
            # The drop-in stays pending, so that the next run completes this.
            self.host.write(self.path, self._text(record.args, [*record.current_and_previous, *wanted]))
            raise GpuOpsError(
                f"{GRUB_MENU} could not be put back, and may have some of the arguments: {output.error}. "
                "Run update-grub before the next boot, or run this again.",
                reason="BootLoader",
            )

    def _text(self, arguments: Args, pending_from: Args | None = None) -> str:
        text = owners.header("kernel_args", "arguments")
        if pending_from is not None:
            text += f"{self._PENDING}{' '.join(pending_from)}\n"
        if arguments:
            text += f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {" ".join(arguments)}"\n'
        return text
