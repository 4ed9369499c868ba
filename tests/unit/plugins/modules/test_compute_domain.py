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
from tests.unit.fakes.api import FAULTS, GPUCLUSTERS, NODES, FakeApi, fault, refusal
from tests.unit.fakes.domains import ALL_PODS, CLAIMS, DOMAINS, LABEL, PODS, TEMPLATES, Json, rank

JOB = {"name": "job", "namespace": "research"}
NEW = {**JOB, "num_nodes": 2, "channel": {"template": "channel"}}
OBJECT = f"{DOMAINS}/job"
Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    """Return what runs the module on a cluster with a rack of two nodes."""
    domains.set_up(api)
    return functools.partial(run_module, "compute_domain", **api.connection, wait=False)


def accepts(api: FakeApi) -> None:
    """Let the controller accept a ComputeDomain as soon as it is read."""

    def answer(method: str, path: str) -> None:
        if (method, path) == ("GET", OBJECT) and api.lists[DOMAINS] and not api.lists[TEMPLATES]:
            api.lists[DOMAINS][0]["metadata"]["finalizers"] = [LABEL]
            api.lists[TEMPLATES] = [domains.template()]

    api.answer = answer


def used(api: FakeApi) -> None:
    """Give the cluster a ComputeDomain with the pods of a job, whose daemons are ready."""
    nodes = ("gpu-0", "gpu-1")
    api.lists[DOMAINS] = [domains.domain(*map(domains.status_of, nodes))]
    api.lists[TEMPLATES], api.lists[PODS] = [domains.template()], [rank(0, "gpu-0"), rank(1, "gpu-1")]
    api.lists[ALL_PODS] = [domains.controller(), *map(domains.daemon, nodes)]


def writes(api: FakeApi) -> list[tuple[str, bool]]:
    """Every write as its method, and whether it was a dry run."""
    return [(method, query.get("dryRun") == "All") for method, dummy, query in api.log if method != "GET"]


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
    api.lists[ALL_PODS][1:] = [domains.daemon("gpu-0"), domains.daemon("gpu-1", is_ready=False)]
    run = module(**JOB, wait=True, wait_timeout=0)
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "TimedOut", False)
    assert run.result["msg"] == wording(
        "After 0 s: ComputeDomain research/job: no daemon is ready yet on gpu-1 (the pod of its daemon is not ready)."
    )
    assert [row["reason"] for row in run.result["verdict"]["nodes"]] == ["", "the pod of its daemon is not ready"]


def test_a_controller_that_does_not_accept_is_said_after_the_write(api: FakeApi, module: Run) -> None:
    run = module(**NEW, wait=True, wait_timeout=0)
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "TimedOut", True)
    assert run.result["verdict"]["state"] == "pending" and "has not made the template channel" in run.result["msg"]


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


# ---- refused beforehand ------------------------------------------------------------------------------------------


def without_crd(api: FakeApi) -> None:
    del api.lists[DOMAINS]


def switched_off(api: FakeApi) -> None:
    api.lists[GPUCLUSTERS][0]["spec"] = {"draDriver": {}}


