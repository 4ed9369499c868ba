# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether a ComputeDomain is ready for the pods that use it. Pure.

Its own status is ``Ready`` also while it has no node, and while its controller is away. So the daemon of each node
with a pod counts: what the status says of it, and whether its pod is ready.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_request import (
    DOMAIN_LABEL,
    template_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_users import DomainUsers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

State = t.Literal["pending", "idle", "progressing", "ready", "host_managed"]
IN_ANOTHER = "it is in another ComputeDomain"
SETTLED: tuple[State, ...] = ("idle", "ready", "host_managed")
"""States that end a wait: there is no more to wait for."""


@dataclasses.dataclass(frozen=True)
class DomainView:
    """A ComputeDomain and what belongs to it, as it was read."""

    domain: Json
    template: Json | None
    """The template with the name that it asks for."""
    users: DomainUsers
    daemons: t.Container[str]
    """The nodes with a daemon whose pod is ready."""
    taken: t.Container[str] = ()
    """The nodes that are in another ComputeDomain."""
    is_host_managed: bool = False
    has_controller: bool = True

    @property
    def name(self) -> str:
        """The name with the namespace."""
        return objects.full_name(self.domain)

    @property
    def is_accepted(self) -> bool:
        """Whether the controller has put its finalizer on the ComputeDomain and made the template."""
        finalizers: list[str] = self.domain["metadata"].get("finalizers") or []
        return self.template is not None and is_of(self.template, self.domain) and DOMAIN_LABEL in finalizers


@dataclasses.dataclass(frozen=True)
class DomainVerdict:
    """What is known of a ComputeDomain, in one word and in a sentence, and its nodes."""

    state: State
    message: str
    nodes: tuple[Json, ...] = ()

    def as_result(self) -> Json:
        """Return the verdict as a module returns it."""
        return {"state": self.state, "message": self.message, "nodes": list(self.nodes)}


def spread(name: str, verdict: DomainVerdict) -> list[str]:
    """Return a warning if the pods of a ComputeDomain are on nodes of several cliques, or of none.

    A ComputeDomain does not choose nodes: they come with its pods.
    """
    cliques = {row["clique"] for row in verdict.nodes if row["pods"] and not row["reason"]}
    if len(cliques) < 2:
        return []
    named = first_few([clique or "none" for clique in sorted(cliques)])
    return [
        f"Pods of ComputeDomain {name} are on nodes of different NVLink cliques ({named}), and share memory inside "
        f"each of them only. Give the pods an affinity to nodes with one value of the label {names.GPU_CLIQUE}."
    ]


def is_of(item: Json, domain: Json) -> bool:
    """Return whether an object was made for a ComputeDomain."""
    uid: str | None = domain["metadata"].get("uid")
    return objects.labels_of(item).get(DOMAIN_LABEL) == uid


def judge(view: DomainView) -> DomainVerdict:
    """Judge a ComputeDomain."""
    name, template = f"ComputeDomain {view.name}", template_of(view.domain)
    nodes = tuple(_rows(view))
    if not view.has_controller:
        return DomainVerdict("pending", f"{name} waits for its controller, which does not run.", nodes)
    if not view.is_accepted:
        return DomainVerdict("pending", f"{name} waits for its controller, {_missing(view, template)}.", nodes)
    if view.is_host_managed:
        message = f"{name} has its template {template}. The hosts run IMEX themselves, and nothing here says how it is."
        return DomainVerdict("host_managed", message, nodes)
    if not view.users.pods:
        message = (
            f"{name} has its template {template}, and no pod uses it yet. Its daemons come with the pods, so whether "
            "nodes reach each other is unknown."
        )
        return DomainVerdict("idle", message, nodes)
    return _of_users(view, name, nodes)


def _missing(view: DomainView, template: str) -> str:
    if view.template is not None and not is_of(view.template, view.domain):
        return f"which cannot make the template {template}: another one has this name"
    if view.template is not None:
        return "which has not put its finalizer on it"
    return f"which has not made the template {template}"


def _of_users(view: DomainView, name: str, nodes: tuple[Json, ...]) -> DomainVerdict:
    waiting = [pod for pod, node in view.users.pods.items() if not node]
    unready = [f"{row['name']} ({row['reason']})" for row in nodes if row["pods"] and row["reason"]]
    if unready:
        return DomainVerdict("progressing", f"{name}: no daemon is ready yet on {first_few(unready)}.", nodes)
    if waiting:
        return DomainVerdict("progressing", f"{name}: pods wait for a node: {first_few(waiting)}.", nodes)
    used = [row for row in nodes if row["pods"]]
    cliques = sorted({row["clique"] for row in used if row["clique"]})
    where = f"NVLink clique {cliques[0]}" if len(cliques) == 1 else f"{len(cliques) or 'no'} NVLink cliques"
    apart = [row["name"] for row in used if not row["clique"]]
    more = f" These are in no clique, and have no NVLink to other nodes: {first_few(apart)}." if apart else ""
    number = "1 node" if len(used) == 1 else f"{len(used)} nodes"
    return DomainVerdict("ready", f"{name} is ready on the {number} with its pods ({where}).{more}", nodes)


def _rows(view: DomainView) -> t.Iterator[Json]:
    """Yield each node that has a daemon or a pod."""
    reported = {each["name"]: each for each in (view.domain.get("status") or {}).get("nodes") or []}
    pods: dict[str, list[str]] = {}
    for pod, node in view.users.pods.items():
        if node:
            pods.setdefault(node, []).append(pod)
    for node in sorted({*reported, *pods}):
        row = reported.get(node) or {}
        yield {
            "name": node,
            "clique": row.get("cliqueID") or "",
            "pods": pods.get(node, []),
            "reason": IN_ANOTHER if node in view.taken else _why_unready(row, node in view.daemons),
        }


def _why_unready(reported: Json, has_daemon: bool) -> str:
    if not reported:
        return "its daemon is ready, and not in the status yet" if has_daemon else "no daemon has reported"
    if reported.get("status") != "Ready":
        return "its daemon is not ready"
    return "" if has_daemon else "the pod of its daemon is not ready"
