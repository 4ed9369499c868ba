# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import NodeRolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import PaceRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.layout_request import LayoutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.read import Reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import DAEMONSETS, GPUCLUSTERS, PODS, POLICIES, FakeApi, refusal
from tests.unit.fakes.claimed import GPUCLUSTER
from tests.unit.fakes.mig import MigFleet


def reader(api: FakeApi, removes: bool = True, **given: t.Any) -> Reader:
    rollout = NodeRolloutRequest(MaintenanceRequest(), PaceRequest())
    return Reader(Cluster(api.connection), LayoutRequest((), rollout, removes=removes, **given))


def test_the_policy_and_the_daemonset_say_what_the_manager_does(api: FakeApi) -> None:
    MigFleet(api)
    stack = reader(api).stack()
    assert (stack.strategy, stack.default, stack.may_reboot, stack.removes) == ("mixed", "", False, True)
    assert stack.managed == {"gpu-0000", "gpu-0001"}
    api.lists[POLICIES][0]["spec"]["migManager"] = {"config": {"default": "all-disabled"}}
    assert reader(api).stack().removes is False and reader(api, removes=False).stack().removes is False
    api.lists[DAEMONSETS] = []
    assert reader(api).stack().managed is None


def test_a_policy_that_does_not_exist_is_named(api: FakeApi) -> None:
    with pytest.raises(GpuOpsError, match="no ClusterPolicy other"):
        reader(api, policy_name="other")


def test_a_pod_that_is_not_ready_is_starting(api: FakeApi) -> None:
    MigFleet(api)
    api.table = [["m", "0/1", "Running", 0, "1d", "", "a"], ["n", "0/1", "CrashLoopBackOff", 9, "1d", "", "b"]]
    assert reader(api).managers() == {"a": "starting", "b": "CrashLoopBackOff"}


def test_the_last_error_of_the_manager_explains_a_failure(api: FakeApi) -> None:
    MigFleet(api)
    api.lists[PODS] = api.lists[PODS][:1]
    made = reader(api)
    assert made.last_error("gpu-0000") == "", "a log that cannot be read explains nothing"
    log = "time=1 level=info msg=ok\nlevel=error msg=In use by another client\nlevel=info msg=x\n"
    made._cluster.text = lambda path, query: log  # type: ignore[method-assign]
    assert made.last_error("gpu-0000") == "level=error msg=In use by another client"


def test_a_gpucluster_brings_no_mig_manager(api: FakeApi) -> None:
    api.lists |= {POLICIES: [], GPUCLUSTERS: [GPUCLUSTER]}
    with pytest.raises(GpuOpsError) as error:
        reader(api)
    assert error.value.reason == "Unsupported" and "mig_partition_claims: true" in error.value.msg


def test_without_a_served_policy_the_operator_is_missing(api: FakeApi) -> None:
    api.answer = lambda method, path: refusal(404, "not found") if path == POLICIES else None
    with pytest.raises(GpuOpsError) as error:
        reader(api)
    assert error.value.reason == "CRDMissing"
    assert error.value.msg == wording(
        "The cluster has no ClusterPolicy: install the GPU Operator first (role operator)."
    )
