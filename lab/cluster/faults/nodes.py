# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes in trouble, and nodes that another maintainer has taken out of service."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from lab.cluster.api import Api, Json, now
from lab.cluster.faults import admission
from lab.cluster.faults.admission import api_of, note
from lab.cluster.lab import Lab
from lab.cluster.nodes.agents.dra.slices import INCOMPLETE, STALE
from lab.cluster.nodes.agents.machines import UNBOUND, VGPU_FAULT
from lab.cluster.nodes.fleet import NOTE
from lab.errors import LabError

_TAINT = {"key": f"{NOTE}fault", "value": "tainted", "effect": "NoExecute"}
_CORDONS = f"{NOTE}cordons"
_ALONE = ("exporter-gpus", "unhealthy", "xid", "driver-silent", "gpu-lost", "slices", UNBOUND, VGPU_FAULT)
"""Notes that are a fault by themselves."""
_NODES = "/api/v1/nodes"
SLICE_FAULTS = (INCOMPLETE, STALE)
NODE_FAULTS = ("not-ready", "down", "taint")
_PREFIX = "lab-node-"
_DOWN = {"node-down": "true"}
"""The annotation of the pods that nobody looks after."""


@dataclass(frozen=True)
class Marks:
    """What a maintainer writes on a node besides the cordon."""

    labels: t.Mapping[str, str] = field(default_factory=dict)
    annotations: t.Mapping[str, str] = field(default_factory=dict)
    taint: Json | None = None
    cordons: bool = True
    """Whether the node is unschedulable too. Some only taint it."""


