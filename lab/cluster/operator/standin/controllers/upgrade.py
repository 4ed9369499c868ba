# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Driver upgrades, node by node: each run moves every node by at most one state."""

from __future__ import annotations

import math
import threading
import time
import typing as t
import uuid
from collections import defaultdict
from dataclasses import dataclass

from lab.cluster.api import Api, ApiError, Json, now
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.controllers.labelling import orphan
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.drivers import COMPONENT, OWNER, delegated, upgrade_policy
from lab.cluster.operator.standin.images import ReconcileError
from lab.cluster.operator.standin.nodes import STATE, labels_of, upgrades_wanted
from lab.cluster.operator.standin.objects import owned
from lab.cluster.operator.standin.readiness import containers_ready, in_sync, newest_revision
from lab.cluster.operator.standin.render import DIGEST, block

SKIP = "nvidia.com/gpu-driver-upgrade.skip"
_PREFIX = "nvidia.com/gpu-driver-upgrade"
INITIALLY_CORDONED = f"{_PREFIX}.node-initial-state.unschedulable"
REQUESTED = f"{_PREFIX}-requested"
SAFE_LOAD = f"{_PREFIX}.driver-wait-for-safe-load"
VALIDATION_STARTED = f"{_PREFIX}-validation-start-time"
JOBS_STARTED = f"{_PREFIX}-upgrade-wait-for-pod-completion-start-time"
VALIDATION_SECONDS = 600
_IDLE = ("", "upgrade-done", "upgrade-required")
_RESTARTS = 10
_Row = tuple[Json, Json | None, str | None]
"""A driver pod, its DaemonSet, and the DaemonSet's newest revision."""


def state_of(node: Json) -> str:
    """Return the upgrade state of a node."""
    return labels_of(node).get(STATE, "")


def annotation(node: Json, key: str) -> str | None:
    """Return an annotation of a node; None if it is not set."""
    return t.cast("str | None", (node["metadata"].get("annotations") or {}).get(key))


def cordoned(node: Json) -> bool:
    """Return whether a node is cordoned."""
    return bool(node["spec"].get("unschedulable"))


def unavailable(node: Json) -> bool:
    """Return whether a node counts against maxUnavailable."""
    conditions = node.get("status", {}).get("conditions") or []
    return cordoned(node) or any(item["type"] == "Ready" and item["status"] != "True" for item in conditions)


def slots(nodes: list[Json], policy: Json) -> int:
    """Return how many more nodes may start their upgrade."""
    parallel = policy.get("maxParallelUpgrades", 1)
    most = policy.get("maxUnavailable", "25%")
    limit = math.ceil(len(nodes) * int(most[:-1]) / 100) if isinstance(most, str) and most.endswith("%") else int(most)
    free = len(nodes) if parallel == 0 else parallel - sum(state_of(node) not in _IDLE for node in nodes)
    used = sum(unavailable(node) or state_of(node) == "cordon-required" for node in nodes)
    return max(0, min(free, limit - used))


def uses_gpu(pod: Json) -> bool:
    """Return whether a pod holds a GPU or a part of one."""
    resources = [container.get("resources") or {} for container in pod["spec"]["containers"]]
    names = {name for entry in resources for part in ("limits", "requests") for name in entry.get(part) or {}}
    return any(name.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) for name in names)


def undeletable(pod: Json, deletion: Json) -> bool:
    """Return whether the policy forbids the eviction of a pod."""
    bare = not any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or [])
    keeps_data = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or [])
    return (bare and not deletion.get("force")) or (keeps_data and not deletion.get("deleteEmptyDir"))


def digest(spec: Json) -> str | None:
    """Return the digest of the driver configuration in a pod's spec."""
    variables = [entry for container in spec["containers"] for entry in container.get("env") or []]
    return next((entry.get("value") for entry in variables if entry["name"] == DIGEST), None)


@dataclass(frozen=True)
class Driver:
    """A driver pod and its node, with its DaemonSet and the DaemonSet's newest revision unless the pod is orphaned."""

    node: Json
    pod: Json
    daemonset: Json | None
    revision: str | None

    @property
    def current(self) -> bool:
        """Whether the pod has the newest revision of its DaemonSet."""
        return in_sync(self.pod, self.revision)

    @property
    def ready(self) -> bool:
        """Whether the pod is current and its containers are ready."""
        return self.current and self.pod["status"].get("phase") == "Running" and containers_ready(self.pod)

    @property
    def same_configuration(self) -> bool:
        """Whether a new pod would install the same driver."""
        if self.daemonset is None:
            return False
        return digest(self.pod["spec"]) == digest(self.daemonset["spec"]["template"]["spec"])


