# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The removal of a ComputeDomain, through the module and a small API server in this process."""

from __future__ import annotations

import functools
import typing as t

import pytest

from tests.unit.fakes import domains
from tests.unit.fakes.api import NODES, FakeApi, refusal
from tests.unit.fakes.domains import CLAIMS, DOMAINS, JOB, LABEL, PODS, rank, used, writes

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    """Return what runs the module on a cluster with a rack of two nodes."""
    domains.set_up(api)
    return functools.partial(run_module, "compute_domain", **api.connection, wait=False)


GONE = {**JOB, "state": "absent"}


def test_nothing_to_remove(api: FakeApi, module: Run) -> None:
    assert module(**GONE, wait=True).result["changed"] is False
    del api.lists[DOMAINS]
    assert module(**GONE).result["changed"] is False and writes(api) == []


def test_a_domain_goes_once_its_pods_have_ended(api: FakeApi, module: Run) -> None:
    used(api)
    for check in (True, False):
        run = module(**GONE, _ansible_check_mode=check)
        assert (run.rc, run.result["reason"], writes(api)) == (1, "InUse", [])
        assert run.result["users"] == ["pod research/rank-0", "pod research/rank-1"]
    api.lists[PODS], api.lists[CLAIMS] = [rank(0, "gpu-0", phase="Succeeded")], [domains.claim(pods=())]
    api.lists["/apis/resource.k8s.io/v1/resourceclaims"] = []
    assert module(**GONE).result["users"] == ["claim research/rank-0-channel"]
    api.lists[CLAIMS] = []
    dry = module(**GONE, wait=True, _ansible_check_mode=True)
    assert (dry.rc, dry.result["changed"], writes(api)) == (0, True, [("DELETE", True)])
    done = module(**GONE, wait=True)
    assert (done.rc, done.result["changed"], done.result["diff"]) == (0, True, dry.result["diff"])
    assert api.lists[DOMAINS] == [] and done.warnings == []


def test_what_somebody_else_has_made_stays(api: FakeApi, module: Run) -> None:
    domains.of_somebody_else(api)
    run = module(**GONE)
    assert (run.rc, run.result["reason"], writes(api)) == (1, "Conflict", [])


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("trouble", [domains.without_controller, domains.unready_controller])
def test_without_its_controller_a_domain_stays(
    api: FakeApi, module: Run, trouble: t.Callable[[FakeApi], None], check: bool
) -> None:
    trouble(api)
    api.lists[DOMAINS] = [domains.domain()]
    run = module(**GONE, _ansible_check_mode=check)
    assert (run.rc, run.result["reason"], writes(api)) == (1, "NotReady", [])
    assert "with its finalizer" in run.result["msg"]


def test_a_domain_without_a_finalizer_needs_no_controller(api: FakeApi, module: Run) -> None:
    domains.without_controller(api)
    api.lists[DOMAINS] = [domains.domain(finalizer=False)]
    assert module(**GONE).result["changed"] and api.lists[DOMAINS] == []


def test_a_pod_that_comes_in_between_is_seen(api: FakeApi, module: Run) -> None:
    api.lists[DOMAINS] = [domains.domain()]

    def answer(method: str, path: str) -> t.Any:
        if method != "DELETE" or api.lists[PODS]:
            return None
        api.lists[PODS] = [rank(0, "gpu-0")]
        return refusal(409, "the object has been modified", "Conflict")

    api.answer = answer
    run = module(**GONE)
    assert (run.rc, run.result["reason"], len(api.lists[DOMAINS])) == (1, "InUse", 1)


def test_a_removal_that_was_ended_goes_on(api: FakeApi, module: Run) -> None:
    domains.deleting(api)
    api.lists[PODS] = [rank(0, "gpu-0")]
    dry = module(**GONE, wait=True, _ansible_check_mode=True)
    assert (dry.rc, dry.result["changed"]) == (0, True), "the controller takes it from the pods anyway"
    assert module(**GONE).result["changed"] is False, "without a wait, there is no more to do"
    run = module(**GONE, wait=True, wait_timeout=0)
    assert (run.rc, run.result["reason"], run.result["changed"], writes(api)) == (1, "TimedOut", True, [])
    assert run.result["left"] == [f"its finalizer {LABEL}"] and "The controller runs: read its log" in run.result["msg"]


def test_what_is_left_is_named(api: FakeApi, module: Run) -> None:
    domains.deleting(api)
    api.lists["/apis/resource.k8s.io/v1/resourceclaimtemplates"] = [domains.template(), domains.template("another")]
    daemons = {
        "metadata": {"name": "computedomain-daemon-x", "namespace": "gpu-operator", "labels": {LABEL: domains.UID}}
    }
    api.lists[domains.ALL_DAEMONSETS] = [daemons]
    api.lists[NODES] = [domains.rack_node(0, **{LABEL: domains.UID}), domains.rack_node(1)]
    run = module(**GONE, wait=True, wait_timeout=0)
    assert run.result["left"] == [
        f"its finalizer {LABEL}",
        "ResourceClaimTemplate research/channel",
        "DaemonSet gpu-operator/computedomain-daemon-x",
        "label of node gpu-0",
    ]
    api.lists[DOMAINS] = [domains.domain()]
    run = module(**GONE, wait=True)
    assert run.rc == 0 and "label of node gpu-0" in run.warnings[0]
