# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller of the ClusterPolicy: deploy its operands, judge them, and report that in its status."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.drivers import OWNER, delegated
from lab.cluster.operator.standin.images import KERNEL, OS_ID, OS_VERSION, ReconcileError, os_tag
from lab.cluster.operator.standin.lines import V26_7, Line
from lab.cluster.operator.standin.nodes import STATE, has_nfd_labels, is_gpu_node, labels_of
from lab.cluster.operator.standin.objects import Conditions, ensure, failing, owned, put, ready, report
from lab.cluster.operator.standin.operands import OPERANDS, Operand
from lab.cluster.operator.standin.readiness import daemonset_ready, newest_revision
from lab.cluster.operator.standin.render import (
    Site,
    block,
    companions,
    daemonsets,
    runtime_classes,
    service,
    service_monitor,
)

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
_READY = "ClusterPolicy is ready as all resources have been successfully reconciled"
_NO_GPU = "No GPU node found, watching for new nodes to join the cluster."
_UPGRADING = (
    "NVIDIADriver upgrade has not completed; "
    "one or more NVIDIADriver-owned Nodes are marked pending, in-progress, or failed"
)
_INVALID = "error validating clusterpolicy: the NRI Plugin cannot be enabled"
_PRIVILEGED = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}


def oldest(policies: t.Iterable[Json]) -> Json | None:
    """Return the oldest ClusterPolicy, the only one that the operator serves."""
    return min(
        policies, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]), default=None
    )


