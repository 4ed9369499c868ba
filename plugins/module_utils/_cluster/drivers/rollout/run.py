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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.loop import Run
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.read import Reader, Wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.result import RolloutResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sight import DRIVER_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import drain_options, wishes_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import windows as calendar
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]


class Rollout:
    """The rollout of the drivers that are declared: ``hold`` before the declaration is written, and then ``roll``."""

    def __init__(self, cluster: Cluster, options: Options, wanted: Wanted | None = None) -> None:
        self._cluster, self._options = cluster, options
        self._wanted = wanted or Wanted()
        self._windows = calendar.parse(options["windows"], options["time_zone"])

    def closed(self) -> str:
        """Return why no node may be begun now, or an empty string."""
        now = time.time()
        if self._windows.open_for_s(now) is not None:
            return ""
        minutes = int(self._windows.next_s(now) // 60)
        return f"No maintenance window is open now ({self._windows}). The next one opens in {minutes} minutes."

    def hold(self, chosen: t.Collection[str], nodes: t.Iterable[Json] = ()) -> bool:
        """Keep nodes from their upgrade until they get their turn. Return whether a node was changed.

        ``nodes`` are those that were read before, which `Fleet.patch` tries first.
        """
        with waiting.signals_noted() as interruption:
            fleet = fleet_of(self._cluster, self._options, interruption)
            fleet.seen = {name_of(node): node for node in nodes}
            now = self._cluster.now()
            done, errors = fleet.patch_all(dict.fromkeys(chosen, lambda node: marks.hold_patch(node, now)))
        left = {name: error for name, error in errors.items() if error.reason != "NodeDeleted"}
        if left:
            name, error = next(iter(left.items()))
            raise GpuOpsError(
                f"{len(left)} nodes could not be kept back, so nothing was written ({name}: {one_line(error.msg)}).",
                **error.details,
            )
        return any(changed for dummy, changed in done.values())

    def roll(self, only: t.Collection[str] | None = None) -> RolloutResult:
        """Give every node its driver and prove it. Raise if too many fail. ``only`` restricts who gets a turn."""
        with waiting.signals_noted() as interruption:
            fleet = fleet_of(self._cluster, self._options, interruption)
            run = Run(self._cluster, fleet, Reader(self._cluster, self._wanted), self._options, self._windows)
            return _checked(run, only, self._options)


def fleet_of(cluster: Cluster, options: Options, interruption: waiting.Noted) -> Fleet:
    """Return the fleet with the options of node maintenance. The upgrade policy says which pods may go."""
    permits = {"grace_period": None, "force": False, "delete_emptydir_data": False, "allow_disruption": True}
    return Fleet(cluster, drain_options({**permits, **options, "evict": "gpu"}, DRIVER_PURPOSE), interruption)


def _checked(run: Run, only: t.Collection[str] | None, options: Options) -> RolloutResult:
    try:
        made = run.go(only)
    except GpuOpsError as e:
        made = run.result
        raise GpuOpsError(f"{e.msg} {made.closing}".rstrip(), **{**made.as_result(), **e.details}) from e
    except KeyboardInterrupt as e:
        made = run.result
        message = f"The call was interrupted. {made.closing} Run it again; it goes on where this call has ended."
        raise GpuOpsError(message, reason="Interrupted", **made.as_result()) from e
    failed = [f"{row.node}: {one_line(row.reason)}" for row in made.failed]
    due = sum(row.step != "left out" for row in made.rows)
    if made.stop or len(failed) > wishes_of(options, {}).may_be_out(due):
        said = f"{made.stop.rstrip('.')}." if made.stop else f"{first_few(failed, separator='; ')}."
        raise GpuOpsError(f"{said} {made.closing}".rstrip(), reason="NodesFailed", **made.as_result())
    return made
