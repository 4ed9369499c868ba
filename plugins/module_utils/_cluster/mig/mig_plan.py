# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is to be done on each node, before anything changes."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import layouts, offer
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line

Todo = t.Literal["nothing", "change", "resume", "repair", "prove", "degraded", "left", "wait", "refuse"]
"""``resume``: the change has begun. ``repair``: only operands are paused that need not be. ``prove``: only the label is
to be removed. ``degraded``: the layout is there, and the node does not offer all of it, or no label proves it.
``left``: no pod of the MIG manager runs there yet. ``wait``: another maintainer is at work."""

DUE = ("change", "resume", "repair", "prove", "wait")
"""What a call has something to do for."""


@dataclasses.dataclass(frozen=True)
class Stack:
    """What the plan knows about the cluster beside the nodes."""

    strategy: str
    """The ClusterPolicy's ``mig.strategy``."""
    default: str = ""
    """The layout that the operator sets on nodes without one."""
    managed: frozenset[str] | None = None
    """The nodes with a pod of the MIG manager, or None if there is no DaemonSet for it."""
    may_reboot: bool = False
    """Whether the MIG manager may reboot a node (its ``WITH_REBOOT``)."""
    allows_reboot: bool = False
    """Whether the user permits that."""
    removes: bool = False
    """Whether the label is to be removed in the end."""
    allows_shared: bool = False
    """Whether the user permits changes on nodes on which others are at work."""


@dataclasses.dataclass(frozen=True)
class NodePlan:
    """What is to be done on one node, and what it offers afterwards."""

    name: str
    layout: str
    todo: Todo
    reason: str = ""
    strategy: str = ""
    count: int = 0
    """How many GPUs the node has."""
    wanted: t.Mapping[int, parted.WantedLayout] = dataclasses.field(default_factory=dict)

    @property
    def offered(self) -> dict[str, int]:
        """The resources that the node offers with the layout, before any sharing."""
        return offer.offer(self.wanted, self.strategy, self.count)

    def unlike(self, sight: Sight) -> str:
        """Return how the node's labels contradict the layout, or an empty string."""
        return offer.unlike(sight, self.wanted, self.strategy, self.count)

    def unknown(self, sight: Sight) -> str:
        """Return what no label tells, so that the layout is neither proved nor contradicted, or an empty string."""
        return offer.unknown(sight, self.strategy)

    def differs(self, sight: Sight) -> str:
        """Return how the node differs from the layout, or an empty string."""
        return self.unlike(sight) or offer.missing(sight, self.offered)


def plan_node(
    sight: Sight,
    layout: str,
    source: layouts.Source,
    stack: Stack,
    holders: t.Sequence[Holder] = (),
) -> NodePlan:
    """Return what is to be done on a node. ``holders`` are other maintainers that have marked it."""
    base = NodePlan(sight.name, layout, "refuse", strategy=stack.strategy or sight.strategy)
    if not sight.is_capable:
        return _incapable(base, sight)
    if stack.managed is None:
        reason = "the cluster has no DaemonSet nvidia-mig-manager: check the operator, and migManager.enabled"
        return dataclasses.replace(base, reason=reason)
    full, problem = _resolved(sight, base, source)
    if problem:
        return dataclasses.replace(full, reason=problem)
    todo, reason = _todo(sight, full, stack)
    forbidden = _why_forbidden(sight, stack) if todo in ("change", "resume") else ""
    if forbidden:
        is_left = forbidden == UNMANAGED and bool(stack.managed)
        return dataclasses.replace(full, todo="left" if is_left else "refuse", reason=forbidden)
    at_work = [str(holder) for holder in holders if holder.at_work]
    if at_work and todo == "change" and not stack.allows_shared:
        return dataclasses.replace(full, todo="wait", reason=f"{first_few(at_work)} is working on it")
    return dataclasses.replace(full, todo=todo, reason=reason)


UNMANAGED = (
    "no pod of the MIG manager runs on it, so its layout cannot change: check its label "
    "nvidia.com/gpu.deploy.mig-manager, which must be true, and the DaemonSet nvidia-mig-manager"
)


def _incapable(base: NodePlan, sight: Sight) -> NodePlan:
    if base.layout == MIG_DISABLED and not sight.is_held:
        return dataclasses.replace(base, todo="nothing")
    what = sight.product or "an unknown GPU"
    reason = f"it has {what}, which cannot be divided: its label nvidia.com/mig.capable is not true"
    return dataclasses.replace(base, reason=reason)


