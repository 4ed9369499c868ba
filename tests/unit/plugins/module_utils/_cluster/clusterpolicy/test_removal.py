# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deleting the ClusterPolicy while the API server restarts. The module's tests cover the rest."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import apply
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.modules import clusterpolicy
from inline_snapshot import snapshot as wording

from tests.support.measured import measured
from tests.unit.fakes.api import DAEMONSETS, POLICIES, FakeApi, Reply, refusal


def delete(api: FakeApi) -> Json:
    defaults = {name: option.get("default") for name, option in clusterpolicy.SPEC.options.items()}
    options = {**defaults, "state": "absent", "wait_timeout": 5}
    return apply.ensure(Cluster(api.connection), options, lambda warning: None)


def on_look(api: FakeApi, change: t.Callable[[int], Reply | None]) -> None:
    """Call ``change`` with 0, 1, 2... each time the wait reads the DaemonSets, and answer with its result."""
    number = itertools.count()
    api.answer = lambda method, path: change(next(number)) if path == DAEMONSETS else None


@pytest.mark.parametrize("status", [500, 503])
def test_a_short_outage_does_not_end_the_wait_for_the_removal_of_the_operands(api: FakeApi, status: int) -> None:
    def restarting(number: int) -> Reply | None:
        if number in (1, 2):
            return refusal(status, "etcdserver: no leader")
        if number == 3:
            api.lists[DAEMONSETS] = []
        return None

    on_look(api, restarting)
    assert delete(api)["changed"] is True
    assert api.lists[POLICIES] == []


def test_a_long_outage_ends_the_wait(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.05)
    on_look(api, lambda number: refusal(503, "etcdserver: no leader") if number else None)
    with pytest.raises(GpuOpsError) as e:
        delete(api)
    assert e.value.reason == "ServerError"
    assert measured(e.value.msg) == wording(
        "The Kubernetes API failed on GET /apis/apps/v1/namespaces/gpu-operator/daemonsets (503): etcdserver: no leader. Its last answer was N s ago."
    )


def test_only_the_clusterpolicy_that_was_judged_is_deleted(api: FakeApi) -> None:
    """Somebody removes it and makes another one, after the pods were counted."""

    def replaced(method: str, path: str) -> None:
        if method == "DELETE":
            api.lists[POLICIES][0]["metadata"]["uid"] = "another"

    api.answer = replaced
    with pytest.raises(GpuOpsError) as e:
        delete(api)
    assert e.value.reason == "Conflict" and len(api.lists[POLICIES]) == 1
