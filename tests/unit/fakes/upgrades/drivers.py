# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster in memory with drivers and an operator that upgrades them, one state at each look, and a clock."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    DriverRolloutRequest,
    request_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NAMESPACE, NOW, Json

OLD, NEW = "580.105.08", "595.91.07"
STATE, SKIP = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade.skip"
FOUND_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
NODES, ALL_PODS = "/api/v1/nodes", "/api/v1/pods"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
DRIVER = "nvidia-driver-daemonset"
COMPLETE: Json = {"autoUpgrade": True, "podDeletion": {}, "drain": {}, "waitForCompletion": {}}

OPTIONS: Json = {
    "wait": True, "canary": 0, "waves": [], "soak": 0, "max_unavailable": "1", "max_failed": "0", "group_by": None,
    "windows": [], "time_zone": "UTC", "timeout": 600, "drain_timeout": 60, "allow_shared": False, "lease": 3600,
    "take_over": False, "pause_nvsentinel": False, "progress_path": None, "namespace": "", "policy_name": "",
}  # fmt: skip


def asked(**options: t.Any) -> DriverRolloutRequest:
    """Return what these options and the defaults of the tests ask of a rollout."""
    return request_of({**OPTIONS, **options})


def driver_pod(node: str, version: str = OLD, **status: t.Any) -> Json:
    """Return a driver pod that runs. Its revision is its version."""
    return _pod(DRIVER, node, version, "nvidia-driver-ctr", {"app.kubernetes.io/component": "nvidia-driver"}, status)


def validator_pod(node: str, **status: t.Any) -> Json:
    """Return a validator pod that runs."""
    return _pod("nvidia-operator-validator", node, "1", "validator", {"app": "nvidia-operator-validator"}, status)


def _pod(owner: str, node: str, revision: str, container: str, labels: Json, status: Json) -> Json:
    running = {"phase": "Running", "containerStatuses": [{"name": container, "ready": True, "restartCount": 0}]}
    return {
        "metadata": {
            "name": f"{owner}-{node}-{revision}",
            "namespace": NAMESPACE,
            "uid": f"{owner}-{node}-{revision}",
            "creationTimestamp": stack.LONG_AGO,
            "labels": {**labels, "controller-revision-hash": revision},
            "ownerReferences": [{"kind": "DaemonSet", "name": owner, "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": container}]},
        "status": {**running, **status},
    }


