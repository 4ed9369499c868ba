# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling.keep_access import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import FakeApi


def test_a_wrong_wish_is_found_before_the_first_request(api: FakeApi) -> None:
    wrong = {"namespace": "research", "name": "gpus", "gpus": {"cpu": 4}}
    right = {"name": "train", "value": 100, "preemption_policy": "Never", "description": ""}
    with pytest.raises(GpuOpsError, match="is no resource of NVIDIA's device plugin"):
        keep(Cluster(api.connection), {"quotas": [wrong], "priority_classes": [right]})
    assert api.log == []


def test_nothing_is_asked_of_a_cluster_if_nothing_is_given(api: FakeApi) -> None:
    result, warnings = keep(Cluster(api.connection), {"quotas": None, "priority_classes": None})
    assert (result["changed"], result["objects"], warnings, api.log) == (False, [], [], [])
