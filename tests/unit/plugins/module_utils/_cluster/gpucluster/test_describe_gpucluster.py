# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is no part of the object. All else: tests/unit/plugins/modules/test_gpucluster_info.py."""

from __future__ import annotations

import copy

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import describe_gpucluster
from ansible_collections.gpuops.nvidia.plugins.modules.gpucluster_info import SPEC

from tests.unit.fakes.api import GPUCLUSTERS, FakeApi
from tests.unit.fakes.claimed import GPUCLUSTER


def test_a_gpucluster_beside_a_clusterpolicy_is_described_and_the_verdict_says_so(api: FakeApi) -> None:
    api.lists[GPUCLUSTERS] = [copy.deepcopy(GPUCLUSTER)]
    options = {name: option.get("default") for name, option in SPEC.options.items()}
    found = describe_gpucluster.describe(Cluster(api.connection), options)
    assert found["gpucluster"]["metadata"]["name"] == "gpu-cluster"
    assert "GPUClusterPresent" in [reason["code"] for reason in found["verdict"]["reasons"]]
