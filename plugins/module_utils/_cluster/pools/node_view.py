# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A cluster whose nodes look otherwise: some are hidden, and others as an earlier step will have left them.

So a step can be limited to some nodes, or tried out as a dry run on nodes that the steps before it have not changed.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Changes, Cluster, Kept, Versioned
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

See = t.Callable[[Json], "Json | None"]
"""Returns a node as it shall look, or None if it is hidden."""


class NodeView(Cluster):
    """A connection through which lists of nodes are seen by ``see``. Everything else is as in the cluster.

    With ``check_mode``, its writes are dry runs, also if those of the cluster are not, and evictions are left out: by
    the time of the step, its nodes are empty.
    """

    def __init__(self, cluster: Cluster, see: See, check_mode: bool | None = None) -> None:
        vars(self).update(vars(cluster))
        self._see = see
        if check_mode is not None:
            self.check_mode = check_mode

    def large_list(self, path: str, keep: t.Callable[[Json], Kept], **selectors: str) -> Versioned[Kept]:
        """Return what ``keep`` keeps of every visible object, and the collection's version."""
        if path != NODES:
            return super().large_list(path, keep, **selectors)
        listed, version = super().large_list(path, lambda node: self._kept(node, keep), **selectors)
        return [kept for each in listed for kept in each], version

    def _kept(self, node: Json, keep: t.Callable[[Json], Kept]) -> list[Kept]:
        seen = self._see(node)
        return [] if seen is None else [keep(seen)]

    def changes(self, path: str, version: str, **selectors: str) -> tuple[Changes, str]:
        """Return the changes of the visible objects of a collection, and the version after them."""
        found, version = super().changes(path, version, **selectors)
        if path != NODES:
            return found, version
        seen = [(kind, self._see(node)) for kind, node in found]
        return [(kind, node) for kind, node in seen if node is not None], version

    def evict(self, namespace: str, pod: str, uid: str, grace_period_s: int | None = None) -> None:
        """Evict a pod, unless this is a rehearsal."""
        if not self.check_mode:
            super().evict(namespace, pod, uid, grace_period_s)
