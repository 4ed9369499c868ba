# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record what an operator does to a cluster: one JSON line for each change of a field that clients act on.

A line has ``t`` (seconds since the start), ``kind``, ``name``, ``field`` and ``value`` (null if the field is gone). The
first lines show what existed already. The same recorder watches NVIDIA's operator and the stand-in, so that their
recordings can be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import sys
import threading
import time
import typing as t
from pathlib import Path

from lab.cluster.api import Api, Json
from lab.cluster.lab import Lab

Fields = dict[str, t.Any]
_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberAvailable",
    "updatedNumberScheduled",
    "observedGeneration",
)
_PREFIX = "nvidia.com/"
"""Labels and annotations with this prefix are recorded."""


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
        if key.startswith(_PREFIX)
    }
    return {**fields, "unschedulable": item["spec"].get("unschedulable", False)}


def _pod(item: Json) -> Fields:
    metadata, status = item["metadata"], item.get("status") or {}
    ready = next((entry["status"] for entry in status.get("conditions") or [] if entry["type"] == "Ready"), None)
    deleting = bool(metadata.get("deletionTimestamp"))
    revision = metadata["labels"].get("controller-revision-hash")
    return {"pod": [item["spec"].get("nodeName"), revision, status.get("phase"), ready, deleting]}


def _event(item: Json) -> Fields:
    return {"event": [item.get("reason"), item.get("type"), item["involvedObject"].get("name"), item.get("message")]}


_WATCHED: tuple[tuple[str, str, t.Callable[[Json], Fields], dict[str, str]], ...] = (
    ("ClusterPolicy", "/apis/nvidia.com/v1/clusterpolicies", _policy, {}),
    ("NVIDIADriver", "/apis/nvidia.com/v1alpha1/nvidiadrivers", _policy, {}),
    ("GPUCluster", "/apis/nvidia.com/v1alpha1/gpuclusters", _policy, {}),
    ("DaemonSet", "/apis/apps/v1/daemonsets", _daemonset, {}),
    ("Node", "/api/v1/nodes", _node, {}),
    ("DriverPod", "/api/v1/pods", _pod, {"labelSelector": "app.kubernetes.io/component=nvidia-driver"}),
    ("Event", "/api/v1/events", _event, {"fieldSelector": "involvedObject.kind=Node,reason=GPUDriverUpgrade"}),
)


class Recorder:
    """Keep each line in a list and pass it to ``write``, until ``stop`` is called."""

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
        """Stop recording and return all lines."""
        self._stop.set()
        with self._lock:
            return list(self.lines)

    def _follower(self, kind: str, fields: t.Callable[[Json], Fields]) -> t.Callable[[str, Json], None]:
        def seen(change: str, item: Json) -> None:
            if change != "SYNCED":
                self._note(kind, item["metadata"]["name"], {} if change == "DELETED" else fields(item))

        return seen

    def _note(self, kind: str, name: str, after: Fields) -> None:
        moment = round(time.monotonic() - self._start, 2)
        with self._lock:
            # Nothing is written once `stop` has the lock: a write while Python ends would abort it.
            if self._stop.is_set():
                return
            before = self._seen.get((kind, name), {})
            self._seen[kind, name] = after
            for field in sorted(before.keys() | after.keys()):
                if before.get(field) != after.get(field):
                    line = {"t": moment, "kind": kind, "name": name, "field": field, "value": after.get(field)}
                    self.lines.append(line)
                    self._write(line)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``record``."""
    parser.add_argument("--seconds", type=float, help="how long to record (default: until Ctrl-C)")
    parser.add_argument("--output", type=Path, help="file to write (default: standard output)")


def record(lab: Lab, seconds: float | None, output: Path | None) -> None:
    """Record for a number of seconds or until Ctrl-C, into a file or to standard output."""
    if output is None:
        _write(lab, seconds, sys.stdout)
        return
    with output.open("w", encoding="utf-8") as file:
        _write(lab, seconds, file)


def _write(lab: Lab, seconds: float | None, file: t.TextIO) -> None:
    def write(line: Json) -> None:
        # Recorders call this in their own threads, where an error would not end the command. _reader_is_gone does.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(line), file=file, flush=True)

    # The first lines are written while the last watches are still being started, so Ctrl-C may come as early as that.
    try:
        recorder = Recorder(Api(str(lab.kubeconfig)), write)
        try:
            if _reader_is_gone(file, seconds):
                raise BrokenPipeError
        finally:
            recorder.stop()
    except KeyboardInterrupt:
        return


def _reader_is_gone(file: t.TextIO, seconds: float | None) -> bool:
    """Wait until the reader of a pipe closes it, and return whether it did so in time. Files have no such reader."""
    poll = select.poll()
    poll.register(file, 0)  # Errors are always reported, and the closed end of a pipe is one.
    return bool(poll.poll(None if seconds is None else seconds * 1000))
