# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Keep the drivers of all nodes as they are while something else changes, and let go of those that need it no more.

The operator starts no upgrade on a node with its label for that, in each of its lines since v24.9. It looks at the
label when it takes a node out of ``upgrade-required``, and never later. The marks are those of a driver's rollout, so
that a rollout takes held nodes over as they are.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import kept_version
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Patch = t.Callable[[Json], t.Optional[Json]]  # noqa: UP045 (evaluated)


@dataclasses.dataclass(frozen=True)
class HoldPlan:
    """What a call does to which nodes, and which nodes it finds in which state."""

    hold: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """The nodes that are kept by us or by a user when the plan is carried out."""
    outdated: tuple[str, ...] = ()
    """The nodes whose driver pod is not of the newest revision."""
    users: tuple[str, ...] = ()
    """The nodes that a user, or a maintenance, keeps."""

    def as_result(self) -> Json:
        """Return the module's result."""
        lists = {field.name: list(getattr(self, field.name)) for field in dataclasses.fields(self)}
        lists["released"] = lists.pop("release")
        lists["newly_held"] = lists.pop("hold")
        before = sorted({*self.held, *self.release} - {*self.hold})
        return {
            "changed": bool(self.hold or self.release),
            **lists,
            "diff": {"before": {"held": before}, "after": {"held": list(self.held)}},
        }


def under_way(listed: t.Iterable[Json]) -> list[Json]:
    """Return the nodes on which the operator is at work, so that the label comes too late."""
    return [node for node in listed if nodes.upgrade_state(node) not in names.UPGRADE_IDLE]


def plan_hold(listed: t.Sequence[Json], outdated: t.Collection[str], now: float) -> HoldPlan:
    """Return what keeps the drivers of all nodes. Raise if the operator is replacing one at this moment."""
    with_driver = [node for node in listed if pools.has_driver_container(node)]
    late = under_way(with_driver)
    if late:
        states = sorted({nodes.upgrade_state(node) for node in late})
        raise GpuOpsError(
            f"The operator is replacing the driver of {first_few([objects.name_of(node) for node in late])} "
            f"({', '.join(states)}), and no label stops that. Wait until that upgrade has ended, or repair the node.",
            reason="NodesBusy",
            nodes=[objects.name_of(node) for node in late],
        )
    return HoldPlan(
        hold=_names(node for node in with_driver if driver_annotations.hold_patch(node, now)),
        held=_names(with_driver),
        outdated=_names(node for node in with_driver if objects.name_of(node) in outdated),
        users=_names(node for node in with_driver if driver_annotations.is_of_a_user(node)),
    )


def plan_release(listed: t.Sequence[Json], outdated: t.Collection[str], everything: bool) -> HoldPlan:
    """Return which nodes may go: those whose driver is current, or with ``everything`` all that we keep."""
    ours = [
        node
        for node in listed
        if driver_annotations.is_ours(node) and (note := driver_annotations.note_of(node)) and note.kind == "held"
    ]
    free = [node for node in ours if everything or objects.name_of(node) not in outdated]
    kept = [node for node in listed if nodes.skips_upgrades(node) and node not in free]
    return HoldPlan(
        release=_names(free),
        held=_names(kept),
        outdated=_names(
            node for node in listed if pools.has_driver_container(node) and objects.name_of(node) in outdated
        ),
        users=_names(node for node in listed if driver_annotations.is_of_a_user(node)),
    )


def _names(listed: t.Iterable[Json]) -> tuple[str, ...]:
    return tuple(sorted(objects.name_of(node) for node in listed))


# ---- acting -------------------------------------------------------------------------------------------------------


def keep(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Keep the drivers of all nodes, or let go of them; return the module's result."""
    with waiting.signals_noted() as interruption:
        fleet = Fleet(cluster, interruption=interruption)
        listed, namespace = fleet.nodes(), options["namespace"]
        outdated, now = outdated_nodes(cluster, namespace), cluster.now()
        if options["state"] == "present":
            plan = plan_hold(listed, outdated, now)
            _patch(fleet, plan.hold, lambda node: driver_annotations.hold_patch(node, now))
        else:
            plan = plan_release(listed, outdated, options["everything"])
            due = [name for name in plan.release if name in outdated]
            _permit(cluster, options, due)
            _patch(fleet, [name for name in plan.release if name not in outdated], driver_annotations.free_patch)
            _patch(fleet, due, driver_annotations.let_go_patch)
        is_marked = options["keep_version"] is not None and kept_version.mark(cluster, options["keep_version"])
    result = plan.as_result()
    return {**result, "changed": result["changed"] or is_marked}


def outdated_nodes(cluster: Cluster, namespace: str) -> frozenset[str]:
    """Return the nodes whose driver pod is not of its DaemonSet's newest revision."""
    daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets"), resourceVersion="") or []
    drivers = [item for item in daemonsets if operands.operand_name(item) == operands.DRIVER.name]
    rolling = [item for item in drivers if rollouts.is_rolling(item) or not rollouts.is_observed(item)]
    newest = troubles.newest_revisions(cluster, namespace) if rolling else {}
    found: set[str] = set()
    for item in rolling:
        revision = newest.get(objects.name_of(item))
        if revision is None:
            name = objects.name_of(item)
            message = f"The newest revision of DaemonSet {name} is not known. Grant list on controllerrevisions."
            raise GpuOpsError(message, reason="Forbidden")
        found |= troubles.on_old_revision(cluster, namespace, item, revision)
    return frozenset(found)


def _permit(cluster: Cluster, options: t.Mapping[str, t.Any], listed: t.Collection[str]) -> None:
    """Raise if the operator would evict GPU pods from a node as soon as it is let go."""
    if not listed or options["allow_disruption"]:
        return
    running = permission.running_gpu_pods(cluster, options["namespace"])
    concerned = None if running is None else [pod for pod in running if pod.node in listed]
    if concerned == []:
        return
    pods = "GPU pods that this user may not list"
    if concerned:
        pods = f"{len(concerned)} GPU pods ({first_few([f'{pod.namespace}/{pod.name}' for pod in concerned])})"
    raise GpuOpsError(
        f"Without the label, the operator replaces the drivers of {first_few(sorted(listed))} and may evict {pods}. "
        "Roll the driver out with gpuops.nvidia.upgrade_driver, or set allow_disruption: true.",
        reason="Disruption",
        nodes=sorted(listed),
    )


def _patch(fleet: Fleet, listed: t.Iterable[str], make_patch: Patch) -> None:
    dummy, failed = fleet.patch_all(dict.fromkeys(listed, make_patch))
    lost = {name: error for name, error in failed.items() if error.reason != "NodeDeleted"}
    if lost:
        first = next(iter(lost.values()))
        raise GpuOpsError(
            f"The label {names.UPGRADE_SKIP} could not be changed on {first_few(sorted(lost))}: {first.msg}",
            reason=first.reason,
            nodes=sorted(lost),
        )
