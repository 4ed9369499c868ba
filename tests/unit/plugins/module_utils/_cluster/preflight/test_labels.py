# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import labels

from tests.support.clock import Clock


def worker(desired: int | None, generation: int = 1, observed: int | None = 1) -> dict:
    containers = [{"name": "worker", "image": "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"}]
    status = {"desiredNumberScheduled": desired, "observedGeneration": observed}
    return {
        "metadata": {"name": "worker", "namespace": "nfd", "generation": generation},
        "spec": {"template": {"spec": {"containers": containers}}},
        "status": {key: value for key, value in status.items() if value is not None},
    }


class FakeCluster:
    """The DaemonSets, and how many nodes are labelled at each look. The last number stays."""

    def __init__(self, daemonsets: list[dict], *labelled: int) -> None:
        self.daemonsets = daemonsets
        self.labelled = list(labelled)

    def list(self, path: str) -> list[dict]:
        assert path == "/apis/apps/v1/daemonsets"
        return self.daemonsets

    def table(self, path: str, **selectors: str) -> list[dict[str, t.Any]]:
        assert path == "/api/v1/nodes"
        assert selectors == {"labelSelector": "feature.node.kubernetes.io/system-os_release.ID"}
        return [{}] * (self.labelled.pop(0) if len(self.labelled) > 1 else self.labelled[0])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def test_without_a_worker_there_is_nothing_to_wait_for(clock: Clock) -> None:
    assert labels.wait_until_labelled(FakeCluster([], 0), 60) is True
    assert clock.slept == []


def test_the_wait_lasts_until_each_worker_has_labelled_its_node(clock: Clock) -> None:
    assert labels.wait_until_labelled(FakeCluster([worker(3)], 0, 2, 3), 60) is True
    assert len(clock.slept) == 2


@pytest.mark.parametrize("new", [worker(None, observed=None), worker(0, generation=2, observed=1)])
def test_a_daemonset_that_the_controller_has_not_seen_says_nothing(clock: Clock, new: dict) -> None:
    assert labels.wait_until_labelled(FakeCluster([new], 5), 10) is False
    assert clock.slept


def test_workers_that_run_nowhere_label_nothing(clock: Clock) -> None:
    assert labels.wait_until_labelled(FakeCluster([worker(0)], 0), 60) is True


def test_the_wait_ends(clock: Clock) -> None:
    assert labels.wait_until_labelled(FakeCluster([worker(3), worker(1)], 2), 10) is False
    assert sum(clock.slept) == 10
