# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Driver upgrades, node by node: each run moves every node by at most one state."""

from __future__ import annotations

import threading
import time
import typing as t
import uuid
from collections import defaultdict
from dataclasses import dataclass

from lab.cluster.api import Api, ApiError, Json, now
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.controllers.evictions import (
    EvictionError,
    StoppedError,
    alive,
    claims_gpu,
    evict,
    obstacles,
    of_daemonset,
)
from lab.cluster.operator.standin.controllers.labelling import orphan
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.controllers.upgrades import (
    INITIALLY_CORDONED,
    JOBS_STARTED,
    REQUESTED,
    SAFE_LOAD,
    STATES,
    VALIDATION_STARTED,
    Driver,
    annotation,
    cordoned,
    slots,
    state_of,
    uses_gpu,
)
from lab.cluster.operator.standin.drivers import COMPONENT, OWNER, delegated, upgrade_policy
from lab.cluster.operator.standin.images import ReconcileError
from lab.cluster.operator.standin.lines import Line
from lab.cluster.operator.standin.nodes import SKIP, STATE, labels_of
from lab.cluster.operator.standin.objects import owned
from lab.cluster.operator.standin.readiness import containers_ready, newest_revision
from lab.cluster.operator.standin.render import block

_Row = tuple[Json, Json | None, str | None]
"""A driver pod, its DaemonSet, and the DaemonSet's newest revision."""
_PANIC = "Observed a panic: runtime error: invalid memory address or nil pointer dereference"


@dataclass(frozen=True)
class Timing:
    """The times of the controller, in seconds."""

    tick: float = 120
    """Between two runs without a change that starts one."""
    validation: float = 600
    """How long a validator may take."""


