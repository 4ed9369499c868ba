# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the API server does between two requests. All else: tests/unit/plugins/modules/test_gpucluster.py."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import gpucluster_apply
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.gpucluster import SPEC

from tests.unit.fakes.api import GPUCLUSTERS, POLICIES, FakeApi
from tests.unit.fakes.claimed import GPUCLUSTER
from tests.unit.fakes.stack import Json


def options(**given: object) -> Json:
    return {**{name: option.get("default") for name, option in SPEC.options.items()}, **given}


def test_only_the_gpucluster_that_was_judged_is_deleted(api: FakeApi) -> None:
    """Somebody removes it and makes another one, after the pods were counted."""
    api.lists |= {POLICIES: [], GPUCLUSTERS: [copy.deepcopy(GPUCLUSTER)]}

    def replaced(method: str, path: str) -> None:
        if method == "DELETE":
            api.lists[GPUCLUSTERS][0]["metadata"]["uid"] = "another"

    api.answer = replaced
    with pytest.raises(GpuOpsError) as e:
        gpucluster_apply.ensure(Cluster(api.connection), options(state="absent"), lambda warning: None)
    assert e.value.reason == "Conflict" and len(api.lists[GPUCLUSTERS]) == 1
