# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What an earlier run wrote about its rollout, so that the next one goes on from there."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

FORMAT = 1
State = t.Literal["waiting", "changing", "done", "current", "postponed", "failed", "left out"]
"""Of a member: not yet begun, begun, changed, nothing to change, not to be changed now, failed, or not taken along."""
STATES: tuple[State, ...] = t.get_args(State)


@dataclasses.dataclass(frozen=True)
class Former:
    """The former run's members, each with its entry in the file."""

    members: t.Mapping[str, Json] = dataclasses.field(default_factory=dict)
    canaries: frozenset[str] = frozenset()

    @property
    def halfway(self) -> frozenset[str]:
        """Members whose batch had begun and not ended."""
        return self._in_state("changing")

    @property
    def failed(self) -> frozenset[str]:
        """Members that failed to change."""
        return self._in_state("failed")

    @property
    def unfinished(self) -> bool:
        """Whether the former run left somebody to change."""
        return bool(self._in_state("waiting", "changing", "failed", "left out"))

    @property
    def canaries_passed(self) -> bool:
        """Whether the former run is not finished, and its canaries are."""
        return bool(self.canaries) and self.unfinished and self.canaries <= self._in_state("done", "current")

    def _in_state(self, *states: State) -> frozenset[str]:
        return frozenset(name for name, entry in self.members.items() if entry["state"] in states)


def parse(content: t.Any) -> Former:
    """Return what a former run wrote. No content means that there was none."""
    if not content:
        return Former()
    members = content.get("hosts") if isinstance(content, dict) else None
    if not isinstance(members, dict) or content.get("format") != FORMAT or not all(map(_is_entry, members.values())):
        raise GpuOpsError(
            f"The rollout file does not come from this version of the collection (format {FORMAT}). "
            "Name another file, or remove it to start over.",
            reason="Invalid",
        )
    return Former(members, frozenset(map(str, content.get("canary") or [])))


def _is_entry(entry: t.Any) -> bool:
    return isinstance(entry, dict) and entry.get("state") in STATES
