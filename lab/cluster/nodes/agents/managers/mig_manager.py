# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The MIG manager of each node: one change of the label `nvidia.com/mig.config` after the other.

It keeps to the order of NVIDIA's manager (mig-parted v0.15.0), with its weaknesses: a change that is undone while
another one runs is lost, pods that stay leave the node `pending` with paused operands, and after the first success a
failure leaves the operands paused. A session is the manager's process, which ends with its pod.

The API server may fail at each request: an overloaded machine answers late. Then the same step is taken again, so what
a manager does, and which trouble it has, is independent of that.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
import typing as t
from dataclasses import dataclass, field

from lab.cluster.api import Api, Json
from lab.cluster.nodes.agents import mig
from lab.cluster.nodes.agents.device_plugin import NO_DEVICES, holds_a_gpu, requests
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.mounts import Later, Mounts
from lab.cluster.nodes.agents.pods import environment, fail, is_ready, labels_of, path, volumes, with_app
from lab.cluster.nodes.fleet import NOTE

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PAUSED = "paused-for-mig-change"
_DEPLOY = "nvidia.com/gpu.deploy."
_PAUSABLE = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
_AWAITED = ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-dcgm")
_VALIDATIONS = ("nvidia-cuda-validator", "nvidia-device-plugin-validator")
_NODES = "/api/v1/nodes"
_LAST_SILENT = (0, 15, 0)
"""The last version that leaves a node `pending` when pods are in its way (NVIDIA/mig-parted#484)."""
LASTING = ("busy",)
"""The troubles that stay until somebody ends them: a process on the host does not leave a GPU by itself."""


@dataclass(frozen=True)
class Timing:
    """How long things take, in seconds."""

    change: float
    """The manager's own work, once the pods are gone."""
    patience: float
    """How long it waits for the pods of one operand."""
    reboot: float


@dataclass
class Run:
    """A change in progress."""

    entries: list[mig.Entry]
    before: t.Mapping[str, str]
    """The node's labels at the start."""
    awaited: list[str] = field(default_factory=lambda: list(_AWAITED))
    until: float = 0
    """When the patience or the work ends."""
    working: bool = False
    fault: str = ""


@dataclass
class Session:
    """A manager's process. The manager sleeps until the label gets a value, and reads it once per change."""

    pod: str
    current: str = ""
    last_read: str = ""
    asleep: bool = False
    woken: bool = False
    leaves_paused: bool = False
    """Whether a failure leaves the operands paused. The first success sets it for good."""
    run: Run | None = None
    unbegun: str | None = None
    """A value that the manager has read, as long as the API server has not heard of its change."""
    trouble: str = ""
    """The trouble of that change, which the node's annotation may no longer say."""

    def set(self, value: str) -> None:
        """Note a new value of the label. A removed label has no effect."""
        self.current = value
        self.woken = self.asleep and (self.woken or bool(value))

    def take(self) -> str | None:
        """Return the value to work on; None if there is nothing to do."""
        if self.run is not None:
            return None
        if self.asleep and not self.woken:
            return None
        if not self.asleep and self.last_read == self.current:
            self.asleep = True
            return None
        self.asleep = self.woken = False
        self.last_read = self.current
        return self.current


