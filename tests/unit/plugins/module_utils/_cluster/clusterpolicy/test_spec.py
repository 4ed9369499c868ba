# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ClusterPolicy to apply, built from the module's options."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.modules import clusterpolicy
from inline_snapshot import snapshot as wording


def options(**given: t.Any) -> Json:
    """Return the module's options as AnsibleModule passes them: None means not given."""
    blocks = dict.fromkeys(spec.BLOCK_OPTIONS.options)
    own: Json = {"name": "cluster-policy", "purge": True, "spec": {}, "labels": {}, "annotations": {}}
    return {**own, **blocks, **given}


def manifest(given: Json, existing: Json | None, manager: str, **changes: t.Any) -> Json:
    """Return the object to apply for a spec."""
    defaults = {name: option.get("default") for name, option in clusterpolicy.SPEC.options.items()}
    request = spec.request_of({**defaults, "purge": True, "spec": given, **changes})
    return spec.manifest(request, existing, manager)


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("enabled", "enabled"),
        ("kernel_module_type", "kernelModuleType"),
        ("use_nvidia_driver_crd", "useNvidiaDriverCRD"),
        ("nri_plugin_enabled", "nriPluginEnabled"),
    ],
)
def test_option_names_get_the_apis_spelling(option: str, field: str) -> None:
    assert spec.field_name(option) == field


def test_typed_options_become_fields() -> None:
    given = {"use_precompiled": False, "version": None, "env": [{"name": "some_name", "value": "x"}]}
    driver = {"usePrecompiled": False, "env": [{"name": "some_name", "value": "x"}]}
    assert spec.desired_spec(options(driver=given)) == {"driver": driver}


@pytest.mark.parametrize(("given", "sent"), [("2", 2), ("25%", "25%"), (None, None)])
def test_a_number_of_nodes_becomes_an_integer(given: str | None, sent: int | str | None) -> None:
    """The schema accepts a quoted number, but the operator fails on it."""
    upgrades = {"auto_upgrade": None, "max_unavailable": given, "drain": {"max_unavailable": "2"}}
    policy = spec.desired_spec(options(driver={"upgrade_policy": upgrades}))["driver"]["upgradePolicy"]
    assert policy.get("maxUnavailable") == sent and policy["drain"] == {"max_unavailable": "2"}


def test_options_and_spec_are_merged() -> None:
    free = {"driver": {"enabled": True, "args": ["a"]}, "validator": {"version": "1"}}
    typed = {"driver": {"version": "595", "enabled": True}, "mig": {"strategy": "mixed"}}
    assert spec.desired_spec(options(**typed, spec=free)) == {
        "driver": {"version": "595", "enabled": True, "args": ["a"]},
        "mig": {"strategy": "mixed"},
        "validator": {"version": "1"},
    }


def test_a_field_with_two_values_is_an_error() -> None:
    with pytest.raises(GpuOpsError) as error:
        spec.desired_spec(options(driver={"version": "595"}, spec={"driver": {"version": "580"}}))
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "spec.driver.version is '580', but its own option says '595'. Set it in one place."
    )


def test_a_block_must_be_a_mapping() -> None:
    with pytest.raises(GpuOpsError) as error:
        spec.desired_spec(options(spec={"mig": "mixed"}))
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("spec.mig must be a mapping, not str.")


# The request


def requested(**given: t.Any) -> spec.PolicyRequest:
    defaults = {name: option.get("default") for name, option in clusterpolicy.SPEC.options.items()}
    return spec.request_of({**defaults, **given})


