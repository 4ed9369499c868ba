# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which manager owns which field, and how fields change hands."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes.managed import STATUS, entry, item

# Owners


def test_owners_of_fields() -> None:
    fields = {"f:driver": {".": {}, "f:version": {}, "f:env": {'k:{"name":"A"}': {".": {}, "f:value": {}}}}}
    owned = item({}, entry("us", fields), entry("them", {"f:driver": {"f:version": {}}}, "Update"))
    assert ownership.owners_of(owned) == {
        "spec.driver.version": ["us", "them"],
        'spec.driver.env[{"name":"A"}].value': ["us"],
    }
    assert ownership.owned_by(owned, "them") == ["spec.driver.version"]
    assert ownership.owners_of({"metadata": {}}) == {}


# What a manager has applied


def test_applied_fields_come_with_the_values_that_they_have_now() -> None:
    fields = {
        "f:driver": {".": {}, "f:version": {}, "f:env": {}, "f:gone": {}},
        "f:toolkit": {},
        "f:mig": {"f:strategy": {}},
    }
    live = {
        "driver": {"version": "595", "env": [{"name": "A"}], "image": "theirs"},
        "toolkit": {"version": "theirs"},
        "mig": {"strategy": "mixed"},
    }
    metadata = {"f:labels": {".": {}, "f:team": {}}}
    of_us = item(live, entry("us", fields, metadata=metadata), labels={"team": "ml", "site": "b"})
    assert ownership.applied_by(of_us, "us") == {
        "metadata": {"labels": {"team": "ml"}},
        "spec": {
            "driver": {"version": "595", "env": [{"name": "A"}]},
            "toolkit": {},
            "mig": {"strategy": "mixed"},
        },
    }
    assert ownership.applied_by(of_us, "them") == {}


def test_what_was_set_by_an_update_was_not_applied() -> None:
    assert ownership.applied_by(item({"a": 1}, entry("us", {"f:a": {}}, "Update")), "us") == {}


def test_of_a_list_that_managers_share_only_the_own_items_are_picked() -> None:
    fields = {
        "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}, 'k:{"name":"gone"}': {}},
        "f:set": {'v:"x"': {}},
    }
    live = {"env": [{"name": "A", "value": "1", "note": "theirs"}, {"name": "B"}], "set": ["x", "y"]}
    assert ownership.applied_by(item(live, entry("us", fields)), "us")["spec"] == {
        "env": [{"name": "A", "value": "1"}],
        "set": ["x"],
    }


@pytest.mark.parametrize(
    ("applied", "given", "made"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": None}}, {"a": {"y": 1}}),
        ({"a": {"x": 1}}, {"a": None, "b": None}, {}),
        ({"a": 1}, {"a": {"x": 1, "y": None}}, {"a": {"x": 1}}),
    ],
)
def test_what_is_given_is_merged_into_what_was_applied(applied: Json, given: Json, made: Json) -> None:
    before = copy.deepcopy(applied)
    assert ownership.merged(applied, given) == made
    assert applied == before


def test_a_field_that_was_given_up_may_stay_with_others() -> None:
    before = item({}, entry("us", {"f:a": {}, "f:b": {}, "f:c": {}}), entry("argocd", {"f:b": {}, "f:c": {}}))
    after = item({}, entry("us", {"f:c": {}}), entry("argocd", {"f:b": {}, "f:c": {}}))
    assert ownership.left_with_others(before, after, "us") == {"spec.b": ["argocd"]}
    assert ownership.left_with_others(None, after, "us") == {}


# How fields change hands


def test_what_a_declarer_has_applied_is_left_to_it() -> None:
    theirs = {
        "f:driver": {".": {}, "f:version": {}, "f:image": {}, "f:env": {'k:{"name":"A"}': {".": {}}}},
        "f:mig": {},
    }
    before = item(
        {"driver": {"version": "600", "image": "driver", "env": [{"name": "A"}]}, "mig": {"strategy": "mixed"}},
        entry("them", theirs),
        entry("us", {"f:driver": {"f:image": {}}}),
    )
    wanted = {"driver": {"version": "595", "image": "other", "enabled": True, "env": []}, "mig": {"strategy": "mixed"}}
    made, differing = ownership.left_to("them", {"kind": "x", "spec": wanted}, before, "us")
    # What we own too keeps its value, and so does a list whose items have owners of their own keep what is given.
    assert made == {"kind": "x", "spec": {"driver": {"image": "driver", "enabled": True, "env": []}}}
    assert differing == ["spec.driver.version", "spec.driver.image"]


@pytest.mark.parametrize("before", [None, item({"driver": {"version": "600"}}, entry("other", {"f:driver": {}}))])
def test_without_a_declarer_a_manifest_stays_as_it_is(before: Json | None) -> None:
    manifest = {"spec": {"driver": {"version": "595"}}}
    assert ownership.left_to("them", manifest, before, "us") == (manifest, [])


def test_the_fields_of_several_managers_become_one_apply() -> None:
    ours, helms = entry("us", {"f:driver": {"f:version": {}}}), entry("helm", {"f:driver": {"f:env": {}}}, "Update")
    person, status = entry("kubectl-edit", {"f:mig": {}}, "Update"), {**STATUS, "manager": "helm"}
    of_all = item({}, person, ours, status, helms)
    before = copy.deepcopy(of_all)
    after = ownership.moved(of_all, lambda one: one["manager"] in ("us", "helm"), "helm")
    assert after == [entry("helm", {"f:driver": {"f:version": {}, "f:env": {}}}), person, status, STATUS]
    assert of_all == before, "The argument should stay as it is."


