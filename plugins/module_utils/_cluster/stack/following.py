# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A collection that is read once, and after that only what has changed in it."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Kept = t.TypeVar("Kept")


class Follower(t.Generic[Kept]):
    """Reads a collection: all of it at first, and then only the objects that have changed.

    ``keep`` makes of each object what is to stay in memory.
    """

    def __init__(self, cluster: Cluster, path: str, keep: t.Callable[[Json], Kept], **selectors: str) -> None:
        self._cluster, self._path, self._keep, self._selectors = cluster, path, keep, selectors
        self._known: dict[str, Kept] = {}
        self._version = ""

    def read(self) -> list[Kept]:
        """Return what is kept of all objects. From the second time on, this listens for a second."""
        if not self._version or not self._follow():
            listed, self._version = self._cluster.large_list(self._path, self._named, **self._selectors)
            self._known = dict(listed)
        return list(self._known.values())

    def _named(self, item: Json) -> tuple[str, Kept]:
        return objects.full_name(item), self._keep(item)

    def _follow(self) -> bool:
        """Take over what has changed, and return whether the API server still knows since when."""
        try:
            changes, self._version = self._cluster.changes(self._path, self._version, **self._selectors)
        except GpuOpsError as e:
            if e.reason not in ("Expired", "Forbidden"):  # watch is a permission of its own
                raise
            return False
        for kind, item in changes:
            if kind == "DELETED":
                self._known.pop(objects.full_name(item), None)
            else:
                self._known.update([self._named(item)])
        return True
