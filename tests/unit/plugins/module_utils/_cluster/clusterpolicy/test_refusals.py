# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The messages for a ClusterPolicy that the API server refuses."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import refusals
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

SCHEMA = {"properties": {"driver": {"properties": {"kernelModuleType": {}, "version": {}}}, "toolkit": {}}}


@pytest.mark.parametrize(
    "said",
    [
        'strict decoding error: unknown field "spec.driver.versoin"',
        ".spec.driver.versoin: field not declared in schema",
    ],
)
def test_an_unknown_field_gets_a_suggestion(said: str) -> None:
    found = refusals.explain(GpuOpsError(said, reason="Invalid"), SCHEMA)
    assert "spec.driver.versoin" in found.msg and "Did you mean spec.driver.version?" in found.msg


def test_without_a_schema_or_a_similar_name_there_is_no_suggestion() -> None:
    error = GpuOpsError('unknown field "spec.nothingLikeIt"', reason="Invalid")
    assert (
        "Did you mean" not in refusals.explain(error, None).msg
        and "Did you mean" not in refusals.explain(error, SCHEMA).msg
    )


def test_a_wrong_value_is_named() -> None:
    causes = [{"field": "spec.mig.strategy", "message": 'Unsupported value: "some"'}] * 2
    found = refusals.explain(GpuOpsError("long story", reason="Invalid", causes=causes), SCHEMA)
    assert found.msg == wording(
        'The API server refuses this ClusterPolicy: spec.mig.strategy: Unsupported value: "some"'
    )
    assert refusals.explain(GpuOpsError("long story", reason="Invalid"), None).msg.endswith("long story")


def test_a_block_that_cannot_be_emptied_is_named() -> None:
    causes = [
        {
            "field": "spec.driver.upgradePolicy.podDeletion",
            "message": 'Invalid value: "null": in body must be of type object: "null"',
        }
    ]
    said = refusals.explain(GpuOpsError("long story", reason="Invalid", causes=causes), None).msg
    assert said == wording(
        "Server-side apply cannot empty spec.driver.upgradePolicy.podDeletion: give at least one of its fields, for example its default."
    )


PATCH = (
    "The Kubernetes API failed on PATCH /x (500): "
    "failed to create typed patch object (/cluster-policy; nvidia.com/v1, Kind=ClusterPolicy): "
)


def test_a_field_that_does_not_fit_the_schema_is_named() -> None:
    found = refusals.explain(
        GpuOpsError(PATCH + ".spec.driver.versoin: field not declared in schema.", reason="ServerError"), SCHEMA
    )
    assert found.reason == "Invalid" and found.msg.endswith("spec.driver.versoin. Did you mean spec.driver.version?")
    found = refusals.explain(
        GpuOpsError(PATCH + ".spec.driver.enabled: expected bool, got &{yes}.", reason="ServerError"), SCHEMA
    )
    assert found.msg == wording(
        "The API server refuses this ClusterPolicy: spec.driver.enabled: expected bool, got &{yes}."
    )


def test_a_conflict_names_manager_and_field() -> None:
    causes = [
        {"field": ".spec.mig.strategy", "message": 'conflict with "helm" using nvidia.com/v1'},
        {"field": ".spec.a", "message": "?"},
    ]
    found = refusals.explain(GpuOpsError("long story", reason="Conflict", causes=causes), None)
    assert "spec.mig.strategy (helm), spec.a (unknown manager)" in found.msg and "force: true" in found.msg
    assert found.details["conflicts"][0] == {"field": "spec.mig.strategy", "manager": "helm"}


def test_a_suggestion_also_looks_into_blocks_and_survives_an_unknown_one() -> None:
    assert refusals.unknown(["spec.dirver.version"], SCHEMA).msg == (
        "The ClusterPolicy CRD has no field spec.dirver.version."
    )
    assert refusals.unknown(["spec.drivr", "spec.x"], SCHEMA).msg.endswith(
        "spec.drivr, spec.x. Did you mean spec.driver?"
    )


def test_the_fields_that_a_refusal_is_about() -> None:
    assert refusals.refused_fields(refusals.unknown(["spec.a", "spec.a", "spec.b"], None)) == ["spec.a", "spec.b"]
    causes = [{"field": "spec.mig.strategy", "message": "?"}, {"message": "no field"}]
    error = refusals.explain(GpuOpsError("long story", reason="Invalid", causes=causes), None)
    assert refusals.refused_fields(error) == ["spec.mig.strategy"]
    assert refusals.refused_fields(GpuOpsError("x", reason="Forbidden")) == []


def test_a_conflict_with_helm_alone_points_to_the_adoption() -> None:
    helm = {"field": ".spec.a", "message": 'conflict with "helm" using nvidia.com/v1'}
    said = refusals.explain(GpuOpsError("x", reason="Conflict", causes=[helm]), None).msg
    assert (
        said
        == wording(
            "Another manager owns fields with other values: spec.a (helm). Change them in the Helm values, or set adopt: true once the release has no ClusterPolicy any more."
        )
        and "force" not in said
    )


def test_a_conflict_about_many_fields_names_the_first_and_returns_all() -> None:
    causes = [{"field": f".spec.f{n}", "message": 'conflict with "helm" using v1'} for n in range(40)]
    error = refusals.explain(GpuOpsError("x", reason="Conflict", causes=causes), None)
    assert "spec.f4 (helm), and 35 more. " in error.msg and "spec.f5" not in error.msg
    assert len(error.details["conflicts"]) == 40


def test_many_wrong_values_name_the_first_and_return_all() -> None:
    causes = [{"field": f"spec.f{n}", "message": "wrong"} for n in range(40)]
    error = refusals.explain(GpuOpsError("x", reason="Invalid", causes=causes), None)
    assert "spec.f4: wrong; and 35 more" in error.msg and len(error.details["causes"]) == 40
    empty = [{"field": f"spec.f{n}", "message": 'must be of type object: "null"'} for n in range(9)]
    assert "and 4 more" in refusals.explain(GpuOpsError("x", reason="Invalid", causes=empty), None).msg


def test_conflicts_with_helm_alone_are_none() -> None:
    helm = {"field": ".spec.a", "message": 'conflict with "helm" using nvidia.com/v1'}
    person = {"field": ".spec.b", "message": 'conflict with "kubectl-edit" using nvidia.com/v1'}
    assert refusals.without_helm(GpuOpsError("x", reason="Conflict", causes=[helm, helm])) is None
    left = refusals.without_helm(GpuOpsError("x", reason="Conflict", causes=[helm, person]))
    assert left is not None and left.reason == "Conflict" and left.details["causes"] == [person]
    unnamed = GpuOpsError("x", reason="Conflict", causes=[])
    assert refusals.without_helm(unnamed) is not None
    other = GpuOpsError("x", reason="Forbidden")
    assert refusals.without_helm(other) is other


@pytest.mark.parametrize("reason", ["Conflict", "Forbidden", "ServerError"])
def test_other_refusals_are_not_changed(reason: str) -> None:
    error = GpuOpsError("as it was", reason=reason)
    assert refusals.explain(error, None) is error


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("spec.driver.upgradePolicy.podDeletion.timeout_seconds", "podDeletion.timeoutSeconds?"),
        ("spec.driver.vershun", "has no field spec.driver.vershun."),
    ],
)
def test_a_field_that_is_written_like_an_option_is_spelt(field: str, said: str) -> None:
    error = refusals.explain(GpuOpsError(f'strict decoding error: unknown field "{field}"', reason="Invalid"), None)
    assert error.msg.endswith(said), error.msg
