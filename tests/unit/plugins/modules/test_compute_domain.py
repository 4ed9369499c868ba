# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ``main()`` against a small API server in this process, where the test plays the controller."""

from __future__ import annotations

import functools
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes import domains
from tests.unit.fakes.api import FAULTS, FakeApi, fault
from tests.unit.fakes.domains import ALL_PODS, DOMAINS, JOB, LABEL, NEW, OBJECT, accepts, used, writes

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    """Return what runs the module on a cluster with a rack of two nodes."""
    domains.set_up(api)
    return functools.partial(run_module, "compute_domain", **api.connection, wait=False)


def test_a_domain_comes_and_a_second_run_changes_nothing(api: FakeApi, module: Run) -> None:
    accepts(api)
    dry = module(**NEW, wait=True, _ansible_check_mode=True)
    assert (dry.rc, dry.result["changed"], api.lists[DOMAINS]) == (0, True, []) and writes(api) == [("PATCH", True)]
    done = module(**NEW, wait=True)
    assert (done.rc, done.result["changed"], done.result["verdict"]["state"]) == (0, True, "idle")
    assert done.result["diff"] == dry.result["diff"] and done.result["diff"]["before"] == {}
    spec = api.lists[DOMAINS][0]["spec"]
    assert spec == {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel"}}}
    for options in (NEW, JOB, {**NEW, "_ansible_check_mode": True}):
        again = module(**options, wait=True)
        assert (again.rc, again.result["changed"], again.result["verdict"]["state"]) == (0, False, "idle")
    assert writes(api).count(("PATCH", False)) == 1


def test_everything_that_can_be_set(api: FakeApi, module: Run) -> None:
    run = module(**{**NEW, "channel": {"allocation_mode": "All"}})
    channel = {"resourceClaimTemplate": {"name": "job"}, "allocationMode": "All"}
    assert run.result["compute_domain"]["spec"] == {"numNodes": 2, "channel": channel}
    assert run.result["verdict"]["state"] == "pending"


def test_the_wait_ends_with_the_daemons_of_the_pods(api: FakeApi, module: Run) -> None:
    module(**NEW)
    made = api.lists[DOMAINS][0]
    used(api)
    made["metadata"]["finalizers"], made["status"] = [LABEL], api.lists[DOMAINS][0]["status"]
    api.lists[DOMAINS] = [made]
    run = module(**JOB, wait=True)
    assert (run.rc, run.result["changed"], run.result["verdict"]["state"]) == (0, False, "ready")
    made["status"]["nodes"][1]["cliqueID"] = "1a2b.2"
    assert ["nvidia.com/gpu.clique" in text for text in module(**JOB).warnings] == [True]
    assert module(**JOB, one_clique=False).warnings == []
    api.lists[ALL_PODS][1:] = [domains.daemon("gpu-0"), domains.daemon("gpu-1", is_ready=False)]
    run = module(**JOB, wait=True, wait_timeout=0)
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "TimedOut", False)
    assert run.result["msg"] == wording(
        "After 0 s: ComputeDomain research/job: no daemon is ready yet on gpu-1 (the pod of its daemon is not ready)."
    )
    assert [row["reason"] for row in run.result["verdict"]["nodes"]] == wording(
        ["", "the pod of its daemon is not ready"]
    )


def test_a_controller_that_does_not_accept_is_said_after_the_write(api: FakeApi, module: Run) -> None:
    run = module(**NEW, wait=True, wait_timeout=0)
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "TimedOut", True)
    assert run.result["verdict"]["state"] == "pending" and "made the template channel" in run.result["msg"]


def test_a_domain_that_is_deleted_during_the_wait(api: FakeApi, module: Run) -> None:
    used(api)
    reads = []

    def answer(method: str, path: str) -> t.Any:
        reads.extend([path] * ((method, path) == ("GET", OBJECT)))
        return (
            (200, {**domains.domain(uid="another")}) if path == OBJECT and method == "GET" and len(reads) > 1 else None
        )

    api.answer = answer
    run = module(**JOB, wait=True)
    assert (run.rc, run.result["reason"]) == (1, "NotFound") and "somebody has deleted it" in run.result["msg"]


def test_imex_of_the_hosts_is_not_waited_for(api: FakeApi, module: Run) -> None:
    used(api)
    setting = {"name": "IMEX_MODE", "value": "hostManaged"}
    api.lists[ALL_PODS][0]["spec"]["containers"][0]["env"] = [setting]
    run = module(**JOB, wait=True)
    assert (run.rc, run.result["verdict"]["state"]) == (0, "host_managed")


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind != "signal"])
def test_a_run_after_a_fault_ends_with_the_same(api: FakeApi, module: Run, kind: str) -> None:
    accepts(api)
    with fault(api, kind, 2) as hit:
        module(**NEW)
    assert hit
    assert module(**NEW, wait=True).result["verdict"]["state"] == "idle" and len(api.lists[DOMAINS]) == 1
