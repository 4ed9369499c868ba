# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling.keep_access import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import FakeApi


def test_a_wrong_wish_is_found_before_the_first_request(api: FakeApi) -> None:
    wrong = {"namespace": "research", "name": "gpus", "gpus": {"cpu": 4}}
    right = {"name": "train", "value": 100, "preemption_policy": "Never", "description": ""}
    with pytest.raises(GpuOpsError) as error:
        keep(Cluster(api.connection), {"quotas": [wrong], "priority_classes": [right], "create_namespaces": False})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "cpu in gpus is no resource of NVIDIA's device plugin, so a quota for it would have no effect. Write nvidia.com/gpu, nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb."
    )
    assert api.log == []


def test_nothing_is_asked_of_a_cluster_if_nothing_is_given(api: FakeApi) -> None:
    result, warnings = keep(
        Cluster(api.connection), {"quotas": None, "priority_classes": None, "create_namespaces": False}
    )
    assert (result["changed"], result["objects"], warnings, api.log) == (False, [], [], [])
