# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of the module ask of the kinds of nodes. It is read once, first, and every later step takes it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    NodeRolloutRequest,
    rollout_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.workload_words import CONTAINER
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

KIND_PURPOSE = "workload-kind"
"""The purpose for which nodes are held while their kind changes."""

Options = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class KindChoice:
    """A kind, and the nodes that shall be of it."""

    kind: str
    nodes: tuple[str, ...] | None = None
    selector: t.Mapping[str, str] | None = None

    @classmethod
    def of(cls, entry: t.Mapping[str, t.Any], is_end: bool) -> KindChoice:
        """Return the choice that an entry of the option ``kinds`` describes. At the end, it may be all nodes."""
        named, selector, kind = entry.get("nodes"), entry.get("node_selector"), entry["kind"]
        if named is not None and selector is not None:
            raise _wrong(f"kinds {kind}: give either nodes or node_selector.")
        if named is None and selector is None and not is_end:
            raise _wrong(f"kinds {kind}: give the nodes, by nodes or by node_selector.")
        changing = [key for key in selector or {} if key == names.WORKLOAD_CONFIG or key.startswith(_CHANGING)]
        if changing:
            raise _wrong(
                f"kinds {kind}: node_selector names {changing[0]}, which changes with the kind. Choose the nodes by "
                "another label."
            )
        lost = [key for key in selector or {} if nodes.is_discovered(key)]
        if lost and kind != CONTAINER and not is_end:
            raise _wrong(
                f"kinds {kind}: node_selector names {lost[0]}, which a node loses as soon as it is of this kind. "
                "Choose the nodes by a label of your own."
            )
        return cls(
            kind,
            None if named is None else tuple(dict.fromkeys(named)),
            None if selector is None else nodes.selector_of(selector),
        )

    def chosen(self, by_name: t.Mapping[str, Json]) -> list[str]:
        """Return the chosen nodes. Raises if there is none, or one without GPUs is named."""
        if self.nodes is None:
            return self._matching(by_name)
        return named_gpu_nodes(f"kinds {self.kind}", self.nodes, by_name)

    def _matching(self, by_name: t.Mapping[str, Json]) -> list[str]:
        selector = (self.selector or {}).items()
        matching = [name for name, node in by_name.items() if selector <= labels_of(node).items()]
        useful = [name for name in matching if nodes.is_gpu_node(by_name[name])]
        if not useful:
            which = f"with the labels {self.selector}" if self.selector else "of this cluster"
            raise GpuOpsError(
                f"kinds {self.kind}: no node {which} has an NVIDIA GPU. Correct node_selector.", reason="NotFound"
            )
        return useful


_CHANGING = names.DEPLOY_PREFIX


def named_gpu_nodes(where: str, named: t.Sequence[str], by_name: t.Mapping[str, Json]) -> list[str]:
    """Return the named nodes. Raises if the cluster lacks one, or one has no GPU. ``where`` is what names them."""
    missing = [name for name in named if name not in by_name]
    if missing:
        message = f"{where}: the cluster has no node {first_few(missing)}. Correct nodes."
        raise GpuOpsError(message, reason="NotFound")
    useless = [name for name in named if not nodes.is_gpu_node(by_name[name])]
    if useless:
        raise _wrong(
            f"{where}: {first_few(useless)} has no NVIDIA GPU that Node Feature Discovery knows. Remove it from nodes, "
            "or check Node Feature Discovery on it."
        )
    return list(named)


@dataclasses.dataclass(frozen=True)
class KindRequest:
    """What a call asks for."""

    rollout: NodeRolloutRequest
    choices: tuple[KindChoice, ...] = ()
    is_end: bool = False
    """Whether nodes shall go back to the ClusterPolicy's default."""
    stops_machines: bool = False
    replaces_labels: bool = False
    policy_name: str = ""
    namespace: str = ""
    only_warns: bool = False
    """Whether check mode warns where a run would refuse to go on."""
    timeout_s: int = 1200


def request_of(options: Options) -> KindRequest:
    """Return what the options ask for. Raises an error for a value that cannot be meant."""
    rollout, is_end = rollout_of(options, KIND_PURPOSE), options["state"] == "absent"
    entries = options["kinds"] or []
    if not is_end and not entries:
        raise _wrong("Give kinds: which nodes shall give their GPUs to containers, and which to virtual machines.")
    request = KindRequest(
        rollout=rollout,
        choices=tuple(KindChoice.of(entry, is_end) for entry in entries),
        is_end=is_end,
        stops_machines=options["stop_machines"],
        replaces_labels=options["replace_labels"],
        policy_name=options["policy_name"],
        namespace=options["namespace"],
        only_warns=_check_refusal.only_warns(options, check_mode=True),
        timeout_s=options["timeout"],
    )
    rollout.pace.wishes.check(rollout.canaries)
    return request


def assign(choices: t.Sequence[KindChoice], fleet: t.Iterable[Json]) -> dict[str, str]:
    """Return the kind of each chosen node."""
    by_name = {name_of(node): node for node in fleet}
    found: dict[str, str] = {}
    for choice in choices:
        for name in choice.chosen(by_name):
            if found.setdefault(name, choice.kind) != choice.kind:
                raise _wrong(
                    f"kinds gives node {name} to {found[name]} and to {choice.kind}. Let only one of them choose it."
                )
    return found


def _wrong(message: str) -> GpuOpsError:
    return GpuOpsError(message, reason="Invalid")
