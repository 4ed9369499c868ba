# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Bring the classes, templates, claims and quotas of a cluster to what is wanted."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import (
    claim_checks,
    claim_objects,
    claim_scene,
    claim_users,
    device_selection,
    driver_gates,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.claim_scene import ClaimScene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.device_selection import (
    Count,
    DeviceSelection,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept import keep_objects, kept_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.keep_objects import KeptResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.kept_objects import KeptKind, KeptStep
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import access
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]
PENDING = "status.phase=Pending"


def keep(cluster: Cluster, options: Options) -> tuple[Json, list[str]]:
    """Make, change and remove what is wanted. In check mode, all writes are dry runs.

    Return the module's result, and warnings. Whatever the options, the driver or the API server do not allow is found
    before the first write.
    """
    scene = claim_scene.read(cluster)
    work = ClaimWork(cluster, options, scene)
    warnings = work.check()
    results = [_foreseen(cluster, step) for step in work.steps]
    for each in results:
        claim_checks.refuse_dropped_fields(
            each.step.title, (each.step.wanted or {}).get("spec"), (each.after or {}).get("spec")
        )
    keep_objects.refuse_missing_namespaces("namespaces", results, "make it first")
    warnings += work.refuse_unmatched(results)
    former = work.refuse_in_use(results)
    if not cluster.check_mode:
        results = [keep_objects.done(cluster, each) for each in results]
    found = keep_objects.outcome(results)
    return {**found, "classes": work.rows(), "former_templates": former}, [*warnings, *_warnings(results, former)]


def _foreseen(cluster: Cluster, step: KeptStep) -> KeptResult:
    try:
        return keep_objects.foreseen(cluster, step)
    except GpuOpsError as e:
        raise claim_checks.refused_cel(step.item, e) from e


