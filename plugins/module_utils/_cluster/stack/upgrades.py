# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes keep all others from their driver upgrade, as the operator counts them. Pure.

Source: ``GetUpgradesAvailable`` and ``GetCurrentUnavailableNodes`` in NVIDIA/k8s-operator-libs
``pkg/upgrade/common_manager.go``, as the GPU Operator v26.7.0 uses them.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_MAX_PARALLEL, _MAX_UNAVAILABLE = "1", "25%"
"""The defaults in the CRD."""
_NUMBER = re.compile(r"(\d{1,9})(%?)")


@dataclasses.dataclass(frozen=True)
class UpgradeMember:
    """A node whose driver an upgrade policy manages."""

    name: str
    state: str = ""
    """The value of its label with the state of its upgrade."""
    is_cordoned: bool = False
    is_ready: bool = True
    is_skipped: bool = False
    """Whether a label keeps it out of upgrades."""

    @property
    def waits(self) -> bool:
        """Whether it waits until a place is free. A node that is already cordoned needs no place."""
        return self.state == names.UPGRADE_REQUIRED and not self.is_skipped and not self.is_cordoned


@dataclasses.dataclass(frozen=True)
class Standstill:
    """Why no further upgrade starts until somebody acts."""

    blockers: t.Sequence[str]
    """Names of the nodes that take all places. Empty if the limit is zero."""
    limit: str
    """The limit as the policy has it, such as ``maxUnavailable: 25%``."""

    @property
    def text(self) -> str:
        """The reason, to follow a colon or "because"."""
        if not self.blockers:
            return f"{self.limit} allows none"
        return f"{first_few(self.blockers)} {'uses' if len(self.blockers) == 1 else 'use'} up {self.limit}"


def member(node: Json) -> UpgradeMember:
    """Return a node as a member of its policy."""
    return UpgradeMember(
        objects.name_of(node),
        nodes.upgrade_state(node),
        nodes.is_cordoned(node),
        nodes.is_ready(node),
        nodes.skips_upgrades(node),
    )


def is_managed(node: Json) -> bool:
    """Return whether the operator runs the driver on a node, also while it has paused it."""
    label = objects.labels_of(node).get(operands.DRIVER.deploy_label, "")
    return nodes.is_gpu_node(node) and label not in ("", "false", names.PRE_INSTALLED)


def standstill(members: t.Sequence[UpgradeMember], policy: Json) -> Standstill | None:
    """Return why no node that would have to wait for a place ever gets one; None if one is free, or will be.

    A node that is being upgraded gives its place back. One that has failed, is cordoned by others or is not ready
    keeps it.
    """
    begun = [each for each in members if each.state not in (*names.UPGRADE_FINISHED, names.UPGRADE_REQUIRED)]
    failed = [each.name for each in begun if each.state == names.UPGRADE_FAILED]
    if len(failed) < len(begun):
        return None
    parallel = _written(policy.get("maxParallelUpgrades"), _MAX_PARALLEL)
    if 0 < _number(parallel, len(members)) <= len(failed):
        return Standstill(failed, f"maxParallelUpgrades: {parallel}")
    allowed = _written(policy.get("maxUnavailable"), _MAX_UNAVAILABLE)
    out = [each.name for each in members if each.is_cordoned or not each.is_ready]
    if len(out) >= _number(allowed, len(members)):
        return Standstill(out, f"maxUnavailable: {allowed}")
    return None


def _written(value: t.Any, default: str) -> str:
    return default if value is None else str(value)


def _number(text: str, total: int) -> int:
    """Return how many of the nodes a limit allows. The operator rounds percentages up. What is no limit allows all."""
    found = _NUMBER.fullmatch(text)
    if not found:
        return total + 1
    return -(-total * int(found[1]) // 100) if found[2] else int(found[1])
