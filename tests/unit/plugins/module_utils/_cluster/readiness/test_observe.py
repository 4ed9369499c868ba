# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the objects that the judge needs, from a small API server in this process."""

from __future__ import annotations

import time

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation

from tests.unit.fakes.api import DAEMONSETS, NODES, POLICIES, FakeApi
from tests.unit.fakes.stack import NAMESPACE


def look(api: FakeApi) -> Observation:
    return observe.observe(Cluster(api.connection), NAMESPACE, "cluster-policy")


def test_a_ready_stack_is_read_with_five_small_lists(api: FakeApi) -> None:
    assert judge.judge(look(api)).state == "ready"
    assert sorted((method, path) for method, path, dummy in api.log if path in api.lists) == [
        ("GET", NODES),
        ("GET", DAEMONSETS),
        ("GET", "/apis/apps/v1/namespaces/gpu-operator/deployments"),
        ("GET", POLICIES),
    ]
    versions = {path: query.get("resourceVersion") for dummy, path, query in api.log}
    assert versions[NODES] == "0" and versions[POLICIES] is None, (
        "the ClusterPolicy must not come from a cache that lags"
    )


def test_ages_come_from_the_servers_clock(api: FakeApi) -> None:
    api.skew_s = -3600
    assert abs(look(api).now - (time.time() - 3600)) < 5


def test_no_crd(api: FakeApi) -> None:
    del api.lists[POLICIES]
    assert look(api).policies is None