def test_a_request_has_the_fields_in_the_apis_spelling() -> None:
    made = requested(driver={"use_precompiled": True}, spec={"mig": {"strategy": "mixed"}}, max_unready="25%")
    assert made.spec == {"driver": {"usePrecompiled": True}, "mig": {"strategy": "mixed"}}
    assert made.tolerated.max_unready == "25%" and made.is_present and made.next_schema is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"wait_timeout": -1}, wording("wait_timeout is -1: give 0 or more.")),
        (
            {"max_unready": "many"},
            wording("max_unready is 'many'. Give a number of nodes such as 3, or a percentage such as 5%."),
        ),
        ({"spec": {"mig": "mixed"}}, wording("spec.mig must be a mapping, not str.")),
        (
            {"spec": {"certManager": {}}},
            wording("certManager is not a field of the ClusterPolicy: the GPU Operator does not need cert-manager."),
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_request(given: Json, said: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        requested(**given)
    assert e.value.msg == said
    assert e.value.reason == "Invalid"


def test_a_removal_asks_for_no_fields() -> None:
    made = requested(state="absent", spec={"mig": "mixed"}, max_unready="many")
    assert (made.is_present, made.spec) == (False, {})


# The object to apply


def test_manifest() -> None:
    made = manifest({"driver": {"version": "595"}}, None, "us", labels={"team": "ml"})
    assert (made["apiVersion"], made["kind"]) == ("nvidia.com/v1", "ClusterPolicy")
    assert made["metadata"] == {"name": "cluster-policy", "labels": {"team": "ml"}}
    assert set(made["spec"]) == set(spec.REQUIRED_BLOCKS)
    assert made["spec"]["driver"] == {"version": "595"} and made["spec"]["toolkit"] == {}
    annotated = manifest({}, None, "us", name="x", annotations={"a": "b"})
    assert annotated["metadata"] == {"name": "x", "annotations": {"a": "b"}}


def live(blocks: Json, fields: Json) -> Json:
    """Return a ClusterPolicy in which ``us`` owns these fields."""
    managed = [{"manager": "us", "operation": "Apply", "fieldsV1": {"f:spec": fields}}]
    return {"metadata": {"name": "cluster-policy", "managedFields": managed}, "spec": blocks}


def test_a_block_that_loses_its_last_field_keeps_a_default() -> None:
    blocks = {
        "toolkit": {"version": "1"},
        "gfd": {"env": [1]},
        "dcgm": {"version": "1"},
        "operator": {"a": 1},
        "daemonsets": {"labels": {}, "by": 1},
        "nodeStatusExporter": {"enabled": True},
    }
    owned = {
        "f:toolkit": {"f:version": {}},
        "f:gfd": {"f:env": {}},
        "f:dcgm": {},
        "f:operator": {"f:a": {}},
        "f:daemonsets": {"f:labels": {}},
        "f:nodeStatusExporter": {"f:enabled": {}},
    }
    desired = {"gfd": {"version": "2"}, "operator": {}}
    made = manifest(desired, live(blocks, owned), "us")["spec"]
    assert made["toolkit"] == {"enabled": True} and made["operator"] == {"runtimeClass": "nvidia"}
    assert made["nodeStatusExporter"] == {"enabled": False}
    # A block is not emptied if it is given, if another manager owns it, or if one of its fields has no owner.
    assert made["gfd"] == {"version": "2"} and made["dcgm"] == {} and made["daemonsets"] == {}
    of_others = live({"toolkit": {"version": "1"}}, owned)
    assert manifest({}, of_others, "them")["spec"]["toolkit"] == {}


def test_daemonsets_that_lose_their_last_field_keep_a_field_that_they_have() -> None:
    owned = {"f:daemonsets": {"f:priorityClassName": {}}}
    made = manifest({}, live({"daemonsets": {"priorityClassName": "x"}}, owned), "us")
    assert made["spec"]["daemonsets"] == {"updateStrategy": "RollingUpdate"}


def test_without_purge_what_was_set_earlier_is_applied_again() -> None:
    owned = {"f:driver": {"f:version": {}, "f:env": {}}, "f:mig": {"f:strategy": {}}}
    blocks = {
        "driver": {"version": "580", "env": [{"name": "A"}], "image": "of somebody else"},
        "mig": {"strategy": "mixed"},
    }
    existing = live(blocks, owned)
    existing["metadata"]["labels"] = {"team": "ml", "theirs": "x"}
    existing["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] = {"f:labels": {"f:team": {}}}
    given = {"driver": {"env": [{"name": "B"}]}, "mig": {"strategy": None}}
    made = manifest(given, existing, "us", purge=False, labels={"site": "b"})
    assert made["spec"]["driver"] == {"version": "580", "env": [{"name": "B"}]}
    assert made["spec"]["mig"] == {}
    assert made["metadata"] == {"name": "cluster-policy", "labels": {"team": "ml", "site": "b"}}
    purged = manifest(given, existing, "us", purge=True, labels={"site": "b"})
    assert purged["spec"]["driver"] == {"env": [{"name": "B"}]}
    assert purged["metadata"] == {"name": "cluster-policy", "labels": {"site": "b"}}
    assert manifest({}, None, "us", purge=False)["spec"]["driver"] == {}
