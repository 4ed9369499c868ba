# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.spec import (
    MASK,
    REQUIRED_BLOCKS,
    camel,
    explain_refusal,
    manifest,
    mask,
    merge_spec,
    owners_of,
    plan,
    refuse_contradictions,
    refuse_wrong_fields,
    secrets_in,
    strip_managed,
    typed_block,
    warnings,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

Json = dict[str, t.Any]
TOKEN = {"name": "NGC_API_KEY", "value": "nvapi-very-secret"}


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("enabled", "enabled"),
        ("kernel_module_type", "kernelModuleType"),
        ("use_nvidia_driver_crd", "useNvidiaDriverCRD"),
        ("nri_plugin_enabled", "nriPluginEnabled"),
    ],
)
def test_camel(option: str, field: str) -> None:
    assert camel(option) == field


def test_typed_options_become_fields() -> None:
    given = {"use_precompiled": False, "version": None, "env": [{"name": "some_name", "value": "x"}]}
    assert typed_block(given) == {"usePrecompiled": False, "env": [{"name": "some_name", "value": "x"}]}


def test_options_and_spec_are_merged() -> None:
    merged = merge_spec(
        {"driver": {"version": "595", "enabled": True}, "mig": {"strategy": "mixed"}},
        {"driver": {"enabled": True, "args": ["a"]}},
    )
    assert merged == {"driver": {"version": "595", "enabled": True, "args": ["a"]}, "mig": {"strategy": "mixed"}}


def test_a_field_with_two_values_is_an_error() -> None:
    with pytest.raises(GpuOpsError, match=r"spec\.driver\.version is '580' but the option of its own says '595'"):
        merge_spec({"driver": {"version": "595"}}, {"driver": {"version": "580"}})


def test_manifest() -> None:
    made = manifest("cluster-policy", {"driver": {"version": "595"}}, {"team": "ml"}, {}, None, "us")
    assert made["metadata"] == {"name": "cluster-policy", "labels": {"team": "ml"}}
    assert (
        set(made["spec"]) == set(REQUIRED_BLOCKS)
        and made["spec"]["driver"] == {"version": "595"}
        and made["spec"]["toolkit"] == {}
    )
    assert manifest("x", {}, {}, {"a": "b"}, None, "us")["metadata"] == {"name": "x", "annotations": {"a": "b"}}


def test_a_block_whose_last_field_goes_keeps_a_default() -> None:
    live = {
        "toolkit": {"version": "1"},
        "gfd": {"env": [1]},
        "dcgm": {"version": "1"},
        "operator": {"a": 1},
        "daemonsets": {"labels": {}, "by": 1},
    }
    mine = {
        "f:toolkit": {"f:version": {}},
        "f:gfd": {"f:env": {}},
        "f:dcgm": {},
        "f:operator": {"f:a": {}},
        "f:daemonsets": {"f:labels": {}},
    }
    made = manifest("x", {"gfd": {"version": "2"}, "operator": {}}, {}, {}, item(live, mine), "us")["spec"]
    assert made["toolkit"] == {"enabled": True} and made["operator"] == {"runtimeClass": "nvidia"}
    # Given, somebody else's, or with a field that nobody owns: nothing is emptied.
    assert made["gfd"] == {"version": "2"} and made["dcgm"] == {} and made["daemonsets"] == {}
    assert manifest("x", {}, {}, {}, item({"toolkit": {"version": "1"}}, mine), "them")["spec"]["toolkit"] == {}


@pytest.mark.parametrize(
    ("spec", "right"),
    [
        ({"driver": {"kernelModuleType": "precompiled"}}, "driver.usePrecompiled: true"),
        ({"driver": {"useOpenKernelModules": True}}, "driver.kernelModuleType: open"),
        ({"driver": {"upgradePolicy": {"gpuPodDeletion": {}}}}, "driver.upgradePolicy.podDeletion"),
        ({"mig": {"config": "1g.10gb-2,3g.40gb-1"}}, "label nvidia.com/mig.config"),
        ({"certManager": {}}, "does not need cert-manager"),
    ],
)
def test_wrong_advice_meets_the_right_field(spec: Json, right: str) -> None:
    with pytest.raises(GpuOpsError, match=right.replace(".", r"\.")) as e:
        refuse_wrong_fields(spec)
    assert e.value.reason == "Invalid"


