# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The steps by which a node becomes what its pool says. Each is one call of the room that knows how to do it.

A step sees its own nodes only, and paces none of them: whoever calls it holds them already. So the rooms keep their own
checks, marks and proofs, and a step that was killed goes on by itself.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import call as mig
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import MIG_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import NodePool, Options
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import share_gpus
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_plan import HELD_FOR
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import (
    KIND_LABEL,
    LAYOUT_LABEL,
    SHARING_LABEL,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import set_kinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_request import KIND_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Warn = t.Callable[[str], None]
Wishes = t.Mapping[str, "NodePool | None"]
"""The pool of each node of a step, or None for a node that is in no pool any more."""

UNPACED = {
    "canary": 0,
    "waves": [],
    "soak": 0,
    "max_unavailable": "100%",
    "max_failed": "100%",
    "group_by": None,
    "windows": [],
    "time_zone": "UTC",
}
"""The pace of a step: all of its nodes at once, and one that fails stops no other."""

PERMITTED = {"allow_disruption": True, "force": True, "delete_emptydir_data": True, "stop_machines": True}
"""What a rehearsal may do: whoever makes it asks for the permissions of all steps together."""


@dataclasses.dataclass(frozen=True)
class StepRow:
    """What a step did on one node, or would do."""

    change: str
    """What changes, in words, or an empty string."""
    changed: bool = False
    interrupts: bool = False
    """Whether it takes GPUs away from pods or machines."""
    reason: str = ""
    """Why it failed, or an empty string."""
    waits_for: str = ""
    """What keeps the step from beginning with the node, or an empty string."""
    degraded: str = ""
    is_kept: bool = False
    """Whether the step holds the node on, since it failed in the middle."""
    evicted: tuple[str, ...] = ()
    offers: t.Mapping[str, int] | None = None
    """What the node offers afterwards, if the step knows that beforehand."""

    @property
    def cause(self) -> str:
        """Why it failed, without how the step leaves the node: whoever calls the step says that of the whole."""
        return _KEPT.sub("", self.reason)


_KEPT = re.compile(r" It stays cordoned for the purpose [-a-z]+\.$")


Rows = dict[str, StepRow]


class Step(t.Protocol):
    """One step."""

    name: str

    def concerns(self, node: Json, pool: NodePool | None) -> bool:
        """Return whether the step has anything to do with a node, now or in an earlier run that was killed."""

    def take(self, cluster: Cluster, wishes: Wishes, fleet: t.Mapping[str, Json], warn: Warn) -> Rows:
        """Bring the nodes to what is wished, or in check mode say how. The cluster shows only these nodes."""


def _options(options: Options) -> dict[str, t.Any]:
    """Return the options of the module for a step, which is not paced."""
    return {**options, **UNPACED, "state": "present"}


def _row(row: Json, purpose: str, change: str, *, interrupts: bool, offers: Json | None = None) -> StepRow:
    return StepRow(
        change=change,
        changed=row["changed"],
        interrupts=interrupts,
        reason=row["reason"] if row["failed"] else "",
        degraded=row["degraded"],
        is_kept=purpose in row["purposes"],
        evicted=tuple(row["evicted"]),
        offers=offers,
    )


def _grouped(wishes: Wishes, key_of: t.Callable[[str, NodePool | None], str]) -> dict[str, list[str]]:
    """Return the nodes by a key. Nodes with an empty one are left out."""
    found: dict[str, list[str]] = {}
    for name, pool in wishes.items():
        if key := key_of(name, pool):
            found.setdefault(key, []).append(name)
    return found


class KindStep:
    """Whom the GPUs serve."""

    name = "kind"

    def __init__(self, options: Options) -> None:
        self._options = _options(options)

    def concerns(self, node: Json, pool: NodePool | None) -> bool:
        """Return whether the pool names a kind, or the node has one of ours."""
        is_held = KIND_PURPOSE in hold.hold_of(node).purposes
        return bool(pool and pool.kind) or KIND_LABEL.is_ours(node) or is_held

    def take(self, cluster: Cluster, wishes: Wishes, fleet: t.Mapping[str, Json], warn: Warn) -> Rows:
        """Give the nodes their kinds, and take ours away from nodes whose pool names none."""
        wanted = _grouped(wishes, lambda dummy, pool: pool.kind if pool else "")
        asked = {name for named in wanted.values() for name in named}
        rest = {name: pool for name, pool in wishes.items() if name not in asked}
        ours = _grouped(rest, lambda name, dummy: KIND_LABEL.value_of(fleet[name]) or "container")
        made: Rows = {}
        for state, kinds in (("present", wanted), ("absent", ours)):
            if kinds:
                entries = [{"kind": kind, "nodes": named} for kind, named in kinds.items()]
                result = set_kinds.ensure(cluster, {**self._options, "state": state, "kinds": entries}, warn)
                made |= {row["node"]: self._row_of(row) for row in result["nodes"]}
        return made

    def _row_of(self, row: Json) -> StepRow:
        switches = row["kind"] != row["kind_before"]
        change = f"{row['kind_before']} to {row['kind']}" if switches else ""
        return _row(row, KIND_PURPOSE, change, interrupts=switches or row["resumed"])


class LayoutStep:
    """How MIG divides the GPUs."""

    name = "mig"

    def __init__(self, options: Options) -> None:
        mine = {"layout": None, "nodes": None, "node_selector": None, "repair": True, "verify": False}
        self._options = {**_options(options), **mine, "workload": {}, "content": "", "evict": "gpu"}

    def concerns(self, node: Json, pool: NodePool | None) -> bool:
        """Return whether the pool names a layout, or the node has one of ours."""
        is_held = MIG_PURPOSE in hold.hold_of(node).purposes
        return bool(pool and pool.layout) or LAYOUT_LABEL.is_ours(node) or is_held

    def take(self, cluster: Cluster, wishes: Wishes, fleet: t.Mapping[str, Json], warn: Warn) -> Rows:
        """Give the nodes their layouts, and whole GPUs to nodes whose pool names none."""
        wanted = _grouped(wishes, lambda dummy, pool: pool.layout if pool else "")
        whole = [name for name, pool in wishes.items() if not (pool and pool.layout)]
        layouts = [{"layout": layout, "nodes": named} for layout, named in wanted.items()]
        made: Rows = {}
        for options in (
            {"layouts": layouts} if layouts else None,
            {"state": "absent", "layouts": [{"nodes": whole}]} if whole else None,
        ):
            if options:
                result, warnings = mig.configure(cluster, {**self._options, **options})
                for warning in warnings:
                    warn(warning)
                made |= {row["node"]: self._row_of(row) for row in result["nodes"]}
        return made

    def _row_of(self, row: Json) -> StepRow:
        interrupts = row["action"] in ("change", "resume", "wait")
        made = _row(row, MIG_PURPOSE, row["layout"] if interrupts else "", interrupts=interrupts, offers=row["after"])
        return dataclasses.replace(made, waits_for=row["why"]) if row["action"] == "left" else made


class SharingStep:
    """How pods share the GPUs."""

    name = "sharing"

    def __init__(self, options: Options, keeps_keys: bool = True) -> None:
        mine = {"wait": True, "purge": True, "keep_unused": keeps_keys}
        self._options = {**_options(options), **mine, "config_map": options["sharing_config_map"]}

    def concerns(self, node: Json, pool: NodePool | None) -> bool:
        """Return whether the pool shares GPUs, or the node has sharing of ours."""
        is_held = HELD_FOR in hold.hold_of(node).purposes
        return bool(pool and pool.sharing) or SHARING_LABEL.is_ours(node) or is_held

    def take(self, cluster: Cluster, wishes: Wishes, fleet: t.Mapping[str, Json], warn: Warn) -> Rows:
        """Share the GPUs of the nodes, and give plain ones to nodes whose pool does not share."""
        result = self.tell(cluster, wishes, warn)
        return {row["node"]: self._row_of(row) for row in result["nodes"]}

    def tell(self, cluster: Cluster, wishes: Wishes, warn: Warn) -> Json:
        """Make the call, and return its whole result."""
        named = _grouped(wishes, lambda dummy, pool: pool.name if pool and pool.sharing else "")
        pools = {pool.name: pool for pool in wishes.values() if pool}
        configs = [pools[name].configuration(members) for name, members in named.items()]
        return share_gpus.ensure(cluster, {**self._options, "configs": configs}, warn)

    def _row_of(self, row: Json) -> StepRow:
        what = row["configuration"] or "plain"
        is_due = row["changed"] or bool(row["interrupts"])
        interrupts = bool(row["interrupts"]) or HELD_FOR in row["purposes"]
        return _row(row, HELD_FOR, what if is_due else "", interrupts=interrupts)
