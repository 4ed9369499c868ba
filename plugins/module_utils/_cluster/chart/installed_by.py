# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Who has installed a GPU Operator: one verdict, from the marks and the field managers of an object. Pure.

A label that the chart itself sets (``app.kubernetes.io/managed-by``, ``app.kubernetes.io/instance``) proves nothing:
Argo CD and Flux render the same chart. What each tool writes:

- Argo CD: annotation ``argocd.argoproj.io/tracking-id`` (``<application>:<group>/<kind>:<namespace>/<name>``, ignored
  on an object that it does not name), field manager ``argocd-controller``, formerly ``argocd-application-controller``.
  Source: argoproj/argo-cd ``common/common.go`` (ArgoCDSSAManager, AnnotationKeyAppInstance, LabelKeyAppInstance).
- Flux: labels ``helm.toolkit.fluxcd.io/{name,namespace}`` on what a HelmRelease installs, and field manager
  ``helm-controller``; labels ``kustomize.toolkit.fluxcd.io/{name,namespace}`` and field manager
  ``kustomize-controller`` for a Kustomization. Source: fluxcd/helm-controller ``internal/postrender/origin_labels.go``
  and ``main.go`` (ManagedFieldsManager), fluxcd/kustomize-controller ``main.go`` (controllerName).
- Helm: annotations ``meta.helm.sh/release-{name,namespace}``.
- OLM: label ``olm.owner``, and a ClusterServiceVersion among the owners.
- kubectl: field managers ``kubectl-client-side-apply``, ``kubectl`` (server-side apply) and ``kubectl-create``.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import answers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Tool = t.Literal["Helm", "OLM", "Argo CD", "Flux", "kubectl", "unknown"]

TRACKING_ID = "argocd.argoproj.io/tracking-id"
_INSTANCE = "app.kubernetes.io/instance"
_FLUX = {"HelmRelease": "helm.toolkit.fluxcd.io", "Kustomization": "kustomize.toolkit.fluxcd.io"}
_MANAGERS: dict[str, tuple[Tool, str]] = {
    "argocd-controller": ("Argo CD", "Application"),
    "argocd-application-controller": ("Argo CD", "Application"),
    "helm-controller": ("Flux", "HelmRelease"),
    "kustomize-controller": ("Flux", "Kustomization"),
}
"""Managers that apply what they own again and again."""
_KUBECTL = ("kubectl-client-side-apply", "kubectl", "kubectl-create")
RECONCILERS: tuple[Tool, ...] = ("OLM", "Argo CD", "Flux")
"""The tools that bring back what somebody else has deleted."""


@dataclasses.dataclass(frozen=True)
class ReleaseScope:
    """A Helm release: its name and its namespace."""

    release: str
    namespace: str

    def has(self, item: Json) -> bool:
        """Return whether Helm's marks say that an object belongs to the release."""
        return _release_of(item) == (self.release, self.namespace)

    def is_others(self, item: Json) -> bool:
        """Return whether Helm's marks say that an object belongs to another release."""
        return names.HELM_RELEASE in objects.annotations_of(item) and not self.has(item)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.release}"


@dataclasses.dataclass(frozen=True)
class InstalledBy:
    """Who has installed an object, and what shows it."""

    tool: Tool
    name: str = ""
    """The release, Application, HelmRelease, Kustomization or ClusterServiceVersion, with its kind except for Helm."""
    proof: str = ""

    def is_release(self, scope: ReleaseScope) -> bool:
        """Return whether it is a release of Helm that no other tool drives."""
        return self.tool == "Helm" and self.name == str(scope)

    @property
    def who(self) -> str:
        """The owner in words."""
        if self.tool == "Helm":
            return f"Helm's release {self.name}"
        words = {"OLM": "the Operator Lifecycle Manager", "unknown": "somebody else"}.get(self.tool, self.tool)
        return f"{words} ({self.name})" if self.name else words


