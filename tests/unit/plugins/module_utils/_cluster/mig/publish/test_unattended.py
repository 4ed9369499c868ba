# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish import unattended
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Source
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig_nodes import held, mig_node

WHOLE = {"whole": (LayoutEntry(None, False),)}
KNOWN = {**WHOLE, "old": (LayoutEntry(None, True, {"1g.10gb": 7}),)}
NEW = {**KNOWN, "new": (LayoutEntry(None, True, {"3g.40gb": 2}),)}
POD = GpuPod("team", "train", "gpu-0000", {"nvidia.com/gpu": 1})


@pytest.mark.parametrize(
    ("labels", "at_a_restart", "at_an_edit"),
    [
        ({}, False, False),
        ({"config": "old", "state": "success"}, False, False),
        ({"config": "old", "state": "failed"}, True, False),
        ({"config": "old", "state": "pending"}, True, False),
        ({"config": "new", "state": "failed"}, True, True),
        ({"config": "new"}, True, True),
        ({"config": "new", "state": "success"}, False, False),
        ({"config": "unknown", "state": "failed"}, False, False),
        ({"config": "whole", "state": "failed", "nvidia.com/mig.strategy": "mixed"}, False, False),
        ({"config": "whole", "state": "failed", "count": None}, True, False),
    ],
)
def test_labels_that_were_never_applied_are_applied_when_a_manager_starts(
    labels: dict[str, str], at_a_restart: bool, at_an_edit: bool
) -> None:
    found = hosts.hosts([mig_node(**labels)])

    def names(restarts: bool) -> list[str]:
        listed = unattended.concerned(found, lambda name: Source("a", KNOWN), lambda host: NEW, restarts)
        return [host.name for host in listed]

    assert (names(True), names(False)) == (["gpu-0000"] * at_a_restart, ["gpu-0000"] * at_an_edit)


def test_a_node_may_be_changed_once_it_is_cordoned_and_empty() -> None:
    served, drained = hosts.hosts([mig_node(config="new")]), hosts.hosts([held(mig_node(config="new"))])
    assert unattended.in_service(served, []) == unattended.in_service(drained, [POD]) == ["gpu-0000"]
    assert unattended.in_service(drained, []) == []
    unattended.refuse(drained, [])
    with pytest.raises(GpuOpsError) as error:
        unattended.refuse(served, [POD])
    assert (error.value.reason, error.value.details["nodes"]) == ("NodesBusy", ["gpu-0000"])
    assert error.value.msg == wording(
        "This would let the MIG managers divide the GPUs of gpu-0000 (new, state unknown), which team/train use. Drain these nodes first (role mig, which does so, or node_maintenance with purpose: mig), or remove their label."
    )
