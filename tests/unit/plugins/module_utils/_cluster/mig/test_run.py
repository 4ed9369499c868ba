# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import Settings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.result import row_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.run import Run, Work
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Window
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.wishes import Wishes

from tests.unit.fakes.mig_nodes import LAYOUT, mig_node, mig_plan, mig_sight

# The whole way through a change is tested in tests/unit/plugins/modules/test_mig_config.py, with an API server.


class FakeFleet:
    """Nodes that nobody writes to."""

    def __init__(self) -> None:
        self.options = {"progress_path": None, "allow_shared": False, "timeout": 1, "workload": {}}
        self.interruption = waiting.Noted()
        self.can_appear_elsewhere = True
        self.looks = 0

    def each(self, ask: t.Callable[[t.Any], t.Any], items: t.Iterable[t.Any]) -> list[t.Any]:
        return [ask(item) for item in items]

    def look_elsewhere_again(self) -> None:
        self.looks += 1

    def finish(self) -> None:
        """Nothing is in flight."""


class FakeReader:
    """A node that has its layout, and offers a device less than it should."""

    def nodes(self) -> dict[str, t.Any]:
        labels = {"config": LAYOUT, "state": "success", "nvidia.com/mig-1g.10gb.count": "56"}
        return {"gpu-0000": mig_node({"nvidia.com/mig-1g.10gb": "55"}, **labels)}

    def managers(self) -> dict[str, str]:
        return {}


def run_of(fleet: FakeFleet, **plan: t.Any) -> Run:
    made, parts = mig_plan(**plan), (t.cast("t.Any", None), t.cast("t.Any", FakeReader()), t.cast("t.Any", fleet))
    work = Work(*parts, Settings(timeout_s=0.0), {"gpu-0000": made}, {}, Window([], Wishes()))
    return Run(work, {"gpu-0000": row_of(made, mig_sight())})


def test_a_node_without_a_drain_fails_alone_and_is_not_called_cordoned() -> None:
    run = run_of(FakeFleet(), todo="prove")
    run.go()
    row = run.rows["gpu-0000"]
    assert row.failed and not row.kept and "55 of nvidia.com/mig-1g.10gb are allocatable" in row.reason


def test_a_run_without_work_is_over_at_once() -> None:
    run = run_of(FakeFleet(), todo="nothing")
    run.go()
    assert run.stop == "" and not dataclasses.replace(run._work).changes