def waiting(reason: str, message: str = "") -> Json:
    """Return the status of a driver pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    container = {"name": "nvidia-driver-ctr", "ready": False, "restartCount": 0, "state": state}
    return {"phase": "Pending", "containerStatuses": [container]}


class DriverCluster:
    """Nodes with the driver before, a DaemonSet with the new one, and an operator.

    ``broken`` maps a node to what happens in its upgrade: ``pods`` (the operator gives up before it has touched the
    driver), ``driver`` (the new pod has this status), ``validator`` (no validator pod comes up). ``before_look`` sees
    the cluster before each look at the nodes. The operator looks each second, or every ``tick`` seconds and whenever
    the state of a node has changed, as v26.3 does.
    """

    def __init__(self, nodes: int = 3, upgrade: Json | None = None, **policy: t.Any) -> None:
        self.check_mode = False
        self.clock = NOW
        self.items: dict[str, Json] = {}
        driver = {"upgradePolicy": COMPLETE if upgrade is None else upgrade}
        self.policy = stack.policy(driver=driver, **policy)
        self.daemonset = self._daemonset(nodes)
        self.pods: dict[str, Json] = {}
        for number in range(nodes):
            made = stack.node(number)
            made["metadata"] |= {"annotations": {}, "resourceVersion": "1"}
            made["metadata"]["labels"] |= {"nvidia.com/cuda.driver-version.full": OLD, STATE: "upgrade-done"}
            self.items[made["metadata"]["name"]] = made
            self._add(driver_pod(made["metadata"]["name"]), validator_pod(made["metadata"]["name"]))
        self.broken: dict[str, t.Any] = {}
        self.before_look: t.Callable[[DriverCluster], None] = lambda cluster: None
        self.events: list[Json] = []
        self.log: list[tuple[str, str]] = []
        self.most_cordoned = 0
        self.refused_evictions: dict[str, str] = {}
        self.operator_runs = True
        self.tick = 0.0
        self._looked, self._states = NOW, dict[str, str]()

    def _daemonset(self, nodes: int) -> Json:
        made = stack.daemonset(stack.DEPLOYED[0], nodes, f"nvcr.io/nvidia/driver:{NEW}-ubuntu24.04")
        made["metadata"] |= {
            "creationTimestamp": stack.LONG_AGO,
            "labels": {"app.kubernetes.io/component": "nvidia-driver"},
        }
        return made

    def _add(self, *pods: Json) -> None:
        self.pods |= {pod["metadata"]["name"]: pod for pod in pods}

    def add(self, *pods: Json) -> None:
        """Add pods."""
        self._add(*pods)

    @property
    def typed(self) -> Cluster:
        """This cluster as the type that the code asks for."""
        return t.cast("Cluster", self)

    # ---- what tests look at

    def label(self, node: str, key: str) -> str | None:
        """Return a label of a node."""
        return t.cast("str | None", self.items[node]["metadata"]["labels"].get(key))

    def note(self, node: str) -> str:
        """Return the kind of our note on a node."""
        text = self.items[node]["metadata"]["annotations"].get("gpuops.nvidia/driver-rollout") or ""
        return str(text).partition(" ")[0]

    @property
    def cordoned(self) -> list[str]:
        """The nodes that are cordoned."""
        return [name for name, node in self.items.items() if node["spec"].get("unschedulable")]

    @property
    def versions(self) -> dict[str, str]:
        """The version of each node's driver."""
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["labels"]["controller-revision-hash"]
            for pod in self.pods.values()
            if pod["metadata"]["name"].startswith(DRIVER)
        }

    # ---- the operator

    def step(self) -> None:
        """Let a second pass, and the operator take each node one state further."""
        self.clock += 1
        self.before_look(self)
        for name in self.items if self._is_called() else ():
            if self.items[name]["metadata"]["labels"].get(SKIP) != "true" or self._state(name) != "upgrade-required":
                self._advance(name)
        self.most_cordoned = max(self.most_cordoned, len(self.cordoned))

    def _is_called(self) -> bool:
        """Return whether the operator looks at the nodes now."""
        states = {name: self._state(name) for name in self.items}
        is_called = self.operator_runs and (states != self._states or self.clock >= self._looked + self.tick)
        if is_called:
            self._looked, self._states = self.clock, states
        return is_called

    def _state(self, name: str) -> str:
        return str(self.items[name]["metadata"]["labels"].get(STATE) or "")

    def _set(self, name: str, state: str, **spec: t.Any) -> None:
        node = copy.deepcopy(self.items[name])
        node["metadata"]["labels"][STATE] = state
        node["spec"] |= spec
        self._store(node)

    def _store(self, node: Json) -> Json:
        node["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)
        self.items[node["metadata"]["name"]] = node
        return node

    def _advance(self, name: str) -> None:
        state, wanted, trouble = self._state(name), self.versions.get(name) == NEW, self.broken.get(name)
        if not self.policy["spec"]["driver"]["upgradePolicy"].get("autoUpgrade"):
            return
        if state in ("", "upgrade-done") and not wanted:
            self._set(name, "upgrade-required")
        elif state == "":
            self._set(name, "upgrade-done")
        elif state == "upgrade-required":
            self._set(name, "pod-deletion-required", unschedulable=True)
        elif state == "pod-deletion-required" and trouble != "stuck":
            self._set(name, "upgrade-failed" if trouble == "pods" else "pod-restart-required")
        elif state == "pod-restart-required" and not wanted:
            self.replace(name, trouble if isinstance(trouble, dict) else {})
        elif state == "pod-restart-required" and not isinstance(trouble, dict):
            self._set(name, "validation-required")
        elif state == "validation-required" and trouble != "validator":
            self._set(name, "uncordon-required")
        elif state == "uncordon-required":
            self._set(name, "upgrade-done", unschedulable=None)
            self.report(name)

    def replace(self, name: str, status: Json) -> None:
        """Replace the driver pod of a node by one of the new version."""
        self.pods = {key: pod for key, pod in self.pods.items() if not key.startswith(f"{DRIVER}-{name}-")}
        self._add(driver_pod(name, NEW, **status))
        if self.broken.get(name) == "validator":
            del self.pods[f"nvidia-operator-validator-{name}-1"]

    def report(self, name: str) -> None:
        """Let feature discovery report the new version."""
        node = copy.deepcopy(self.items[name])
        node["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = NEW
        self._store(node)

    # ---- the API

    def now(self) -> float:
        return self.clock

    def large_list(self, path: str, keep: t.Callable[[Json], t.Any], **selectors: str) -> tuple[list[t.Any], str]:
        if path == NODES:
            self.step()
            return [keep(node) for node in self.items.values()], ""
        return [keep(pod) for pod in self._select(selectors["labelSelector"])], ""

    def _select(self, selector: str) -> list[Json]:
        key, dummy, value = selector.partition("=")
        return [pod for pod in self.pods.values() if (pod["metadata"].get("labels") or {}).get(key) == value]

    def list(self, path: str, **selectors: str) -> t.Any:
        if path.endswith("/clusterpolicies"):
            return [self.policy]
        return [self.daemonset] if path == DAEMONSETS else []

    def list_readable(self, path: str, **selectors: str) -> Listed:
        return Listed(self.events if path.endswith("/events") else [])

    def table(self, path: str, **selectors: str) -> t.Any:
        revision = {"name": f"{DRIVER}-{NEW}", "controller": f"daemonset.apps/{DRIVER}", "revision": 2}
        return [revision] if path.endswith("/controllerrevisions") else []

    def get(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> Json | None:
        if path.startswith(f"{NODES}/"):
            self.log.append(("read", path.rpartition("/")[2]))
            return copy.deepcopy(self.items.get(path.rpartition("/")[2]))
        if path == ALL_PODS:
            node = str((query or {}).get("fieldSelector", "")).partition("=")[2]
            return {"items": [pod for pod in self.pods.values() if pod["spec"]["nodeName"] == node]}
        return {"items": []} if path.endswith(("/daemonsets", "/nodemaintenances")) else None

    def merge(self, path: str, body: Json) -> Json:
        name = path.rpartition("/")[2]
        self.log.append(("merge", name))
        if name not in self.items:
            raise GpuOpsError(f"{name} is not found.", reason="NotFound")
        body = copy.deepcopy(body)
        node = copy.deepcopy(self.items[name])
        wanted = body["metadata"].pop("resourceVersion", None)
        if wanted not in (None, node["metadata"]["resourceVersion"]):
            raise GpuOpsError("The node has changed.", reason="Conflict")
        for part in ("labels", "annotations"):
            merged = {**node["metadata"][part], **(body["metadata"].get(part) or {})}
            node["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
        node["spec"] = {
            key: value for key, value in {**node["spec"], **(body.get("spec") or {})}.items() if value is not None
        }
        return node if self.check_mode else copy.deepcopy(self._store(node))

    def delete(self, path: str, uid: str = "") -> bool:
        name = path.rpartition("/")[2]
        if uid and name in self.pods and self.pods[name]["metadata"]["uid"] != uid:
            raise GpuOpsError("The UID in the precondition is another one.", reason="Conflict")
        self.log.append(("delete", name))
        pod = self.pods.pop(name, None)
        if pod is not None and name.startswith(DRIVER):
            trouble = self.broken.get(pod["spec"]["nodeName"])
            self.replace(pod["spec"]["nodeName"], trouble if isinstance(trouble, dict) else {})
            self.report(pod["spec"]["nodeName"])
        return pod is not None

    def evict(self, namespace: str, pod: str, uid: str, grace_period_s: int | None = None) -> None:
        if pod in self.refused_evictions:
            causes = [{"reason": "DisruptionBudget", "message": self.refused_evictions[pod]}]
            raise GpuOpsError("Cannot evict pod.", reason="TooManyRequests", causes=causes)
        if not self.check_mode:
            self.log.append(("evict", pod))
            del self.pods[pod]
