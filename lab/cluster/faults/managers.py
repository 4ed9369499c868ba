# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator in trouble, and others who write the ClusterPolicy."""

from __future__ import annotations

import contextlib
import threading
import typing as t

from lab.cluster.api import ApiError, Json, now
from lab.cluster.faults import admission, operands
from lab.cluster.faults.admission import api_of
from lab.cluster.lab import Lab
from lab.cluster.nodes.fleet import NOTE
from lab.errors import LabError

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
_SETTINGS = "/api/v1/namespaces/kube-system/configmaps/lab-faults"
_OPERATOR = "gpu-operator"
_SECOND = "another-policy"


def operator_down(lab: Lab) -> None:
    """Kill the operator's process. Its Deployment stays Available, so no object in the cluster shows the failure."""
    lab.component("operator").kill()


def restart_operator(lab: Lab) -> None:
    """Let the operator's process crash and start again. What it had begun, and what it had in memory, is lost."""
    lab.component("operator").kill()
    lab.component("operator").restart()


def stale_status(lab: Lab) -> None:
    """Stop the stand-in from updating the status of its custom resources."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "lab-faults"},
        "data": {"stale-status": "true"},
    }
    api_of(lab).apply(_SETTINGS, body, admission.MANAGER)


def stuck_operator(lab: Lab, fault: str = "image-pull-backoff", *, rollout: bool = True) -> None:
    """Let no new pod of the operator start, and roll its Deployment out.

    The old pod stays available, so the Deployment does too. With ``rollout=False``, the next upgrade gets stuck.
    """
    deployment = _operator(lab)
    namespace = deployment["metadata"]["namespace"]
    operands.annotate_new_pods(lab, _OPERATOR, fault)
    admission.until_probe(
        lab, namespace, _OPERATOR, lambda pod: not isinstance(pod, str) and admission.note(pod, "fault") == fault
    )
    if rollout:
        stamp = {f"{NOTE}restarted": now()}
        api_of(lab).merge(deployment["path"], {"spec": {"template": {"metadata": {"annotations": stamp}}}})


def second_policy(lab: Lab, name: str = _SECOND) -> None:
    """Create a second ClusterPolicy with the spec of the first."""
    first = next(iter(api_of(lab).list(POLICIES)), None)
    if first is None:
        raise LabError("There is no ClusterPolicy yet: install the chart first.")
    meta = {"name": name, "labels": {admission.MANAGED: admission.MANAGER}}
    body = {key: first[key] for key in ("apiVersion", "kind", "spec")}
    api_of(lab).create(POLICIES, {**body, "metadata": meta})


def edit_policy(lab: Lab, spec: Json, manager: str = "kubectl-edit", name: str = "cluster-policy") -> None:
    """Change fields of the ClusterPolicy as ``kubectl edit`` does, which then counts as their manager."""
    api, path = api_of(lab), f"{POLICIES}/{name}"
    api.request("PATCH", path, {"spec": spec}, "application/merge-patch+json", fieldManager=manager)


@contextlib.contextmanager
def argocd(lab: Lab, spec: Json, name: str = "cluster-policy", every: float = 0.3) -> t.Iterator[threading.Event]:
    """Keep fields of the ClusterPolicy as Argo CD with self-heal does, which applies them with force again and again.

    The event is set whenever it has put a field back that somebody else had changed.
    """
    stop, healed = threading.Event(), threading.Event()
    worker = threading.Thread(target=_keep, args=(lab, spec, name, every, stop, healed))
    _apply(lab, spec, name)
    worker.start()
    try:
        yield healed
    finally:
        stop.set()
        worker.join()


@contextlib.contextmanager
def without_release(lab: Lab, namespace: str = _OPERATOR) -> t.Iterator[None]:
    """Take Helm's records of the releases in a namespace away, as for an operator that Helm never installed."""
    api, path = api_of(lab), f"/api/v1/namespaces/{namespace}/secrets"
    records = [item for item in api.list(path) if item.get("type") == "helm.sh/release.v1"]
    for item in records:
        api.delete(f"{path}/{item['metadata']['name']}")
    try:
        yield
    finally:
        for item in records:
            meta = {key: item["metadata"][key] for key in ("name", "labels")}
            api.create(path, {**item, "metadata": meta, "apiVersion": "v1", "kind": "Secret"})


def upgrading(lab: Lab, node: str, state: str = "wait-for-jobs-required", note: str | None = None) -> None:
    """Put a node into a state of its driver's upgrade, cordoned; with a note, a rollout has given it its turn."""
    labels = {"nvidia.com/gpu-driver-upgrade-state": state}
    notes = {"gpuops.nvidia/driver-rollout": note} if note else {}
    body = {"metadata": {"labels": labels, "annotations": notes}, "spec": {"unschedulable": True}}
    api_of(lab).merge(f"/api/v1/nodes/{node}", body)


def active(lab: Lab) -> list[str]:
    """Return one line for each of these faults."""
    api = api_of(lab)
    lines = ["stale status"] if api.get(_SETTINGS) else []
    lines += ["operator down"] if "operator" in lab.status().died else []
    return lines + [f"second ClusterPolicy {item['metadata']['name']}" for item in admission.own(lab, POLICIES)]


def clear(lab: Lab) -> None:
    """Remove these faults. What somebody else wrote into the ClusterPolicy stays."""
    api = api_of(lab)
    for item in admission.own(lab, POLICIES):
        api.delete(f"{POLICIES}/{item['metadata']['name']}")
    api.delete(_SETTINGS)
    if "operator" in lab.status().died:
        lab.component("operator").restart()


def _operator(lab: Lab) -> Json:
    found = [item for item in admission.controllers(lab, _OPERATOR) if "/deployments/" in item["path"]]
    if not found:
        raise LabError("There is no operator's Deployment: install the chart first.")
    return found[0]


def _apply(lab: Lab, spec: Json, name: str) -> int:
    body = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": name}, "spec": spec}
    return int(api_of(lab).apply(f"{POLICIES}/{name}", body, "argocd-controller")["metadata"]["generation"])


def _keep(lab: Lab, spec: Json, name: str, every: float, stop: threading.Event, healed: threading.Event) -> None:
    api = api_of(lab)
    while not stop.wait(every):
        with contextlib.suppress(ApiError, OSError):
            before = (api.get(f"{POLICIES}/{name}") or {"metadata": {"generation": 0}})["metadata"]["generation"]
            if _apply(lab, spec, name) != before:
                healed.set()
