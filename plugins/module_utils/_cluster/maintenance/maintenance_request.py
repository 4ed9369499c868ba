# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of a module ask of the maintenance of nodes. It is read once, and every later step takes it."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, hold_stamp
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.eviction import EvictionPermits
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import selector_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

Options = t.Mapping[str, t.Any]
HeldState = t.Literal["cordoned", "drained", "restored"]

PURPOSE = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_MINIMA = {
    "timeout": 1,
    "parallel": 1,
    "max_in_maintenance": 1,
    "grace_period": 0,
    "lease": 1,
    "skip_wait_for_delete_timeout": 1,
}


@dataclasses.dataclass(frozen=True)
class MaintenanceRequest:
    """How nodes are held and emptied. A rollout of another module sets only what its options say."""

    purpose: str = ""
    state: HeldState = "drained"
    permits: EvictionPermits = dataclasses.field(default_factory=EvictionPermits)
    evicts_all: bool = False
    """Whether all pods must leave, rather than those with GPUs only."""
    grace_period_s: int | None = None
    timeout_s: int = 600
    """How long a drain may take."""
    skips_after_s: int | None = None
    """After how many seconds a pod on a node that is down counts as gone."""
    allows_shared: bool = False
    lease_s: int = 3600
    takes_over: bool = False
    pauses_nvsentinel: bool = False
    failure: str = ""
    """Why the nodes must not serve, for their taint."""
    progress_path: str | None = None
    nodes: tuple[str, ...] | None = None
    """The nodes that are named, each of them once."""
    selector: t.Mapping[str, str] | None = None
    parallel: int = 10
    """How many nodes are drained at a time."""
    max_in_maintenance: int | None = None
    restores_on_failure: bool = True
    is_rollout: bool = False
    """Whether the call holds nodes only for its own time."""

    def claim(self, now: float) -> hold.Claim:
        """Return what this call asks of the nodes that it holds."""
        return hold.Claim(
            purpose=self.purpose,
            stamp=hold_stamp.new_stamp(now),
            now=now,
            lease_s=self.lease_s,
            take_over=self.takes_over,
            pause_nvsentinel=self.pauses_nvsentinel,
            failure=self.failure,
            resumes=self.is_rollout,
        )


def request_of(options: Options) -> MaintenanceRequest:
    """Return what the options of node maintenance ask for. Raises an error for a value that cannot be meant."""
    _refuse(options)
    named, selector = options["nodes"], options["node_selector"]
    return dataclasses.replace(
        _held(options, options["purpose"]),
        state=options["state"],
        timeout_s=options["timeout"],
        skips_after_s=options["skip_wait_for_delete_timeout"],
        failure=one_line(options["taint_reason"] or ""),
        nodes=None if named is None else tuple(dict.fromkeys(named)),
        selector=None if selector is None else selector_of(selector),
        parallel=options["parallel"],
        max_in_maintenance=options["max_in_maintenance"],
        restores_on_failure=options["restore_on_failure"],
    )


def drain_request_of(options: Options, purpose: str) -> MaintenanceRequest:
    """Return how a module drains nodes that has the options of an eviction and of a rollout of nodes.

    A module without the option ``evict`` needs idle GPUs only.
    """
    return dataclasses.replace(_held(options, purpose), timeout_s=options["drain_timeout"], is_rollout=True)


def _held(options: Options, purpose: str) -> MaintenanceRequest:
    """Return what the options say that node maintenance shares with the rollouts."""
    return MaintenanceRequest(
        purpose=purpose,
        permits=EvictionPermits(
            force=options["force"],
            delete_emptydir_data=options["delete_emptydir_data"],
            disruption=options.get("allow_disruption", True),
        ),
        evicts_all=options.get("evict", "gpu") == "all",
        grace_period_s=options["grace_period"],
        allows_shared=options["allow_shared"],
        lease_s=options["lease"],
        takes_over=options["take_over"],
        pauses_nvsentinel=options["pause_nvsentinel"],
        progress_path=options["progress_path"],
    )


def _refuse(options: Options) -> None:
    """Raise an error if an option has an invalid value."""
    if not PURPOSE.fullmatch(options["purpose"]):
        raise GpuOpsError(
            "purpose must be at most 40 lower-case letters, digits and dashes, without a dash at either end.",
            reason="Invalid",
        )
    if options["taint_reason"] and options["state"] == "restored":
        raise GpuOpsError(
            "taint_reason needs state=cordoned or state=drained; state=restored removes the taint.", reason="Invalid"
        )
    refuse_below(options, **_MINIMA)