def of_operator(deployments: t.Iterable[Json]) -> InstalledBy | None:
    """Return who has installed the operator among Deployments, or None if it is not there."""
    found = next((item for item in deployments if objects.name_of(item) == names.OPERATOR), None)
    return None if found is None else owner_of(found, "Deployment")


def is_applied_here(item: Json) -> bool:
    """Return whether this collection has applied an object itself, such as a ClusterPolicy beside Helm's release."""
    return answers.is_managed_by(item, FIELD_MANAGER)


def owner_of(item: Json, kind: str) -> InstalledBy:
    """Return who has installed an object. Marks of tools that act again and again come before those of Helm."""
    found = _olm(item) or _argo(item, kind) or _flux(item)
    release, applied = _helm(item), _by_manager(item)
    if found is None and applied is not None and (release is None or applied[0] > _written(item, "helm")):
        found = applied[1]
    return found or release or _kubectl(item)


def _olm(item: Json) -> InstalledBy | None:
    owners = item["metadata"].get("ownerReferences") or []
    version = next((str(owner.get("name")) for owner in owners if owner.get("kind") == "ClusterServiceVersion"), None)
    label = objects.labels_of(item).get(names.OLM_OWNER)
    if version is None and label is None:
        return None
    proof = f"the label {names.OLM_OWNER}" if label else "a ClusterServiceVersion as its owner"
    return InstalledBy("OLM", f"ClusterServiceVersion {version or label}", proof)


def _argo(item: Json, kind: str) -> InstalledBy | None:
    application, dummy, rest = objects.annotations_of(item).get(TRACKING_ID, "").partition(":")
    what, dummy, where = rest.partition(":")
    if not rest or what.rpartition("/")[2] != kind or where.rpartition("/")[2] != objects.name_of(item):
        return None
    return InstalledBy("Argo CD", f"Application {application}", f"the annotation {TRACKING_ID}")


def _flux(item: Json) -> InstalledBy | None:
    labels = objects.labels_of(item)
    for kind, group in _FLUX.items():
        if f"{group}/name" in labels:
            name = f"{kind} {labels.get(f'{group}/namespace', '')}/{labels[f'{group}/name']}"
            return InstalledBy("Flux", name, f"the label {group}/name")
    return None


def _helm(item: Json) -> InstalledBy | None:
    release, namespace = _release_of(item)
    if release is None:
        return None
    return InstalledBy("Helm", f"{namespace or ''}/{release}", f"the annotation {names.HELM_RELEASE}")


def _release_of(item: Json) -> tuple[str | None, str | None]:
    notes = objects.annotations_of(item)
    return notes.get(names.HELM_RELEASE), notes.get(names.HELM_RELEASE_NAMESPACE)


def _entries(item: Json) -> list[Json]:
    return [entry for entry in item["metadata"].get("managedFields") or [] if not entry.get("subresource")]


def _written(item: Json, manager: str) -> str:
    """Return when a manager last wrote an object, or an empty string. The API's times sort as text."""
    entries = (entry for entry in _entries(item) if entry.get("manager") == manager)
    return max((str(entry.get("time") or "") for entry in entries), default="")


def _by_manager(item: Json) -> tuple[str, InstalledBy] | None:
    """Return when a tool that acts again and again last applied an object without a mark, and the tool."""
    found = [entry for entry in _entries(item) if entry.get("manager") in _MANAGERS]
    if not found:
        return None
    newest = max(found, key=lambda entry: str(entry.get("time") or ""))
    tool, kind = _MANAGERS[newest["manager"]]
    name = objects.labels_of(item).get(_INSTANCE, "") if tool == "Argo CD" else ""
    return str(newest.get("time") or ""), InstalledBy(
        tool, f"{kind} {name}" if name else "", f"the field manager {newest['manager']}"
    )


