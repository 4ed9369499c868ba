# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Remove what a release leaves in the cluster, as far as that is asked for: labels, taints, CRDs, the namespace."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import (
    FIELD_MANAGER,
    Cluster,
    Listed,
    namespaced,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import (
    node_cleanup,
    removal_plan,
    removal_view,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.removal_view import CRDS, RemovalView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_CONTENTS = (
    ("Deployment", "apps/v1", "deployments"),
    ("DaemonSet", "apps/v1", "daemonsets"),
    ("StatefulSet", "apps/v1", "statefulsets"),
    ("CronJob", "batch/v1", "cronjobs"),
    ("Job", "batch/v1", "jobs"),
    ("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    ("Pod", "v1", "pods"),
    ("ConfigMap", "v1", "configmaps"),
    ("Secret", "v1", "secrets"),
    ("Lease", "coordination.k8s.io/v1", "leases"),
)
_OF_KUBERNETES = ("kube-root-ca.crt", "openshift-service-ca.crt")
"""ConfigMaps that Kubernetes puts into each namespace."""


def remove(
    cluster: Cluster, options: t.Mapping[str, t.Any], after: RemovalView
) -> tuple[list[str], list[removal_plan.LeftObject]]:
    """Remove the leftovers that were asked for; return a line for each step, and what stays.

    ``after`` is the cluster without the release: as it is, or in check mode as it would be.
    """
    wanted = removal_plan.wanted_of(options["remove"])
    contents = _contents(cluster, after) if "namespace" in wanted else []
    found = removal_plan.leftovers(after, wanted, _in_use(cluster, after, wanted), contents)
    _patch_nodes(
        cluster,
        [change.name for change in found.nodes],
        lambda node: node_cleanup.change(node, found.wishes).patch(node),
    )
    namespace = namespaced("v1", None, "namespaces", after.scope.namespace)
    if found.namespace_label:
        cluster.merge(namespace, {"metadata": {"labels": {names.ADMIN_ACCESS: None}}})
    released, refused = _release_crds(cluster, removal_plan.applied_crds(after, found.crds, FIELD_MANAGER))
    paths = [f"{CRDS}/{name}" for name in found.crds] + ([namespace] if found.namespace else [])
    for path in paths:
        cluster.delete(path)
    if not cluster.check_mode:
        _wait_until_gone(cluster, paths, options["wait_timeout"])
    return [*released, *_lines(after, found)], [*found.left, *refused]


def _lines(after: RemovalView, found: removal_plan.Leftovers) -> list[str]:
    """Return a line for each step. Most nodes have the same leftovers, so those have one line for all of them."""
    by_change: dict[str, list[str]] = {}
    for change in found.nodes:
        for line in change.lines:
            by_change.setdefault(line, []).append(change.name)
    name = after.scope.namespace
    return [
        *(f"take {line} off {_of_nodes(on)}" for line, on in sorted(by_change.items())),
        *([f"take label {names.ADMIN_ACCESS} off Namespace {name}"] if found.namespace_label else []),
        *(f"delete CustomResourceDefinition {crd}" for crd in found.crds),
        *([f"delete Namespace {name}"] if found.namespace else []),
    ]


def _release_crds(cluster: Cluster, crds: t.Sequence[Json]) -> tuple[list[str], list[removal_plan.LeftObject]]:
    """Give up our fields in CRDs that stay, so that whoever installs the chart next may apply them without force."""
    done: list[str] = []
    refused: list[str] = []
    for name in map(objects.name_of, crds):
        try:
            handover.release(cluster, f"{CRDS}/{name}", FIELD_MANAGER)
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            refused.append(name)
        else:
            done.append(f"release the fields of CustomResourceDefinition {name}")
    reason = f"They stay the fields of {FIELD_MANAGER}, since this user may not patch CRDs."
    remedy = "Install the chart with helm install --force-conflicts, or grant patch and run this again."
    return done, [removal_plan.LeftObject("field manager of CRDs", refused, reason, remedy)] if refused else []


def _of_nodes(on: t.Sequence[str]) -> str:
    return f"Node {on[0]}" if len(on) == 1 else f"{len(on)} nodes ({first_few(on)})"


# ---- what is there ------------------------------------------------------------------------------------------------


def _in_use(cluster: Cluster, after: RemovalView, wanted: t.Collection[str]) -> dict[str, int]:
    """Return how many objects each CRD has that the removal of the CRD would delete without a request."""
    return {
        name: _count(cluster, after, name)
        for name in map(objects.name_of, after.crds)
        if (removal_plan.is_operators_crd(name) and "crds" in wanted)
        or (removal_plan.is_nfd_crd(name) and "nfd" in wanted)
    }


def _count(cluster: Cluster, after: RemovalView, crd: str) -> int:
    spec = (cluster.get(f"{CRDS}/{crd}") or {}).get("spec") or {}
    kind = str((spec.get("names") or {}).get("kind"))
    if kind in after.custom:
        return len(after.custom[kind])
    if kind in removal_plan.PRODUCED or not spec.get("versions"):
        return 0
    path = namespaced(f"{spec['group']}/{spec['versions'][0]['name']}", None, spec["names"]["plural"])
    found = cluster.list_readable(path)
    return len([item for item in found.items if not after.scope.has(item)]) + bool(found.refusal)


def _contents(cluster: Cluster, after: RemovalView) -> list[str]:
    """Return what is in the namespace and belongs neither to the release nor to anything else in it."""
    if after.namespace is None:
        return []
    inside = [item for item in after.daemonsets if item["metadata"].get("namespace") == after.scope.namespace]
    known = {"DaemonSet": inside, "Pod": list(after.pods)}
    found: list[str] = []
    for kind, version, plural in _CONTENTS:
        if kind in known:
            listed = Listed(known[kind])
        else:
            listed = removal_view.metadata_of(cluster, namespaced(version, after.scope.namespace, plural))
        found += filter(None, (_named(kind, item, after) for item in listed.items))
        found += [f"{plural} that this user may not list"] if listed.refusal else []
    return found


def _named(kind: str, item: Json, after: RemovalView) -> str:
    """Return an object in words, or an empty string if the release, Kubernetes or another object has it."""
    name, labels = objects.name_of(item), objects.labels_of(item)
    if kind == "Secret" and labels.get("owner") == "helm":
        return "" if labels.get("name") == after.scope.release else f"release {labels.get('name')}"
    is_token = "kubernetes.io/service-account.name" in objects.annotations_of(item)
    if after.scope.has(item) or name in _OF_KUBERNETES or is_token or item["metadata"].get("ownerReferences"):
        return ""
    # What Helm has put there for another release is not ours to delete, even a ConfigMap.
    other = objects.annotations_of(item).get(names.HELM_RELEASE)
    return f"{other}'s {kind} {name}" if other else f"{kind} {name}"


# ---- what is done -------------------------------------------------------------------------------------------------


def note_cordons(cluster: Cluster, seen: RemovalView) -> None:
    """Note on nodes which cordons are to be lifted in the end, while the labels that prove whose they are exist.

    So a removal that goes on after a kill still knows them, and one that may not patch nodes fails before it deletes.
    """
    if seen.other_operators:
        return
    listed = [objects.name_of(node) for node in seen.nodes if node_cleanup.note_patch(node, seen.elsewhere)]
    _patch_nodes(cluster, listed, lambda node: node_cleanup.note_patch(node, seen.elsewhere))


def _patch_nodes(cluster: Cluster, listed: t.Sequence[str], patch_of: t.Callable[[Json], Json | None]) -> None:
    """Patch nodes, each by its newest version. A node that is deleted meanwhile is left out."""
    dummy, errors = Fleet(cluster).patch_all(dict.fromkeys(listed, patch_of))
    for error in errors.values():
        if error.reason != "NodeDeleted":
            raise error


def _wait_until_gone(cluster: Cluster, paths: t.Iterable[str], timeout_s: float) -> None:
    left = list(paths)

    def look() -> bool | None:
        left[:] = [path for path in left if cluster.get(path) is not None]
        return None if left else True

    if left and waiting.until(look, timeout_s) is None:
        shown = first_few([path.rpartition("/")[2] for path in left])
        raise GpuOpsError(
            f"Deleted, and not gone after {timeout_s} s: {shown}. Something in them has a finalizer whose owner is "
            "gone; kubectl get shows it under metadata.finalizers.",
            reason="TimedOut",
        )