class MigManager:
    """The managers of all nodes."""

    def __init__(self, api: Api, timing: Timing, later: Later, mounts: Mounts) -> None:
        self._api, self._timing, self._later, self._mounts = api, timing, later, mounts
        self._sessions: dict[str, Session] = {}
        self._reboots: dict[str, float] = {}
        self._seen: dict[str, tuple[str, list[str]]] = {}
        self._lock = threading.Lock()

    def saw(self, node: Json) -> None:
        """Note the label of a node. Every value counts, also one that is replaced at once."""
        name, value = node["metadata"]["name"], labels_of(node).get(CONFIG, "")
        with self._lock:
            last, changes = self._seen.get(name, ("", []))
            self._seen[name] = (value, [*changes, value] if value != last else changes)

    def play(self, node: Json, pods: list[Json]) -> None:
        """Do what the manager of a node does next."""
        name = node["metadata"]["name"]
        if self._reboots_now(node, pods):
            return
        pod = next(filter(self._lives, with_app(pods, "nvidia-mig-manager")), None)
        if pod is None:
            self._sessions.pop(name, None)
            return
        session = self._session(node, pod)
        self._shown(pod)
        self._take(session, node, pod)
        if session.run is not None:
            self._go_on(session, session.run, node, pods, pod)
            self._take(session, node, pod)

    def _take(self, session: Session, node: Json, pod: Json) -> None:
        while session.run is None:
            if session.unbegun is None:
                session.unbegun = session.take()
            if session.unbegun is None:
                return
            print(f"{pod['metadata']['name']}: updating {node['metadata']['name']} to {session.unbegun!r}", flush=True)
            self._begin(session, session.unbegun, node, pod)
            session.unbegun, session.trouble = None, ""

    def _lives(self, pod: Json) -> bool:
        """Return whether a pod's process runs, which it does even while the node controller calls the pod not ready."""
        session = self._sessions.get(pod["spec"].get("nodeName", ""))
        mine = session is not None and session.pod == pod["metadata"]["uid"]
        return is_ready(pod) or (mine and not pod["metadata"].get("deletionTimestamp"))

    # ---- the label --------------------------------------------------------------------------------------------------

    def _session(self, node: Json, pod: Json) -> Session:
        name = node["metadata"]["name"]
        session = self._sessions.get(name)
        with self._lock:
            last, changes = self._seen.get(name, (labels_of(node).get(CONFIG, ""), []))
            self._seen[name] = (last, [])
        if session is None or session.pod != pod["metadata"]["uid"]:
            self._generate(node, pod)
            session = self._sessions[name] = Session(pod["metadata"]["uid"])
            session.take()
            session.set(last)
            return session
        for value in changes:
            if note(node, "mig-fault") == "lost":
                self._annotate(name, {"mig-fault": None})
            else:
                session.set(value)
        return session

    def _generate(self, node: Json, pod: Json) -> None:
        """Publish the configurations that suit the node's GPUs, as managers from v0.14 on do."""
        if _own_file(pod) or not _generates(pod):
            return
        name, namespace = node["metadata"]["name"], pod["metadata"]["namespace"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{name}-mig-config",
                "namespace": namespace,
                "labels": {"app.kubernetes.io/component": "nvidia-mig-manager", "nvidia.com/node-name": name},
                "ownerReferences": [owner],
            },
            "data": {"config.yaml": mig.generated(mig.profiles_of(node))},
        }
        self._api.apply(f"/api/v1/namespaces/{namespace}/configmaps/{name}-mig-config", body, "nvidia-mig-manager")

    # ---- a change ---------------------------------------------------------------------------------------------------

    def _begin(self, session: Session, value: str, node: Json, pod: Json) -> None:
        name = node["metadata"]["name"]
        node = self._api.get(f"{_NODES}/{name}") or node
        labels = labels_of(node)
        session.trouble = note(node, "mig-fault") or session.trouble
        run = Run([], labels, fault=session.trouble)
        try:
            run.entries = self._configurations(node, pod)[value]
        except (mig.ConfigError, KeyError):
            self._finish(session, run, name, "failed")
            return
        layout, device = mig.layout_of(node), mig.device_of(node)
        if mig.applied(run.entries, layout, device):
            self._finish(session, run, name, "success")
            return
        if labels.get(STATE) == "rebooting" and not mig.mode_applied(run.entries, layout, device):
            self._finish(session, run, name, "failed")
            return
        if run.fault and run.fault not in LASTING:
            self._annotate(name, {"mig-fault": None})
        self._label(name, {STATE: "pending"})
        self._label(name, {key: _unless_false(labels, key, PAUSED) for key in _pausable(labels)})
        session.run = run
        self._wait(run, name, self._timing.patience)

    def _configurations(self, node: Json, pod: Json) -> dict[str, list[mig.Entry]]:
        if not _own_file(pod) and _generates(pod):
            return mig.read(mig.generated(mig.profiles_of(node)))
        return mig.read(self._shown(pod))

    def _shown(self, pod: Json) -> str:
        """Return the file with the layouts as the pod shows it."""
        shown = self._mounts.shown(pod, volumes(pod).get("mig-parted-config", "")) or {}
        return shown.get("config.yaml", "")

    def _go_on(self, session: Session, run: Run, node: Json, pods: list[Json], pod: Json) -> None:
        name, due = node["metadata"]["name"], time.monotonic() >= run.until
        if run.working:
            if due and run.fault != "hangs":
                self._apply(session, run, node, pods, pod)
            return
        while run.awaited and run.fault != "pods-stay" and not with_app(pods, run.awaited[0]):
            run.awaited.pop(0)
            self._wait(run, name, self._timing.patience)
        if run.awaited and due:
            self._give_up(session, run, name, pod)
        elif not run.awaited:
            for other in [item for app in _VALIDATIONS for item in with_app(pods, app)]:
                self._api.delete(path(other))
            run.working = True
            self._wait(run, name, self._timing.change)

    def _apply(self, session: Session, run: Run, node: Json, pods: list[Json], pod: Json) -> None:
        """Change the mode, then the instances, and put everything back in place."""
        name, layout, device = node["metadata"]["name"], mig.layout_of(node), mig.device_of(node)
        busy = run.fault in ("busy", "left-paused") or any(map(holds_a_gpu, pods))
        stuck = run.fault in ("mode", "mode-stays") and not mig.mode_applied(run.entries, layout, device)
        changed = mig.with_mode(run.entries, layout, device)
        # A GPU that no entry names makes the check of the mode fail too.
        if _with_reboot(pod) and (busy or stuck or not mig.mode_applied(run.entries, changed, device)):
            self._reboot(name, layout if run.fault == "mode-stays" else changed)
            session.run = None
            return
        if busy or stuck:
            session.leaves_paused |= run.fault == "left-paused"
            self._finish(session, run, name, "failed")
            return
        after, well = mig.apply(run.entries, layout, device, mig.profiles_of(node))
        self._annotate(name, {"mig": json.dumps(after)})
        if not well:
            self._finish(session, run, name, "failed")
            return
        if run.fault == "validator":
            self._give_up(session, run, name, pod)
            return
        for other in with_app(pods, "nvidia-operator-validator"):
            self._api.delete(path(other))
        self._label(name, _restored(run.before))
        session.leaves_paused = True
        self._finish(session, run, name, "success")

    def _give_up(self, session: Session, run: Run, name: str, pod: Json) -> None:
        """End a run because of pods. Up to v0.15.0, the state and the pauses stay as they are, without a word."""
        session.run = None
        if _version(pod) > _LAST_SILENT:
            self._finish(session, run, name, "failed")

    def _finish(self, session: Session, run: Run, name: str, state: str) -> None:
        restored = {} if session.leaves_paused else _restored(run.before)
        self._label(name, {**restored, STATE: state})
        session.run = None
        print(f"{name}: {state}", flush=True)

    def _wait(self, run: Run, name: str, seconds: float) -> None:
        run.until = time.monotonic() + seconds
        self._later(seconds, name)

    # ---- a reboot ---------------------------------------------------------------------------------------------------

    def _reboot(self, name: str, pending: mig.Layout) -> None:
        self._label(name, {STATE: "rebooting"})
        self._annotate(name, {"fault": "not-ready", "mig-pending": json.dumps(pending)})

    def _reboots_now(self, node: Json, pods: list[Json]) -> bool:
        """Let a node that reboots come back in time, with the mode that its manager has asked for."""
        name = node["metadata"]["name"]
        if not note(node, "mig-pending"):
            self._reboots.pop(name, None)
            return False
        self._sessions.pop(name, None)
        if name not in self._reboots:
            self._reboots[name] = time.monotonic() + self._timing.reboot
            self._later(self._timing.reboot, name)
        elif time.monotonic() >= self._reboots[name]:
            self._come_back(node, pods)
        return True

    def _come_back(self, node: Json, pods: list[Json]) -> None:
        """Start a node again. No plugin is there yet, so the kubelet refuses the pods that had GPUs."""
        name = node["metadata"]["name"]
        for pod in filter(holds_a_gpu, pods):
            fail(self._api, pod, "UnexpectedAdmissionError", NO_DEVICES.format(next(iter(requests(pod)))))
        boot = f"{name}-{os.urandom(4).hex()}"
        self._api.merge(f"{_NODES}/{name}/status", {"status": {"nodeInfo": {"bootID": boot}}})
        self._annotate(name, {"fault": None, "mig-pending": None, "mig": note(node, "mig-pending")})

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _label(self, name: str, labels: t.Mapping[str, str]) -> None:
        self._api.merge(f"{_NODES}/{name}", {"metadata": {"labels": labels}})

    def _annotate(self, name: str, notes: t.Mapping[str, str | None]) -> None:
        annotations = {NOTE + key: value for key, value in notes.items()}
        self._api.merge(f"{_NODES}/{name}", {"metadata": {"annotations": annotations}})


