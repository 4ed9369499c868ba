# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From a cluster, and what hosts say, to the evidence that rules look at."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import (
    judge,
    node_rows,
    observe,
    tolerance,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import (
    device_health,
    names,
    objects,
    operands,
    pods,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.slimmer import Slimmer
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import (
    choice,
    collected_claims,
    exporters,
    installed,
    inventory_hosts,
    others,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import (
    LINE_LENGTH,
    PREVIOUS,
    TextLine,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, printable
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_UNMASKED = collected_claims.BARE | {"nodes"}
"""Kinds that are masked while they are read, or of which nothing is kept that can be a secret."""

TAIL_LINES = 300
TAIL_BYTES = 131072
"""How much is read of the end of each log."""

Options = t.Mapping[str, t.Any]


def collect(reader: GapReader, options: Options) -> Evidence:
    """Read the cluster, and join what the hosts say. Only an API server that does not answer at all is an error."""
    version = str(reader.ask("GET", "/version").get("gitVersion") or "")
    limits = tolerance.of_options(options)
    observation = observe.Observer(reader, options["namespace"], options["name"], limits, _NodeParts()).look()
    is_complete = _is_complete(reader, observation.namespace)
    holders = _holders(reader, observation) if options["allocated"] else None
    stack = _stack(observation, limits, holders, is_complete)
    namespace, spec, is_ready = observation.namespace, observation.spec, stack["verdict"]["state"] == "ready"
    objects_read, whose = others.read(reader, namespace, observation.policies or [])
    found = {**_judged(reader, observation), **objects_read}
    found |= {} if holders is None else {"gpupods": [dataclasses.asdict(pod) for pod in holders]}
    found |= {"exporters": exporters.ask(reader, namespace, observation.nodes)} if options["exporters"] else {}
    pods_seen = _pods(reader, namespace, stack, options["max_pods"])
    claims = collected_claims.read(reader, namespace, found.get("daemonsets") or [], pods_seen.waiting)
    found |= {kind: items for kind, items in claims.kinds.items() if kind != "events"}
    if "events" in found:
        found["events"] += others.events_of(reader, pods_seen.waiting[: options["max_pods"]])
        found["events"] += claims.kinds.get("events") or []
    joined = inventory_hosts.joined(options["hosts"] or {}, found.get("nodes"))
    plugins = [pod for pod in claims.pods if objects.full_name(pod) not in map(objects.full_name, pods_seen.whole)]
    known = [*pods_seen.whole, *pods_seen.waiting, *plugins]
    lines = (
        *pods_seen.lines,
        *_logs(reader, [(pod, True) for pod in plugins]),
        *others.lines_of(found.get("events") or [], known),
        *joined.lines,
    )
    return Evidence(
        taken=_stamp(reader.now()),
        stack=stack,
        spec=mask(spec),
        preflight=installed.findings(_snapshot(version, found, namespace), namespace, spec, is_ready),
        pods=mask(known),
        objects={kind: items if kind in _UNMASKED else mask(items) for kind, items in found.items()},
        owner=whose,
        hosts=joined.hosts,
        lines=list(map(_clean, lines)),
        gaps=[*reader.gaps, *pods_seen.gaps, *_unknown_health(stack), *joined.gaps],
    )


def without_cluster(options: Options, why: str) -> Evidence:
    """Return what the hosts say, where the cluster could not be reached."""
    joined = inventory_hosts.joined(options["hosts"] or {}, None)
    gaps = [Gap("the cluster", why), *joined.gaps]
    return Evidence(taken=_stamp(time.time()), hosts=joined.hosts, lines=list(map(_clean, joined.lines)), gaps=gaps)


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class _NodeParts(Slimmer):
    """Reduces nodes to the parts that the judge, the checks and the rules read.

    Of these, only annotations and messages can hold secrets. To mask all of a large fleet takes long.
    """

    def __call__(self, node: Json) -> Json:
        """Return the parts of a node."""
        kept, spec, status = super().__call__(node), node.get("spec") or {}, node.get("status") or {}
        kept["metadata"] |= {
            "annotations": mask(kept["metadata"]["annotations"], "annotations"),
            "creationTimestamp": node["metadata"].get("creationTimestamp"),
        }
        kept["spec"] |= {"providerID": spec["providerID"]} if spec.get("providerID") else {}
        kept["status"] |= {
            "conditions": [_condition(item) for item in status.get("conditions") or []],
            "addresses": status.get("addresses") or [],
        }
        return kept


def _condition(item: Json) -> Json:
    kept = {key: item[key] for key in ("type", "status", "reason", "lastTransitionTime") if item.get(key)}
    return {**kept, "message": mask(item["message"])} if item.get("message") else kept


def _holders(reader: GapReader, observation: Observation) -> list[pods.GpuPod] | None:
    """Return the pods that hold GPUs, or None if they are unknown."""
    return reader.attempt("which pods hold GPUs", lambda: pods.gpu_pods(reader, observation.namespace), None)


def _unknown_health(stack: Json) -> list[Gap]:
    """Return a gap for the GPUs of which the kubelets say that they do not know."""
    doubted = [each for row in stack["nodes"] for each in row["device_health"] or []]
    names_of_pods = sorted(
        {f"{each['namespace']}/{each['pod']}" for each in doubted if each["health"] == device_health.UNKNOWN_HEALTH}
    )
    why = (
        "The kubelet says Unknown in the status of these pods: the device plugin or the driver for claims tells it "
        "nothing. NVIDIA's driver for claims does with its feature gate NVMLDeviceHealthCheck."
    )
    return [Gap(f"the health of the GPUs of {first_few(names_of_pods)}", why)] if names_of_pods else []


def _stack(
    observation: Observation, limits: tolerance.Tolerance, holders: list[pods.GpuPod] | None, is_complete: bool
) -> Json:
    """Return the result of gpu_stack_info, with the nodes of each reason. An incomplete observation is no proof."""
    verdict = judge.judge(observation, limits)
    result = node_rows.result_of(observation, limits, holders, verdict)
    if not is_complete:
        why = "The verdict is unknown, because a part of the stack could not be read."
        result["verdict"] |= {"state": "unknown", "message": why, "reasons": []}
        return result
    result["verdict"]["reasons"] = [
        {**each.as_result(), "nodes": list(each.nodes)}
        for each in verdict.reasons
        if each.code != "NotReadable"  # what could not be read is a gap
    ]
    return result


def _is_complete(reader: GapReader, namespace: str) -> bool:
    """Return whether everything was read without which the judge is wrong."""
    ours = [namespaced("apps/v1", namespace, kind) for kind in ("daemonsets", "deployments")]
    paths = (observe.NODES_PATH, observe.CLUSTERPOLICIES_PATH, namespaced("v1", namespace, "pods"), *ours)
    return all(map(reader.has_read, paths))


class _Pods(t.NamedTuple):
    """The pods that were read whole, those that wait for a GPU, the lines of logs, and what was not read."""

    whole: list[Json]
    waiting: list[Json]
    lines: list[TextLine]
    gaps: list[Gap]


def _pods(reader: GapReader, namespace: str, stack: Json, limit: int) -> _Pods:
    path = namespaced("v1", namespace, "pods")
    table = reader.table(path)
    silent = choice.silent(table, stack["nodes"], stack["verdict"]["state"] == "ready")
    rows = {row.name: row for row in (*silent, *choice.rows_of(table))}
    read = choice.chosen(list(rows.values()), limit)
    with concurrent.futures.ThreadPoolExecutor(others.PARALLEL) as pool:
        found = pool.map(reader.get, [f"{path}/{row.name}" for row in read])
        whole = [choice.slimmed(pod) for pod in found if pod]
    why = f"At most {limit} pods are read, some of each operand and status. Set max_pods to read more."
    gaps = [
        Gap(f"the logs of {count} more pods of {owner} ({status})", why)
        for (owner, status), count in choice.left_out(list(rows.values()), read).items()
    ]
    lines = _logs(reader, [(pod, rows[objects.name_of(pod)].is_whole) for pod in whole])
    return _Pods(whole, _waiting(reader), lines, gaps)


def _waiting(reader: GapReader) -> list[Json]:
    """Return the pods of all namespaces that wait for a GPU, without what is their owner's business."""
    pending = reader.first_page(namespaced("v1", None, "pods"), fieldSelector="status.phase=Pending")
    return [choice.foreign(choice.slimmed(pod)) for pod in pending if choice.waits_for_gpu(pod)]


def _logs(reader: GapReader, whole: t.Iterable[tuple[Json, bool]]) -> list[TextLine]:
    """Return the last lines of the logs of pods, each with whether all of its containers are of interest."""
    wanted = [
        (pod, container, previous) for pod, is_whole in whole for container, previous in choice.logs_of(pod, is_whole)
    ]
    with concurrent.futures.ThreadPoolExecutor(others.PARALLEL) as pool:
        return [line for found in pool.map(lambda each: _log(reader, *each), wanted) for line in found]


def _log(reader: GapReader, pod: Json, container: str, previous: bool) -> list[TextLine]:
    namespace, name = pod["metadata"]["namespace"], objects.name_of(pod)
    query = {"container": container, "tailLines": TAIL_LINES, "limitBytes": TAIL_BYTES}
    text = reader.log(namespace, name, {**query, "previous": "true"} if previous else query)
    source = f"pod {namespace}/{name}, container {container}" + (PREVIOUS if previous else "")
    node = str(pod["spec"].get("nodeName") or "")
    return [TextLine(line, "pod", source, node, f"pod {namespace}/{name}") for line in text.splitlines()]


def _clean(line: TextLine) -> TextLine:
    return dataclasses.replace(line, text=printable(str(mask(line.text[:LINE_LENGTH]))))


def _judged(reader: GapReader, observation: Observation) -> dict[str, list[Json]]:
    """Return the objects that the judge has read, by kind. A kind that could not be read is absent."""
    found = {
        observe.NODES_PATH: observation.nodes,
        observe.CLUSTERPOLICIES_PATH: [choice.slimmed(item) for item in observation.policies or []],
        observe.GPUCLUSTERS_PATH: [choice.slimmed(item) for item in observation.gpuclusters],
        observe.NVIDIADRIVERS_PATH: [choice.slimmed(item) for item in observation.nvidiadrivers],
    }
    return {path.rpartition("/")[2]: items for path, items in found.items() if reader.has_read(path)}


def _snapshot(version: str, found: t.Mapping[str, list[Json]], namespace: str) -> Snapshot:
    """Return what the checks of the preflight look at."""
    kinds = ("nodes", "daemonsets", "deployments", names.CLUSTERPOLICIES, names.GPUCLUSTERS, "namespaces")
    listed = {kind: found.get(kind) or [] for kind in kinds}
    return Snapshot(
        version=version,
        nodes=listed["nodes"],
        daemonsets=listed["daemonsets"],
        operators=[item for item in listed["deployments"] if operands.is_operator(item)],
        clusterpolicies=listed[names.CLUSTERPOLICIES],
        gpuclusters=listed[names.GPUCLUSTERS],
        namespace=next((item for item in listed["namespaces"] if objects.name_of(item) == namespace), None),
        unreadable=frozenset(kind for kind in kinds if kind not in found),
    )
