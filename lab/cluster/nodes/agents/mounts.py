# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pod shows of a ConfigMap that it mounts: a new pod all of it, and one that runs an edit only after a while."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from lab.cluster.api import Json
from lab.cluster.nodes.agents.pods import label

MAP_DELAY_S = 60.0
"""How long a kubelet takes to show an edited ConfigMap in a pod that runs: its sync period."""

Later = t.Callable[[float, str], None]
"""Plays a node again after some seconds."""
Texts = t.Mapping[str, str]
Read = t.Callable[[str, str], Texts | None]
"""Returns the data of a ConfigMap by namespace and name."""


@dataclass
class _Mount:
    pod: str
    shown: Texts
    edited: float | None = None
    """When the ConfigMap was edited, if the pod does not show it yet."""


class Mounts:
    """The mounted ConfigMaps of all pods. ``delay`` is how long an edit takes, in seconds."""

    def __init__(self, read: Read, later: Later, delay: float) -> None:
        self._read, self._later, self._delay = read, later, delay
        self._mounts: dict[tuple[str, str, str], _Mount] = {}

    def shown(self, pod: Json, config_map: str) -> Texts | None:
        """Return what a pod shows; None if there is no such ConfigMap."""
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        current = self._read(meta["namespace"], config_map)
        if current is None:
            return None
        # A DaemonSet has one pod on a node. So the next pod takes the place of the one before it.
        place = (node, label(pod, "app"), config_map)
        mount = self._mounts.get(place)
        if mount is None or mount.pod != meta["uid"]:
            mount = self._mounts[place] = _Mount(meta["uid"], current)
        self._sync(mount, current, node)
        return mount.shown

    def _sync(self, mount: _Mount, current: Texts, node: str) -> None:
        if current == mount.shown:
            mount.edited = None
        elif mount.edited is None:
            mount.edited = time.monotonic()
            self._later(self._delay, node)
        elif time.monotonic() >= mount.edited + self._delay:
            mount.shown, mount.edited = current, None
