# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ``main()`` against a small API server in this process."""

from __future__ import annotations

import copy
import typing as t

import pytest

from tests.unit.fakes.api import DAEMONSETS, GPUCLUSTERS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.claimed import CLASSES, GPUCLUSTER, SLICES, claimed, slice_of

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    stack = claimed(2)
    api.lists |= {POLICIES: [], NODES: stack.nodes, DAEMONSETS: list(stack.daemonsets.values())}
    api.lists |= {GPUCLUSTERS: [copy.deepcopy(GPUCLUSTER)], CLASSES: [], SLICES: [slice_of(0), slice_of(1)]}
    api.answer = lambda method, path: refusal(403, "forbidden") if method == "POST" else None
    return lambda **options: run_module("gpucluster_info", **{**api.connection, **options})


def test_what_it_reports(api: FakeApi, module: Run) -> None:
    api.lists[GPUCLUSTERS][0]["spec"] = {"draDriver": {"featureGates": {"MPSSupport": True}}}
    result = module(wait=True).result
    assert (result["exists"], result["state"], result["verdict"]["state"]) == (True, "ready", "ready")
    assert {name for name, is_on in result["feature_gates"].items() if is_on} == {
        "MPSSupport",
        "IMEXDaemonsWithDNSNames",
        "ComputeDomainCliques",
        "CrashOnNVLinkFabricErrors",
    }
    assert result["kubernetes"]["resource_api"] == "v1"
    assert set(result["kubernetes"]["feature_gates"].values()) == {"unknown"}
    assert result["versions"]["dra-driver"] == "1.0"


def test_without_a_gpucluster(api: FakeApi, module: Run) -> None:
    api.lists[GPUCLUSTERS] = []
    result = module().result
    assert (result["exists"], result["gpucluster"], result["feature_gates"]) == (False, {}, {})


def test_without_the_api(api: FakeApi, module: Run) -> None:
    for path in (CLASSES, SLICES):
        del api.lists[path]
    found = module().result["kubernetes"]
    assert found["resource_api"] is None and set(found["feature_gates"].values()) == {"off"}


def test_a_wait_that_fails(api: FakeApi, module: Run) -> None:
    del api.lists[SLICES][0]
    run = module(wait=True, wait_timeout=0)
    assert (run.rc, run.result["reason"]) == (1, "TimedOut") and "operands" not in run.result