def _resolved(sight: Sight, base: NodePlan, source: layouts.Source) -> tuple[NodePlan, str]:
    """Return the plan with what the layout means for the node's GPUs, and why it cannot have the layout."""
    unknown = source.why_not(base.layout)
    if unknown:
        return base, unknown
    count = offer.count_gpus(sight, source.layouts)
    if not count:
        return base, "its labels do not say how many GPUs it has: check GPU Feature Discovery on it"
    gpus = offer.gpus_of(sight, count)
    entries = source.layouts[base.layout]
    wanted = parted.resolve(entries, gpus)
    full = dataclasses.replace(base, count=count, wanted=wanted)
    problem = _several_models(sight, count) or _why_unfit(sight, full, source, gpus)
    return full, problem or _why_empty(sight, entries, wanted) or offer.why_not_offered(wanted, base.strategy, count)


def _several_models(sight: Sight, count: int) -> str:
    """Return why a node whose GPUs are of several models is left to people, or an empty string.

    GPU Feature Discovery counts one model only (NVIDIA/k8s-device-plugin#736), so no label could prove a layout.
    """
    all_gpus = sight.gpus_in_capacity
    if sight.is_held or not count < all_gpus <= offer.MOST_GPUS:
        return ""
    return (
        f"its labels count {count} of its {all_gpus} GPUs, which are of several models, so its layout could not be "
        "proved: leave it out, and divide its GPUs on the host (role mig_partition)"
    )


def _why_empty(sight: Sight, entries: t.Sequence[parted.LayoutEntry], wanted: offer.Wanted) -> str:
    """Return that a layout is meant for none of the node's GPUs, for which it would be drained for nothing."""
    if wanted or not any(entry.enabled for entry in entries):
        return ""
    what = sight.product or "unknown GPUs"
    return f"none of its entries is meant for {what}: publish a layout for them (mig_custom_layouts)"


def _why_forbidden(sight: Sight, stack: Stack) -> str:
    """Return why a node cannot be changed now, or an empty string."""
    if sight.name not in (stack.managed or ()):
        return UNMANAGED
    if stack.may_reboot and not stack.allows_reboot:
        return "the MIG manager may reboot it (WITH_REBOOT in migManager.env): allow_reboot permits that"
    return ""


def _why_unfit(sight: Sight, full: NodePlan, source: layouts.Source, gpus: t.Sequence[parted.NodeGpu]) -> str:
    """Return why a layout does not fit the node's GPUs, with those that do, or an empty string."""
    found = parted.check(full.layout, source.layouts[full.layout], gpus) if sight.model else []
    if not found:
        return ""

    def is_fitting(name: str) -> bool:
        wanted = parted.resolve(source.layouts[name], gpus)
        offered = offer.offer(wanted, full.strategy, full.count)
        return bool(offered) and not parted.check(name, source.layouts[name], gpus)

    reasons = "; ".join(one_line(reason) for reason in found[:2])
    return f"{reasons}. Layouts that fit its {sight.product}: {layouts.fitting(source, is_fitting)}"


def _todo(sight: Sight, full: NodePlan, stack: Stack) -> tuple[Todo, str]:
    """Return what is to be done with a node that can have its layout."""
    is_set = sight.config == full.layout
    if stack.removes and not sight.config and not sight.is_held and not full.unlike(sight):
        return "nothing", ""
    if is_set and (sight.is_changing or (sight.is_held and sight.state != "failed")):
        return "resume", "its change has begun"
    if not is_set or sight.state != "success":
        return "change", _why_change(sight, full.layout)
    if full.unlike(sight):
        return "change", f"{sight.state} is not true: {full.unlike(sight)}"
    return _finish(sight, full, stack)


def _finish(sight: Sight, full: NodePlan, stack: Stack) -> tuple[Todo, str]:
    """Return what is to be done with a node whose GPUs have their layout."""
    if sight.paused:
        return "repair", f"operands are still paused ({first_few(sight.paused)})"
    if stack.removes:
        return "prove", "its label is to be removed"
    lacks = full.differs(sight) or full.unknown(sight)
    return ("degraded", lacks) if lacks else ("nothing", "")


def _why_change(sight: Sight, layout: str) -> str:
    if sight.config != layout:
        return f"its layout is {sight.config or 'not set'}"
    return f"the state of its layout is {sight.state or 'unknown'}"


def check(plans: t.Sequence[NodePlan]) -> None:
    """Raise an error if a node cannot have its layout. Nodes with the same reason are named together."""
    refused: dict[str, list[str]] = {}
    for plan in plans:
        if plan.todo == "refuse":
            refused.setdefault(f"{plan.layout}: {plan.reason}", []).append(plan.name)
    if refused:
        said = [f"{first_few(names)} cannot get {reason}" for reason, names in refused.items()]
        raise GpuOpsError(f"{first_few(said, 3, separator='; ')}. Nothing has been changed.", reason="LayoutRefused")


def is_halfway(sight: Sight) -> bool:
    """Return whether an earlier run has taken the node and not put it back."""
    return sight.is_held and hold.hold_of(sight.node).unschedulable