def without_controller(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [domains.daemon("gpu-0")]


def unready_controller(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [domains.controller(is_ready=False)]


def taken_template(api: FakeApi) -> None:
    api.lists[TEMPLATES] = [domains.template("another")]


def taken_node(api: FakeApi) -> None:
    api.lists[NODES][1] = domains.rack_node(1, **{LABEL: "another"})


def two_drivers(api: FakeApi) -> None:
    api.lists[domains.SLICES] = [*domains.offered(0), *domains.offered(1, "590.1.1")]


def old_driver(api: FakeApi) -> None:
    api.lists[domains.SLICES] = [*domains.offered(0), *domains.offered(1, "570.133.20")]


def without_plugin(api: FakeApi) -> None:
    api.lists[domains.SLICES] = domains.offered(0)


def two_cliques(api: FakeApi) -> None:
    api.lists[NODES][1] = domains.rack_node(1, "1a2b.2")


def of_somebody_else(api: FakeApi) -> None:
    api.lists[DOMAINS] = [domains.domain(labels={})]


def deleting(api: FakeApi) -> None:
    api.lists[DOMAINS] = [domains.domain(deletionTimestamp="2026-01-01T00:00:00Z")]


def other_numbers(api: FakeApi) -> None:
    api.lists[DOMAINS] = [domains.domain()]
    api.lists[DOMAINS][0]["spec"]["numNodes"] = 18


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("trouble", "reason", "words"),
    [
        (without_crd, "CRDMissing", "operator_crds"),
        (switched_off, "NotReady", "draDriver.computeDomains.enabled"),
        (without_controller, "NotReady", "It has no pods"),
        (unready_controller, "NotReady", "not ready: gpu-operator/nvidia-dra-driver-controller-0"),
        (taken_template, "Conflict", "ResourceClaimTemplate research/channel exists"),
        (taken_node, "ChecksFailed", "gpu-1 (is in another ComputeDomain)"),
        (two_drivers, "ChecksFailed", "with one version of the driver, and 1 are there"),
        (old_driver, "ChecksFailed", "gpu-1 (has driver 570.133.20, and ComputeDomains need 570.158.01)"),
        (without_plugin, "ChecksFailed", "gpu-1 (the driver's plugin offers no channel there)"),
        (two_cliques, "ChecksFailed", "one_clique: false"),
        (of_somebody_else, "Conflict", "somebody else has made it"),
        (deleting, "Conflict", "is being deleted"),
        (other_numbers, "Invalid", "num_nodes is 18, not 2"),
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
    two_cliques(api)
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
    old_driver(api)
    assert module(**{**NEW, "num_nodes": 1}).rc == 0, "older drivers serve without it"


def test_any_other_refusal_of_the_trial_is_told(api: FakeApi, module: Run) -> None:
    dry_runs = []

    def answer(method: str, path: str) -> t.Any:
        dry_runs.extend([path] * (method == "PATCH"))
        return refusal(403, "no", "Forbidden") if method == "PATCH" and len(dry_runs) == 2 else None

    api.answer = answer
    assert module(**ZERO).result["reason"] == "Forbidden"


# ---- hosts that run IMEX ------------------------------------------------------------------------------------------


def test_imex_of_the_hosts_is_not_waited_for(api: FakeApi, module: Run) -> None:
    used(api)
    setting = {"name": "IMEX_MODE", "value": "hostManaged"}
    api.lists[ALL_PODS][0]["spec"]["containers"][0]["env"] = [setting]
    run = module(**JOB, wait=True)
    assert (run.rc, run.result["verdict"]["state"]) == (0, "host_managed")


# ---- removal ------------------------------------------------------------------------------------------------------

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
    of_somebody_else(api)
    run = module(**GONE)
    assert (run.rc, run.result["reason"], writes(api)) == (1, "Conflict", [])


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("trouble", [without_controller, unready_controller])
def test_without_its_controller_a_domain_stays(
    api: FakeApi, module: Run, trouble: t.Callable[[FakeApi], None], check: bool
) -> None:
    trouble(api)
    api.lists[DOMAINS] = [domains.domain()]
    run = module(**GONE, _ansible_check_mode=check)
    assert (run.rc, run.result["reason"], writes(api)) == (1, "NotReady", [])
    assert "would stay with its finalizer" in run.result["msg"]


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
    deleting(api)
    dry = module(**GONE, wait=True, _ansible_check_mode=True)
    assert (dry.rc, dry.result["changed"]) == (0, True)
    run = module(**GONE, wait=True, wait_timeout=0)
    assert (run.rc, run.result["reason"], run.result["changed"], writes(api)) == (1, "TimedOut", True, [])
    assert run.result["left"] == [f"its finalizer {LABEL}"] and "The controller runs: read its log" in run.result["msg"]


def test_what_is_left_is_named(api: FakeApi, module: Run) -> None:
    deleting(api)
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


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind != "signal"])
def test_a_run_after_a_fault_ends_with_the_same(api: FakeApi, module: Run, kind: str) -> None:
    accepts(api)
    with fault(api, kind, 2) as hit:
        module(**NEW)
    assert hit
    assert module(**NEW, wait=True).result["verdict"]["state"] == "idle" and len(api.lists[DOMAINS]) == 1
