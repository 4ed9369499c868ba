# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.share_gpus import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.gpu_sharing import SPEC
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import NODES, FakeApi

MARK = "gpuops.nvidia/maintenance.sharing"
BOTH = {"name": "x", "node_selector": {}, "strategy": "time-slicing", "replicas": 2}

# Runs are tested in tests/unit/plugins/modules/test_gpu_sharing.py, with the real module.


def called(api: FakeApi, **options: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    api.lists["/api/v1/namespaces/gpu-operator/configmaps"] = []
    of_configs = SPEC.options["configs"]["options"]
    configs = [{**{name: each.get("default") for name, each in of_configs.items()}, **BOTH}]
    defaults = {name: option.get("default") for name, option in SPEC.options.items()}
    warnings: list[str] = []
    made = ensure(
        Cluster(api.connection, check_mode=True), {**defaults, "configs": configs, **options}, warnings.append
    )
    return made, warnings


def test_the_plan_in_check_mode_has_the_waves(api: FakeApi) -> None:
    made, warnings = called(api, canary=1)
    assert [row["wave"] for row in made["nodes"]] == [1, 2] and made["finished"] is True and warnings == []


def test_a_node_that_another_machine_holds_is_refused_unless_taken_over(api: FakeApi) -> None:
    api.lists[NODES][0]["metadata"]["annotations"] = {MARK: "2999-01-01T00:00:00Z elsewhere 12345678"}
    with pytest.raises(GpuOpsError, match="Another run holds gpu-0000"):
        called(api, allow_disruption=True)
    assert called(api, allow_disruption=True, take_over=True)[0]["changed"] is True


def test_a_group_needs_its_label_on_every_node(api: FakeApi) -> None:
    with pytest.raises(GpuOpsError) as error:
        called(api, group_by="rack")
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "The variable that group_by names has no value for gpu-0000, gpu-0001. Set it for each of them, or for their group."
    )


def test_a_window_that_cannot_be_read_is_refused(api: FakeApi) -> None:
    with pytest.raises(GpuOpsError) as error:
        called(api, windows=["at night"])
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "The window 'at night' cannot be read. Write windows such as 22:00-04:00 or sat,sun 08:00-18:00."
    )
