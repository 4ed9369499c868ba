# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is known of a program of the stack whose logs people read. Pure."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Component:
    """A program, or a few that work as one."""

    key: str
    """What patterns call it, such as ``device-plugin``."""
    name: str
    """What a sentence calls it, with its article: ``the device plugin``."""
    names: str
    """A regular expression: how the names of its containers, pods, units and files begin."""
    marks: str
    """A regular expression of words that only its own lines have, wherever they stand."""
    does: str
    """What it does, as a sentence."""
    awaited: str
    """What waits for it, as a sentence."""
    needs: tuple[str, ...]
    """What it needs. What is missing of that is a candidate for a cause."""
    look: str
    """Where to look next, in the imperative, as a sentence. Nothing in it interrupts a workload."""
    source: str
    """Where its names and its words stand: a repository and a revision, or a page."""

    @property
    def values(self) -> dict[str, str]:
        """What fills the blanks of a finding about it. Its name begins a sentence."""
        name = self.name[0].upper() + self.name[1:]
        needs = "; ".join(self.needs)
        return {"component": name, "does": self.does, "awaited": self.awaited, "needs": needs, "look": self.look}


def github(repository: str, revision: str, path: str = "") -> str:
    """Return the address of a folder of a repository at a revision."""
    return f"https://github.com/{repository}/tree/{revision}/{path}".rstrip("/")