def test_without_their_fields_nothing_moves() -> None:
    of_person = item({}, entry("kubectl-edit", {"f:mig": {}}, "Update"))
    assert ownership.moved(of_person, lambda one: False, "helm") == of_person["metadata"]["managedFields"]
    assert ownership.moved({"metadata": {}}, lambda one: True, "helm") == []


# Prediction


def test_fields_that_we_own_alone_and_no_longer_apply_leave_with_their_empty_blocks() -> None:
    fields = {
        "f:driver": {"f:version": {}, "f:repoConfig": {"f:configMapName": {}}, "f:env": {}},
        "f:toolkit": {"f:env": {}, "f:version": {}},
        "f:mig": {"f:strategy": {}},
        "f:gfd": {"f:enabled": {}},
        "f:dcgm": {"f:enabled": {}},
        "f:gdrcopy": {"f:version": {}},
    }
    others = {"f:toolkit": {"f:version": {}}, "f:dcgm": {"f:image": {}}}
    live = {
        "driver": {"version": "595", "repoConfig": {"configMapName": "x"}, "env": [], "image": "nobody's"},
        "toolkit": {"env": [1], "version": "v1"},
        "mig": {"strategy": "mixed"},
        "gfd": {"enabled": True},
        "dcgm": {"enabled": True},
        "gdrcopy": {"version": "1", "image": "nobody's"},
        "validator": {"version": "nobody's"},
    }
    before = item(live, entry("us", fields), entry("kubectl-edit", others, "Update"))
    manifest = {"metadata": {"name": "cluster-policy"}, "spec": {"driver": {"version": "595"}, "gfd": {}}}
    assert ownership.without_given_up(before, before, manifest, "us")["spec"] == {
        "driver": {"version": "595", "image": "nobody's"},
        "toolkit": {"version": "v1"},
        "gfd": {},
        "dcgm": {},
        "gdrcopy": {"image": "nobody's"},
        "validator": {"version": "nobody's"},
    }


def test_labels_that_we_no_longer_apply_leave_and_other_metadata_stays() -> None:
    metadata = {"f:labels": {"f:team": {}, "f:site": {}}}
    before = item({}, entry("us", {}, metadata=metadata), labels={"team": "ml", "site": "b", "x": "y"}, uid="1")
    manifest = {"metadata": {"name": "cluster-policy", "labels": {"site": "b"}}, "spec": {}}
    after = ownership.without_given_up(before, before, manifest, "us")["metadata"]
    assert after["labels"] == {"site": "b", "x": "y"} and after["uid"] == "1"


def test_the_fields_of_a_manifest() -> None:
    manifest = {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"driver": {"env": [{"a": 1}]}, "gfd": {}}}
    before = item({}, entry("us", {"f:old": {}}), entry("us", {"f:by": {}}, "Update"))
    after = ownership.after_apply(before, {"metadata": {}}, manifest, "us")
    own = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:driver": {"f:env": {}}, "f:gfd": {}}}
    assert after["metadata"]["managedFields"] == [
        {"manager": "us", "operation": "Apply", "fieldsV1": own},
        entry("us", {"f:by": {}}, "Update"),
        STATUS,
    ]
    bare = ownership.after_apply({"metadata": {}}, {"metadata": {}}, {"metadata": {"name": "x"}, "spec": {}}, "us")
    assert bare["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {}}


def test_after_an_apply_what_was_given_up_is_gone() -> None:
    before = item({"gfd": {"enabled": True}}, entry("us", {"f:gfd": {"f:enabled": {}}}))
    after = ownership.after_apply(before, before, {"metadata": {"name": "x"}, "spec": {}}, "us")
    assert after["spec"] == {} and after["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {}}


def test_what_moves_keeps_the_version_and_time_of_the_newest_entry() -> None:
    entries = [
        {**entry("helm", {"f:a": {}}), "time": "1"},
        {**entry("us", {"f:b": {}}), "time": "2"},
        {**entry("helm", {"f:c": {}}), "time": "3"},
    ]
    (own, status) = ownership.moved(item({}, *entries), lambda one: one["manager"] in ("us", "helm"), "us")
    assert own["time"] == "3" and own["fieldsV1"] == {"f:spec": {"f:a": {}, "f:b": {}, "f:c": {}}}
    assert status == STATUS


def test_marks_that_nobody_shall_own_leave_with_what_is_empty_then() -> None:
    notes = {"f:annotations": {".": {}, "f:a": {}, "f:b": {}}, "f:labels": {".": {}, "f:c": {}}}
    entries = [entry("helm", {"f:x": {}}, metadata=notes)]
    nobodys = [("annotations", "a"), ("labels", "c"), ("labels", "none"), ("finalizers", "none")]
    own = ownership.moved(item({}, *entries), lambda one: one["manager"] == "helm", "us", nobodys)[0]
    assert own["fieldsV1"] == {"f:metadata": {"f:annotations": {".": {}, "f:b": {}}}, "f:spec": {"f:x": {}}}
