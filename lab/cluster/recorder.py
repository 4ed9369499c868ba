# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record what an operator does to a cluster: one JSON line for each change of a field that its clients act on.

A line has ``t`` (seconds since the start; what was there already comes first), ``kind``, ``name``, ``field`` and ``value``
(null when it is gone). The same recorder watches NVIDIA's operator and the stand-in, so that the two can be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import typing as t
from pathlib import Path

from lab.cluster.api import Api, Json

if t.TYPE_CHECKING:
    from lab.cluster.lab import Lab

Fields = dict[str, t.Any]
_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberAvailable",
    "updatedNumberScheduled",
    "observedGeneration",
)
_OURS = "nvidia.com/"


def _policy(item: Json) -> Fields:
    status = item.get("status") or {}
    conditions = {
        entry["type"]: [entry["status"], entry.get("reason"), entry.get("message", "")]
        for entry in status.get("conditions") or []
    }
    return {"generation": item["metadata"]["generation"], "state": status.get("state"), "conditions": conditions}


def _daemonset(item: Json) -> Fields:
    spec, status = item["spec"], item.get("status") or {}
    pod = spec["template"]["spec"]
    return {
        "generation": item["metadata"]["generation"],
        "updateStrategy": spec["updateStrategy"],
        "nodeSelector": pod.get("nodeSelector"),
        "containers": {entry["name"]: entry.get("image") for entry in pod["containers"]},
        "initContainers": {entry["name"]: entry.get("image") for entry in pod.get("initContainers") or []},
        "status": {key: status.get(key, 0) for key in _COUNTS},
    }


def _node(item: Json) -> Fields:
    metadata = item["metadata"]
    fields = {
        f"{what[:-1]} {key}": value
        for what in ("labels", "annotations")
        for key, value in (metadata.get(what) or {}).items()
        if key.startswith(_OURS)
    }
    return {**fields, "unschedulable": item["spec"].get("unschedulable", False)}


def _pod(item: Json) -> Fields:
    metadata, status = item["metadata"], item.get("status") or {}
    ready = next((entry["status"] for entry in status.get("conditions") or [] if entry["type"] == "Ready"), None)
    going = bool(metadata.get("deletionTimestamp"))
    revision = metadata["labels"].get("controller-revision-hash")
    return {"pod": [item["spec"].get("nodeName"), revision, status.get("phase"), ready, going]}


def _event(item: Json) -> Fields:
    return {"event": [item.get("reason"), item.get("type"), item["involvedObject"].get("name"), item.get("message")]}


_WATCHED: tuple[tuple[str, str, t.Callable[[Json], Fields], dict[str, str]], ...] = (
    ("ClusterPolicy", "/apis/nvidia.com/v1/clusterpolicies", _policy, {}),
    ("NVIDIADriver", "/apis/nvidia.com/v1alpha1/nvidiadrivers", _policy, {}),
    ("DaemonSet", "/apis/apps/v1/daemonsets", _daemonset, {}),
    ("Node", "/api/v1/nodes", _node, {}),
    ("DriverPod", "/api/v1/pods", _pod, {"labelSelector": "app.kubernetes.io/component=nvidia-driver"}),
    ("Event", "/api/v1/events", _event, {"fieldSelector": "involvedObject.kind=Node,reason=GPUDriverUpgrade"}),
)


class Recorder:
    """Records into a list, and hands each line to ``write``, until it is stopped."""

    def __init__(self, api: Api, write: t.Callable[[Json], None] = lambda line: None) -> None:
        self.lines: list[Json] = []
        self._write = write
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], Fields] = {}
        self._stop = threading.Event()
        for kind, path, fields, query in _WATCHED:
            threading.Thread(
                target=api.watch, args=(path, self._follower(kind, fields), self._stop), kwargs=query, daemon=True
            ).start()

    def stop(self) -> list[Json]:
        """Record no more; everything recorded."""
        self._stop.set()
        with self._lock:
            return list(self.lines)

    def _follower(self, kind: str, fields: t.Callable[[Json], Fields]) -> t.Callable[[str, Json], None]:
        def seen(change: str, item: Json) -> None:
            if change != "SYNCED" and not self._stop.is_set():
                self._note(kind, item["metadata"]["name"], {} if change == "DELETED" else fields(item))

        return seen

    def _note(self, kind: str, name: str, after: Fields) -> None:
        moment = round(time.monotonic() - self._start, 2)
        with self._lock:
            before = self._seen.get((kind, name), {})
            self._seen[kind, name] = after
            for field in sorted(before.keys() | after.keys()):
                if before.get(field) != after.get(field):
                    line = {"t": moment, "kind": kind, "name": name, "field": field, "value": after.get(field)}
                    self.lines.append(line)
                    self._write(line)


def main(lab: Lab, rest: t.Sequence[str]) -> int:
    """The command ``record``."""
    parser = argparse.ArgumentParser(
        prog="python -m lab cluster record", description="Record what happens, one JSON line per change."
    )
    parser.add_argument("--seconds", type=float, help="how long (default: until Ctrl-C)")
    parser.add_argument("--output", type=Path, help="the file to write (default: standard output)")
    arguments = parser.parse_args([argument for argument in rest if argument != "--"])
    with arguments.output.open("w", encoding="utf-8") if arguments.output else sys.stdout as out:
        recorder = Recorder(Api(str(lab.kubeconfig)), lambda line: print(json.dumps(line), file=out, flush=True))
        try:
            threading.Event().wait(arguments.seconds)
        except KeyboardInterrupt:
            pass
        finally:
            recorder.stop()
    return 0
