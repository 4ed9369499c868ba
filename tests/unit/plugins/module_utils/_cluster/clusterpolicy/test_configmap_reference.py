# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    configmap_reference,
    ownership,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.configmap_reference import (
    COUNTERS,
    JOBS,
    MIG_REFERENCE,
    SCRAPE,
    SHARING,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import POLICIES, FakeApi, Reply, refusal
from tests.unit.fakes.managed import entry

NAME = {"name": "gpuops-mig-layouts"}


def cluster(api: FakeApi, check_mode: bool = False) -> Cluster:
    return Cluster(api.connection, check_mode)


def policy(api: FakeApi) -> dict[str, t.Any]:
    return copy.deepcopy(api.lists[POLICIES][0])


def owned(api: FakeApi, **spec: t.Any) -> None:
    """Let the role operator own these fields of the spec."""
    fields = {
        f"f:{operand}": {"f:config": {f"f:{key}": {} for key in value["config"]}} for operand, value in spec.items()
    }
    api.lists[POLICIES][0]["spec"].update(spec)
    api.lists[POLICIES][0]["metadata"]["managedFields"] = [entry("gpuops.nvidia", fields)]


def writes(api: FakeApi) -> list[str]:
    return [query["fieldManager"] for method, dummy, query in api.log if method == "PATCH" and "dryRun" not in query]


def test_a_reference_has_its_own_manager_and_leaves_the_rest(api: FakeApi) -> None:
    owned(api, migManager={"config": {"default": "all-disabled"}})
    change = configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME)
    assert (change.changed, change.before) == (True, {"default": "all-disabled"})
    assert change.after == {"default": "all-disabled", "name": "gpuops-mig-layouts"}
    assert policy(api)["spec"]["migManager"]["config"] == change.after
    assert writes(api) == ["gpuops.nvidia-mig"]
    again = configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME)
    assert not again.changed and writes(api) == ["gpuops.nvidia-mig"]


def test_two_references_have_two_managers(api: FakeApi) -> None:
    configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME)
    configmap_reference.point(cluster(api), policy(api), SHARING, {"name": "gpuops-sharing", "default": "any"})
    assert SHARING.of(policy(api)) == {"name": "gpuops-sharing", "default": "any"}
    assert MIG_REFERENCE.of(policy(api)) == NAME
    assert configmap_reference.give_up(cluster(api), policy(api), SHARING).changed
    assert (SHARING.of(policy(api)), MIG_REFERENCE.of(policy(api))) == ({}, NAME)


def test_check_mode_writes_nothing(api: FakeApi) -> None:
    assert configmap_reference.point(cluster(api, True), policy(api), MIG_REFERENCE, NAME).changed
    assert (writes(api), MIG_REFERENCE.of(policy(api))) == ([], {})
    configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME)
    assert configmap_reference.give_up(cluster(api, True), policy(api), MIG_REFERENCE).after == {}
    assert MIG_REFERENCE.of(policy(api)) == NAME


def test_the_same_value_of_somebody_else_stays_theirs(api: FakeApi) -> None:
    owned(api, migManager={"config": dict(NAME)})
    assert not configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME).changed
    assert not configmap_reference.give_up(cluster(api), policy(api), MIG_REFERENCE).changed
    assert writes(api) == []


def test_what_somebody_else_owns_too_is_named_when_it_stays(api: FakeApi) -> None:
    configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME)
    after = policy(api)
    fields = {"f:migManager": {"f:config": {"f:name": {}}}}
    api.lists[POLICIES][0]["metadata"]["managedFields"].append(entry("helm", fields))
    after["metadata"]["managedFields"] = [entry("helm", fields)]
    api.answer = lambda method, path: (200, after) if method == "PATCH" else None
    change = configmap_reference.give_up(cluster(api), policy(api), MIG_REFERENCE)
    assert (change.changed, change.kept_by) == (False, ("helm",))


def conflict(manager: str) -> t.Callable[[str, str], Reply | None]:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{manager}"',
            "field": ".spec.migManager.config.name",
        }
    ]
    answer = refusal(409, "Apply failed with 1 conflict", "Conflict", causes)
    return lambda method, path: answer if method == "PATCH" else None