COMPLETE = {"autoUpgrade": True, "waitForCompletion": {}, "podDeletion": {}, "drain": {}}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (
            {"driver": {"upgradePolicy": {"autoUpgrade": True}}},
            "upgradePolicy.waitForCompletion, driver.upgradePolicy.podDeletion, driver.upgradePolicy.drain",
        ),
        ({"driver": {"upgradePolicy": {**COMPLETE, "drain": None}}}, "driver.upgradePolicy.drain"),
        ({"cdi": {"nriPluginEnabled": True, "enabled": False}}, "cdi.enabled: true"),
        ({"cdi": {"nriPluginEnabled": True}, "toolkit": {"enabled": False}}, "toolkit.enabled: true"),
        (
            {"driver": {"usePrecompiled": True}, "gds": {"enabled": True}},
            "gds.enabled does not work with driver.usePrecompiled",
        ),
        (
            {"driver": {"usePrecompiled": True}, "gdrcopy": {"enabled": True}},
            "gdrcopy.enabled does not work with driver.usePrecompiled",
        ),
        ({"toolkit": {"version": "v1", "image": "x"}}, "toolkit: repository, image and version go together"),
    ],
)
def test_contradictions_name_the_field(spec: Json, named: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        refuse_contradictions(spec)
    assert named in e.value.msg and e.value.reason == "Invalid"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"driver": {"upgradePolicy": COMPLETE}},
        {"driver": {"upgradePolicy": {"autoUpgrade": False}}},
        {"cdi": {"nriPluginEnabled": True}},
        {"driver": {"usePrecompiled": True}, "gds": {"enabled": False}},
        {"toolkit": {"image": "registry/x@sha256:1"}},
        {"toolkit": {"version": "v1", "enabled": False}},
    ],
)
def test_what_makes_sense_is_let_through(spec: Json) -> None:
    refuse_wrong_fields(spec)
    refuse_contradictions(spec)


def test_warnings() -> None:
    assert warnings({}) == [] and warnings({"daemonsets": {"tolerations": [{"operator": "Exists"}]}}) == []
    assert "OnDelete" in warnings({"daemonsets": {"updateStrategy": "OnDelete"}})[0]
    assert (
        "nvidia.com/gpu:NoSchedule"
        in warnings({"daemonsets": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}})[0]
    )
    assert "branch alone" in warnings({"driver": {"usePrecompiled": True, "version": "595.91.07"}})[0]


# What the API server says


SCHEMA = {"properties": {"driver": {"properties": {"kernelModuleType": {}, "version": {}}}, "toolkit": {}}}


@pytest.mark.parametrize(
    "said",
    [
        'strict decoding error: unknown field "spec.driver.versoin"',
        ".spec.driver.versoin: field not declared in schema",
    ],
)
def test_an_unknown_field_gets_a_suggestion(said: str) -> None:
    found = explain_refusal(GpuOpsError(said, reason="Invalid"), SCHEMA)
    assert "spec.driver.versoin" in found.msg and "Did you mean spec.driver.version?" in found.msg


def test_an_unknown_field_without_a_schema_or_a_likeness() -> None:
    error = GpuOpsError('unknown field "spec.nothingLikeIt"', reason="Invalid")
    assert (
        "Did you mean" not in explain_refusal(error, None).msg
        and "Did you mean" not in explain_refusal(error, SCHEMA).msg
    )


def test_a_wrong_value_is_named() -> None:
    causes = [{"field": "spec.mig.strategy", "message": 'Unsupported value: "some"'}] * 2
    found = explain_refusal(GpuOpsError("long story", reason="Invalid", causes=causes), SCHEMA)
    assert found.msg == 'The API server refuses this ClusterPolicy: spec.mig.strategy: Unsupported value: "some"'
    assert explain_refusal(GpuOpsError("long story", reason="Invalid"), None).msg.endswith("long story")


def test_a_block_that_cannot_be_emptied_is_named() -> None:
    causes = [
        {
            "field": "spec.driver.upgradePolicy.podDeletion",
            "message": 'Invalid value: "null": in body must be of type object: "null"',
        }
    ]
    said = explain_refusal(GpuOpsError("long story", reason="Invalid", causes=causes), None).msg
    assert "cannot empty spec.driver.upgradePolicy.podDeletion: give at least one of its fields" in said


