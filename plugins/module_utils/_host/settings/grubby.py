# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""grubby of the Red Hat family, which edits every boot entry, and the record of what an owner has set with it."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.boot_entries import BLS_ENTRIES
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import argument_rules, owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.argument_rules import (
    Args,
    argument_name,
    argument_names,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import (
    BOOT_LOADER_TIMEOUT_S,
    BootLoader,
    Record,
    missing_arguments,
    remove_arguments,
)

_RECORDS = owners.records("kernel_args")


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

    def assert_possible(self, record: Record, entries: list[Args], wanted: Args) -> None:
        names = [argument_name(argument) for argument in wanted]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise GpuOpsError(
                f"grubby keeps one value for each name, so {' and '.join(repeated)} cannot be given more than once. "
                "Reserve huge pages of one size with arguments, and pages of 2M with the sysctl vm.nr_hugepages.",
                reason="Unsupported",
            )
        displaced = self._displaced(record, entries, wanted)
        if displaced:
            raise GpuOpsError(
                f"grubby keeps one value for each name, and would remove {' '.join(displaced)}, which others have set. "
                f"Leave this name out here, and add your value to the options in {BLS_ENTRIES} by hand.",
                reason="Unsupported",
            )
        super().assert_possible(record, entries, wanted)

    def _displaced(self, record: Record, entries: list[Args], wanted: Args) -> Args:
        """Return the arguments of others that would be lost, although the kernel uses them beside the owner's."""
        displaced: Args = []
        for name in sorted(argument_names(wanted) - set(argument_rules.SHARED_LISTS)):
            for entry in entries:
                others = [argument for argument in entry if argument_name(argument) == name]
                others = remove_arguments(others, record.current_and_previous)
                if len(others) > 1 or (others and argument_rules.all_count(name)):
                    displaced += others
        return list(dict.fromkeys(displaced))

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
        kept = [argument for argument in arguments if argument_name(argument) not in changed]
        return kept + self._given_back(record, entries, wanted) + self.merged(record, entries, wanted)

    def merged(self, record: Record, entries: list[Args], wanted: Args) -> Args:
        return [self._with_items_of_others(argument, record, entries) for argument in wanted]

    def _with_items_of_others(self, argument: str, record: Record, entries: list[Args]) -> str:
        name = argument_name(argument)
        if name not in argument_rules.SHARED_LISTS:
            return argument
        wanted, others = argument_rules.list_items([argument], name), self._items_of_others(name, record, entries)
        present = argument_rules.list_items((each for entry in entries for each in entry), name)
        # The present order stays, so that a second run finds no difference.
        items = [*(item for item in present if item in others or item in wanted), *wanted]
        return f"{name}={','.join(dict.fromkeys(items))}"

    def apply(self, record: Record, entries: list[Args], wanted: Args) -> None:
        owned = record.current_and_previous
        replaced = self._replaced(record, entries, wanted)
        merged = self.merged(record, entries, wanted)
        changed = argument_names([*owned, *wanted])
        removed = {argument for entry in entries for argument in entry if argument_name(argument) in changed}
        self._write(Record(args=wanted, pending=True, replaced=replaced, previous=owned))
        self._update(sorted(removed), [*self._given_back(record, entries, wanted), *merged])
        missing = missing_arguments(self.entries(), merged)
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

    def _replaced(self, record: Record, entries: list[Args], wanted: Args) -> Args:
        """Return the arguments of others that the owner's arguments have replaced or are about to replace.

        Of a list, these are the items that others have set, too: they stay when the owner gives them up.
        """
        new = argument_names(wanted) - argument_names(record.current_and_previous) - set(argument_rules.SHARED_LISTS)
        first = entries[0] if entries else []
        replaced = [
            *_without_lists(record.replaced),
            *(argument for argument in first if argument_name(argument) in new),
        ]
        for name in argument_rules.SHARED_LISTS:
            others = self._items_of_others(name, record, entries)
            shared = [item for item in argument_rules.list_items(wanted, name) if item in others]
            replaced += [f"{name}={','.join(shared)}"] if shared else []
        return replaced

    def _items_of_others(self, name: str, record: Record, entries: list[Args]) -> Args:
        """Return the items of a list in the boot entries that do not come from the owner alone."""
        present = argument_rules.list_items((argument for entry in entries for argument in entry), name)
        owned = argument_rules.list_items(record.current_and_previous, name)
        shared = argument_rules.list_items(record.replaced, name)
        return [item for item in present if item not in owned or item in shared]

    def _given_back(self, record: Record, entries: list[Args], wanted: Args) -> Args:
        """Return the arguments of others that the entries get back."""
        names = argument_names(wanted)
        given_back = [each for each in _without_lists(record.replaced) if argument_name(each) not in names]
        for name in argument_rules.SHARED_LISTS:
            others = self._items_of_others(name, record, entries)
            if others and name not in names and name in argument_names(record.current_and_previous):
                given_back.append(f"{name}={','.join(others)}")
        return given_back

    def _write(self, record: Record) -> None:
        self.host.write(self.path, json.dumps(dataclasses.asdict(record), indent=2) + "\n")


def _without_lists(arguments: t.Iterable[str]) -> Args:
    return [argument for argument in arguments if argument_name(argument) not in argument_rules.SHARED_LISTS]


def grubby_entries(text: str) -> list[Args]:
    """Return the arguments of every entry in the output of ``grubby --info=ALL``, except rescue entries."""
    entries = []
    for block in re.split(r"^index=", text, flags=re.MULTILINE)[1:]:
        found = re.search(r'^args="(.*)"$', block, re.MULTILINE)
        if found and not re.search(r"^kernel=.*rescue", block, re.MULTILINE):
            entries.append(boot_entries.split_arguments(found[1]))
    return entries
