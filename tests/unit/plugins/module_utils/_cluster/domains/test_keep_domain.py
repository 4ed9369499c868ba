# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused before a ComputeDomain is made, through the module and a small API server in this process."""

from __future__ import annotations

import functools
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes import domains
from tests.unit.fakes.api import GPUCLUSTERS, NODES, FakeApi, refusal
from tests.unit.fakes.domains import ALL_PODS, DOMAINS, JOB, NEW, Json, writes

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    """Return what runs the module on a cluster with a rack of two nodes."""
    domains.set_up(api)
    return functools.partial(run_module, "compute_domain", **api.connection, wait=False)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("trouble", "reason", "words"),
    [
        (domains.without_crd, "CRDMissing", "operator_crds"),
        (domains.switched_off, "NotReady", "draDriver.computeDomains.enabled"),
        (domains.without_controller, "NotReady", "It has no pods"),
        (domains.unready_controller, "NotReady", "not ready: gpu-operator/nvidia-dra-driver-controller-0"),
        (domains.taken_template, "Conflict", "ResourceClaimTemplate research/channel exists"),
        (domains.taken_node, "ChecksFailed", "gpu-1 (is in another ComputeDomain)"),
        (domains.two_drivers, "ChecksFailed", "and 1 are there"),
        (domains.old_driver, "ChecksFailed", "gpu-1 (has driver 570.133.20, and ComputeDomains need 570.158.01)"),
        (domains.without_plugin, "ChecksFailed", "gpu-1 (the driver's plugin"),
        (domains.two_cliques, "ChecksFailed", "one_clique: false"),
        (domains.of_somebody_else, "Conflict", "somebody else"),
        (domains.deleting, "Conflict", "is being deleted"),
        (domains.other_numbers, "Invalid", "num_nodes is 18, not 2"),
    ],
)
def test_what_would_hang_is_refused(
    api: FakeApi, module: Run, trouble: t.Callable[[FakeApi], None], reason: str, words: str, check: bool
) -> None:
    trouble(api)
    run = module(**NEW, _ansible_check_mode=check)
    assert (run.rc, run.result["reason"]) == (1, reason) and words in run.result["msg"]
    assert ("PATCH", False) not in writes(api)


def test_a_domain_may_span_cliques(api: FakeApi, module: Run) -> None:
    domains.two_cliques(api)
    assert module(**NEW, one_clique=False).rc == 0


def test_a_missing_namespace(api: FakeApi, module: Run) -> None:
    missing = refusal(404, 'namespaces "research" not found', "NotFound")
    api.answer = lambda method, path: missing if method == "PATCH" else None
    run = module(**NEW)
    assert (run.rc, run.result["reason"]) == (1, "NotFound") and "There is no namespace research" in run.result["msg"]


def test_what_is_unknown_is_a_warning(api: FakeApi, module: Run) -> None:
    api.lists[NODES] = [domains.rack_node(number, clique="") for number in range(2)]
    api.lists[domains.SLICES] = [part for part in api.lists[domains.SLICES] if "compute" in part["spec"]["driver"]]
    del api.lists[GPUCLUSTERS]
    run = module(**NEW)
    assert run.rc == 0 and len(run.warnings) == 3
    assert "nvidia.com/gpu.clique" in run.warnings[0] and "IMEXDaemonsWithDNSNames" in run.warnings[2]


@pytest.mark.parametrize("options", [{"num_nodes": -1}, {"wait_timeout": -1}])
def test_numbers_that_cannot_be_meant(api: FakeApi, module: Run, options: Json) -> None:
    run = module(**{**NEW, **options})
    assert (run.rc, run.result["reason"], api.log) == (1, "Invalid", [])


# ---- a number of nodes that is 0 ---------------------------------------------------------------------------------


def asks_for_number(api: FakeApi) -> None:
    """Let the CRD ask for numNodes, as that of the operator's chart v26.7.0 does. The fourth dry run leaves it out."""
    real = api.handle

    def handle(method: str, target: str, accept: str, body: Json | None) -> t.Any:
        if method == "PATCH" and body is not None and "numNodes" not in body["spec"]:
            return refusal(422, "spec.numNodes: Required value", "Invalid")
        return real(method, target, accept, body)

    api.handle = handle  # type: ignore[method-assign]


ZERO = {**JOB, "channel": {"template": "channel"}}


def test_zero_follows_the_job_where_the_crd_lets_it(api: FakeApi, module: Run) -> None:
    run = module(**ZERO)
    assert run.rc == 0 and run.result["compute_domain"]["spec"]["numNodes"] == 0


def test_zero_is_refused_where_the_controller_could_not_write(api: FakeApi, module: Run) -> None:
    asks_for_number(api)
    run = module(**ZERO)
    assert (run.rc, run.result["reason"], api.lists[DOMAINS]) == (1, "Invalid", [])
    assert run.result["msg"] == wording(
        "num_nodes is 0, and the CRD of this cluster asks for numNodes, which the driver leaves out if it is 0. Its controller could not accept the ComputeDomain. Give the number of nodes of the job (more or fewer nodes work as well), or apply the CRDs of the driver's own release."
    )
    assert module(**NEW).rc == 0


def test_a_driver_before_v0_4_writes_the_zero(api: FakeApi, module: Run) -> None:
    asks_for_number(api)
    old = domains.of_driver("c", **{"nvidia-dra-driver-gpu-component": "controller"})
    old["spec"]["containers"][0]["image"] = "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0"
    api.lists[ALL_PODS] = [old]
    assert module(**ZERO).rc == 0


def test_without_dns_names_the_number_must_be_exact(api: FakeApi, module: Run) -> None:
    gates = {"IMEXDaemonsWithDNSNames": False, "ComputeDomainCliques": False}
    api.lists[GPUCLUSTERS][0]["spec"]["draDriver"]["featureGates"] = gates
    run = module(**ZERO)
    assert (run.rc, run.result["reason"]) == (1, "Invalid") and "exactly num_nodes" in run.result["msg"]
    domains.old_driver(api)
    assert module(**{**NEW, "num_nodes": 1}).rc == 0, "older drivers serve without it"


def test_any_other_refusal_of_the_trial_is_told(api: FakeApi, module: Run) -> None:
    dry_runs = []

    def answer(method: str, path: str) -> t.Any:
        dry_runs.extend([path] * (method == "PATCH"))
        return refusal(403, "no", "Forbidden") if method == "PATCH" and len(dry_runs) == 2 else None

    api.answer = answer
    assert module(**ZERO).result["reason"] == "Forbidden"
