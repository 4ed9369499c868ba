# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`python -m benchmarks.mig_managers KUBECONFIG SECONDS`: the MIG managers of a fleet without other life.

Each takes exactly so many seconds from the label to the result. Then the node has the labels and devices that the lab's
feature discovery and device plugin would give it.
"""

from __future__ import annotations

import concurrent.futures
import heapq
import json
import sys
import threading
import time

from lab.cluster.api import Api, Json
from lab.cluster.nodes.agents import device_plugin, feature_discovery, mig
from lab.cluster.nodes.agents.managers.mig_manager import CONFIG, STATE
from lab.cluster.nodes.agents.pods import labels_of
from lab.cluster.nodes.agents.sharing import Sharing
from lab.cluster.nodes.fleet import NOTE

NODES = "/api/v1/nodes"
DRIVER, STRATEGY = "580.126.20", "single"
WRITERS = 4


class Managers:
    """The managers of all nodes: a label without a state begins a change, which ends after its time."""

    def __init__(self, api: Api, seconds: float) -> None:
        self._api, self._seconds = api, seconds
        self._due: list[tuple[float, str, Json]] = []
        self._began: dict[str, str] = {}
        self._changed = threading.Condition()
        self._writers = concurrent.futures.ThreadPoolExecutor(WRITERS)

    def run(self) -> None:
        """Run until the process ends."""
        threading.Thread(target=self._api.watch, args=(NODES, self._saw, threading.Event()), daemon=True).start()
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                name, node = heapq.heappop(self._due)[1:]
            self._writers.submit(self._finish, name, node)

    def _saw(self, kind: str, node: Json) -> None:
        if kind not in ("ADDED", "MODIFIED"):
            return
        name, labels = node["metadata"]["name"], labels_of(node)
        wanted, state = labels.get(CONFIG, ""), labels.get(STATE, "")
        if not wanted or state or self._began.get(name) == wanted:
            return
        self._began[name] = wanted
        self._writers.submit(self._api.merge, f"{NODES}/{name}", {"metadata": {"labels": {STATE: "pending"}}})
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + self._seconds, name, node))
            self._changed.notify()

    def _finish(self, name: str, node: Json) -> None:
        profiles = mig.profiles_of(node)
        entries = mig.read(mig.generated(profiles))[labels_of(node)[CONFIG]]
        layout, _well = mig.apply(entries, mig.layout_of(node), mig.device_of(node), profiles)
        notes = {NOTE + "mig": json.dumps(layout)}
        node["metadata"]["annotations"] |= notes
        labels = feature_discovery.labels(node, DRIVER, STRATEGY, Sharing())
        stale = dict.fromkeys(feature_discovery.stale(node, labels))
        devices = {key: str(count) for key, count in device_plugin.offered(layout, STRATEGY, Sharing()).items()}
        self._api.merge(f"{NODES}/{name}/status", {"status": {"capacity": devices, "allocatable": devices}})
        self._api.merge(
            f"{NODES}/{name}", {"metadata": {"annotations": notes, "labels": {**labels, **stale, STATE: "success"}}}
        )


if __name__ == "__main__":
    Managers(Api(sys.argv[1]), float(sys.argv[2])).run()
