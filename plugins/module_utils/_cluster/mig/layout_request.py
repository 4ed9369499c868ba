# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of the module ask of a change of MIG. It is read once, first, and every later step takes it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    NodeRolloutRequest,
    rollout_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import MIG_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import selector_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

Options = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class LayoutWish:
    """A layout, and the nodes that shall have it: those that are named, those with labels, or else all with GPUs."""

    layout: str
    nodes: tuple[str, ...] | None = None
    selector: t.Mapping[str, str] | None = None
    is_end: bool = False
    """Whether the layouts go. Then a node that is not named counts only if this collection has set its layout."""


@dataclasses.dataclass(frozen=True)
class LayoutRequest:
    """What a call asks for."""

    wishes: tuple[LayoutWish, ...]
    rollout: NodeRolloutRequest
    policy_name: str = ""
    namespace: str = ""
    removes: bool = False
    """Whether the layouts shall go, with their labels."""
    allows_reboot: bool = False
    timeout_s: int = 600
    """For how long a node may make no progress."""
    repairs: bool = True
    verifies: bool = False
    """Whether a workload shall run on each node."""
    workload: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    """The workload of that test."""
    content: str = ""
    """The layouts that are going to be published, which a plan takes instead of those that are."""
    only_warns: bool = False
    """Whether check mode warns where a run would refuse to go on."""


def request_of(options: Options) -> LayoutRequest:
    """Return what the options ask for. Raises an error for a value that cannot be meant, or if they contradict."""
    rollout = rollout_of(options, MIG_PURPOSE)
    return LayoutRequest(
        wishes=wishes_of(options),
        rollout=rollout,
        policy_name=options["policy_name"],
        namespace=options["namespace"],
        removes=options["state"] == "absent",
        allows_reboot=options["allow_reboot"],
        timeout_s=options["timeout"],
        repairs=options["repair"],
        verifies=options["verify"],
        workload=options["workload"],
        content=options["content"],
        only_warns=_check_refusal.only_warns(options, check_mode=True),
    )


def wishes_of(options: Options) -> tuple[LayoutWish, ...]:
    """Return the layouts that the options ask for, each with its nodes."""
    is_end = options["state"] == "absent"
    if is_end and options["layout"]:
        raise GpuOpsError("state=absent takes the layout away: leave out layout.", reason="Invalid")
    listed = [options] if options["layouts"] is None else options["layouts"]
    return tuple(_wish(entry, MIG_DISABLED if is_end else _layout_of(entry), is_end) for entry in listed)


def _layout_of(entry: t.Mapping[str, t.Any]) -> str:
    """Return the layout of an entry that is complete."""
    layout = entry.get("layout")
    if not layout:
        raise GpuOpsError("layout is missing: name it for each selector, or set state=absent.", reason="Invalid")
    if (entry.get("nodes") is None) == (entry.get("node_selector") is None):
        raise GpuOpsError(f"Give either nodes or node_selector for the layout {layout}.", reason="Invalid")
    return str(layout)


def _wish(entry: t.Mapping[str, t.Any], layout: str, is_end: bool) -> LayoutWish:
    named, selector = entry.get("nodes"), entry.get("node_selector")
    return LayoutWish(
        layout,
        nodes=None if named is None else tuple(dict.fromkeys(named)),
        selector=None if selector is None else selector_of(selector),
        is_end=is_end,
    )
