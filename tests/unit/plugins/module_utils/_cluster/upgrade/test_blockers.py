# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the way of a jump on a cluster."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import blockers, transitions
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.conditions import UpgradeView

from tests.unit.fakes.stack import Json, node
from tests.unit.plugins.module_utils._cluster.upgrade.test_transitions import KNOWN, jump, release


def found(
    before: str, after: str, records: t.Sequence[transitions.Transition] = KNOWN, **facts: t.Any
) -> list[ClusterFinding]:
    sight = UpgradeView(release(before), release(after), **{"values": {}, **facts})
    return blockers.findings(sight, transitions.jump(records, release(before), release(after)), records)


def named(listed: list[ClusterFinding]) -> dict[str, str]:
    return {item.check: item.level for item in listed}


def nodes(count: int, state: str = "upgrade-done") -> list[Json]:
    made = [copy.deepcopy(node(number)) for number in range(count)]
    for item in made:
        item["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = state
    return made


def test_a_known_step_of_a_plain_cluster() -> None:
    assert named(found("v26.3.3", "v26.7.0", nodes=nodes(2))) == {}


def test_a_step_that_nothing_is_known_of() -> None:
    [finding] = found("v26.7.0", "v26.9.0")
    assert (finding.check, finding.level) == ("path", "failure") and "force: true" in finding.remedy


def test_a_jump_over_a_release_names_the_stops() -> None:
    listed = found("v25.10.1", "v26.7.0")
    path = next(item for item in listed if item.check == "path")
    assert path.level == "failure" and "v25.10.1 to v26.7.0 are 2 steps" in path.message
    assert path.remedy == "Upgrade to v26.3.3, then to v26.7.0, one run for each."


@pytest.mark.parametrize("verdict", ["blocked", "unknown"])
def test_a_step_that_does_not_work(verdict: t.Any) -> None:
    records = [dataclasses.replace(item, verdict=verdict) if item.newer == (26, 7) else item for item in KNOWN]
    [finding] = found("v26.3.3", "v26.7.0", records)
    assert finding.level == "failure" and f"The step from v26.3 to v26.7 is {verdict}." in finding.message
    assert finding.remedy.startswith("See https://docs.nvidia.com/")


def test_the_way_back_warns_and_asks_no_question_of_the_way_up() -> None:
    values = {"kataManager": {"enabled": True}}
    [finding] = found("v26.7.0", "v26.3.3", values=values)
    assert (finding.check, finding.level) == ("way_back", "warning")
    assert "v26.3.3 is older than v26.7.0" in finding.message and "GPUCluster must be gone" in finding.message


def test_a_patch_that_is_newer_than_what_is_known() -> None:
    assert named(found("v26.7.0", "v26.7.9")) == {"release": "warning"}


def test_changes_of_the_step_that_concern_the_values() -> None:
    values = {"kataManager": {"enabled": True}, "driver": {"nvidiaDriverCRD": {"enabled": True}}}
    assert named(found("v26.3.3", "v26.7.0", values=values)) == {
        "nvidiadriver-at-once": "failure",
        "kata-manager-ignored": "failure",
    }
    renamed = found("v24.9.2", "v25.3.0", values={"driver": {"useOpenKernelModules": True}})
    assert named(renamed)["open-kernel-modules"] == "failure"
    text = next(item.message for item in renamed if item.check == "open-kernel-modules")
    assert text.startswith("v24.9 to v25.3: ") and text.endswith("Your values have driver.useOpenKernelModules.")


def test_a_mirror_needs_the_image_under_its_new_tag() -> None:
    fleet = nodes(1)
    fleet[0]["metadata"]["labels"] |= {
        "feature.node.kubernetes.io/system-os_release.ID": "rhel",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "9.4",
    }
    mirror = {"driver": {"repository": "registry.example.com/nvidia"}}
    assert named(found("v26.3.3", "v26.7.0", nodes=fleet, values=mirror)) == {
        "rhel-image-tag": "failure",
        "rhel-image-tag-of-old-drivers": "warning",
    }
    assert named(found("v26.3.3", "v26.7.0", nodes=fleet)) == {"rhel-image-tag-of-old-drivers": "warning"}


@pytest.mark.parametrize(
    ("count", "limit", "level"),
    [
        (300, None, "failure"),
        (300, "350Mi", "failure"),
        (300, "300M", "failure"),
        (300, "351Mi", None),
        (300, "1Gi", None),
        (300, "odd", None),
        (299, None, None),
    ],
)
def test_a_large_fleet_needs_more_memory(count: int, limit: str | None, level: str | None) -> None:
    values = {"operator": {"resources": {"limits": {"memory": limit}}}} if limit else {}
    assert named(found("v26.3.3", "v26.7.0", nodes=nodes(count), values=values)).get("memory") == level


def test_fields_that_the_new_operator_does_not_know() -> None:
    schema = {"properties": {"spec": {"properties": {"driver": {"properties": {"version": {"type": "string"}}}}}}}
    policy = {"driver": {"version": "580", "old": 1}, "gone": {}}
    [finding] = found("v26.3.3", "v26.7.0", policy=policy, schema=schema)
    assert (finding.check, finding.level) == ("fields", "warning")
    assert "spec.driver.old, spec.gone" in finding.message


@pytest.mark.parametrize(("state", "level"), [("upgrade-required", None), ("drain-required", "failure")])
def test_a_driver_upgrade_that_has_not_ended(state: str, level: str | None) -> None:
    assert named(found("v26.3.3", "v26.7.0", nodes=nodes(2, state))).get("driver_upgrade") == level


def test_a_driver_upgrade_that_has_failed() -> None:
    [finding] = found("v26.3.3", "v26.7.0", nodes=nodes(2, "upgrade-failed"))
    assert finding.level == "failure" and finding.nodes == ("gpu-0000", "gpu-0001") and "recovered" in finding.remedy


def test_what_a_user_accepts_becomes_a_warning() -> None:
    listed = [
        ClusterFinding("path", "failure", ""),
        ClusterFinding("memory", "failure", ""),
        ClusterFinding("way_back", "warning", ""),
    ]
    assert [item.level for item in blockers.accepted(listed, ["path"], False)] == ["warning", "failure", "warning"]
    assert {item.level for item in blockers.accepted(listed, [], True)} == {"warning"}


# ---- the driver that stays ----------------------------------------------------------------------------------------


def pin(policy: Json | None = None, values: Json | None = None, drivers: t.Sequence[Json] = ()) -> Json:
    return blockers.pin(UpgradeView((26, 3, 3), (26, 7, 0), values or {}, policy or {}, drivers))


def test_the_driver_of_the_cluster_is_kept() -> None:
    block = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.126.20", "usePrecompiled": False}
    assert pin({"driver": block}) == {"driver": {key: block[key] for key in ("repository", "image", "version")}}
    assert pin({"driver": {**block, "usePrecompiled": True}})["driver"]["usePrecompiled"] is True


def test_what_the_values_say_about_the_driver_wins() -> None:
    policy = {"driver": {"repository": "old", "image": "driver", "version": "580"}}
    assert pin(policy, {"driver": {"version": "595"}}) == {}
    assert pin(policy, {"driver": {"repository": "new"}}) == {"driver": {"image": "driver", "version": "580"}}


def test_without_a_driver_container_nothing_is_kept() -> None:
    assert pin({"driver": {"enabled": False, "version": "580"}}) == {} and pin({"driver": {}}) == {}


def test_the_driver_of_the_only_nvidiadriver_is_kept() -> None:
    policy = {"driver": {"useNvidiaDriverCRD": True, "version": "1"}}
    one = {"spec": {"version": "580", "image": "driver"}}
    assert pin(policy, None, [one]) == {"driver": {"version": "580", "image": "driver"}}
    assert pin(policy, None, [one, one]) == {}


def test_the_jump_of_a_line_to_itself_is_no_jump() -> None:
    assert jump("v26.7.0", "v26.7.0").restarts == []