@pytest.mark.parametrize(
    ("manager", "where"),
    [
        (
            "helm",
            wording(
                "migManager.config.name of ClusterPolicy cluster-policy is 'custom', and belongs to helm. Set it to 'gpuops-mig-layouts' in the Helm values (migManager.config.name; role operator: operator_values)."
            ),
        ),
        (
            "gpuops.nvidia",
            wording(
                "migManager.config.name of ClusterPolicy cluster-policy is 'custom', and belongs to gpuops.nvidia. Set it to 'gpuops-mig-layouts' where the ClusterPolicy is declared (role operator: operator_values, migManager.config.name)."
            ),
        ),
        (
            "kubectl-edit",
            wording(
                "migManager.config.name of ClusterPolicy cluster-policy is 'custom', and belongs to kubectl-edit. Set it to 'gpuops-mig-layouts' where kubectl-edit manages it."
            ),
        ),
    ],
)
def test_another_value_of_somebody_else_is_refused(api: FakeApi, manager: str, where: str) -> None:
    owned(api, migManager={"config": {"name": "custom"}})
    api.answer = conflict(manager)
    with pytest.raises(GpuOpsError) as error:
        configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME)
    assert error.value.reason == "Conflict"
    assert error.value.msg == (where)
    assert error.value.details["conflicts"] == [{"field": "spec.migManager.config.name", "manager": manager}]


def test_a_reference_is_named_as_people_write_it() -> None:
    assert (COUNTERS.path, SCRAPE.path) == ("dcgmExporter.config", "dcgmExporter.serviceMonitor")


def test_no_value_and_an_empty_one_are_the_same_and_false_is_a_value() -> None:
    block = {"enabled": False, "interval": "", "additionalLabels": {}, "relabelings": [], "honorLabels": None}
    assert SCRAPE.of({"spec": {"dcgmExporter": {"serviceMonitor": block}}}) == {"enabled": False}
    assert SCRAPE.of({"spec": {"dcgmExporter": None}}) == SCRAPE.of({}) == {}


def test_what_would_change_is_told_without_a_change(api: FakeApi) -> None:
    change = configmap_reference.foretold(cluster(api), policy(api), COUNTERS, NAME)
    assert (change.before, change.after, change.changed) == ({}, NAME, True)
    assert configmap_reference.given_up(cluster(api), policy(api), COUNTERS).changed is False and writes(api) == []
    configmap_reference.point(cluster(api), policy(api), COUNTERS, NAME)
    assert configmap_reference.given_up(cluster(api), policy(api), COUNTERS).after == {}
    assert COUNTERS.of(policy(api)) == NAME and writes(api) == [COUNTERS.manager]


def test_a_field_that_the_operator_does_not_know_yet_is_named_with_the_version_that_has_it(api: FakeApi) -> None:
    message = "failed to create typed patch object: .spec.dcgmExporter.hpcJobMapping: field not declared in schema"
    api.answer = lambda *request: refusal(500, message)
    with pytest.raises(GpuOpsError, match=r"no dcgmExporter\.hpcJobMapping .* v25\.10\.1") as error:
        configmap_reference.foretold(cluster(api), policy(api), JOBS, {"enabled": True})
    assert error.value.reason == "Invalid"
    with pytest.raises(GpuOpsError, match="not declared"):
        configmap_reference.foretold(cluster(api), policy(api), COUNTERS, NAME)


def test_false_is_set_where_there_is_no_value(api: FakeApi) -> None:
    assert configmap_reference.point(cluster(api), policy(api), SCRAPE, {"enabled": False}).changed
    assert SCRAPE.of(policy(api)) == {"enabled": False}


ROLES = {"f:dcgmExporter": {"f:serviceMonitor": {"f:enabled": {}, "f:interval": {}}}}


def scraped(api: FakeApi) -> None:
    """Let the role operator own the operator's own ServiceMonitor, so that only force takes it."""
    monitor = {"enabled": True, "interval": "15s"}
    api.lists[POLICIES][0]["spec"]["dcgmExporter"] = {"serviceMonitor": monitor}
    api.lists[POLICIES][0]["metadata"]["managedFields"] = [entry("gpuops.nvidia", ROLES)]


def refused_without_force(api: FakeApi, *managers: str, reply: Reply | None = None) -> None:
    field = ".spec.dcgmExporter.serviceMonitor.enabled"
    causes = [{"message": f'conflict with "{manager}"', "field": field} for manager in managers]
    answer = reply or refusal(409, "conflict", "Conflict", causes)
    api.answer = lambda method, path: answer if api.log[-1][2].get("force") == "false" else None


