# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, NODES, POLICIES, REVISIONS, FakeApi, refusal
from tests.unit.fakes.stack import progress, workload

SKIP = "nvidia.com/gpu-driver-upgrade.skip"
NOTE = "gpuops.nvidia/driver-rollout"
STATE = "nvidia.com/gpu-driver-upgrade-state"
BOTH = ["gpu-0000", "gpu-0001"]


@pytest.fixture
def hold(run_module: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.1)
    return functools.partial(run_module, "driver_hold", **api.connection)


def labels(api: FakeApi, number: int = 0) -> dict[str, str]:
    return api.lists[NODES][number]["metadata"]["labels"]


def kept(api: FakeApi) -> list[str]:
    return [item["metadata"]["name"] for item in api.lists[NODES] if item["metadata"]["labels"].get(SKIP) == "true"]


def render_anew(api: FakeApi, *old: str) -> None:
    """Give the driver's DaemonSet a new revision that these nodes do not run yet."""
    driver = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-driver-daemonset")
    driver["status"].update(progress(2, 2, 2 - len(old), 2))
    api.table = [[f"driver-{node}", "1/1", "Running", "0", "1d", "10.0.0.1", node] for node in old]


def test_all_drivers_are_kept_and_let_go(api: FakeApi, hold: t.Callable) -> None:
    predicted = hold(_ansible_check_mode=True).result
    assert predicted["changed"] and predicted["newly_held"] == BOTH and kept(api) == []
    done = hold(_ansible_diff=True).result
    assert done == {**predicted, "diff": done["diff"]} and kept(api) == BOTH
    assert done["diff"] == {"before": {"held": []}, "after": {"held": BOTH}}
    again = hold().result
    assert not again["changed"] and again["held"] == BOTH and again["newly_held"] == []
    gone = hold(state="absent").result
    assert gone["changed"] and gone["released"] == BOTH and kept(api) == [] and gone["held"] == []
    assert NOTE not in api.lists[NODES][0]["metadata"]["annotations"]
    assert not hold(state="absent").result["changed"]


def marked(api: FakeApi) -> list[str]:
    """Return the fields of the ClusterPolicy's driver that are marked as kept."""
    entries = api.lists[POLICIES][0]["metadata"].get("managedFields", [])
    own = [entry["fieldsV1"]["f:spec"] for entry in entries if entry["manager"] == "gpuops.nvidia-kept-driver"]
    return sorted(key.removeprefix("f:") for fields in own for key in fields["f:driver"])


def test_the_drivers_version_is_marked_as_kept_until_that_is_given_up(api: FakeApi, hold: t.Callable) -> None:
    hold()
    api.lists[POLICIES][0]["spec"]["driver"] = {"version": "580.126.20", "image": "driver", "usePrecompiled": False}
    predicted = hold(keep_version=True, _ansible_check_mode=True)
    assert predicted.result["changed"] and marked(api) == []
    assert hold(keep_version=True).result["changed"] and marked(api) == ["image", "version"]
    assert not hold(keep_version=True).result["changed"] and not hold().result["changed"]
    hold(state="absent")
    assert marked(api) == ["image", "version"], "Without the option, the mark stays."
    assert hold(state="absent", keep_version=False).result["changed"] and marked(api) == []
    assert not hold(state="absent", keep_version=False).result["changed"]


def test_nvidiadrivers_need_no_mark(api: FakeApi, hold: t.Callable) -> None:
    hold()
    api.lists[POLICIES][0]["spec"]["driver"] = {"version": "580.126.20", "useNvidiaDriverCRD": True}
    assert not hold(keep_version=True).result["changed"] and marked(api) == []
    api.lists[POLICIES].clear()
    assert not hold(keep_version=True).result["changed"]


