# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The rollout of declared drivers: keep all nodes back before the declaration is written, and then roll it out."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import foresight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import (
    DriverReader,
    WantedDrivers,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import RolloutResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.foresight import Foresight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.loop import DriverLoop
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    DriverRolloutRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


class DriverRollout:
    """The rollout of the drivers that are declared: ``hold`` before the declaration is written, and then ``roll``."""

    def __init__(self, cluster: Cluster, request: DriverRolloutRequest, wanted: WantedDrivers | None = None) -> None:
        self._cluster, self._request = cluster, request
        self._wanted = wanted or WantedDrivers()

    def closed(self) -> str:
        """Return why no node may be begun now, or an empty string."""
        return self._request.rollout.pace.why_closed(time.time())

    def why_left(self, result: RolloutResult) -> str:
        """Return the sentence about the nodes that wait for the next maintenance window, or an empty string."""
        left = [row.node for row in result.rows if row.step == "waiting"]
        return self._request.rollout.pace.why_left(left, time.time())

    def foresee(self, replaced: t.Collection[str], removed: t.Collection[str]) -> Foresight:
        """Return what a rollout would do with the nodes as they are. Nothing is written."""
        with waiting.signals_noted() as interruption:
            fleet = fleet_of(self._cluster, self._request, interruption)
            reader = DriverReader(self._cluster, self._wanted)
            return foresight.foresee(reader.look(fleet), reader.now, replaced, removed, bool(self.closed()))

    def hold(self, chosen: t.Collection[str], nodes: t.Iterable[Json] = ()) -> bool:
        """Keep nodes from their upgrade until they get their turn. Return whether a node was changed.

        ``nodes`` are those that were read before, which `Fleet.patch` tries first.
        """
        with waiting.signals_noted() as interruption:
            fleet = fleet_of(self._cluster, self._request, interruption)
            fleet.seen = {name_of(node): node for node in nodes}
            now = self._cluster.now()
            done, errors = fleet.patch_all(dict.fromkeys(chosen, lambda node: driver_annotations.hold_patch(node, now)))
        left = {name: error for name, error in errors.items() if error.reason != "NodeDeleted"}
        if left:
            name, error = next(iter(left.items()))
            raise GpuOpsError(
                f"{len(left)} nodes could not be kept back, so the cluster was not changed "
                f"({name}: {one_line(error.msg)}).",
                **error.details,
            )
        return any(changed for dummy, changed in done.values())

    def roll(self, only: t.Collection[str] | None = None) -> RolloutResult:
        """Give every node its driver and prove it. Raise if too many fail. ``only`` restricts who gets a turn."""
        with waiting.signals_noted() as interruption:
            fleet = fleet_of(self._cluster, self._request, interruption)
            run = DriverLoop(self._cluster, fleet, DriverReader(self._cluster, self._wanted), self._request)
            return _checked(run, only, self._request.rollout.pace.wishes)


def fleet_of(cluster: Cluster, request: DriverRolloutRequest, interruption: waiting.Noted) -> Fleet:
    """Return the fleet for one phase of a call, which an interruption ends."""
    return Fleet(cluster, request.rollout.maintenance, interruption)


def _checked(run: DriverLoop, only: t.Collection[str] | None, wished: RolloutRequest) -> RolloutResult:
    try:
        made = run.go(only)
    except GpuOpsError as e:
        made = run.result
        raise GpuOpsError(f"{e.msg} {made.closing}".rstrip(), **{**made.as_failure(), **e.details}) from e
    except KeyboardInterrupt as e:
        made = run.result
        message = f"The call was interrupted. {made.closing} Run it again to continue where this call ended."
        raise GpuOpsError(message, reason="Interrupted", **made.as_failure()) from e
    failed = [f"{row.node}: {one_line(row.reason)}" for row in made.failed]
    due = sum(row.step != "left out" for row in made.rows)
    if made.stop or len(failed) > wished.may_be_out(due):
        said = f"{made.stop.rstrip('.')}." if made.stop else f"{first_few(failed, separator='; ')}."
        raise GpuOpsError(f"{said} {made.closing}".rstrip(), reason="NodesFailed", **made.as_failure())
    return made
