# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an apply changes."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import changes
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

TOKEN = {"name": "NGC_API_KEY", "value": "nvapi-very-secret"}


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


def test_a_new_status_is_not_a_change() -> None:
    before = item({"mig": {}}, {"f:mig": {}})
    assert not changes.between(before, {**before, "status": {}}, "us").changed


def test_creation_change_and_deletion() -> None:
    old, new = item({"a": 1}, {"f:a": {}}), item({"a": 2}, {"f:a": {}}, labels={"x": "y"}, annotations={"p": "q"})
    assert changes.between(None, old, "us").before == {} and changes.between(None, old, "us").changed
    changed = changes.between(old, new, "us")
    assert (
        changed.changed
        and changed.before["spec"] == {"a": 1}
        and changed.after["metadata"]
        == {"name": "cluster-policy", "labels": {"x": "y"}, "annotations": {"p": "VALUE_HIDDEN"}}
    )
    assert changes.between(old, None, "us").after == {}


TAKEN, KEPT = "fields of others that us takes over", "fields of us that others keep"


def test_taking_over_a_field_is_a_change() -> None:
    """The field had the default of the schema, which has no owner."""
    spec = {"a": 1, "b": 2}
    change = changes.between(item(spec, {"f:b": {}}), item(spec, {"f:a": {}, "f:b": {}}), "us")
    assert change.changed and (change.before[KEPT], change.after[TAKEN]) == ([], ["spec.a"])


def test_leaving_a_field_to_its_other_owner_is_a_change() -> None:
    shared = item({"a": 1}, {"f:a": {}})
    helm = {"manager": "helm", "fieldsV1": {"f:spec": {"f:a": {}}}}
    shared["metadata"]["managedFields"].append(helm)
    left = {**shared, "metadata": {**shared["metadata"], "managedFields": [helm]}}
    change = changes.between(shared, left, "us")
    assert change.changed and (change.before[KEPT], change.after[TAKEN]) == (["spec.a"], [])


def test_fields_whose_value_shows_the_change_are_not_listed_again() -> None:
    change = changes.between(item({"a": 1}, {"f:a": {}}), item({"b": {"c": 1}}, {"f:b": {"f:c": {}}}), "us")
    assert change.changed and change.before.keys() == change.after.keys() == {"apiVersion", "kind", "metadata", "spec"}


def test_a_diff_hides_secrets() -> None:
    spec = {"driver": {"env": [TOKEN, {"name": "HTTPS_PROXY", "value": "http://ann:hunter22@proxy:3128"}]}}
    change = changes.between(None, item(spec, {}), "us")
    assert change.changed and "nvapi" not in str(change) and "hunter22" not in str(change)
    assert change.diff["after"]["spec"]["driver"]["env"][1]["value"] == "http://VALUE_HIDDEN@proxy:3128"


def test_strip_managed() -> None:
    stripped = changes.strip_managed(item({"driver": {"env": [TOKEN]}}, {}))
    assert "managedFields" not in stripped["metadata"] and "nvapi" not in str(stripped)
