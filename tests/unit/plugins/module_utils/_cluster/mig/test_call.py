# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.call import configure
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.mig_config import SPEC
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import FakeApi
from tests.unit.fakes.mig import MigFleet

# Runs are tested in tests/unit/plugins/modules/test_mig_config.py, with the real module.


def called(api: FakeApi, **options: t.Any) -> tuple[dict, list[str]]:
    defaults = {name: option.get("default") for name, option in SPEC.options.items()}
    return configure(Cluster(api.connection, check_mode=True), {**defaults, **options})


def test_the_plan_in_check_mode_is_the_whole_answer(api: FakeApi) -> None:
    MigFleet(api)
    result, warnings = called(api, layout="all-1g.10gb", nodes=["gpu-0000"])
    assert result["summary"] == {"nodes": 1, "changed": 1, "failed": 0, "waiting": 1, "evicted": 0, "repaired": 0}
    assert warnings == [] and list(result["diff"]["after"]) == ["gpu-0000"]


def test_a_node_that_another_machine_holds_is_refused_unless_taken_over(api: FakeApi) -> None:
    fleet = MigFleet(api)
    stamp = "2999-01-01T00:00:00Z elsewhere 12345678"
    fleet.node()["metadata"]["annotations"] = {"gpuops.nvidia/maintenance.mig": stamp}
    with pytest.raises(GpuOpsError, match="Another run holds gpu-0000"):
        called(api, layout="all-1g.10gb", nodes=["gpu-0000"])
    assert called(api, layout="all-1g.10gb", nodes=["gpu-0000"], take_over=True)[0]["changed"] is True


def test_a_canary_that_has_its_layout_is_done(api: FakeApi) -> None:
    fleet = MigFleet(api)
    fleet.settle("gpu-0000", "all-1g.10gb")
    result, dummy = called(api, layout="all-1g.10gb", nodes=["gpu-0000", "gpu-0001"], canary=["gpu-0000"])
    assert [row["action"] for row in result["nodes"]] == ["nothing", "change"]


def test_a_group_needs_its_label_on_every_node(api: FakeApi) -> None:
    MigFleet(api)
    with pytest.raises(GpuOpsError) as error:
        called(api, layout="all-1g.10gb", nodes=["gpu-0000", "gpu-0001"], group_by="rack")
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "The variable that group_by names has no value for gpu-0000, gpu-0001. Set it for each of them, or for their group."
    )