def _own_file(pod: Json) -> bool:
    """Return whether the manager reads a ConfigMap that the user named."""
    return any(environment(pod, "CONFIG_FILE"))


def _generates(pod: Json) -> bool:
    """Return whether a manager generates the configurations itself, as those from v0.14 on do."""
    return _version(pod) >= (0, 14, 0)


def _version(pod: Json) -> tuple[float, ...]:
    """Return the version of a manager's image. One without a version counts as newer than all."""
    tag = pod["spec"]["containers"][0]["image"].rpartition(":")[2]
    found = re.match(r"v(\d+)\.(\d+)\.(\d+)", tag)
    return tuple(map(int, found.groups())) if found else (math.inf,)


def _with_reboot(pod: Json) -> bool:
    return any(env["value"] == "true" for env in environment(pod, "WITH_REBOOT"))


def _pausable(labels: t.Mapping[str, str]) -> list[str]:
    """Return the labels of the operands that use the GPUs, and of other users of the GPUs if there are any."""
    names = (*_PAUSABLE, "client") if labels.get(f"{_DEPLOY}client") else _PAUSABLE
    return [_DEPLOY + name for name in names]


def _unless_false(labels: t.Mapping[str, str], key: str, value: str) -> str:
    return "false" if labels.get(key) == "false" else value


def _restored(labels: t.Mapping[str, str]) -> dict[str, str]:
    return {key: _unless_false(labels, key, "true") for key in _pausable(labels)}