class Upgrader:
    """The controller of driver upgrades."""

    def __init__(self, api: Api, namespace: str, caches: t.Mapping[str, Cache], timing: Timing, line: Line) -> None:
        self._api = api
        self._namespace = namespace
        self._caches = caches
        self._timing = timing
        self._line = line
        self._stopped = threading.Event()
        self._busy: set[str] = set()
        """Nodes from which pods are being evicted."""
        self._validators: dict[str, list[Json]] = {}

    def close(self) -> None:
        """End the evictions that are under way, as the end of the operator's process does."""
        self._stopped.set()

    def __call__(self) -> float | None:
        """Move every node one state further, and return the seconds until the next scheduled run."""
        policy = oldest(self._caches["policies"].items())
        self._validators = self._by_node(self._caches["validators"].items())
        delegates = policy is None or delegated(policy["spec"])
        if delegates and self._line.own_policies:
            return self._nvidiadrivers()
        if policy is None:
            return None
        upgrade = block(policy["spec"], "driver.upgradePolicy")
        if block(policy["spec"], "sandboxWorkloads").get("enabled") or not upgrade.get("autoUpgrade"):
            self._forget(self._caches["nodes"].items())
            return None
        drivers = self._drivers(*(COMPONENT if delegates else ("app", "nvidia-driver-daemonset")))
        if "drain" not in upgrade and not self._line.without_drain:
            raise ReconcileError(_PANIC)
        self._roll(drivers, upgrade)
        return self._timing.tick

    def _nvidiadrivers(self) -> float | None:
        """Upgrade the nodes of each NVIDIADriver by its own policy."""
        nodes = self._caches["nodes"].items()
        policies = {
            driver["metadata"]["name"]: upgrade_policy(driver) for driver in self._caches["nvidiadrivers"].items()
        }
        if not any(policy["autoUpgrade"] for policy in policies.values()):
            self._forget(nodes)
            return None
        found = self._drivers(*COMPONENT)
        for name, policy in policies.items():
            if policy["autoUpgrade"]:
                self._roll([driver for driver in found if labels_of(driver.node).get(OWNER) == name], policy)
            else:
                self._forget(node for node in nodes if labels_of(node).get(OWNER) == name)
        return self._timing.tick

    def _roll(self, drivers: list[Driver], upgrade: Json) -> None:
        """Handle the nodes state by state. An error leaves the nodes in later states as they are."""
        free = slots([driver.node for driver in drivers], upgrade)
        for state in STATES:
            for driver in [driver for driver in drivers if state_of(driver.node) == state]:
                if state == "upgrade-required":
                    free -= self._may_begin(driver, free)
                else:
                    self._step(driver, upgrade)

    def _forget(self, nodes: t.Iterable[Json]) -> None:
        for node in nodes:
            if STATE in labels_of(node):
                self._api.merge(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": {STATE: None}}})

    def _drivers(self, key: str, value: str) -> list[Driver]:
        """Return the driver pods on the nodes, orphaned pods included. Raise while a driver DaemonSet lacks pods."""
        pods = [pod for pod in self._caches["drivers"].items() if pod["metadata"]["labels"].get(key) == value]
        found: list[_Row] = [(pod, None, None) for pod in pods if orphan(pod)]
        found += self._with_daemonsets(pods, key, value)
        # Pods that are not scheduled to a node yet do not count.
        placed = [(self._caches["nodes"].get(row[0]["spec"].get("nodeName") or ""), row) for row in found]
        drivers = [Driver(node, *row) for node, row in placed if node is not None]
        return sorted(drivers, key=lambda driver: str(driver.node["metadata"]["name"]))

    def _with_daemonsets(self, pods: list[Json], key: str, value: str) -> t.Iterator[_Row]:
        revisions = self._api.list(f"/apis/apps/v1/namespaces/{self._namespace}/controllerrevisions")
        for daemonset in self._caches["daemonsets"].items():
            if (daemonset["metadata"].get("labels") or {}).get(key) != value:
                continue
            own = [pod for pod in pods if owned(pod, daemonset)]
            if len(own) != (daemonset.get("status") or {}).get("desiredNumberScheduled", 0):
                raise ReconcileError("driver DaemonSet should not have Unscheduled pods")
            revision = newest_revision(revisions, daemonset)
            yield from ((pod, daemonset, revision) for pod in own)

    @staticmethod
    def _by_node(pods: t.Iterable[Json]) -> dict[str, list[Json]]:
        grouped: dict[str, list[Json]] = defaultdict(list)
        for pod in pods:
            grouped[pod["spec"].get("nodeName") or ""].append(pod)
        return grouped

    # ---- states -----------------------------------------------------------------------------------------------------

    def _step(self, driver: Driver, upgrade: Json) -> None:
        node, state = driver.node, state_of(driver.node)
        if state in ("", "upgrade-done"):
            self._idle(node, driver.current or driver.daemonset is None)
        elif state == "cordon-required":
            self._patch(node, {"spec": {"unschedulable": True}})
            self._set(node, "wait-for-jobs-required")
        elif state == "wait-for-jobs-required":
            self._wait_for_jobs(node, block(upgrade, "waitForCompletion"))
        elif state == "pod-deletion-required":
            self._delete_pods(node, upgrade)
        elif state == "drain-required":
            self._drain(node, block(upgrade, "drain"))
        elif state == "pod-restart-required":
            self._restart(driver)
        elif state == "upgrade-failed" and driver.ready:
            self._leave_validation(node)
        elif state == "validation-required":
            self._validate(node)
        elif state == "uncordon-required":
            self._patch(node, {"spec": {"unschedulable": None}})
            self._set(node, "upgrade-done")

    def _idle(self, node: Json, current: bool) -> None:
        forced = annotation(node, REQUESTED) == "true" or annotation(node, SAFE_LOAD)
        if current and not forced:
            if state_of(node) == "":
                self._set(node, "upgrade-done")
            return
        if cordoned(node):
            self._annotate(node, INITIALLY_CORDONED, "true")
        self._set(node, "upgrade-required")

    def _may_begin(self, driver: Driver, free: int) -> bool:
        """Begin the upgrade of a node unless it has to wait. Return whether it has begun."""
        node = driver.node
        requested = annotation(node, REQUESTED) == "true"
        if requested:
            self._annotate(node, REQUESTED, None)
        # A node that is already cordoned needs no slot, so it does not wait for one.
        if labels_of(node).get(SKIP) == "true" or (free <= 0 and not cordoned(node)):
            return False
        same = self._line.restart_only and driver.same_configuration
        if same and not requested and not annotation(node, SAFE_LOAD):
            # Only the driver pod is replaced, and no workload is evicted.
            self._patch(node, {"spec": {"unschedulable": True}})
            self._set(node, "pod-restart-required")
        else:
            self._set(node, "cordon-required")
        return True

    def _wait_for_jobs(self, node: Json, wait: Json) -> None:
        selector, limit = wait.get("podSelector"), wait.get("timeoutSeconds", 0)
        running = selector and any(alive(pod) for pod in self._pods_on(node, labelSelector=selector))
        if not running:
            if selector:
                self._annotate(node, JOBS_STARTED, None)
            self._set(node, "pod-deletion-required")
        elif limit:
            started = annotation(node, JOBS_STARTED)
            if started is None:
                self._annotate(node, JOBS_STARTED, str(int(time.time())))
            elif time.time() - int(started) > limit:
                self._set(node, "pod-deletion-required")
                self._annotate(node, JOBS_STARTED, None)

    def _delete_pods(self, node: Json, upgrade: Json) -> None:
        if "podDeletion" not in upgrade:
            raise ReconcileError("pod deletion spec should not be empty")
        deletion = upgrade["podDeletion"]

        def work() -> None:
            pods = [pod for pod in self._pods_on(node) if alive(pod) and self._holds_gpu(pod)]
            # Pods of DaemonSets are passed over, and then not all of the pods can be evicted.
            listed = [pod for pod in pods if not of_daemonset(pod)]
            if not pods:
                self._set(node, "pod-restart-required")
            elif len(listed) < len(pods) or obstacles(listed, deletion):
                # The reason is only in the operator's log.
                print(f"Cannot delete all required pods: {obstacles(listed, deletion)}", flush=True)
                self._give_up(node, upgrade)
            else:
                self._evict_gpu_pods(node, listed, upgrade)

        self._in_background(node, work)

    def _holds_gpu(self, pod: Json) -> bool:
        return uses_gpu(pod) or (self._line.own_policies and claims_gpu(self._api, pod))

    def _evict_gpu_pods(self, node: Json, pods: list[Json], upgrade: Json) -> None:
        try:
            evict(self._api, pods, upgrade["podDeletion"].get("timeoutSeconds", 300), self._stopped)
        except EvictionError as error:
            message = f"Failed to delete workload pods on the node for the driver upgrade, {error}"
            self._event(node, message, "Warning")
            self._give_up(node, upgrade)
            return
        self._set(node, "pod-restart-required")
        self._event(node, "Deleted workload pods on the node for the driver upgrade")

    def _give_up(self, node: Json, upgrade: Json) -> None:
        """Try a drain of the whole node if the policy allows one. Else the upgrade has failed."""
        if not block(upgrade, "drain").get("enable"):
            self._set(node, "upgrade-failed")
            return
        message = "Pod deletion failed but drain is enabled in spec. Will attempt a node drain"
        self._event(node, message, "Warning")
        self._set(node, "drain-required")

    def _drain(self, node: Json, drain: Json) -> None:
        if not drain.get("enable"):
            self._set(node, "pod-restart-required")
            return
        parts = (drain.get("podSelector"), "nvidia.com/gpu-driver-upgrade-drain.skip!=true")
        selector = ",".join(part for part in parts if part)

        def work() -> None:
            self._patch(node, {"spec": {"unschedulable": True}})
            pods = [pod for pod in self._pods_on(node, labelSelector=selector) if not of_daemonset(pod)]
            try:
                _refuse(obstacles(pods, drain))
                evict(self._api, pods, drain.get("timeoutSeconds", 300), self._stopped)
            except EvictionError as error:
                self._set(node, "upgrade-failed")
                self._event(node, f"Failed to drain the node, {error}", "Warning")
                return
            self._event(node, "Successfully drained the node")
            self._set(node, "pod-restart-required")

        if self._in_background(node, work):
            self._event(node, "Scheduling drain of the node")

    def _in_background(self, node: Json, work: t.Callable[[], None]) -> bool:
        """Do the work of a node in a thread, unless it is being done already. Return whether it has begun."""
        name = node["metadata"]["name"]

        def run() -> None:
            try:
                work()
            except (ApiError, OSError, StoppedError) as error:
                print(f"{name}: {error!r}", flush=True)
            finally:
                self._busy.discard(name)

        if name in self._busy:
            return False
        self._busy.add(name)
        threading.Thread(target=run, daemon=True).start()
        return True

    def _restart(self, driver: Driver) -> None:
        node, pod = driver.node, driver.pod
        if not driver.current:
            if not pod["metadata"].get("deletionTimestamp"):
                self._api.delete(f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}")
            return
        self._unblock(node)
        if driver.ready:
            self._set(node, "validation-required")
        elif driver.failing:
            self._set(node, "upgrade-failed")

    def _unblock(self, node: Json) -> None:
        """Let a driver load that has waited until the workloads were gone."""
        if annotation(node, SAFE_LOAD):
            self._annotate(node, SAFE_LOAD, None)

    def _validate(self, node: Json) -> None:
        self._unblock(node)
        pods = self._validators.get(node["metadata"]["name"], [])
        if not pods:
            return
        if all(map(_validated, pods)):
            self._annotate(node, VALIDATION_STARTED, None)
            self._leave_validation(node)
            return
        started = annotation(node, VALIDATION_STARTED)
        if started is None:
            self._annotate(node, VALIDATION_STARTED, str(int(time.time())))
        elif time.time() - int(started) > self._timing.validation:
            self._set(node, "upgrade-failed")
            self._annotate(node, VALIDATION_STARTED, None)

    def _leave_validation(self, node: Json) -> None:
        """Uncordon the node, unless it was cordoned before its upgrade."""
        if annotation(node, INITIALLY_CORDONED) is None:
            self._set(node, "uncordon-required")
            return
        self._set(node, "upgrade-done")
        self._annotate(node, INITIALLY_CORDONED, None)

    # ---- requests ---------------------------------------------------------------------------------------------------

    def _pods_on(self, node: Json, **query: t.Any) -> list[Json]:
        return self._api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node['metadata']['name']}", **query)

    def _set(self, node: Json, state: str) -> None:
        if self._stopped.is_set():
            raise StoppedError("the operator has ended")
        self._patch(node, {"metadata": {"labels": {STATE: state}}})
        self._event(node, f"Successfully updated node state label to {state}")

    def _annotate(self, node: Json, key: str, value: str | None) -> None:
        self._patch(node, {"metadata": {"annotations": {key: value}}})
        self._event(node, f"Successfully updated node annotation to {key}={'null' if value is None else value}")

    def _patch(self, node: Json, patch: Json) -> None:
        self._api.merge(f"/api/v1/nodes/{node['metadata']['name']}", patch)

    def _event(self, node: Json, message: str, kind: str = "Normal") -> None:
        name = node["metadata"]["name"]
        event = {
            "metadata": {"name": f"{name}.{uuid.uuid4().hex[:16]}", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": name, "uid": node["metadata"]["uid"], "apiVersion": "v1"},
            "reason": "GPUDriverUpgrade",
            "message": message,
            "type": kind,
            "source": {"component": "nvidia-gpu-operator"},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
        }
        self._api.create("/api/v1/namespaces/default/events", event)


def _refuse(problems: list[str]) -> None:
    if problems:
        raise EvictionError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _validated(pod: Json) -> bool:
    status = pod["status"]
    return bool(status.get("phase") == "Running" and containers_ready(pod) and status.get("containerStatuses"))
