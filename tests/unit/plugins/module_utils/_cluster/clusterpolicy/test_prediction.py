# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an apply would make of the ClusterPolicy. The lab tests it against a real API server."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover, prediction
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.spec import request_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.modules import clusterpolicy
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import policy

HELM = {"manager": "helm", "operation": "Update", "fieldsV1": {"f:spec": {"f:toolkit": {"f:env": {}}}}}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def manifest(**spec: t.Any) -> Json:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }


def predict(api: FakeApi, spec: Json, **given: t.Any) -> tuple[Json, list[str]]:
    existing = next(iter(api.lists.get(POLICIES, [])), None)
    asked = {"existing": existing, "is_served": True, "adopts": False, "forces": False, **given}
    before = asked["existing"] or {"metadata": {}}
    own = handover.adopted(before, FIELD_MANAGER) if asked["adopts"] else before
    return prediction.predict(Cluster(api.connection), prediction.Apply(manifest(**spec), own=own, **asked))


def conflict(*managers: str) -> tuple[int, Json]:
    causes = [{"field": ".spec.mig.strategy", "message": f'conflict with "{name}" using v1'} for name in managers]
    return refusal(409, "Apply failed", causes=causes)


def refuse(api: FakeApi, *replies: tuple[int, Json] | None) -> None:
    """Answer the first writes with these replies; None lets one pass."""
    left = list(replies)
    api.answer = lambda method, path: left.pop(0) if method == "PATCH" and left else None


def crd_of(**properties: Json) -> Json:
    spec = {"type": "object", "properties": properties}
    return {"type": "object", "properties": {"spec": spec}}


def queries(api: FakeApi) -> list[tuple[str, str | None]]:
    """Every write as its method and whether it is forced. All of them must be dry runs."""
    writes = [(method, query) for method, dummy, query in api.log if method != "GET"]
    assert all(query["dryRun"] == "All" and query["fieldValidation"] == "Strict" for dummy, query in writes)
    return [(method, query.get("force")) for method, query in writes]


def test_without_the_crd_the_prediction_is_what_is_given(api: FakeApi) -> None:
    predicted, notes = predict(api, {"mig": {}}, is_served=False)
    assert predicted == manifest(mig={})
    assert "could not be checked" in notes[0] and queries(api) == []


def test_a_dry_run_predicts(api: FakeApi) -> None:
    predicted, notes = predict(api, {"mig": {"strategy": "mixed"}}, forces=True)
    assert predicted["spec"]["mig"] == {"strategy": "mixed"} and predicted["status"]["state"] == "ready"
    assert notes == [] and queries(api) == [("PATCH", "true")] and "mig" not in api.lists[POLICIES][0]["spec"]


# Adoption


@pytest.fixture
def owned_by_helm(api: FakeApi) -> FakeApi:
    existing = policy(toolkit={"env": [{"name": "A"}]}, driver={"version": "595"})
    existing["metadata"]["managedFields"] = [HELM]
    existing["metadata"]["annotations"] = {"meta.helm.sh/release-name": "gpu-operator"}
    api.lists[POLICIES] = [existing]
    return api


def test_helm_is_no_conflict_in_an_adoption(owned_by_helm: FakeApi) -> None:
    refuse(owned_by_helm, conflict("helm", "Helm"))
    predicted, dummy = predict(owned_by_helm, {"driver": {"version": "595"}}, adopts=True)
    assert queries(owned_by_helm) == [("PATCH", "false"), ("PATCH", "true"), ("PATCH", None)]
    assert "toolkit" not in predicted["spec"] and predicted["spec"]["driver"] == {"version": "595"}
    assert predicted["metadata"]["annotations"] == {}
    assert [entry["manager"] for entry in predicted["metadata"]["managedFields"]] == ["gpuops.nvidia"]


def test_an_adoption_that_removes_nothing_needs_one_dry_run(owned_by_helm: FakeApi) -> None:
    predicted, dummy = predict(owned_by_helm, {"toolkit": {"env": [{"name": "A"}]}}, adopts=True)
    assert queries(owned_by_helm) == [("PATCH", "false")] and predicted["spec"]["toolkit"] == {"env": [{"name": "A"}]}


