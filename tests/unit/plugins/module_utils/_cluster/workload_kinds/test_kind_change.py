# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import GONE, WAIT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kind_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_change import KindChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_plan import Target
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.node_kinds import SPEC
from tests.unit.fakes.stack import node

NAME = "gpu-0000"

# The whole way through a change is tested in tests/unit/plugins/modules/test_workload_kind.py, with an API server.


class FakeCluster:
    """A cluster whose answer to a patch may be an error."""

    def __init__(self, error: str) -> None:
        self.error = error

    def now(self) -> float:
        return 0.0

    def merge(self, path: str, body: dict[str, t.Any]) -> None:
        if self.error:
            raise GpuOpsError("It did not work.", reason=self.error)


def change(error: str = "") -> KindChange:
    row = kind_plan.change_of(node(), Target(Kind.of("vm-passthrough", SPEC), "vm-passthrough"), SPEC, False)
    work = KindChange(t.cast("t.Any", FakeCluster(error)), t.cast("t.Any", None), [row], 60.0)
    work.begin(NAME, 0.0)
    return work


@pytest.mark.parametrize(("error", "touched"), [("Forbidden", False), ("ServerError", True), ("NotFound", False)])
def test_a_node_is_touched_unless_the_api_server_has_refused_it(error: str, touched: bool) -> None:
    work = change(error)
    if error == "NotFound":
        assert work.advance(NAME, node(), 0.0).reason == GONE
    else:
        with pytest.raises(GpuOpsError):
            work.advance(NAME, node(), 0.0)
    assert (NAME in work.touched) is touched


def test_a_node_that_has_changed_meanwhile_is_looked_at_again() -> None:
    work = change("Conflict")
    assert work.advance(NAME, node(), 0.0) == WAIT
    assert (work.rows[NAME].step, work.touched) == ("label", set())


def test_the_progress_names_what_a_node_waits_for() -> None:
    work = change()
    work.rows[NAME].step = "watch"
    work.rows[NAME].wait("its pods to leave", 0.0)
    assert work.progress(3.0, "") == wording("0/1 nodes are of their kind; gpu-0000: its pods to leave (for 00:03)")


def test_a_node_that_only_got_its_label_is_never_ill() -> None:
    work = change()
    assert work.illness(NAME, node()) != ""
    work.rows[NAME].kind_before = "vm-passthrough"
    assert work.illness(NAME, node()) == ""
