# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of the module ask of pools. It is read once, first, and every later step takes it."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    NodeRolloutRequest,
    rollout_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.targets import is_chosen
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import assign
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_request import named_gpu_nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.workload_words import CONTAINER
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

POOL_PURPOSE = "pool"
"""The purpose for which nodes are held while they change."""

Options = t.Mapping[str, t.Any]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,48}[a-z0-9])?")
_CHANGING = (names.PLUGIN_CONFIG, names.WORKLOAD_CONFIG, names.MIG_CONFIG, names.MIG_STATE)


@dataclasses.dataclass(frozen=True)
class NodePool:
    """Nodes, and what they shall have. What is not named is plain: the collection keeps nothing of it there."""

    name: str
    nodes: tuple[str, ...] | None = None
    selector: t.Mapping[str, str] | None = None
    kind: str = ""
    """Whom the GPUs serve, or an empty string: the ClusterPolicy decides."""
    layout: str = ""
    """The MIG layout, or an empty string for whole GPUs."""
    sharing: t.Mapping[str, t.Any] | None = None
    """How pods share the GPUs, in the words of an entry of ``gpu_sharing``, or None for plain GPUs."""

    @classmethod
    def of(cls, entry: Options) -> NodePool:
        """Return the pool that an entry of the option ``pools`` describes."""
        name, named, selector = entry["name"], entry.get("nodes"), entry.get("node_selector")
        if not _NAME.fullmatch(name):
            raise _wrong(
                f"The pool {name} needs another name: at most 50 lower-case letters, digits, dots and dashes, with a "
                "letter or a digit at both ends."
            )
        if (named is None) == (selector is None):
            raise _wrong(f"Pool {name}: give either nodes or node_selector.")
        kind, layout, sharing = entry.get("kind") or "", entry.get("mig_layout") or "", entry.get("sharing")
        if kind not in ("", CONTAINER):
            _refuse_for_machines(name, kind, layout, sharing, selector)
        changing = [key for key in selector or {} if key in _CHANGING or key.startswith(names.DEPLOY_PREFIX)]
        if changing:
            raise _wrong(
                f"Pool {name}: node_selector names {changing[0]}, which changes with the pool. Choose the nodes by "
                "another label."
            )
        pool = cls(
            name,
            None if named is None else tuple(dict.fromkeys(named)),
            None if selector is None else nodes.selector_of(selector),
            kind,
            layout,
            sharing,
        )
        assign.choices_of([pool.configuration(["any"])] if sharing else [])  # refuses what cannot be meant
        return pool

    def configuration(self, named: t.Sequence[str]) -> dict[str, t.Any]:
        """Return the entry with which ``gpu_sharing`` gives the pool's sharing to these nodes."""
        return {**(self.sharing or {}), "name": self.name, "nodes": list(named)}

    def chosen(self, by_name: t.Mapping[str, Json]) -> list[str]:
        """Return the pool's nodes. Raises if there is none, or one without GPUs is named."""
        if self.nodes is None:
            return self._matching(by_name)
        return named_gpu_nodes(f"Pool {self.name}", self.nodes, by_name)

    def _matching(self, by_name: t.Mapping[str, Json]) -> list[str]:
        selector = self.selector or {}
        matching = [name for name, node in by_name.items() if is_chosen(selector, node)]
        useful = [name for name in matching if nodes.is_gpu_node(by_name[name])]
        if not useful:
            which = f"with the labels {dict(selector)}" if selector else "of this cluster"
            raise GpuOpsError(
                f"Pool {self.name}: no node {which} has an NVIDIA GPU. Correct node_selector, or remove the pool.",
                reason="NotFound",
            )
        return useful


def _refuse_for_machines(
    name: str, kind: str, layout: str, sharing: object, selector: t.Mapping[str, t.Any] | None
) -> None:
    """Raise if a pool for virtual machines asks for what only containers can have."""
    if layout or sharing:
        what = "mig_layout" if layout else "sharing"
        raise _wrong(f"Pool {name}: {what} is for containers, and the kind is {kind}. Remove one of them.")
    found = [key for key in selector or {} if nodes.is_discovered(key)]
    if found:
        raise _wrong(
            f"Pool {name}: node_selector names {found[0]}, which a node loses as soon as it is {kind}. Choose the "
            "nodes by a label of your own."
        )


@dataclasses.dataclass(frozen=True)
class PoolRequest:
    """What a call asks for."""

    rollout: NodeRolloutRequest
    pools: tuple[NodePool, ...]
    options: Options
    """The module's options, of which the steps take what they need."""
    stops_machines: bool = False
    policy_name: str = ""
    namespace: str = ""
    only_warns: bool = False
    """Whether check mode warns where a run would refuse to go on."""
    timeout_s: int = 1200


def request_of(options: Options) -> PoolRequest:
    """Return what the options ask for. Raises an error for a value that cannot be meant."""
    rollout, entries = rollout_of(options, POOL_PURPOSE), options["pools"]
    named = [entry["name"] for entry in entries]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise _wrong(f"pools has two pools with the name {first_few(twice)}. Rename one of them.")
    request = PoolRequest(
        rollout=rollout,
        pools=tuple(map(NodePool.of, entries)),
        options=options,
        stops_machines=options["stop_machines"],
        policy_name=options["policy_name"],
        namespace=options["namespace"],
        only_warns=_check_refusal.only_warns(options, check_mode=True),
        timeout_s=options["timeout"],
    )
    rollout.pace.wishes.check(rollout.canaries)
    return request


def assigned(pools: t.Sequence[NodePool], fleet: t.Iterable[Json]) -> dict[str, NodePool]:
    """Return the pool of each node that is in one."""
    by_name = {name_of(node): node for node in fleet}
    found: dict[str, NodePool] = {}
    for pool in pools:
        for name in pool.chosen(by_name):
            if found.setdefault(name, pool) is not pool:
                raise _wrong(
                    f"The pools {found[name].name} and {pool.name} both choose node {name}. Let only one of them "
                    "choose it."
                )
    return found


def _wrong(message: str) -> GpuOpsError:
    return GpuOpsError(message, reason="Invalid")