def test_the_role_operators_value_gives_way_to_one_that_outranks_it(api: FakeApi) -> None:
    scraped(api)
    refused_without_force(api, "gpuops.nvidia")
    assert configmap_reference.foretold(cluster(api), policy(api), SCRAPE, {"enabled": False}).changed
    assert SCRAPE.of(policy(api))["enabled"] is True
    configmap_reference.point(cluster(api), policy(api), SCRAPE, {"enabled": False})
    assert SCRAPE.of(policy(api)) == {"enabled": False, "interval": "15s"}


@pytest.mark.parametrize("managers", [["helm"], ["gpuops.nvidia", "helm"], ["gpuops.nvidia-driver"], []])
def test_nobody_elses_value_gives_way(api: FakeApi, managers: list[str]) -> None:
    scraped(api)
    refused_without_force(api, *managers)
    with pytest.raises(GpuOpsError):
        configmap_reference.point(cluster(api), policy(api), SCRAPE, {"enabled": False})
    assert SCRAPE.of(policy(api))["enabled"] is True


def test_a_reference_that_outranks_nothing_takes_nothing_from_the_role_operator(api: FakeApi) -> None:
    refused_without_force(api, "gpuops.nvidia")
    with pytest.raises(GpuOpsError, match=r"belongs to gpuops\.nvidia\."):
        configmap_reference.point(cluster(api), policy(api), COUNTERS, NAME)


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_gave_way_comes_back_with_its_owner(api: FakeApi, check_mode: bool) -> None:
    scraped(api)
    refused_without_force(api, "gpuops.nvidia")
    configmap_reference.point(cluster(api), policy(api), SCRAPE, {"enabled": False})
    change = configmap_reference.give_up(cluster(api, check_mode), policy(api), SCRAPE)
    assert (change.before["enabled"], change.after) == (False, {"enabled": True, "interval": "15s"})
    assert SCRAPE.of(policy(api))["enabled"] is not check_mode
    owners = ownership.owners_of(policy(api))["spec.dcgmExporter.serviceMonitor.enabled"]
    assert owners == [SCRAPE.manager if check_mode else "gpuops.nvidia"]


def test_what_the_role_operator_declares_meanwhile_stays(api: FakeApi) -> None:
    scraped(api)
    refused_without_force(api, "gpuops.nvidia")
    configmap_reference.point(cluster(api), policy(api), SCRAPE, {"enabled": False})
    seen, tries = policy(api), list[str]()

    def answer(method: str, path: str) -> None:
        if method == "PATCH" and "dryRun" not in api.log[-1][2]:
            tries.append(path)
            if len(tries) == 1:
                api.lists[POLICIES][0]["spec"]["dcgmExporter"]["serviceMonitor"]["interval"] = "60s"
                api.lists[POLICIES][0]["metadata"]["resourceVersion"] = "99"

    api.answer = answer
    configmap_reference.give_up(cluster(api), seen, SCRAPE)
    assert SCRAPE.of(policy(api)) == {"enabled": True, "interval": "60s"} and len(tries) == 2


def test_nothing_comes_back_that_the_role_operator_does_not_declare(api: FakeApi) -> None:
    configmap_reference.point(cluster(api), policy(api), SCRAPE, {"enabled": False})
    assert configmap_reference.give_up(cluster(api), policy(api), SCRAPE).after == {}
    assert SCRAPE.of(policy(api)) == {} and writes(api) == [SCRAPE.manager] * 2


@pytest.mark.parametrize("reply", [refusal(403, "no"), refusal(409, "no", "Conflict")])
def test_other_refusals_stay_as_they_are(api: FakeApi, reply: Reply) -> None:
    api.answer = lambda method, path: reply if method == "PATCH" else None
    with pytest.raises(GpuOpsError, match="no"):
        configmap_reference.point(cluster(api), policy(api), MIG_REFERENCE, NAME)


def test_the_policy_and_its_namespace_are_found(api: FakeApi) -> None:
    assert configmap_reference.policy_of(cluster(api))[1] == "gpu-operator"
    assert configmap_reference.policy_of(cluster(api), "cluster-policy", "elsewhere")[1] == "elsewhere"


def test_without_a_policy_there_is_nothing_to_refer_from(api: FakeApi) -> None:
    with pytest.raises(GpuOpsError) as raised:
        configmap_reference.policy_of(cluster(api), "other")
    assert raised.value.reason == "NotFound"
    assert raised.value.msg == wording(
        "There is no ClusterPolicy other. Install the GPU Operator with one (role gpuops.nvidia.operator)."
    )
    del api.lists[POLICIES]
    with pytest.raises(GpuOpsError) as error:
        configmap_reference.policy_of(cluster(api))
    assert error.value.reason == "CRDMissing"
