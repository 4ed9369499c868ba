# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator's own rules for readiness."""

from __future__ import annotations

import typing as t

import pytest

from lab.cluster.operator.standin import readiness
from tests.lab.cluster.operator.standin.builders import Json

READY: Json = {
    "desiredNumberScheduled": 2,
    "updatedNumberScheduled": 2,
    "numberAvailable": 2,
    "observedGeneration": 2,
}


def judge(
    status: Json, strategy: str = "RollingUpdate", pods: t.Sequence[Json] = (), revision: str | None = "new"
) -> bool:
    daemonset = {"metadata": {"generation": 2}, "spec": {"updateStrategy": {"type": strategy}}, "status": status}
    return readiness.daemonset_ready(daemonset, pods, lambda: revision)


def test_a_daemonset_without_pods_is_ready() -> None:
    assert judge({})


@pytest.mark.parametrize(
    "change",
    [{"numberUnavailable": 1}, {"observedGeneration": 1}, {"updatedNumberScheduled": 1}, {"numberAvailable": 1}],
)
def test_rolling(change: Json) -> None:
    assert judge(READY)
    assert not judge({**READY, **change})


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ({}, False),
        ({"observedGeneration": 2}, True),
        ({"observedGeneration": 2, "numberMisscheduled": 1}, False),
        # The counts are those of the previous generation, and still count.
        ({**READY, "observedGeneration": 1}, True),
        ({**READY, "numberAvailable": 1}, False),
    ],
)
def test_pool(status: Json, verdict: bool) -> None:
    assert readiness.pool_ready({"metadata": {"generation": 2}, "status": status}) is verdict


@pytest.mark.parametrize(
    ("revision", "ready", "verdict"), [("new", True, True), ("old", True, False), ("new", False, False)]
)
def test_on_delete(revision: str, ready: bool, verdict: bool) -> None:
    pod = {
        "metadata": {"labels": {readiness.REVISION: revision}},
        "status": {"phase": "Running", "containerStatuses": [{"ready": ready}]},
    }
    assert judge(READY, "OnDelete", [pod]) is verdict