class Upgrader:
    """The controller of driver upgrades."""

    def __init__(self, api: Api, namespace: str, caches: t.Mapping[str, Cache], tick: float) -> None:
        self._api = api
        self._namespace = namespace
        self._caches = caches
        self._tick = tick
        self._busy: set[str] = set()
        """Nodes from which pods are being evicted."""
        self._validators: dict[str, list[Json]] = {}

    def __call__(self) -> float | None:
        """Move every node one state further, and return the seconds until the next scheduled run."""
        policy = oldest(self._caches["policies"].items())
        self._validators = self._by_node(self._caches["validators"].items())
        if policy is None or delegated(policy["spec"]):
            return self._nvidiadrivers()
        if not upgrades_wanted(policy["spec"]):
            self._forget(self._caches["nodes"].items())
            return None
        self._roll(self._drivers("app", "nvidia-driver-daemonset"), block(policy["spec"], "driver.upgradePolicy"))
        return self._tick

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
        return self._tick

    def _roll(self, drivers: list[Driver], upgrade: Json) -> None:
        free = slots([driver.node for driver in drivers], upgrade)
        for driver in drivers:
            if state_of(driver.node) == "upgrade-required" and self._may_begin(driver.node, free):
                free -= not cordoned(driver.node)
                self._begin(driver)
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

    @staticmethod
    def _may_begin(node: Json, free: int) -> bool:
        # A node that is already cordoned needs no slot, so it does not wait for one.
        return labels_of(node).get(SKIP) != "true" and (free > 0 or cordoned(node))

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
            self._restart(node, driver.pod, driver.current, driver.ready)
        elif state == "upgrade-failed" and driver.ready:
            self._leave_validation(node)
        elif state == "validation-required":
            self._validate(node)
        elif state == "uncordon-required":
            self._patch(node, {"spec": {"unschedulable": None}})
            self._set(node, "upgrade-done")

    def _idle(self, node: Json, current: bool) -> None:
        forced = annotation(node, REQUESTED) == "true" or annotation(node, SAFE_LOAD) is not None
        if current and not forced:
            if state_of(node) == "":
                self._set(node, "upgrade-done")
            return
        if cordoned(node):
            self._patch(node, {"metadata": {"annotations": {INITIALLY_CORDONED: "true"}}})
        self._set(node, "upgrade-required")

    def _begin(self, driver: Driver) -> None:
        node = driver.node
        if driver.same_configuration and annotation(node, REQUESTED) != "true" and annotation(node, SAFE_LOAD) is None:
            # Only the driver pod is replaced, and no workload is evicted.
            self._patch(node, {"spec": {"unschedulable": True}})
            self._set(node, "pod-restart-required")
        else:
            self._set(node, "cordon-required")

    def _wait_for_jobs(self, node: Json, wait: Json) -> None:
        selector, limit = wait.get("podSelector"), wait.get("timeoutSeconds", 0)
        running = selector and any(_alive(pod) for pod in self._pods_on(node, labelSelector=selector))
        if not running:
            self._set(node, "pod-deletion-required", {JOBS_STARTED: None} if annotation(node, JOBS_STARTED) else None)
        elif limit:
            started = annotation(node, JOBS_STARTED)
            if started is None:
                self._annotate(node, JOBS_STARTED, str(int(time.time())))
            elif time.time() - int(started) > limit:
                self._set(node, "pod-deletion-required", {JOBS_STARTED: None})

    def _delete_pods(self, node: Json, upgrade: Json) -> None:
        if "podDeletion" not in upgrade:
            print("pod deletion spec should not be empty", flush=True)
            return
        deletion = upgrade["podDeletion"]
        fallback = "drain-required" if block(upgrade, "drain").get("enable") else "upgrade-failed"

        def work() -> None:
            pods = [pod for pod in self._pods_on(node) if _alive(pod) and uses_gpu(pod)]
            forbidden = any(undeletable(pod, deletion) for pod in pods)
            if forbidden or not self._evict(pods, deletion.get("timeoutSeconds", 300)):
                self._event(node, "Failed to delete workload pods on the node for the driver upgrade", "Warning")
                self._set(node, fallback)
                return
            self._set(node, "pod-restart-required")
            self._event(node, "Deleted workload pods on the node for the driver upgrade")

        self._in_background(node, work)

    def _drain(self, node: Json, drain: Json) -> None:
        if not drain.get("enable"):
            self._set(node, "pod-restart-required")
            return
        parts = (drain.get("podSelector"), "nvidia.com/gpu-driver-upgrade-drain.skip!=true")
        selector = ",".join(part for part in parts if part)

        def work() -> None:
            found = self._pods_on(node, labelSelector=selector)
            pods = [pod for pod in found if _alive(pod) and not _of_daemonset(pod)]
            if any(undeletable(pod, drain) for pod in pods) or not self._evict(pods, drain.get("timeoutSeconds", 300)):
                self._event(node, "Failed to drain the node", "Warning")
                self._set(node, "upgrade-failed")
                return
            self._set(node, "pod-restart-required")

        self._in_background(node, work)

    def _in_background(self, node: Json, work: t.Callable[[], None]) -> None:
        name = node["metadata"]["name"]

        def run() -> None:
            try:
                work()
            except (ApiError, OSError) as error:
                print(f"{name}: {error}", flush=True)
            finally:
                self._busy.discard(name)

        if name not in self._busy:
            self._busy.add(name)
            threading.Thread(target=run, daemon=True).start()

    def _restart(self, node: Json, pod: Json, current: bool, ready: bool) -> None:
        requested = annotation(node, REQUESTED) == "true"
        if requested or not current:
            if not pod["metadata"].get("deletionTimestamp"):
                self._api.delete(f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}")
            if requested:
                self._annotate(node, REQUESTED, None)
        elif ready:
            self._set(node, "validation-required")
        elif any(not item.get("ready") and item.get("restartCount", 0) > _RESTARTS for item in _statuses(pod)):
            self._set(node, "upgrade-failed")

    def _validate(self, node: Json) -> None:
        pods = self._validators.get(node["metadata"]["name"], [])
        if not pods:
            return
        if all(map(_validated, pods)):
            self._event(node, f"Successfully updated node annotation to {VALIDATION_STARTED}=null")
            self._leave_validation(node)
            return
        started = annotation(node, VALIDATION_STARTED)
        if started is None:
            self._annotate(node, VALIDATION_STARTED, str(int(time.time())))
        elif time.time() - int(started) > VALIDATION_SECONDS:
            self._set(node, "upgrade-failed", {VALIDATION_STARTED: None})

    def _leave_validation(self, node: Json) -> None:
        was_cordoned = annotation(node, INITIALLY_CORDONED) is not None
        gone = {key: None for key in (VALIDATION_STARTED, INITIALLY_CORDONED) if annotation(node, key) is not None}
        self._set(node, "upgrade-done" if was_cordoned else "uncordon-required", gone)

    # ---- requests ---------------------------------------------------------------------------------------------------

    def _pods_on(self, node: Json, **query: t.Any) -> list[Json]:
        return self._api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node['metadata']['name']}", **query)

    def _evict(self, pods: list[Json], timeout: int) -> bool:
        """Evict pods and wait until they are gone. Return False after a timeout."""
        deadline = time.monotonic() + (timeout or math.inf)
        left = {
            f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}": pod["metadata"]["uid"]
            for pod in pods
        }
        while left and time.monotonic() < deadline:
            for path, uid in list(left.items()):
                present = self._api.get(path)
                if present is None or present["metadata"]["uid"] != uid:
                    del left[path]
                elif not present["metadata"].get("deletionTimestamp"):
                    self._try_eviction(path, present)
            time.sleep(0.2 if left else 0)
        return not left

    def _try_eviction(self, path: str, pod: Json) -> None:
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
        try:
            self._api.create(f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
        except ApiError as error:
            # A disruption budget does not allow the eviction yet (429), or the pod is gone (404).
            if error.status not in (404, 429):
                raise

    def _set(self, node: Json, state: str, annotations: dict[str, None] | None = None) -> None:
        patch: Json = {"labels": {STATE: state}}
        if annotations:
            patch["annotations"] = annotations
        self._patch(node, {"metadata": patch})
        self._event(node, f"Successfully updated node state label to {state}")

    def _annotate(self, node: Json, key: str, value: str | None) -> None:
        self._patch(node, {"metadata": {"annotations": {key: value}}})

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
            "source": {"component": "gpu-operator"},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
        }
        self._api.create("/api/v1/namespaces/default/events", event)


def _alive(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Running", "Pending")


def _validated(pod: Json) -> bool:
    status = pod["status"]
    return bool(status.get("phase") == "Running" and containers_ready(pod) and status.get("containerStatuses"))


def _of_daemonset(pod: Json) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or [])


def _statuses(pod: Json) -> list[Json]:
    return [*(pod["status"].get("initContainerStatuses") or []), *(pod["status"].get("containerStatuses") or [])]