def _kubectl(item: Json) -> InstalledBy:
    managers = list(dict.fromkeys(str(entry.get("manager")) for entry in _entries(item)))
    mine = next((manager for manager in managers if manager in _KUBECTL), None)
    if mine:
        return InstalledBy("kubectl", "", f"the field manager {mine}")
    return InstalledBy(
        "unknown", "", f"the field managers {first_few(managers)}" if managers else "no mark of any tool"
    )


# ---- what is done about it ----------------------------------------------------------------------------------------

Undertaking = t.Literal["install", "remove"]

_WHY: dict[Undertaking, str] = {
    "install": "A second owner would fight over its objects, so nothing was changed.",
    "remove": "This removal would take the drivers away and leave or lose the rest, so nothing was changed.",
}


def remedy(owner: InstalledBy, action: Undertaking, scope: ReleaseScope) -> str:
    """Return what a user can do about an installation of another owner."""
    if owner.tool == "Helm":
        return _name_it(owner, action)
    if owner.tool in RECONCILERS:
        return (_ASK_IT_TO_REMOVE if action == "remove" else _ASK_IT_TO_CHANGE)[owner.tool]
    take = (
        f"Let Helm take it over: helm upgrade --install {scope.release} CHART --namespace {scope.namespace} "
        "--take-ownership, with the chart and the values that it has now (Helm 4 also needs --force-conflicts). Then "
        "run this again."
    )
    return f"{take} Or delete it the way it was created."


def _name_it(owner: InstalledBy, action: Undertaking) -> str:
    namespace, dummy, release = owner.name.partition("/")
    role = "uninstall" if action == "remove" else "operator"
    return (
        f"Set release_name: {release} and release_namespace: {namespace} ({role}_release_name and {role}_namespace in "
        f"the role {role}), or remove that release first."
    )


_ASK_IT_TO_CHANGE: dict[Tool, str] = {
    "OLM": "Upgrade it with OLM, and change its ClusterPolicy with gpuops.nvidia.clusterpolicy.",
    "Argo CD": "Change its Application in Git, or take it out of Argo CD first (docs/tasks/gitops.md).",
    "Flux": "Change it in Git, or take it out of Flux first (docs/tasks/gitops.md).",
}
_WHERE_TO_CHANGE: dict[Tool, str] = {
    "OLM": "change its ClusterPolicy with gpuops.nvidia.clusterpolicy, and the operator with OLM",
    "Argo CD": "make the change in its Application in Git, since Argo CD puts back what is changed elsewhere",
    "Flux": "make the change in Git, since Flux puts back what is changed elsewhere",
    "Helm": "make the change in the values of that release (operator_values, if playbooks/site.yml installs it)",
}
"""Where a user changes an installation, by the tool that owns it. Anybody may change what kubectl has created."""


def where_to_change(owner: InstalledBy) -> str:
    """Return the sentence that names the owner of an installation and the place to change it, or an empty string."""
    place = _WHERE_TO_CHANGE.get(owner.tool)
    return f"The installation belongs to {owner.who}: {place}." if place else ""


_ASK_IT_TO_REMOVE: dict[Tool, str] = {
    "OLM": "Delete its custom resources (gpuops.nvidia.clusterpolicy with state: absent), and then its Subscription "
    "and ClusterServiceVersion.",
    "Argo CD": "Remove its Application from Argo CD together with its resources. Then run this for what it leaves.",
    "Flux": "Remove it from Git. Then run this for what it leaves.",
}


def refusal(owner: InstalledBy, shown: t.Sequence[str], action: Undertaking, scope: ReleaseScope) -> GpuOpsError:
    """Return the error about an installation of another owner. ``shown`` are the objects that prove it."""
    verb = "has" if len(shown) == 1 else "have"
    message = f"The GPU Operator here belongs to {owner.who}: {first_few(shown)} {verb} {owner.proof}. {_WHY[action]}"
    reason: Reason = "OperatorOfOLM" if owner.tool == "OLM" else "OperatorOfOthers"
    return GpuOpsError(f"{message} {remedy(owner, action, scope)}", reason=reason, owner=dataclasses.asdict(owner))
