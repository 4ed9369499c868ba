# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes in a spec that the API server accepts."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import mistakes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording


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
def test_a_commonly_suggested_wrong_field_is_answered_with_the_right_one(spec: Json, right: str) -> None:
    with pytest.raises(GpuOpsError, match=right.replace(".", r"\.")) as e:
        mistakes.refuse_wrong_fields(spec)
    assert e.value.reason == "Invalid"


COMPLETE = {"autoUpgrade": True, "waitForCompletion": {}, "podDeletion": {}, "drain": {}}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (
            {"driver": {"upgradePolicy": {"autoUpgrade": True}}},
            wording(
                "driver.upgradePolicy.waitForCompletion, driver.upgradePolicy.podDeletion, driver.upgradePolicy.drain must be given when autoUpgrade is true (an empty {} takes the defaults): otherwise a driver upgrade stops with a node cordoned."
            ),
        ),
        (
            {"driver": {"upgradePolicy": {**COMPLETE, "drain": None}}},
            wording(
                "driver.upgradePolicy.drain must be given when autoUpgrade is true (an empty {} takes the defaults): otherwise a driver upgrade stops with a node cordoned."
            ),
        ),
        (
            {"cdi": {"nriPluginEnabled": True, "enabled": False}},
            wording("cdi.nriPluginEnabled needs cdi.enabled: true."),
        ),
        (
            {"cdi": {"nriPluginEnabled": True}, "toolkit": {"enabled": False}},
            wording("cdi.nriPluginEnabled needs toolkit.enabled: true, because the toolkit runs the plugin."),
        ),
        (
            {"driver": {"usePrecompiled": True}, "gds": {"enabled": True}},
            wording(
                "gds.enabled does not work with driver.usePrecompiled: GPUDirect Storage has no precompiled modules. Set one of the two to false."
            ),
        ),
        (
            {"driver": {"usePrecompiled": True}, "gdrcopy": {"enabled": True}},
            wording(
                "gdrcopy.enabled does not work with driver.usePrecompiled: GDRCopy has no precompiled modules. Set one of the two to false."
            ),
        ),
        (
            {"toolkit": {"version": "v1", "image": "x"}},
            wording(
                "toolkit: repository, image and version go together (or image alone with its whole path); repository is missing."
            ),
        ),
        (
            {"toolkit": {"version": "v1", "repository": "r"}},
            wording(
                "toolkit: repository, image and version go together (or image alone with its whole path); image is missing."
            ),
        ),
        (
            {"toolkit": {"version": "v1"}},
            wording(
                "toolkit: repository, image and version go together (or image alone with its whole path); repository and image are missing."
            ),
        ),
    ],
)
def test_contradictions_name_the_field(spec: Json, named: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        mistakes.refuse_contradictions(spec)
    assert e.value.msg == named and e.value.reason == "Invalid"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"driver": {"upgradePolicy": COMPLETE}},
        {"driver": {"upgradePolicy": {"autoUpgrade": False}}},
        {"cdi": {"nriPluginEnabled": True}},
        {"driver": {"usePrecompiled": True}, "gds": {"enabled": False}},
        {"driver": {"usePrecompiled": False}, "gds": {"enabled": True}},
        {"gds": {"enabled": True}, "gdrcopy": {"enabled": True}},
        {"aFlagOfTomorrow": True},
        {"toolkit": {"image": "registry/x@sha256:1"}},
        {"toolkit": {"version": "v1", "enabled": False}},
    ],
)
def test_correct_specs_are_accepted(spec: Json) -> None:
    mistakes.refuse_wrong_fields(spec)
    mistakes.refuse_contradictions(spec)


def test_warnings() -> None:
    assert (
        mistakes.warnings({}) == []
        and mistakes.warnings({"daemonsets": {"tolerations": [{"operator": "Exists"}]}}) == []
    )
    assert "OnDelete" in mistakes.warnings({"daemonsets": {"updateStrategy": "OnDelete"}})[0]
    assert (
        "nvidia.com/gpu:NoSchedule"
        in mistakes.warnings({"daemonsets": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}})[0]
    )
    assert mistakes.warnings({"driver": {"usePrecompiled": True, "version": "595"}}) == []
    assert mistakes.warnings({"driver": {"usePrecompiled": True}}) == []
    assert mistakes.warnings({"driver": {"version": "595.91.07"}}) == []
    assert mistakes.warnings({"daemonsets": {"tolerations": [{"key": "nvidia.com/gpu"}]}}) == []
    assert mistakes.warnings({"daemonsets": {"tolerations": [{"key": "", "operator": "Exists"}]}}) == []
    assert "branch alone" in mistakes.warnings({"driver": {"usePrecompiled": True, "version": "595.91.07"}})[0]


def env(**values: str) -> dict[str, list[dict[str, str]]]:
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


@pytest.mark.parametrize("automatic", [True, False, None])
def test_variables_of_the_driver_manager_that_an_automatic_upgrade_ignores(automatic: bool | None) -> None:
    manager = env(ENABLE_AUTO_DRAIN="true", DRAIN_USE_FORCE="true", DRAIN_DELETE_EMPTYDIR_DATA="true")
    policy = None if automatic is None else {"autoUpgrade": automatic}
    found = mistakes.warnings({"driver": {"manager": manager, "upgradePolicy": policy}})
    assert [text.split()[0] for text in found] == [each["name"] for each in manager["env"] if automatic]
    assert not automatic or "Set drain.enable in driver.upgradePolicy" in found[0]


@pytest.mark.parametrize(
    "manager",
    [None, {"env": None}, env(ENABLE_AUTO_DRAIN="false"), env(ENABLE_GPU_POD_EVICTION="true"), {"env": [{}]}],
)
def test_the_charts_own_variables_of_the_manager_are_no_mistake(manager: object) -> None:
    assert mistakes.warnings({"driver": {"manager": manager, "upgradePolicy": {"autoUpgrade": True}}}) == []