def test_nodes_without_a_driver_container_are_left_alone(api: FakeApi, hold: t.Callable) -> None:
    labels(api)["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    assert hold().result["newly_held"] == ["gpu-0001"]


def test_the_label_of_a_user_stays(api: FakeApi, hold: t.Callable) -> None:
    labels(api)[SKIP] = "true"
    done = hold().result
    assert (done["newly_held"], done["users"], done["held"]) == (["gpu-0001"], ["gpu-0000"], BOTH)
    gone = hold(state="absent", everything=True).result
    assert (gone["released"], gone["held"]) == (["gpu-0001"], ["gpu-0000"])


@pytest.mark.parametrize("state", ["cordon-required", "pod-deletion-required", "validation-required"])
def test_a_driver_that_is_being_replaced_cannot_be_kept(api: FakeApi, hold: t.Callable, state: str) -> None:
    labels(api, 1)[STATE] = state
    failed = hold()
    assert failed.rc == 1 and failed.result["reason"] == "NodesBusy" and kept(api) == []
    assert "gpu-0001" in failed.result["msg"] and state in failed.result["msg"]


def test_a_node_with_an_old_driver_pod_is_let_go_only_if_asked(api: FakeApi, hold: t.Callable) -> None:
    hold()
    render_anew(api, "gpu-0000")
    done = hold(state="absent").result
    assert (done["released"], done["held"], done["outdated"]) == (["gpu-0001"], ["gpu-0000"], ["gpu-0000"])
    assert not hold(state="absent").result["changed"]
    assert hold(state="absent", everything=True).result["released"] == ["gpu-0000"] and kept(api) == []


def test_an_upgrade_that_a_way_back_has_made_needless_does_not_begin(api: FakeApi, hold: t.Callable) -> None:
    """NVIDIA's operator would evict the GPU pods of such a node: it does not look at the driver again."""
    hold()
    for number in range(2):
        labels(api, number)[STATE] = "upgrade-required"
    render_anew(api, "gpu-0001")
    assert hold(state="absent", everything=True, allow_disruption=True).result["released"] == BOTH
    assert STATE not in labels(api) and labels(api, 1)[STATE] == "upgrade-required" and kept(api) == []


def test_gpu_pods_on_a_node_that_is_let_go_need_permission(api: FakeApi, hold: t.Callable) -> None:
    hold()
    render_anew(api, "gpu-0000")
    api.lists[ALL_PODS].append(workload("training"))
    failed = hold(state="absent", everything=True)
    assert failed.rc == 1 and failed.result["reason"] == "Disruption" and "training" in failed.result["msg"]
    assert kept(api) == BOTH
    done = hold(state="absent", everything=True, allow_disruption=True)
    assert done.rc == 0 and kept(api) == []


def test_without_knowing_the_newest_revision_nobody_is_let_go(api: FakeApi, hold: t.Callable) -> None:
    hold()
    render_anew(api, "gpu-0000")
    api.answer = lambda method, path: refusal(403, "no") if path == REVISIONS else None
    failed = hold(state="absent")
    assert failed.rc == 1 and "controllerrevisions" in failed.result["msg"] and kept(api) == BOTH


def test_pods_that_must_not_be_listed_may_be_in_the_way(api: FakeApi, hold: t.Callable) -> None:
    hold()
    render_anew(api, "gpu-0000")
    api.answer = lambda method, path: refusal(403, "no") if path == ALL_PODS else None
    failed = hold(state="absent", everything=True)
    assert failed.rc == 1 and failed.result["msg"] == wording(
        "Without the label, the operator replaces the drivers of gpu-0000 and may evict GPU pods that this user may not list. Roll the driver out with gpuops.nvidia.upgrade_driver, or set allow_disruption: true."
    )


def test_a_node_that_cannot_be_labelled_is_named(api: FakeApi, hold: t.Callable) -> None:
    def forbid(method: str, path: str) -> tuple[int, dict[str, t.Any]] | None:
        return refusal(403, "no") if method == "PATCH" and path.endswith("gpu-0001") else None

    api.answer = forbid
    failed = hold()
    assert failed.rc == 1 and failed.result["nodes"] == ["gpu-0001"] and kept(api) == ["gpu-0000"]