PATCH = "The Kubernetes API failed on PATCH /x (500): failed to create typed patch object (/cluster-policy; nvidia.com/v1, Kind=ClusterPolicy): "


def test_what_does_not_fit_the_schema_is_the_users_to_correct() -> None:
    found = explain_refusal(
        GpuOpsError(PATCH + ".spec.driver.versoin: field not declared in schema.", reason="ServerError"), SCHEMA
    )
    assert found.reason == "Invalid" and found.msg.endswith("spec.driver.versoin. Did you mean spec.driver.version?")
    found = explain_refusal(
        GpuOpsError(PATCH + ".spec.driver.enabled: expected bool, got &{yes}.", reason="ServerError"), SCHEMA
    )
    assert found.msg == "The API server refuses this ClusterPolicy: spec.driver.enabled: expected bool, got &{yes}."


def test_a_conflict_names_manager_and_field() -> None:
    causes = [
        {"field": ".spec.mig.strategy", "message": 'conflict with "helm" using nvidia.com/v1'},
        {"field": ".spec.a", "message": "?"},
    ]
    found = explain_refusal(GpuOpsError("long story", reason="Conflict", causes=causes), None)
    assert "spec.mig.strategy (helm), spec.a (unknown manager)" in found.msg and "force: true" in found.msg
    assert found.details["conflicts"][0] == {"field": "spec.mig.strategy", "manager": "helm"}


@pytest.mark.parametrize("reason", ["Conflict", "Forbidden", "ServerError"])
def test_other_refusals_stay_as_they_are(reason: str) -> None:
    error = GpuOpsError("as it was", reason=reason)
    assert explain_refusal(error, None) is error


# What an apply changes


def item(spec: Json, fields: Json, **metadata: t.Any) -> Json:
    mine = {"manager": "us", "fieldsV1": {"f:spec": fields}}
    status = {"manager": "operator", "subresource": "status", "fieldsV1": {"f:status": {"f:state": {}}}}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy", "managedFields": [mine, status], **metadata},
        "spec": spec,
        "status": {"state": "ready"},
    }


def test_owners() -> None:
    fields = {"f:driver": {".": {}, "f:version": {}, "f:env": {'k:{"name":"A"}': {".": {}, "f:value": {}}}}}
    assert owners_of(item({}, fields)) == {"spec.driver.version": ["us"], 'spec.driver.env[{"name":"A"}].value': ["us"]}


def test_nothing_changes_with_the_status() -> None:
    before = item({"mig": {}}, {"f:mig": {}})
    assert not plan(before, {**before, "status": {}}, "us").changed


def test_creation_change_and_deletion() -> None:
    old, new = item({"a": 1}, {"f:a": {}}), item({"a": 2}, {"f:a": {}}, labels={"x": "y"}, annotations={"p": "q"})
    assert plan(None, old, "us").before == {} and plan(None, old, "us").changed
    changed = plan(old, new, "us")
    assert (
        changed.changed
        and changed.before["spec"] == {"a": 1}
        and changed.after["metadata"] == {"name": "cluster-policy", "labels": {"x": "y"}, "annotations": {"p": "q"}}
    )
    assert plan(old, None, "us").after == {}


def test_taking_over_a_field_is_a_change() -> None:
    change = plan(item({"a": 1}, {}), item({"a": 1}, {"f:a": {}}), "us")
    assert change.changed and change.after["fields owned by us"] == ["spec.a"]


def test_secrets_are_hidden() -> None:
    spec = {"driver": {"env": [TOKEN, {"name": "INTERVAL", "value": "15000"}]}}
    assert mask(spec) == {
        "driver": {"env": [{"name": "NGC_API_KEY", "value": MASK}, {"name": "INTERVAL", "value": "15000"}]}
    }
    assert list(secrets_in({"spec": spec, "name": "x"})) == ["nvapi-very-secret"]
    assert list(secrets_in([{"name": "A_TOKEN", "value": "true"}, {"name": "A_TOKEN"}])) == []
    change = plan(None, item(spec, {}), "us")
    assert "nvapi" not in str(change)


def test_strip_managed() -> None:
    stripped = strip_managed(item({"driver": {"env": [TOKEN]}}, {}))
    assert "managedFields" not in stripped["metadata"] and "nvapi" not in str(stripped)
