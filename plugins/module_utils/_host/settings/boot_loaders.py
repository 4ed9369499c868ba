# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The boot loaders whose entries can be changed, and the record of what an owner has set in them.

On Debian and derivatives the record is the owner's drop-in in /etc/default/grub.d. On the Red Hat family, where grubby
edits every boot entry, it is a separate file. It is written before the boot entries change, so that the next run can
complete a run that was killed.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import boot_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot_entries import (
    BLS_ENTRIES,
    GRUB_DEFAULTS,
    GRUB_DROP_INS,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.argument_rules import (
    Args,
    argument_name,
    argument_names,
)

GRUB_CONFIG = "/boot/grub/grub.cfg"
_RECORDS = owners.records("kernel_args")
BOOT_LOADER_TIMEOUT_S = 900.0
MINIMUM_FREE_BYTES = 2**20
"""update-grub writes its file in place. On a full disk the file would be incomplete, and the host could not boot."""


def remove_arguments(arguments: t.Sequence[str], removed: t.Sequence[str]) -> Args:
    """Remove each argument once. Of equal arguments, remove the last, because the earlier belong to other owners."""
    left = list(reversed(arguments))
    for argument in removed:
        if argument in left:
            left.remove(argument)
    return left[::-1]


@dataclasses.dataclass(frozen=True)
class Record:
    """What an owner has set. While it is ``pending``, some boot entries may still have the ``previous`` arguments."""

    args: Args = dataclasses.field(default_factory=list)
    pending: bool = False
    replaced: Args = dataclasses.field(default_factory=list)
    """Arguments of others that the owner's arguments have replaced."""
    previous: Args = dataclasses.field(default_factory=list)

    @property
    def current_and_previous(self) -> Args:
        """Every argument of the owner that a boot entry may have."""
        return list(dict.fromkeys([*self.args, *self.previous]))


class BootLoader(abc.ABC):
    """The boot entries, and an owner's arguments in them."""

    name: str
    folders: tuple[str, ...]
    """What must be writable before the first change."""

    def __init__(self, host: Host, owner: str) -> None:
        self.host, self.owner = host, owner

    @property
    @abc.abstractmethod
    def path(self) -> str:
        """Return the file that records what the owner has set."""

    @abc.abstractmethod
    def record(self) -> Record:
        """Return what the owner has set so far."""

    @abc.abstractmethod
    def entries(self) -> list[Args]:
        """Read the arguments of every boot entry."""

    @abc.abstractmethod
    def predict(self, arguments: t.Sequence[str], record: Record, entries: list[Args], wanted: Args) -> Args:
        """Return one entry's arguments as `apply` would leave them."""

    @abc.abstractmethod
    def apply(self, record: Record, entries: list[Args], wanted: Args) -> None:
        """Set the owner's arguments in every boot entry."""

    def assert_possible(self, wanted: t.Sequence[str]) -> None:
        """Raise if a change would fail halfway."""
        for folder in self.folders:
            self.host.assert_writable(folder, "kernel arguments")
            if self.host.exists(folder) and self.host.free_bytes(folder) < MINIMUM_FREE_BYTES:
                raise GpuOpsError(
                    f"{folder} is on a full file system, so the kernel arguments are left as they are. "
                    "Remove kernels that are no longer used.",
                    reason="NoSpace",
                )


def missing_arguments(entries: t.Iterable[Args], wanted: t.Sequence[str]) -> Args:
    """Return the arguments that are not in every boot entry."""
    entries = list(entries)
    return [argument for argument in wanted if any(argument not in entry for entry in entries)]


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
        entries = boot_entries.grub_menu_entries(self.host.read(GRUB_CONFIG) or "", GRUB_CONFIG)
        return [entry.arguments for entry in entries]

    def predict(self, arguments: t.Sequence[str], record: Record, entries: list[Args], wanted: Args) -> Args:
        return remove_arguments(arguments, record.current_and_previous) + list(wanted)

    def apply(self, record: Record, entries: list[Args], wanted: Args) -> None:
        previous = self.host.read(self.path)
        self.host.write(self.path, self._text(wanted, record.current_and_previous))
        try:
            self._update_grub(wanted)
        except GpuOpsError:
            self._restore(previous)
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
        missing = missing_arguments(self.entries(), wanted)
        if missing:
            raise GpuOpsError(
                f"update-grub ran, but {GRUB_CONFIG} still lacks {' '.join(missing)}, so the kernel arguments are "
                f"left as they were. A file that is read after {self.path} overrides GRUB_CMDLINE_LINUX_DEFAULT, or "
                "/etc/grub.d does not use it.",
                reason="BootLoader",
            )

    def _restore(self, previous: str | None) -> None:
        if previous is None:
            self.host.remove(self.path)
        else:
            self.host.write(self.path, f"{previous}\n")

    def _text(self, arguments: Args, pending_from: Args | None = None) -> str:
        text = owners.header("kernel_args", "arguments")
        if pending_from is not None:
            text += f"{self._PENDING}{' '.join(pending_from)}\n"
        if arguments:
            text += f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {" ".join(arguments)}"\n'
        return text


class Grubby(BootLoader):
    """The Red Hat family: grubby, which edits every boot entry and the defaults for new kernels.

    grubby has no concept of owners, so a file records what each owner has set.
    """

    name = "grubby"
    folders = (_RECORDS, BLS_ENTRIES)

    @property
    def path(self) -> str:
        """The owner's record."""
        return f"{_RECORDS}/{self.owner}.json"

    def assert_possible(self, wanted: t.Sequence[str]) -> None:
        names = [argument_name(argument) for argument in wanted]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise GpuOpsError(
                f"grubby keeps one value for each name, so {' and '.join(repeated)} cannot be given more than once. "
                "Reserve huge pages of one size with arguments, and pages of 2M with the sysctl vm.nr_hugepages.",
                reason="Unsupported",
            )
        super().assert_possible(wanted)

    def record(self) -> Record:
        try:
            return Record(**json.loads(self.host.read(self.path) or "{}"))
        except (ValueError, TypeError) as e:
            raise GpuOpsError(
                f"{self.path} is damaged: {e}. Remove it, and remove the arguments with grubby.", reason="Invalid"
            ) from e

    def entries(self) -> list[Args]:
        output = self.host.run(["grubby", "--info=ALL"], BOOT_LOADER_TIMEOUT_S)
        if not output.ok:
            raise GpuOpsError(f"The boot entries cannot be read: {output.error}.", reason="BootLoader")
        return grubby_entries(output.stdout)

    def predict(self, arguments: t.Sequence[str], record: Record, entries: list[Args], wanted: Args) -> Args:
        changed = argument_names([*record.current_and_previous, *wanted])
        given_back = self._given_back(self._replaced(record, entries, wanted), wanted)
        return [argument for argument in arguments if argument_name(argument) not in changed] + given_back + wanted

    def apply(self, record: Record, entries: list[Args], wanted: Args) -> None:
        owned = record.current_and_previous
        replaced = self._replaced(record, entries, wanted)
        changed = argument_names([*owned, *wanted])
        removed = {argument for entry in entries for argument in entry if argument_name(argument) in changed}
        self._write(Record(args=wanted, pending=True, replaced=replaced, previous=owned))
        self._update(sorted(removed), [*self._given_back(replaced, wanted), *wanted])
        missing = missing_arguments(self.entries(), wanted)
        if missing:
            raise GpuOpsError(f"grubby ran, but a boot entry still lacks {' '.join(missing)}.", reason="BootLoader")
        if wanted:
            names = argument_names(wanted)
            still_replaced = [argument for argument in replaced if argument_name(argument) in names]
            self._write(Record(args=wanted, replaced=still_replaced))
        else:
            self.host.remove(self.path)

    def _update(self, removed: Args, added: Args) -> None:
        command = ["grubby", "--update-kernel=ALL"]
        if removed:
            # Whole arguments, not names: some versions of grubby also remove names that end with a given name.
            command.append(f"--remove-args={' '.join(removed)}")
        if added:
            command.append(f"--args={' '.join(added)}")
        output = self.host.run(command, BOOT_LOADER_TIMEOUT_S)
        if not output.ok:
            # Each entry has its own file, so some may be done. The record stays pending, and the next run completes it.
            raise GpuOpsError(
                f"grubby failed: {output.error}. The next run sets the arguments again on every boot entry.",
                reason="BootLoader",
            )

    def _replaced(self, record: Record, entries: list[Args], wanted: t.Sequence[str]) -> Args:
        """Return the arguments of others that the owner's arguments have replaced or are about to replace."""
        new = argument_names(wanted) - argument_names(record.current_and_previous)
        first = entries[0] if entries else []
        return [*record.replaced, *(argument for argument in first if argument_name(argument) in new)]

    def _given_back(self, replaced: Args, wanted: t.Sequence[str]) -> Args:
        names = argument_names(wanted)
        return [argument for argument in replaced if argument_name(argument) not in names]

    def _write(self, record: Record) -> None:
        self.host.write(self.path, json.dumps(dataclasses.asdict(record), indent=2) + "\n")


def grubby_entries(text: str) -> list[Args]:
    """Return the arguments of every entry in the output of ``grubby --info=ALL``, except rescue entries."""
    entries = []
    for block in re.split(r"^index=", text, flags=re.MULTILINE)[1:]:
        found = re.search(r'^args="(.*)"$', block, re.MULTILINE)
        if found and not re.search(r"^kernel=.*rescue", block, re.MULTILINE):
            entries.append(boot_entries.split_arguments(found[1]))
    return entries


def boot_loader(host: Host, owner: str) -> BootLoader:
    """Return the host's boot loader, or raise if its entries cannot be changed."""
    if boot_entries.bootloader(host) == "systemd-boot":
        raise GpuOpsError(
            "This host boots with systemd-boot, which this module does not change. Set the arguments in "
            "/etc/kernel/cmdline, and run kernel-install add-all (or dracut and bootctl on your distribution).",
            reason="Unsupported",
        )
    if host.which("grubby"):
        return Grubby(host, owner)
    if host.which("update-grub") and host.exists(GRUB_DEFAULTS):
        return GrubDropIn(host, owner)
    raise GpuOpsError(
        "No boot loader was found that this module can change: "
        "GRUB with update-grub (Debian, Ubuntu), or grubby (the Red Hat family).",
        reason="Unsupported",
    )
