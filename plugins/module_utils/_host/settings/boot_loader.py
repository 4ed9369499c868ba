# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What every boot loader can do: its entries are read and changed, and a record says what an owner has set in them.

On Debian and derivatives the record is the owner's drop-in in /etc/default/grub.d. On the Red Hat family, where grubby
edits every boot entry, it is a separate file. It is written before the boot entries change, so that the next run can
complete a run that was killed.
"""

from __future__ import annotations

import abc
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.argument_rules import Args

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

    def merged(self, record: Record, entries: list[Args], wanted: Args) -> Args:
        """Return the wanted arguments as the boot entries get them."""
        del record, entries
        return wanted

    def foreign_entries_without(self, wanted: Args) -> list[str]:
        """Return the titles of entries that lack the arguments and that the boot loader's tool does not change."""
        del wanted
        return []

    def assert_possible(self, record: Record, entries: list[Args], wanted: Args) -> None:
        """Raise if a change would fail halfway."""
        del record, entries, wanted
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
