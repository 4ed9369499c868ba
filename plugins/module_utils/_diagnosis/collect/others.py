# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The objects beside the stack's own that rules look at: each kind is one request, and all of them run at once."""

from __future__ import annotations

import concurrent.futures
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import owner
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import choice
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PARALLEL = 12
"""How many requests run at once."""

IN_NAMESPACE = (
    ("v1", "configmaps"),
    ("v1", "services"),
    ("monitoring.coreos.com/v1", "servicemonitors"),
)
"""What is read of the operator's namespace."""

EVERYWHERE = (
    ("apps/v1", "daemonsets"),
    ("v1", "resourcequotas"),
    ("node.k8s.io/v1", "runtimeclasses"),
)
"""What is read of the whole cluster."""

DEFINITIONS = (
    names.CLUSTERPOLICY_CRD,
    f"{names.NVIDIADRIVERS}.nvidia.com",
    f"{names.GPUCLUSTERS}.nvidia.com",
    f"nodefeatures.{nfd.API_GROUP}",
    f"nodefeaturerules.{nfd.API_GROUP}",
)
_CRD_API = "apiextensions.k8s.io/v1"
_WARNINGS = "type=Warning"
_OF_USERS = ("UnexpectedAdmissionError", "FailedCreate")
"""Reasons of events in all namespaces: a kubelet, or a quota, refuses a pod that has a node, or that does not exist."""


def read(reader: GapReader, namespace: str, policies: t.Sequence[Json] = ()) -> tuple[dict[str, list[Json]], Json]:
    """Return the objects by the plural of their kind, and whose the installation is.

    A kind that could not be read is absent.
    """
    readers: dict[str, t.Callable[[], list[Json] | None]] = {
        plural: _lister(reader, version, namespace, plural) for version, plural in IN_NAMESPACE
    }
    readers |= {plural: _lister(reader, version, None, plural) for version, plural in EVERYWHERE}
    readers |= {
        "namespaces": lambda: _one(reader, namespaced("v1", None, "namespaces", namespace)),
        "deployments": lambda: _deployments(reader, namespace),
        "customresourcedefinitions": lambda: _definitions(reader),
        "events": lambda: _events(reader, namespace),
    }
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        found = dict(zip(readers, pool.map(lambda ask: ask(), readers.values())))
    whose = owner.verdict(found["deployments"] or [], policies)
    return {kind: list(map(choice.slimmed, items)) for kind, items in found.items() if items is not None}, whose


def _lister(reader: GapReader, version: str, namespace: str | None, plural: str) -> t.Callable[[], list[Json] | None]:
    return lambda: _listed(reader, namespaced(version, namespace, plural))


def _listed(reader: GapReader, path: str, **selectors: str) -> list[Json] | None:
    """Return the objects of a collection, or None if it could not be read. A kind that is not served has no objects."""
    items = reader.list(path, **selectors) or []
    return items if reader.has_read(path) else None


def _one(reader: GapReader, path: str) -> list[Json] | None:
    item = reader.get(path)
    return ([item] if item else []) if reader.has_read(path) else None


def _deployments(reader: GapReader, namespace: str) -> list[Json] | None:
    """Return the Deployments beside the operator, and the operators of other namespaces."""
    own = _listed(reader, namespaced("apps/v1", namespace, "deployments"))
    named = f"metadata.name={names.OPERATOR}"
    operators = reader.list(namespaced("apps/v1", None, "deployments"), fieldSelector=named) or []
    others = [item for item in operators if item["metadata"]["namespace"] != namespace]
    return None if own is None else [*own, *others]


def _definitions(reader: GapReader) -> list[Json] | None:
    """Return the CRDs of the stack, without the texts of their schemas, which are most of their size."""
    path = namespaced(_CRD_API, None, "customresourcedefinitions")
    found = [reader.get(f"{path}/{name}") for name in DEFINITIONS]
    return [_undescribed(item) for item in found if item is not None] if reader.has_read(path) else None


def _undescribed(value: t.Any) -> t.Any:
    if isinstance(value, list):
        return [_undescribed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _undescribed(item) for key, item in value.items() if key != "description" or not isinstance(item, str)}


def _events(reader: GapReader, namespace: str) -> list[Json] | None:
    """Return the warnings about objects in the operator's namespace, about nodes, and about refused pods of users."""
    path = namespaced("v1", namespace, "events")
    found = reader.first_page(path, fieldSelector=_WARNINGS)
    about_nodes = f"involvedObject.kind=Node,{_WARNINGS}"
    found += reader.first_page(namespaced("v1", "default", "events"), fieldSelector=about_nodes)
    for reason in _OF_USERS:
        elsewhere = f"reason={reason},metadata.namespace!={namespace}"
        found += reader.first_page(namespaced("v1", None, "events"), fieldSelector=elsewhere)
    return found if reader.has_read(path) else None


def events_of(reader: GapReader, pods: list[Json]) -> list[Json]:
    """Return all events of these pods, which may be in any namespace."""

    def ask(pod: Json) -> list[Json]:
        metadata = pod["metadata"]
        path = namespaced("v1", metadata["namespace"], "events")
        selector = f"involvedObject.kind=Pod,involvedObject.name={metadata['name']}"
        return [choice.slimmed(item) for item in reader.first_page(path, fieldSelector=selector)]

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        return [event for found in pool.map(ask, pods) for event in found]


def lines_of(events: list[Json], pods: list[Json]) -> list[TextLine]:
    """Return the messages of events as lines, each once for each object."""
    nodes = {objects.full_name(pod): str((pod.get("spec") or {}).get("nodeName") or "") for pod in pods}
    found: dict[TextLine, None] = {}
    for event in events:
        about = event.get("involvedObject") or {}
        kind, name = str(about.get("kind") or "object"), str(about.get("name") or "")
        full = name if kind == "Node" or not about.get("namespace") else f"{about['namespace']}/{name}"
        node = name if kind == "Node" else nodes.get(full) or _reporter(event)
        text = f"{event.get('reason') or ''}: {event.get('message') or ''}".removeprefix(": ")
        object_ = f"{kind.lower()} {full}"
        found[TextLine(text, "event", f"event of {object_}", node, object_)] = None
    return list(found)


def _reporter(event: Json) -> str:
    """Return the node whose kubelet has reported an event, or an empty string."""
    return str((event.get("source") or {}).get("host") or "")