_EVENT = {"agent": "gpu-health-monitor", "componentClass": "GPU", "checkName": "GpuXidError", "isFatal": True}
_PAUSED = "paused-for-driver-upgrade"
MAINTAINERS = {
    "person": Marks(),
    "operator": Marks(
        labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"},
        annotations={"nvidia.com/gpu-driver-upgrade-enabled": "true"},
    ),
    "driver-manager": Marks(
        labels={
            f"nvidia.com/gpu.deploy.{operand}": _PAUSED
            for operand in ("container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm-exporter")
        }
    ),
    "nvsentinel": Marks(
        labels={
            "k8saas.nvidia.com/cordon-by": "NVSentinel",
            "k8saas.nvidia.com/cordon-reason": "GPU-fatal-error-ruleset",
            "dgxc.nvidia.com/nvsentinel-state": "quarantined",
        },
        annotations={"quarantineHealthEvent": json.dumps([_EVENT]), "quarantineHealthEventIsCordoned": "True"},
    ),
    "nodewright": Marks(annotations={"skyhook.nvidia.com/cordon_tuning": "true"}),
    "kured": Marks(annotations={"weave.works/kured-reboot-in-progress": "2026-11-22T02:00:00Z"}),
    "medik8s": Marks(taint={"key": "medik8s.io/drain", "effect": "NoSchedule"}),
    "karpenter": Marks(taint={"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, cordons=False),
    "autoscaler": Marks(
        taint={"key": "ToBeDeletedByClusterAutoscaler", "value": "1763798400", "effect": "NoSchedule"}, cordons=False
    ),
}
"""The marks that each maintainer's own source writes."""


def node(lab: Lab, name: str, fault: str) -> None:
    """Make a node NotReady, take it down, or give it a taint that evicts its pods.

    On a node that is down, no pod starts or ends: a deleted pod stays there until the node is back.
    """
    if fault not in NODE_FAULTS:
        raise LabError(f"Nodes have no fault {fault!r}: choose from {', '.join(NODE_FAULTS)}.")
    api = api_of(lab)
    present = _node(api, name)
    body: Json = {"metadata": {"annotations": {f"{NOTE}fault": fault}}}
    if fault == "taint":
        body = {"spec": {"taints": [*_taints(present, {_TAINT["key"]}), _TAINT]}}
    elif fault == "down":
        _abandon_new_pods(lab, name)
    api.merge(f"{_NODES}/{name}", body)
    if fault == "down":
        _mark_pods(api, name, "true")


def _abandon_new_pods(lab: Lab, name: str) -> None:
    meta = admission.metadata(f"{_PREFIX}{name}", f"new pods of {name}", node=name)
    admission.mutate(lab, meta, admission.PODS, [admission.on_node(name)], admission.annotating(_DOWN))
    _until_new_pods(lab, name, abandoned=True)


def _until_new_pods(lab: Lab, name: str, *, abandoned: bool) -> None:
    """Wait until the API server marks new pods of a node, or no longer marks them."""
    spec = {"containers": [{"name": "probe", "image": "nvcr.io/nvidia/probe:v1"}], "affinity": admission.bound_to(name)}
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"}, "spec": spec}
    admission.until_mutated(lab, probe, lambda pod: (note(pod, "node-down") is not None) == abandoned)


def _mark_pods(api: Api, name: str, value: str | None) -> None:
    for pod in api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        api.merge(path, {"metadata": {"annotations": {f"{NOTE}node-down": value}}})


def exporter(lab: Lab, name: str, gpus: int) -> None:
    """Let the exporter of a node serve the metrics of so many GPUs only. Its pod stays ready."""
    _annotate(lab, name, "exporter-gpus", str(gpus))


def xid(lab: Lab, name: str, code: int) -> None:
    """Let a node's first GPU have an Xid error: its exporter reports it, and a DRA driver that looks for it."""
    _annotate(lab, name, "xid", str(code))


def lost_gpu(lab: Lab, name: str) -> None:
    """Let a GPU of a node be lost, as a DRA driver that looks for it reports it."""
    _annotate(lab, name, "gpu-lost", "true")


def slices(lab: Lab, name: str, fault: str) -> None:
    """Let the DRA driver of a node publish too few ResourceSlices, or leave one of an older generation behind."""
    if fault not in SLICE_FAULTS:
        raise LabError(f"Slices have no fault {fault!r}: choose from {', '.join(SLICE_FAULTS)}.")
    _annotate(lab, name, "slices", fault)


def silent_driver(lab: Lab, name: str) -> None:
    """Let the driver of a node answer no more, as its node status exporter reports it."""
    _annotate(lab, name, "driver-silent", "true")


def unhealthy(lab: Lab, name: str, devices: int) -> None:
    """Let the device plugin of a node report so many devices as unhealthy."""
    _annotate(lab, name, "unhealthy", str(devices))


def unbound(lab: Lab, name: str, gpus: int) -> None:
    """Let vfio-pci get some of a node's GPUs not: its vfio-manager warns, and is Ready."""
    _annotate(lab, name, UNBOUND, str(gpus))


def failed_vgpus(lab: Lab, name: str) -> None:
    """Let the vGPU device manager of a node fail: its pod is Ready, and it has made no vGPU."""
    _annotate(lab, name, VGPU_FAULT, "true")


def _annotate(lab: Lab, name: str, written: str, value: str) -> None:
    api = api_of(lab)
    _node(api, name)
    api.merge(f"{_NODES}/{name}", {"metadata": {"annotations": {f"{NOTE}{written}": value}}})


def cordon(lab: Lab, name: str, by: str = "person") -> None:
    """Take a node out of service as another maintainer does, with its marks."""
    _write(lab, name, by, MAINTAINERS[by])


def uncordon(lab: Lab, name: str, by: str = "person") -> None:
    """Put a node back as this maintainer does: remove its own marks, and the cordon, whoever set it."""
    marks = MAINTAINERS[by]
    _write(lab, name, by, marks, taken=False)


def active(lab: Lab) -> list[str]:
    """Return one line for each fault of a node."""
    lines = []
    for item in api_of(lab).list(_NODES):
        name = item["metadata"]["name"]
        lines += [f"node {name}: {note(item, 'fault')}"] if note(item, "fault") else []
        seen = note(item, "exporter-gpus")
        lines += [f"node {name}: exporter serves {seen} GPUs"] if seen else []
        sick = note(item, "unhealthy")
        lines += [f"node {name}: {sick} unhealthy devices"] if sick else []
        lines += [f"node {name}: Xid {note(item, 'xid')}"] if note(item, "xid") else []
        lines += [f"node {name}: GPU lost"] if note(item, "gpu-lost") else []
        lines += [f"node {name}: slices {note(item, 'slices')}"] if note(item, "slices") else []
        lines += [f"node {name}: silent driver"] if note(item, "driver-silent") else []
        lines += [f"node {name}: taint" for taint in _taints(item, set()) if taint["key"] == _TAINT["key"]]
        lines += [f"node {name}: cordoned by {by}" for by in _owners(item)]
    return lines


def clear(lab: Lab) -> None:
    """Remove these faults."""
    api = api_of(lab)
    for policy in admission.mutations(lab, _PREFIX):
        admission.remove(lab, policy)
    for item in api.list(_NODES):
        name = item["metadata"]["name"]
        for by in _owners(item):
            uncordon(lab, name, by)
        if any(note(item, each) for each in ("fault", *_ALONE)):
            notes = dict.fromkeys(f"{NOTE}{each}" for each in ("fault", *_ALONE))
            api.merge(f"{_NODES}/{name}", {"metadata": {"annotations": notes}})
        if note(item, "fault") == "down":
            _until_new_pods(lab, name, abandoned=False)
            _mark_pods(api, name, None)
        if _TAINT["key"] in (taint["key"] for taint in _taints(item, set())):
            api.merge(f"{_NODES}/{name}", {"spec": {"taints": _taints(_node(api, name), {_TAINT["key"]})}})


def _write(lab: Lab, name: str, by: str, marks: Marks, *, taken: bool = True) -> None:
    api = api_of(lab)
    item = _node(api, name)
    owners = [other for other in _owners(item) if other != by] + ([by] if taken else [])
    spec: Json = {"unschedulable": taken or None} if marks.cordons else {}
    if marks.taint:
        added = [{**marks.taint, "timeAdded": now()}] if taken else []
        spec["taints"] = [*_taints(item, {marks.taint["key"]}), *added]
    body: Json = {
        "metadata": {
            "labels": {key: value if taken else None for key, value in marks.labels.items()},
            "annotations": {
                **{key: value if taken else None for key, value in marks.annotations.items()},
                _CORDONS: ",".join(owners) or None,
            },
        },
        "spec": spec,
    }
    api.merge(f"{_NODES}/{name}", body)


def _owners(item: Json) -> list[str]:
    return [name for name in (note(item, "cordons") or "").split(",") if name]


def _node(api: Api, name: str) -> Json:
    item = api.get(f"{_NODES}/{name}")
    if item is None:
        raise LabError(f"There is no node {name!r}.")
    return item


def _taints(item: Json, without: t.Container[str]) -> list[Json]:
    return [taint for taint in item["spec"].get("taints", []) if taint["key"] not in without]