def test_another_manager_stays_in_the_way_of_an_adoption(owned_by_helm: FakeApi) -> None:
    refuse(owned_by_helm, conflict("helm", "kubectl-edit"))
    with pytest.raises(GpuOpsError) as e:
        predict(owned_by_helm, {"mig": {"strategy": "single"}}, adopts=True)
    assert e.value.details["conflicts"] == [{"field": "spec.mig.strategy", "manager": "kubectl-edit"}]
    assert queries(owned_by_helm) == [("PATCH", "false")]


def test_without_adoption_helm_is_a_conflict(owned_by_helm: FakeApi) -> None:
    refuse(owned_by_helm, conflict("helm"))
    with pytest.raises(GpuOpsError) as e:
        predict(owned_by_helm, {"mig": {"strategy": "single"}})
    assert e.value.details["conflicts"] == [{"field": "spec.mig.strategy", "manager": "helm"}]


def test_with_the_next_crd_an_adoption_takes_one_dry_run(owned_by_helm: FakeApi) -> None:
    """The next CRD, and not the installed one, has the defaults of the fields that leave."""
    predicted, dummy = predict(owned_by_helm, {"driver": {"version": "595"}}, adopts=True, next_schema=NEXT)
    assert queries(owned_by_helm) == [("PATCH", "false")]
    assert predicted["spec"] == {"driver": {"version": "595"}}
    assert [entry["manager"] for entry in predicted["metadata"]["managedFields"]] == ["gpuops.nvidia"]


# The apply that is asked for


def asked(policies: list[Json] | None, check_mode: bool = True, **given: t.Any) -> prediction.Apply:
    defaults = {name: option.get("default") for name, option in clusterpolicy.SPEC.options.items()}
    return prediction.apply_of(request_of({**defaults, "adopt": True, **given}), policies, check_mode)


def test_an_apply_is_complete_before_the_first_dry_run(owned_by_helm: FakeApi) -> None:
    existing = owned_by_helm.lists[POLICIES][0]
    apply = asked([existing], force=True, schema=NEXT)
    assert apply.existing is existing and apply.adopts and apply.forces and apply.is_served
    assert [entry["manager"] for entry in apply.own["metadata"]["managedFields"]] == ["gpuops.nvidia"]
    assert apply.manifest["spec"]["toolkit"] == {"env": [{"name": "A"}]}, "it keeps what Helm has set"
    assert apply.path == f"{POLICIES}/cluster-policy" and apply.next_spec == NEXT["properties"]["spec"]
    assert asked([existing], adopt=False).own is existing


def test_an_apply_before_there_is_anything() -> None:
    fresh = asked(None, mig={"strategy": "mixed"})
    assert (fresh.existing, fresh.own, fresh.is_served, fresh.adopts) == (None, {"metadata": {}}, False, False)
    assert fresh.manifest["spec"]["mig"] == {"strategy": "mixed"} and fresh.next_spec == {}
    assert asked([policy(name="other")]).existing is None


def test_the_next_crd_matters_in_check_mode_only() -> None:
    assert asked([], schema=NEXT).next_schema == NEXT
    assert asked([], False, schema=NEXT).next_schema is None


# The CRD of the next operator


NEXT = crd_of(
    driver={"type": "object", "properties": {"version": {"type": "string"}}},
    fresh={
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 3},
            "kind": {"type": "string", "enum": ["a", "b"]},
        },
    },
)


def unknown_here(*fields: str) -> tuple[int, Json]:
    return refusal(400, "strict decoding error: " + ", ".join(f'unknown field "{field}"' for field in fields))


