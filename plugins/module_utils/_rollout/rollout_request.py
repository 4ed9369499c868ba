# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a user wants of a rollout: sizes of batches, canary, groups, and how many members may fail."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.amounts import amount
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

OPTIONS_FOR_NODES = {"members": "nodes", "sizes": "max_unavailable", "max_out": "max_failed", "groups": "group_by"}
"""The words for the wishes in the modules that change nodes."""


@dataclasses.dataclass(frozen=True)
class RolloutRequest:
    """The user's variables as they are. ``names`` are the words for them and for the members, for messages."""

    sizes: t.Any = 1
    canary: t.Any = 0
    groups: t.Mapping[str, t.Any] | None = None
    max_out: t.Any = 0
    names: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def name(self, wish: str) -> str:
        """Return the word for a variable or for ``members``."""
        return self.names.get(wish, wish)

    @property
    def named_canaries(self) -> frozenset[str] | None:
        """The canaries, if the user names them."""
        return frozenset(map(str, self.canary)) if isinstance(self.canary, list) else None

    def number_of_canaries(self, total: int) -> int:
        """Return how many canaries there are, if the user does not name them."""
        return amount(self.canary, total, self.name("canary"), least=1 if "%" in str(self.canary) else 0)

    def size(self, position: int, total: int) -> int:
        """Return the size of a batch. The last size in a list holds for all further batches."""
        sizes = self.sizes if isinstance(self.sizes, list) else [self.sizes]
        size = sizes[min(position, len(sizes) - 1)] if sizes else ""
        return amount(size, total, self.name("sizes"), least=1)

    def may_be_out(self, total: int) -> int:
        """Return how many members may be out."""
        return amount(self.max_out, total, self.name("max_out"))

    def groups_of(self, members: t.Sequence[str]) -> dict[str, str | None]:
        """Return the group of each member: None for all, if the user does not group them."""
        if self.groups is None:
            return dict.fromkeys(members)
        missing = [member for member in members if self.groups.get(member) in (None, "")]
        if missing:
            raise GpuOpsError(
                f"The variable that {self.name('groups')} names has no value for {first_few(missing)}. "
                "Set it for each of them, or for their group.",
                reason="Invalid",
            )
        return {member: str(self.groups[member]) for member in members}

    def check(self, members: t.Collection[str]) -> None:
        """Raise if a wish cannot be fulfilled, before anybody changes."""
        for position in range(max(1, len(self.sizes)) if isinstance(self.sizes, list) else 1):
            self.size(position, 1)
        self.may_be_out(1)
        unknown = sorted((self.named_canaries or frozenset()) - set(members))
        if unknown:
            raise GpuOpsError(
                f"{self.name('canary')} names {first_few(unknown)}, and this run is not about them. "
                f"Name {self.name('members')} of this run.",
                reason="Invalid",
            )
        if self.named_canaries is None:
            self.number_of_canaries(1)