class ClaimWork:
    """One call: what is wanted in a cluster, and what stands in its way."""

    def __init__(self, cluster: Cluster, options: Options, scene: ClaimScene) -> None:
        self._cluster, self._options, self._scene = cluster, options, scene
        self._pods: dict[str, list[Json]] = {}
        kinds, types = scene.kinds, scene.types(options["classes"] or [])
        make: dict[str, tuple[KeptKind, t.Callable[[list[Json]], list[Json]]]] = {
            "classes": (kinds.classes, lambda wishes: claim_objects.classes(kinds, wishes)),
            "templates": (kinds.templates, lambda wishes: claim_objects.templates(kinds, wishes, types)),
            "claims": (kinds.claims, lambda wishes: claim_objects.claims(kinds, wishes, types)),
            "quotas": (claim_objects.CLAIM_QUOTA, claim_objects.quotas),
        }
        self._wanted = {
            option: maker(options[option]) for option, (dummy, maker) in make.items() if options[option] is not None
        }
        steps = [
            step
            for option, wanted in self._wanted.items()
            for step in kept_objects.steps(
                make[option][0], wanted, keep_objects.existing(cluster, make[option][0], wanted)
            )
        ]
        # What asks for a class goes before the class.
        last = [step for step in steps if step.wanted is None and step.kind.name == "DeviceClass"]
        self.steps: list[KeptStep] = [*(step for step in steps if step not in last), *last]
        self._selections = self._known_selections()

    def _items(self, *options: str) -> list[Json]:
        return [item for option in options for item in self._wanted.get(option, [])]

    def _known_selections(self) -> dict[str, DeviceSelection | None]:
        """Return what each class selects that is declared or asked for; None for one that somebody else has made."""
        declared = {wish["name"]: device_selection.selection(wish) for wish in self._options["classes"] or []}
        asked = sorted({name for item in self._items("templates", "claims") for name in claim_objects.classes_in(item)})
        present = {name_of(item): device_selection.of_class(item) for item in self._scene.classes}
        return {**{name: present.get(name) for name in asked}, **declared}

    def check(self) -> list[str]:
        """Raise for what cannot work in this cluster; return warnings."""
        gone = {name_of(step.item) for step in self.steps if step.wanted is None and step.kind.name == "DeviceClass"}
        known = {name_of(item) for item in [*self._scene.classes, *self._items("classes")]} - gone
        for option in ("templates", "claims"):
            named = {full_name(item): claim_objects.classes_in(item) for item in self._items(option)}
            claim_checks.refuse_unknown_classes(option, named, known)
        limited = {
            f"{wish['namespace']}/{wish['name']}": set(wish["devices"] or {}) for wish in self._options["quotas"] or []
        }
        claim_checks.refuse_unknown_classes("quotas", limited, known)
        remaining = [item for item in self._scene.classes if name_of(item) not in gone]
        claim_checks.refuse_shared_extended_resources(self._items("classes"), remaining)
        self._check_admin_access()
        return [*self._check_gates(), *self._check_devices()]

    def _check_admin_access(self) -> None:
        items = [item for item in self._items("templates", "claims") if claim_objects.has_admin_access(item)]
        names = {item["metadata"]["namespace"] for item in items}
        found = {name: self._cluster.get(namespaced("v1", None, "namespaces", name)) for name in sorted(names)}
        claim_checks.refuse_admin_access(items, found)

    def _check_gates(self) -> list[str]:
        items = [item for item in self._items("classes", "templates", "claims") if claim_objects.gates_of(item)]
        return claim_checks.refuse_closed_gates(items, driver_gates.read(self._cluster)) if items else []

    def _check_devices(self) -> list[str]:
        exact = {name: count for name, count in self._counts.items() if self._is_exact(name)}
        found = claim_checks.more_than_a_node_has(self._items("templates", "claims"), exact)
        classes = [item for item in self._items("classes") if item["spec"].get("extendedResourceName")]
        if classes:
            nodes = self._cluster.list_readable(namespaced("v1", None, "nodes")).items
            found += claim_checks.offered_twice(classes, nodes)
        if self._scene.incomplete:
            found.append(
                f"ResourceSlices of {first_few(self._scene.incomplete)} are missing. Kubernetes gives out no device "
                "there until the driver has written all of them, and the counts leave these nodes out."
            )
        return found

    def _is_exact(self, name: str) -> bool:
        chosen = self._selections[name]
        return chosen is not None and chosen.is_exact

    @functools.cached_property
    def _counts(self) -> dict[str, Count]:
        """How many devices each class selects of which that is known."""
        return {
            name: device_selection.count(chosen, self._scene.devices, self._scene.free)
            for name, chosen in self._selections.items()
            if chosen is not None
        }

    def refuse_unmatched(self, results: list[KeptResult]) -> list[str]:
        """Raise if a class that is new or changes selects no device, unless a warning is enough; return warnings."""
        changed = {name_of(each.step.item) for each in results if each.step.kind.name == "DeviceClass" and each.changed}
        warnings = []
        for wish in self._options["classes"] or []:
            name, chosen = wish["name"], self._selections[wish["name"]]
            found = self._counts[name]
            if chosen is not None and found.devices == 0:
                nearest = device_selection.nearest(chosen, self._scene.devices)
                text = f"The class {name} selects 0 of {found.offered} devices: {nearest}. Correct its fields"
                if name in changed and self._options["unmatched"] == "fail":
                    raise GpuOpsError(f"{text}, or expect such devices later with unmatched: warn.", reason="NotFound")
                warnings.append(f"{text} if such devices should be there.")
            elif wish.get("cel"):
                warnings.append(
                    f"The class {name} has cel, which only Kubernetes evaluates: it selects at most {found.devices} of "
                    f"{found.offered} devices."
                )
        return warnings

    def refuse_in_use(self, results: list[KeptResult]) -> dict[str, list[str]]:
        """Raise if something is still needed that goes; return the pods of each template that is replaced."""
        former: dict[str, list[str]] = {}
        for each in results:
            step = each.step
            if step.existing is None or not (step.wanted is None or step.is_replaced):
                continue
            users = self._users(step)
            if step.kind.name == "ResourceClaimTemplate" and step.is_replaced:
                former |= {full_name(step.item): users} if users else {}
            elif users and (step.is_replaced or not self._options["allow_in_use"]):
                raise _in_use(step, users)
        return former

    def _users(self, step: KeptStep) -> list[str]:
        """Return what still needs an object that goes."""
        item = t.cast("Json", step.existing)
        if step.kind.name == "ResourceClaimTemplate":
            return claim_users.pods_of_template(item, self._pods_in(item["metadata"]["namespace"]))
        if step.kind.name == "ResourceClaim":
            return claim_users.pods_of_claim(item)
        if step.kind.name == "DeviceClass":
            going = {each.title for each in self.steps if each.wanted is None}
            present = self._cluster.list(self._scene.kinds.templates.path(None), resourceVersion="") or []
            templates = [each for each in present if f"ResourceClaimTemplate {full_name(each)}" not in going]
            claims = [each for each in self._scene.claims if f"ResourceClaim {full_name(each)}" not in going]
            pending = self._cluster.pages(namespaced("v1", None, "pods"), fieldSelector=PENDING)
            return claim_users.seekers_of_class(item, claims, templates, pending)
        return []

    def _pods_in(self, namespace: str) -> list[Json]:
        """Return the pods of a namespace that have claims. Several templates of a namespace may go."""
        if namespace not in self._pods:
            found = self._cluster.pages(namespaced("v1", namespace, "pods"))
            self._pods[namespace] = [pod for pod in found if pod["spec"].get("resourceClaims")]
        return self._pods[namespace]

    def rows(self) -> list[Json]:
        """Return how many devices each class selects now, and how many of them are free."""
        counts = self._counts
        return [
            {
                "name": name,
                "devices": counts[name].devices if name in counts else None,
                "free": counts[name].free if name in counts else None,
                "offered": len(self._scene.devices),
                "exact": self._is_exact(name),
            }
            for name in sorted(self._selections)
        ]


def _in_use(step: KeptStep, users: list[str]) -> GpuOpsError:
    if step.is_replaced:
        remedy = "A claim cannot be changed: end these pods first, or declare it under another name."
    else:
        remedy = "End or change these first, or let it go all the same with allow_in_use: true."
    return GpuOpsError(f"{step.title} is in use by {first_few(users)}. {remedy}", reason="InUse", users=users)


def _warnings(results: list[KeptResult], former: t.Mapping[str, list[str]]) -> list[str]:
    found = [
        f"{each.step.title}: {text}. Pods that run stay, and new claims are refused until enough have gone."
        for each in results
        if each.step.kind is claim_objects.CLAIM_QUOTA and each.step.wanted
        for text in access.exceeded(each.step.wanted, each.step.existing)
    ]
    replaced = [
        f"ResourceClaimTemplate {name} is removed and made again, because it cannot be changed. These pods keep the "
        f"claims of the former one until they are made again: {first_few(pods)}."
        for name, pods in former.items()
    ]
    return [*found, *replaced]