class Reconciler:
    """The controller of the ClusterPolicy, from a start of the operator to its end."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        env: t.Mapping[str, str],
        caches: t.Mapping[str, Cache],
        line: Line = V26_7,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._env = env
        self._caches = caches
        self._line = line
        self._initialised = False
        self._warm = False

    @property
    def _daemonsets(self) -> str:
        return f"/apis/apps/v1/namespaces/{self._namespace}/daemonsets"

    def __call__(self) -> float | None:
        """Reconcile the ClusterPolicy, and return the seconds until the next run without a change."""
        policy = oldest(self._caches["policies"].items())
        if policy is None:
            return None
        try:
            self._refuse(policy)
            site = self._site(policy)
            not_ready = self._deploy(site)
        except (ReconcileError, ApiError) as error:
            self._report(policy, "notReady", failing("ReconcileFailed", str(error)))
            raise
        return self._judge(policy, not_ready)

    # ---- validation -------------------------------------------------------------------------------------------------

    def _refuse(self, policy: Json) -> None:
        for cluster in self._caches["gpuclusters"].items():
            name = cluster["metadata"]["name"]
            raise ReconcileError(
                f'conflicting GPUCluster resource "{name}" detected; ClusterPolicy and GPUCluster cannot co-exist'
            )
        if not self._initialised:
            self._validate(policy["spec"])
            # Only the first run of a process validates the spec: later edits are not checked.
            self._initialised = True

    @staticmethod
    def _validate(spec: Json) -> None:
        cdi = block(spec, "cdi")
        if not cdi.get("nriPluginEnabled"):
            return
        if not cdi.get("enabled", True):
            raise ReconcileError(f"{_INVALID} when CDI is disabled")
        if not block(spec, "toolkit").get("enabled", True):
            raise ReconcileError(f"{_INVALID} when the Container Toolkit is disabled")

    def _site(self, policy: Json) -> Site:
        if block(policy["spec"], "psa").get("enabled"):
            self._api.merge(f"/api/v1/namespaces/{self._namespace}", {"metadata": {"labels": _PRIVILEGED}})
        gpu_nodes = [labels_of(node) for node in self._caches["nodes"].items() if is_gpu_node(node)]
        if not gpu_nodes:
            return Site(self._namespace, policy, self._env)
        # The first node determines the OS of all nodes, even if they differ.
        kernels = self._kernels(gpu_nodes, policy["spec"])
        return Site(self._namespace, policy, self._env, os_tag(gpu_nodes[0], self._line), kernels)

    @staticmethod
    def _kernels(nodes: list[dict[str, str]], spec: Json) -> dict[str, str]:
        kernels: dict[str, str] = {}
        if not block(spec, "driver").get("usePrecompiled"):
            return kernels
        for labels in nodes:
            kernel = labels.get(KERNEL)
            if kernel is None:
                raise ReconcileError(f"kernel label {KERNEL} not found")
            system = labels[OS_ID] + labels[OS_VERSION]
            if kernels.setdefault(kernel, system) != system:
                raise ReconcileError(
                    f"different OS versions found for the same kernel version {kernel}, unsupported configuration"
                )
        return kernels

    # ---- deployment -------------------------------------------------------------------------------------------------

    def _deploy(self, site: Site) -> list[str]:
        """Deploy or remove every operand, and return the states that are not ready."""
        for name, wanted in runtime_classes(site).items():
            ensure(self._api, "/apis/node.k8s.io/v1/runtimeclasses", name, wanted)
        metrics = service("gpu-operator", 8080, {"app": "gpu-operator"}, site)
        ensure(self._api, f"/api/v1/namespaces/{self._namespace}/services", "gpu-operator", metrics)
        not_ready = []
        for operand in OPERANDS:
            try:
                if not self._operand(operand, site):
                    not_ready.append(operand.state)
            except (ReconcileError, ApiError) as error:
                raise ReconcileError(f"Failed to reconcile {operand.state}: {error}") from error
        self._warm = True
        return not_ready

    def _operand(self, operand: Operand, site: Site) -> bool:
        """Deploy or remove one operand, and return whether it counts as ready."""
        if operand.on_delete and delegated(site.spec):
            # The pods and the driver stay until pods of an NVIDIADriver replace them. In earlier lines they go at once.
            self._remove(operand, propagationPolicy="Orphan" if self._line.orphans else "Background")
            return True
        if not operand.enabled(site.spec):
            self._remove(operand)
            return True
        for path, companion in companions(operand, site):
            ensure(self._api, path, companion["metadata"]["name"], companion)
        if operand.spec == "dcgmExporter":
            self._service_monitor(site)
        wanted = daemonsets(operand, site)
        names = {item["metadata"]["name"] for item in wanted}
        self._remove(operand, keep=names)
        verdicts = [self._apply(item) for item in wanted]
        return all(verdicts)

    def _service_monitor(self, site: Site) -> None:
        """Make the exporters' ServiceMonitor what the ClusterPolicy says, if the kind is served."""
        path = f"/apis/monitoring.coreos.com/v1/namespaces/{self._namespace}/servicemonitors"
        wanted, served = service_monitor(site), self._api.get(path)
        if served is None:
            return
        present = next((item for item in served["items"] if item["metadata"]["name"] == "nvidia-dcgm-exporter"), None)
        if wanted is None:
            if present:
                self._api.delete(f"{path}/nvidia-dcgm-exporter")
        elif present is None:
            self._api.create(path, wanted)
        elif present["spec"] != wanted["spec"] or labels_of(present) != wanted["metadata"]["labels"]:
            metadata = {**wanted["metadata"], "resourceVersion": present["metadata"]["resourceVersion"]}
            self._api.request("PUT", f"{path}/nvidia-dcgm-exporter", {**wanted, "metadata": metadata})

    def _apply(self, wanted: Json) -> bool:
        present, was_there = put(self._api, self._daemonsets, wanted)
        if not was_there:
            # Just after its start, the operator does not find a new DaemonSet in its caches, and a missing DaemonSet is
            # not ready. Later the caches show it in time, with no pods to schedule, and such a DaemonSet is ready.
            return self._warm
        pods = [pod for pod in self._caches["drivers"].items() if owned(pod, present)]
        counts = self._line.counts_updates
        return daemonset_ready(present, pods, lambda: self._revision(present), counts_updates=counts)

    def _revision(self, daemonset: Json) -> str | None:
        app = daemonset["spec"]["selector"]["matchLabels"]["app"]
        path = f"/apis/apps/v1/namespaces/{self._namespace}/controllerrevisions"
        return newest_revision(self._api.list(path, labelSelector=f"app={app}"), daemonset)

    def _remove(self, operand: Operand, keep: t.Container[str] = (), **options: t.Any) -> None:
        for item in self._caches["daemonsets"].items():
            name = item["metadata"]["name"]
            ours = name == operand.daemonset or (
                operand.state == "state-driver" and name.startswith(f"{operand.daemonset}-")
            )
            if ours and name not in keep and not item["metadata"].get("deletionTimestamp"):
                self._api.delete(f"{self._daemonsets}/{name}", **options)

    # ---- verdict ----------------------------------------------------------------------------------------------------

    def _judge(self, policy: Json, not_ready: list[str]) -> float | None:
        reasons = [f"states not ready: [{' '.join(not_ready)}]"] if not_ready else []
        nodes = self._caches["nodes"].items()
        hands_over = delegated(policy["spec"]) and self._line.own_policies
        if hands_over and any(_upgrading(labels_of(node)) for node in nodes):
            reasons.append(_UPGRADING)
        if reasons:
            message = "; ".join(["ClusterPolicy is not ready", *reasons])
            self._report(policy, "notReady", failing("OperandNotReady", message))
            return 5.0 if not_ready else None
        reason, message = "Reconciled", _READY
        if not any(map(has_nfd_labels, nodes)):
            reason, message = "NFDLabelsMissing", "No NFD labels found"
        elif not any(map(is_gpu_node, nodes)):
            reason, message = "NoGPUNodes", _NO_GPU
        self._report(policy, "ready", ready(reason, message))
        return 45.0 if reason == "NFDLabelsMissing" else None

    def _report(self, policy: Json, state: str, conditions: Conditions) -> None:
        path = f"{POLICIES}/{policy['metadata']['name']}"
        report(self._api, path, {"state": state, "namespace": self._namespace}, conditions)


def _upgrading(labels: t.Mapping[str, str]) -> bool:
    counted = OWNER in labels and labels.get("nvidia.com/gpu-driver-upgrade.skip") != "true"
    return counted and labels.get(STATE, "") not in ("", "upgrade-done")
