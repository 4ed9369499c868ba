# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who had which GPU at every moment of a test, from the events of the API server.

The events of all kinds have one order: an object's resource version is the revision of etcd that wrote it.
"""

from __future__ import annotations

import collections
import contextlib
import json
import subprocess
import tempfile
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from lab.cluster import Lab

Json = dict[str, t.Any]
WATCHED = ("pods", "resourceclaims.resource.k8s.io")


@dataclass
class Bookings:
    """What the events up to one moment say. Pods and claims go by their UID."""

    counted: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The node of each pod that has GPUs of the device plugin, and how many."""
    claimed: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """The devices of each claim: node and name. A driver's pool has the name of its node."""

    def take(self, event: Json) -> None:
        """Take up an event."""
        item, gone = event["object"], event["type"] == "DELETED"
        uid, status = item["metadata"]["uid"], item.get("status") or {}
        if item["kind"] == "Pod":
            node, gpus = item["spec"].get("nodeName"), _gpus(item)
            has = node and gpus and not gone and status.get("phase") not in ("Succeeded", "Failed")
            self.counted.pop(uid, None)
            self.counted |= {uid: (node, gpus)} if has else {}
        else:
            results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
            own = [] if gone else [(each["pool"], each["device"]) for each in results if not each.get("adminAccess")]
            self.claimed[uid] = own

    def conflicts(self, gpus_of_node: int) -> list[str]:
        """Return what is given out twice: a device to two claims, or a node's GPUs by claims and by the plugin."""
        devices = collections.Counter(device for own in self.claimed.values() for device in own)
        found = [f"{node}/{device} has {count} claims" for (node, device), count in devices.items() if count > 1]
        by_plugin: collections.Counter[str] = collections.Counter()
        for node, gpus in self.counted.values():
            by_plugin[node] += gpus
        found += [f"{node} has {count} GPUs by the plugin" for node, count in by_plugin.items() if count > gpus_of_node]
        return found + [f"{node} has both" for node in sorted(by_plugin.keys() & {node for node, dummy in devices})]


def _gpus(pod: Json) -> int:
    asked = [container.get("resources", {}).get("limits", {}) for container in pod["spec"]["containers"]]
    return sum(int(limits.get("nvidia.com/gpu", 0)) for limits in asked)


@contextlib.contextmanager
def recorded(lab: Lab, *kinds: str) -> t.Iterator[t.Callable[[], list[Json]]]:
    """Watch objects, by default pods and claims, for the duration of a block.

    Yields a function that returns the events so far, in order.
    """
    watch = ("--watch", "--output-watch-events", "--all-namespaces", "--output=json")
    with tempfile.TemporaryDirectory(prefix="gpuops-events-") as folder, contextlib.ExitStack() as stack:
        files, running = [], []
        for kind in kinds or WATCHED:
            file = stack.enter_context((Path(folder) / kind).open("w+"))
            command = [lab.state.tools["kubectl"], f"--kubeconfig={lab.kubeconfig}", "get", kind, *watch]
            process = stack.enter_context(subprocess.Popen(command, stdout=file))
            stack.callback(process.terminate)
            files.append(file)
            running.append(process)

        def events() -> list[Json]:
            assert all(process.poll() is None for process in running), "a watch has ended"
            found = [event for file in files for event in _events(Path(file.name).read_text())]
            return sorted(found, key=lambda event: int(event["object"]["metadata"]["resourceVersion"]))

        yield events


def _events(text: str) -> t.Iterator[Json]:
    """Read what kubectl has printed. The last event may be there in part."""
    decoder, position = json.JSONDecoder(), 0
    with contextlib.suppress(json.JSONDecodeError):
        while True:
            while text[position : position + 1].isspace():
                position += 1
            event, position = decoder.raw_decode(text, position)
            yield event
