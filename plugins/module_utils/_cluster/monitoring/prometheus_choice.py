# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which objects a Prometheus takes: what its selectors ask for, and whether they choose an object. Pure.

The Prometheus operator silently ignores an object that no selector chooses. The selectors of
kube-prometheus-stack ask for the label ``release`` unless its values say otherwise (``ruleSelectorNilUsesHelmValues``).
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PROMETHEUS_GROUP = "monitoring.coreos.com/v1"


@dataclasses.dataclass(frozen=True)
class ObjectKind:
    """A kind of object for the Prometheus operator, and the fields of a Prometheus that choose its objects."""

    name: str
    plural: str
    selector: str
    namespaces: str


MONITOR = ObjectKind("ServiceMonitor", "servicemonitors", "serviceMonitorSelector", "serviceMonitorNamespaceSelector")
RULES = ObjectKind("PrometheusRule", "prometheusrules", "ruleSelector", "ruleNamespaceSelector")


def choose(servers: t.Sequence[Json], wanted: str) -> Json | None:
    """Return the Prometheus that the objects are for, or None without any.

    ``wanted`` is its name, or ``namespace/name``. Raise GpuOpsError if there are several and none is named.
    """
    named = [item for item in servers if wanted in (objects.name_of(item), objects.full_name(item))]
    if wanted and not named:
        known = first_few(sorted(map(objects.full_name, servers))) or "none"
        raise GpuOpsError(f"prometheus: there is no Prometheus {wanted}. The cluster has: {known}.", reason="NotFound")
    candidates = named if wanted else list(servers)
    if len(candidates) > 1:
        names = first_few(sorted(map(objects.full_name, candidates)))
        raise GpuOpsError(
            f"The cluster has several Prometheus objects: {names}. Name the one that scrapes GPU nodes in prometheus.",
            reason="Invalid",
        )
    return candidates[0] if candidates else None


def labels_for(server: Json, kind: ObjectKind) -> dict[str, str]:
    """Return the labels that an object needs so that the Prometheus takes it."""
    selector = (server.get("spec") or {}).get(kind.selector) or {}
    labels = dict(selector.get("matchLabels") or {})
    # What asks for one of some values comes first: it decides the value of what has to exist.
    for rule in sorted(selector.get("matchExpressions") or [], key=lambda rule: bool(rule["operator"] == "Exists")):
        if rule["operator"] == "In" and rule["key"] not in labels:
            labels[rule["key"]] = rule["values"][0]
        elif rule["operator"] == "Exists":
            labels.setdefault(rule["key"], "gpuops")
    return labels


def why_not(server: Json, kind: ObjectKind, labels: t.Mapping[str, str], namespace: Json) -> str:
    """Return why the Prometheus ignores an object with these labels in this namespace, or an empty text.

    A namespace without labels is one whose labels are not known: Kubernetes gives each a label with its name.
    """
    spec, name = server.get("spec") or {}, objects.full_name(server)
    if spec.get(kind.selector) is None:
        return f"Prometheus {name} has no {kind.selector}, so it takes no {kind.name}. Set one."
    if not matches(spec[kind.selector], labels):
        return f"The {kind.selector} of Prometheus {name} does not choose the labels {_words(labels)}. Add labels."
    where = spec.get(kind.namespaces)
    if where is None and objects.name_of(namespace) != server["metadata"].get("namespace"):
        return (
            f"Prometheus {name} takes a {kind.name} from its own namespace only. Set its {kind.namespaces} to {{}}, or "
            f"to labels of the namespace {objects.name_of(namespace)}."
        )
    given = objects.labels_of(namespace)
    if where is not None and given and not matches(where, given):
        return (
            f"The {kind.namespaces} of Prometheus {name} does not choose the namespace {objects.name_of(namespace)}. "
            "Give the namespace the labels that it asks for."
        )
    return ""


def matches(selector: Json, labels: t.Mapping[str, str]) -> bool:
    """Return whether a label selector of Kubernetes chooses these labels. An empty one chooses everything."""
    exact = (selector.get("matchLabels") or {}).items() <= labels.items()
    return exact and all(_holds(rule, labels) for rule in selector.get("matchExpressions") or [])


def _holds(rule: Json, labels: t.Mapping[str, str]) -> bool:
    value, values = labels.get(rule["key"]), rule.get("values") or []
    answers = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return answers[rule["operator"]]


def _words(labels: t.Mapping[str, str]) -> str:
    return first_few([f"{key}={value}" for key, value in sorted(labels.items())])