def test_fields_that_only_the_next_crd_knows_are_predicted(api: FakeApi) -> None:
    refuse(api, unknown_here("spec.fresh"), None)
    api.lists[POLICIES] = [policy(driver={"version": "580"})]
    spec = {"driver": {"version": "595"}, "fresh": {"kind": "a"}}
    predicted, notes = predict(api, spec, next_schema=crd_of(**NEXT["properties"]["spec"]["properties"], toolkit={}))
    assert predicted["spec"]["fresh"] == {"kind": "a", "size": 3} and predicted["spec"]["driver"] == {"version": "595"}
    own = predicted["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert own == {"f:driver": {"f:version": {}}, "f:fresh": {"f:kind": {}}}
    assert notes == [
        wording(
            "The next ClusterPolicy CRD no longer has spec.validator, spec.devicePlugin, spec.dcgm, spec.dcgmExporter, "
            "spec.gfd, spec.migManager; the API server drops it."
        )
    ]


def test_values_that_only_the_next_crd_accepts_are_predicted(api: FakeApi) -> None:
    wrong = [{"field": "spec.fresh.kind", "message": 'Unsupported value: "b"'}]
    refuse(api, unknown_here("spec.fresh.size"), refusal(422, "invalid", causes=wrong), None)
    predicted, dummy = predict(api, {"fresh": {"kind": "b", "size": 4}}, next_schema=NEXT)
    assert predicted["spec"]["fresh"] == {"kind": "b", "size": 4}


def test_a_field_that_the_next_crd_lacks_is_an_error_with_a_suggestion(api: FakeApi) -> None:
    with pytest.raises(GpuOpsError) as e:
        predict(api, {"driver": {"versoin": "595"}}, next_schema=NEXT)
    assert e.value.msg == "The ClusterPolicy CRD has no field spec.driver.versoin. Did you mean spec.driver.version?"
    assert queries(api) == []


@pytest.mark.parametrize(
    ("spec", "reply"),
    [
        ({"fresh": {"kind": "c"}}, refusal(422, "x", causes=[{"field": "spec.fresh.kind", "message": "no"}])),
        ({"fresh": {"kind": "a"}}, refusal(422, "x", causes=[{"field": "spec.driver.enabled", "message": "no"}])),
        ({"fresh": {"kind": "a"}}, refusal(403, "no")),
    ],
)
def test_what_the_next_crd_does_not_explain_is_an_error(api: FakeApi, spec: Json, reply: tuple[int, Json]) -> None:
    refuse(api, reply)
    with pytest.raises(GpuOpsError):
        predict(api, spec, next_schema=NEXT)
    assert queries(api) == [("PATCH", "false")]


def test_a_field_that_is_refused_again_ends_the_prediction(api: FakeApi) -> None:
    refuse(api, unknown_here("spec.fresh"), unknown_here("spec.fresh"))
    with pytest.raises(GpuOpsError, match=r"no field spec\.fresh"):
        predict(api, {"fresh": {"kind": "a"}}, next_schema=NEXT)


def test_a_field_that_is_given_up_loses_the_default_of_the_old_crd(api: FakeApi) -> None:
    existing = policy(driver={"version": "595"})
    fields = {"f:spec": {"f:driver": {"f:version": {}}}}
    own = {"manager": "gpuops.nvidia", "operation": "Apply", "fieldsV1": fields}
    existing["metadata"]["managedFields"] = [own]
    existing["spec"] = {"driver": {"version": "595"}}
    api.lists[POLICIES] = [copy.deepcopy(existing)]
    predicted, dummy = predict(api, {"driver": {}}, next_schema=NEXT, existing=existing)
    assert predicted["spec"] == {"driver": {}}


def test_before_any_crd_the_next_one_checks_and_completes_what_is_given(api: FakeApi) -> None:
    predicted, notes = predict(api, {"fresh": {}}, next_schema=NEXT, is_served=False, existing=None)
    assert predicted["spec"] == {"fresh": {"size": 3}} and notes == [] and queries(api) == []


# Suggestions


def test_suggestions_come_from_the_installed_crd(api: FakeApi) -> None:
    schema = {"properties": {"spec": {"properties": {"migManager": {}}}}}
    versions = [{"schema": {"openAPIV3Schema": schema}}]
    api.lists[CRDS] = [{"metadata": {"name": "clusterpolicies.nvidia.com"}, "spec": {"versions": versions}}]
    refuse(api, unknown_here("spec.migManger"))
    with pytest.raises(GpuOpsError, match=r"Did you mean spec\.migManager\?"):
        predict(api, {"migManger": {}})
    api.lists[CRDS] = [{"metadata": {"name": "clusterpolicies.nvidia.com"}, "spec": {"versions": []}}]
    refuse(api, unknown_here("spec.migManger"))
    with pytest.raises(GpuOpsError, match=r"no field spec\.migManger\.$"):
        predict(api, {"migManger": {}})
