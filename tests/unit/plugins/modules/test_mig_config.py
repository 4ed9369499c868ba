# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import functools
import os
import signal
import time
import typing as t
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as _cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain, held_nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import proof
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.clock import LeapingClock
from tests.support.measured import measured
from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, FAULTS, NODES, PODS, POLICIES, FakeApi, fault, refusal
from tests.unit.fakes.mig import CONFIG, CONFIGMAPS, PAUSED, STATE, MigFleet, configmap, text
from tests.unit.fakes.stack import node as gpu_node
from tests.unit.fakes.stack import workload

BOTH = {"nodes": ["gpu-0000", "gpu-0001"]}
ONE = {"nodes": ["gpu-0000"]}
HELD = "gpuops.nvidia/maintenance.mig"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"


@pytest.fixture
def fleet(api: FakeApi) -> MigFleet:
    return MigFleet(api)


@pytest.fixture
def configure(run_module: t.Callable, api: FakeApi, leaps: LeapingClock, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    """The module with a clock that leaps over its waits."""
    monkeypatch.setattr(waiting, "POLL_S", 2.0)
    return functools.partial(run_module, "mig_config", **api.connection)


def row(run: t.Any, name: str = "gpu-0000") -> dict:
    return next(item for item in run.result["nodes"] if item["node"] == name)


def notes(fleet: MigFleet, name: str = "gpu-0000") -> dict[str, str]:
    return fleet.node(name)["metadata"].get("annotations") or {}


def is_free(fleet: MigFleet, name: str = "gpu-0000") -> bool:
    """Return whether a node is in service, and nothing on it is paused or held."""
    node = fleet.node(name)
    paused = [key for key, value in fleet.labels(name).items() if PAUSED in value]
    return not node["spec"].get("unschedulable") and HELD not in notes(fleet, name) and not paused


def writes(api: FakeApi) -> list[str]:
    return [f"{method} {path}" for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def test_check_mode_plans_with_layouts_that_are_not_published_yet(configure: t.Callable, fleet: MigFleet) -> None:
    content = text({"all-disabled": {}, "mine": {"2g.20gb": 3}})
    run = configure(layout="mine", **ONE, content=content, _ansible_check_mode=True)
    assert (run.rc, run.result["changed"], row(run)["after"]) == (0, True, {"nvidia.com/mig-2g.20gb": 24})
    for options in ({"content": content}, {"_ansible_check_mode": True}):
        assert configure(layout="mine", **ONE, **options).rc == 1 and fleet.log == []


# ---- a change -----------------------------------------------------------------------------------------------------


def test_nodes_get_their_layout_and_are_put_back(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    run = configure(layout="all-1g.10gb", **BOTH, _ansible_diff=True)
    assert run.rc == 0 and run.result["changed"] is True and run.warnings == []
    assert fleet.log == [("gpu-0000", "all-1g.10gb"), ("gpu-0001", "all-1g.10gb")]
    assert is_free(fleet) and is_free(fleet, "gpu-0001") and fleet.most == 1, "one node at a time is the default"
    assert row(run)["after"] == {"nvidia.com/mig-1g.10gb": 56} and row(run)["before"] == {"nvidia.com/gpu": 8}
    assert row(run)["state"] == "success" and row(run)["step"] == "done" and row(run)["purposes"] == []
    assert run.result["summary"] == {
        "nodes": 2, "changed": 2, "failed": 0, "waiting": 0, "evicted": 0, "repaired": 0,
    }  # fmt: skip
    assert run.result["diff"]["after"]["gpu-0000"] == {
        "layout": "all-1g.10gb", "resources": {"nvidia.com/mig-1g.10gb": 56}, "pods": [],
    }  # fmt: skip
    api.log.clear()
    again = configure(layout="all-1g.10gb", **BOTH)
    assert again.rc == 0 and again.result["changed"] is False and writes(api) == []
    assert row(again)["action"] == "nothing" and again.result["diff"] == {"before": {}, "after": {}}


def test_a_change_takes_four_requests_for_each_node(
    configure: t.Callable, api: FakeApi, fleet: MigFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "LATE_PODS_S", 0.0)  # so that one look at the pods is enough
    assert configure(layout="all-1g.10gb", **BOTH, max_unavailable="100%").rc == 0
    of_nodes = [
        (method, path if path != ALL_PODS else query.get("fieldSelector", ""))
        for method, path, query in api.log
        if path.startswith(f"{NODES}/") or query.get("fieldSelector", "").startswith("spec.nodeName=")
    ]
    for name in BOTH["nodes"]:
        assert [(method, what) for method, what in of_nodes if what.endswith(name)] == [
            ("PATCH", f"{NODES}/{name}"),  # the cordon, for the version that the last look has seen
            # Nobody is there, and the look at all nodes has seen that the node is still held and cordoned.
            ("GET", f"spec.nodeName={name}"),
            ("PATCH", f"{NODES}/{name}"),  # the layout
            ("PATCH", f"{NODES}/{name}"),  # the end of the hold
        ]


def test_a_cordon_of_somebody_else_between_the_look_and_ours_stays(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    def cordon(method: str, path: str) -> None:
        if method == "PATCH" and not fleet.node()["spec"].get("unschedulable"):
            fleet.node()["spec"]["unschedulable"] = True
            fleet.label("gpu-0000", {})

    fleet.special = cordon
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and fleet.node()["spec"]["unschedulable"] is True and HELD not in notes(fleet)


def test_the_layout_is_set_and_the_old_state_cleared_in_one_patch(
    configure: t.Callable, api: FakeApi, fleet: MigFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict] = []
    real = _cluster.Cluster.merge

    def merge(self: t.Any, path: str, body: dict) -> dict:
        sent.append(body)
        return real(self, path, body)

    monkeypatch.setattr(_cluster.Cluster, "merge", merge)
    assert configure(layout="all-1g.10gb", **ONE).rc == 0
    (body,) = [body for body in sent if CONFIG in (body["metadata"].get("labels") or {})]
    assert body["metadata"]["labels"] == {CONFIG: "all-1g.10gb", STATE: None}
    assert body["metadata"]["annotations"]["gpuops.nvidia/mig"] == "all-1g.10gb"
    assert notes(fleet)["gpuops.nvidia/mig"] == "all-1g.10gb"


def test_check_mode_shows_the_plan_and_the_pods_and_changes_nothing(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("web", gpus=0)]
    run = configure(layout="all-balanced", **ONE, allow_disruption=True, _ansible_check_mode=True)
    assert run.rc == 0 and run.result["changed"] is True and writes(api) == [] and fleet.log == []
    assert row(run)["pods"] == ["default/train"] and row(run)["action"] == "change"
    assert row(run)["why"] == "its layout is all-disabled"
    assert row(run)["after"] == {
        "nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-2g.20gb": 8, "nvidia.com/mig-3g.40gb": 8,
    }  # fmt: skip


def test_each_selector_has_its_layout(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.label("gpu-0000", {"pool": "a"})
    fleet.label("gpu-0001", {"pool": "b"})
    run = configure(
        layouts=[
            {"layout": "all-1g.10gb", "node_selector": {"pool": "a"}},
            {"layout": "all-3g.40gb", "node_selector": {"pool": "b"}},
        ],
        max_unavailable="100%",
    )
    assert run.rc == 0 and fleet.most == 2
    assert row(run)["after"] == {"nvidia.com/mig-1g.10gb": 56}
    assert row(run, "gpu-0001")["after"] == {"nvidia.com/mig-3g.40gb": 16}


def test_a_divided_node_with_the_strategy_single_is_recognised_and_made_whole(
    configure: t.Callable, api: FakeApi
) -> None:
    fleet = MigFleet(api, "single")
    before = dict(fleet.node()["metadata"].get("annotations") or {})
    assert configure(layout="all-1g.10gb", **ONE).rc == 0
    assert fleet.node()["status"]["allocatable"]["nvidia.com/gpu"] == "56"
    assert fleet.node()["metadata"]["annotations"]["gpuops.nvidia/gpus"] == "8"
    assert configure(layout="all-1g.10gb", **ONE).result["changed"] is False
    back = configure(layout="all-disabled", **ONE)
    assert back.rc == 0 and row(back)["after"] == {"nvidia.com/gpu": 8}
    assert fleet.node()["metadata"]["annotations"] == before


def test_a_divided_node_that_nobody_has_counted_is_counted_by_its_layout(configure: t.Callable, api: FakeApi) -> None:
    fleet = MigFleet(api, "single")
    fleet.settle("gpu-0000", "all-3g.40gb")
    assert notes(fleet) == {}
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and row(run)["after"] == {"nvidia.com/gpu": 56}


def test_absent_makes_the_gpus_whole_and_removes_the_label(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.settle("gpu-0000", "all-1g.10gb")
    run = configure(state="absent", **ONE)
    assert run.rc == 0 and run.result["changed"] is True
    assert CONFIG not in fleet.labels() and STATE not in fleet.labels() and row(run)["after"] == {"nvidia.com/gpu": 8}
    assert configure(state="absent", **ONE).result["changed"] is False


def test_absent_by_labels_leaves_a_layout_that_somebody_else_has_set(configure: t.Callable, fleet: MigFleet) -> None:
    assert configure(layout="all-1g.10gb", **ONE).rc == 0
    fleet.settle("gpu-0001", "all-3g.40gb")
    run = configure(state="absent", node_selector={"nvidia.com/gpu.present": "true"})
    assert run.rc == 0 and CONFIG not in fleet.labels() and fleet.labels("gpu-0001")[CONFIG] == "all-3g.40gb"
    assert "gpuops.nvidia/mig" not in notes(fleet) and [item["node"] for item in run.result["nodes"]] == ["gpu-0000"]
    (warning,) = run.warnings
    assert warning == wording(
        "Somebody else has set the MIG layout of gpu-0001, so it stays. Name these nodes (nodes), or give them the layout all-disabled, to make their GPUs whole."
    )
    assert configure(state="absent", nodes=["gpu-0001"]).rc == 0 and CONFIG not in fleet.labels("gpu-0001")


def test_absent_leaves_a_label_that_the_operator_would_set_again(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    api.lists[POLICIES][0]["spec"]["migManager"] = {"config": {"default": "all-disabled"}}
    fleet.settle("gpu-0000", "all-1g.10gb")
    assert configure(state="absent", **ONE).rc == 0
    assert fleet.labels()[CONFIG] == "all-disabled"
    assert configure(state="absent", **ONE).result["changed"] is False


def test_a_workload_proves_the_devices_before_the_node_is_put_back(
    configure: t.Callable, fleet: MigFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[tuple[dict, bool]] = []

    def prove(cluster: t.Any, options: t.Any, resources: dict[str, str]) -> dict[str, str]:
        tested.append((resources, bool(fleet.node()["spec"].get("unschedulable"))))
        return {"gpu-0001": "the driver is too old"} if "gpu-0001" in resources else {}

    monkeypatch.setattr(proof, "prove", prove)
    run = configure(layout="all-1g.10gb", **BOTH, verify=True, max_failed="0")
    assert tested[0] == ({"gpu-0000": "nvidia.com/mig-1g.10gb"}, True) and is_free(fleet)
    assert run.rc == 1 and row(run, "gpu-0001")["reason"] == (
        wording(
            "The workload on nvidia.com/mig-1g.10gb did not pass: the driver is too old. "
            "It stays cordoned for the purpose mig."
        )
    )
    assert fleet.node("gpu-0001")["spec"]["unschedulable"] is True


# ---- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"layout": "all-9g.90gb"},
            wording(
                "gpu-0000, gpu-0001 cannot get all-9g.90gb: the ConfigMap <node>-mig-config has no layout all-9g.90gb, such as all-3g.40gb, all-1g.10gb. Nothing has been changed."
            ),
        ),
        (
            {"layout": "1g.10gb-2,3g.40gb-1"},
            wording(
                "gpu-0000, gpu-0001 cannot get 1g.10gb-2,3g.40gb-1: 1g.10gb-2,3g.40gb-1 is no name of a layout. A layout has one name: publish a layout with the mig_devices {1g.10gb: 2, 3g.40gb: 1}, and name that. Nothing has been changed."
            ),
        ),
        (
            {"layout": "too-much"},
            wording(
                "gpu-0000, gpu-0001 cannot get too-much: too-much[0]: H100-80GB holds at most 2 x 3g.40gb, and 3 are wanted. Layouts that fit its NVIDIA-H100-80GB-HBM3: all-1g.10gb, all-3g.40gb, all-balanced. Nothing has been changed."
            ),
        ),
        (
            {"layout": "a100-only"},
            wording(
                "gpu-0000, gpu-0001 cannot get a100-only: a100-only[0]: 1g.5gb is no profile of H100-80GB, which has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb. Layouts that fit its NVIDIA-H100-80GB-HBM3: all-1g.10gb, all-3g.40gb, all-balanced. Nothing has been changed."
            ),
        ),
    ],
)
def test_a_layout_that_the_node_cannot_have_is_refused(
    configure: t.Callable, api: FakeApi, fleet: MigFleet, options: dict, said: str
) -> None:
    run = configure(**options, **BOTH)
    assert run.rc == 1 and run.result["reason"] == "LayoutRefused"
    assert run.result["msg"] == said and run.result["msg"].startswith("gpu-0000, gpu-0001 cannot get ")
    assert run.result["msg"].endswith("Nothing has been changed.") and writes(api) == []


def test_one_bad_entry_in_a_custom_map_spoils_all_its_layouts(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    api.lists[POLICIES][0]["spec"]["migManager"] = {"config": {"name": "ours"}}
    api.lists[CONFIGMAPS].append(configmap("ours", text().replace("2g.20gb", "2g20gb")))
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.result["msg"] == wording(
        "gpu-0000 cannot get all-1g.10gb: the ConfigMap ours is refused by the MIG manager as a whole, for all of its layouts: mig-configs.all-balanced[0].mig-devices: '2g20gb' is no MIG profile. Write it such as 1g.10gb, 1g.10gb+me or 1c.2g.20gb. Nothing has been changed."
    )


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        (
            [],
            wording(
                "gpu-0000 cannot get all-1g.10gb: the ConfigMap ours does not exist, which migManager.config.name asks for, so the MIG manager cannot start. Nothing has been changed."
            ),
        ),
        (
            [configmap("ours", None)],
            wording(
                "gpu-0000 cannot get all-1g.10gb: the ConfigMap ours has no key config.yaml, so the MIG manager cannot start. Nothing has been changed."
            ),
        ),
        (
            [configmap("ours", "version: [")],
            wording(
                'gpu-0000 cannot get all-1g.10gb: the ConfigMap ours is refused by the MIG manager as a whole, for all of its layouts: it is no YAML: while parsing a flow node did not find expected node content in "<unicode string>", line 2, column 1. Nothing has been changed.'
            ),
        ),
    ],
)
def test_a_custom_map_that_cannot_be_used_is_named(
    configure: t.Callable, api: FakeApi, fleet: MigFleet, maps: list, said: str
) -> None:
    api.lists[POLICIES][0]["spec"]["migManager"] = {"config": {"name": "ours"}}
    api.lists[CONFIGMAPS] = maps
    assert configure(layout="all-1g.10gb", **ONE).result["msg"] == said


def publish(api: FakeApi, mounted: str, age_s: float) -> None:
    """Let the ClusterPolicy name the map ``ours``, edited so long ago, and the MIG manager mount a map."""
    api.lists[POLICIES][0]["spec"]["migManager"] = {"config": {"name": "ours"}}
    written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_s))
    made = configmap("ours", text())
    made["metadata"]["managedFields"] = [{"manager": "x", "time": written, "fieldsV1": {"f:data": {}}}]
    api.lists[CONFIGMAPS] = [made]
    mount(api, mounted)


def mount(api: FakeApi, name: str) -> None:
    (manager,) = [item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-mig-manager"]
    manager["spec"]["template"]["spec"]["volumes"] = [{"name": "mig-parted-config", "configMap": {"name": name}}]


def test_a_layout_that_was_published_just_now_gets_a_second_try(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    """A kubelet shows a pod an edited ConfigMap only after a while, and a manager fails until then."""
    for age_s, code in ((5, 0), (600, 1)):
        publish(api, "ours", age_s)
        fleet.trouble["gpu-0000"] = "failed"
        run = configure(layout="all-1g.10gb", **ONE)
        assert run.rc == code and is_free(fleet), age_s
        fleet.settle("gpu-0000", "all-disabled")
        said = "the MIG manager was started again, because its pod did not show the edited layouts yet"
        assert row(run)["repaired"] == ([said] if code == 0 else [])


def test_nothing_changes_before_the_manager_has_the_published_layouts(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    publish(api, "default-mig-parted-config", 600)
    late = configure(layout="all-1g.10gb", **ONE, timeout=60)
    assert (
        late.rc == 1
        and late.result["msg"]
        == wording(
            "The MIG manager does not use the ConfigMap ours after 60 s, although the ClusterPolicy names it. Check the operator."
        )
        and fleet.log == []
    )
    looks = 0

    def follow(method: str, path: str) -> None:
        nonlocal looks
        looks += path.endswith("/daemonsets/nvidia-mig-manager")
        if looks == 4:
            mount(api, "ours")

    fleet.special = follow
    assert configure(layout="all-1g.10gb", **ONE).rc == 0 and looks >= 4


def test_a_node_that_is_not_mig_capable_is_refused_unless_it_is_to_be_whole(
    configure: t.Callable, fleet: MigFleet
) -> None:
    fleet.label("gpu-0001", {"nvidia.com/mig.capable": "false", "nvidia.com/gpu.product": "NVIDIA-L40S"})
    run = configure(layout="all-1g.10gb", node_selector={"nvidia.com/gpu.present": "true"})
    assert "gpu-0001 cannot get all-1g.10gb: it has NVIDIA-L40S, which cannot be divided" in run.result["msg"]
    assert configure(layout="all-disabled", node_selector={"nvidia.com/gpu.present": "true"}).rc == 0


def test_mixed_models_under_one_selector_are_told_apart(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    fleet.label("gpu-0001", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"})
    api.lists[CONFIGMAPS][1] = configmap("gpu-0001-mig-config", text({"all-disabled": {}, "all-1g.5gb": {"1g.5gb": 7}}))
    run = configure(layout="all-1g.10gb", node_selector={"nvidia.com/gpu.present": True})
    assert run.result["msg"].startswith(
        "gpu-0001 cannot get all-1g.10gb: the ConfigMap <node>-mig-config has no layout all-1g.10gb, such as all-1g.5gb"
    )


@pytest.mark.parametrize(
    ("options", "reason", "said"),
    [
        (
            {"layout": "all-1g.10gb", "nodes": ["nobody"]},
            "NotFound",
            wording("The cluster has no node nobody. Correct the option nodes."),
        ),
        (
            {"layout": "all-1g.10gb", "node_selector": {"pool": "x"}},
            "NotFound",
            wording("No GPU node has the labels {'pool': 'x'}. Correct the option node_selector."),
        ),
        (
            {"nodes": ["gpu-0000"]},
            "Invalid",
            wording("layout is missing: name it for each selector, or set state=absent."),
        ),
        (
            {"layouts": [{"layout": "all-1g.10gb"}]},
            "Invalid",
            wording("Give either nodes or node_selector for the layout all-1g.10gb."),
        ),
        (
            {"state": "absent", "layout": "all-1g.10gb", "nodes": ["gpu-0000"]},
            "Invalid",
            wording("state=absent takes the layout away: leave out layout."),
        ),
        (
            {
                "layouts": [
                    {"layout": "all-1g.10gb", "nodes": ["gpu-0000"]},
                    {"layout": "all-3g.40gb", "node_selector": {"nvidia.com/gpu.present": "true"}},
                ]
            },
            "Invalid",
            wording(
                "The layouts overlap: two are asked for gpu-0000 (all-1g.10gb and all-3g.40gb). Change the selectors, so that each node is in one of them."
            ),
        ),
        (
            {"layout": "all-1g.10gb", "nodes": ["gpu-0000"], "canary": ["gpu-0007"]},
            "Invalid",
            wording("canary names gpu-0007, and this run is not about them. Name nodes of this run."),
        ),
        (
            {"layout": "all-1g.10gb", "nodes": ["gpu-0000"], "max_unavailable": "0"},
            "Invalid",
            wording("max_unavailable is '0'. Give a number or a percentage, such as 1 or 10%."),
        ),
        (
            {"layout": "all-1g.10gb", "nodes": ["gpu-0000"], "timeout": 0},
            "Invalid",
            wording("timeout is 0: give 1 or more."),
        ),
    ],
)
def test_options_that_contradict_are_refused(
    configure: t.Callable, api: FakeApi, fleet: MigFleet, options: dict, reason: str, said: str
) -> None:
    run = configure(**options)
    assert run.rc == 1 and run.result["msg"] == said and writes(api) == []
    assert run.result["reason"] == reason


@pytest.mark.parametrize(
    ("strategy", "layout", "said"),
    [
        (
            "single",
            "all-balanced",
            wording(
                "gpu-0000 cannot get all-balanced: the ClusterPolicy has mig.strategy single, which needs every GPU divided into the same profile: set mig.strategy to mixed. Nothing has been changed."
            ),
        ),
        (
            "none",
            "all-1g.10gb",
            wording(
                "gpu-0000 cannot get all-1g.10gb: the ClusterPolicy has mig.strategy none, so the device plugin offers no MIG devices. Nothing has been changed."
            ),
        ),
    ],
)
def test_a_layout_that_the_device_plugin_would_not_offer_is_refused(
    configure: t.Callable, api: FakeApi, strategy: str, layout: str, said: str
) -> None:
    MigFleet(api, strategy)
    assert configure(layout=layout, **ONE).result["msg"] == said


def test_without_an_operator_nothing_begins(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    api.lists[DAEMONSETS] = []
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.result["msg"] == wording(
        "gpu-0000 cannot get all-1g.10gb: the cluster has no DaemonSet nvidia-mig-manager: check the operator, and migManager.enabled. Nothing has been changed."
    )
    del api.lists[POLICIES]
    assert configure(layout="all-1g.10gb", **ONE).result["reason"] == "CRDMissing"


def test_a_label_on_a_node_without_a_manager_is_refused(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    api.table = []
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.result["msg"] == wording(
        "gpu-0000 cannot get all-1g.10gb: no pod of the MIG manager runs on it, so its layout cannot change: check its label nvidia.com/gpu.deploy.mig-manager, which must be true, and the DaemonSet nvidia-mig-manager. Nothing has been changed."
    )


# ---- pods ---------------------------------------------------------------------------------------------------------


def test_pods_on_gpus_are_evicted_only_with_permission(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("web", gpus=0)]
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 1 and run.result["reason"] == "PodsInTheWay" and fleet.log == [] and writes(api) == []
    assert run.result["msg"] == wording(
        "Pods are in the way: default/train on gpu-0000 would be evicted (allow_disruption permits it). Set these options, or delete the pods yourself."
    )
    assert configure(layout="all-1g.10gb", **ONE, _ansible_check_mode=True).result["msg"] == run.result["msg"]
    told = configure(layout="all-1g.10gb", **ONE, check_refusal="warn", _ansible_check_mode=True)
    assert told.rc == 0 and told.warnings == [WOULD_STOP + run.result["msg"]]
    assert told.result["changed"] and row(told)["pods"] == ["default/train"]
    assert configure(layout="all-1g.10gb", **ONE, check_refusal="warn").rc == 1 and writes(api) == []
    api.end = api.lists[ALL_PODS].remove
    run = configure(layout="all-1g.10gb", **ONE, allow_disruption=True)
    assert run.rc == 0 and row(run)["evicted"] == ["default/train"] and run.result["summary"]["evicted"] == 1


def test_a_bare_pod_is_in_the_way(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    api.lists[ALL_PODS] = [workload("alone", controller="")]
    api.end = api.lists[ALL_PODS].remove
    run = configure(layout="all-1g.10gb", **ONE, allow_disruption=True)
    assert run.rc == 1 and "default/alone on gpu-0000 has no controller" in run.result["msg"] and is_free(fleet)
    assert configure(layout="all-1g.10gb", **ONE, allow_disruption=True, force=True).rc == 0


def test_a_budget_that_never_allows_the_eviction_ends_in_a_node_as_it_was(
    configure: t.Callable, api: FakeApi, fleet: MigFleet, tmp_path: Path
) -> None:
    api.lists[ALL_PODS] = [workload("web")]
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    fleet.special = lambda method, path: (
        refusal(429, "Cannot evict pod", "TooManyRequests", [cause]) if path.endswith("/eviction") else None
    )
    progress = tmp_path / "progress"
    run = configure(layout="all-1g.10gb", **ONE, allow_disruption=True, drain_timeout=20, progress_path=str(progress))
    assert run.rc == 1 and run.result["reason"] == "NodesFailed" and is_free(fleet) and fleet.log == []
    assert "the PodDisruptionBudget default/web forbids its eviction" in row(run)["reason"]
    assert "gpu-0000 waits for 1 pod to leave (default/web: the PodDisruptionBudget" in progress.read_text()


# ---- stuck paths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("lost", wording("the label was removed and set again, because the MIG manager did not react to it")),
        ("stays-pending", wording("the MIG manager was started again, because its run had stopped (state pending)")),
        ("hangs", wording("the MIG manager was started again, because its run had stopped (state pending)")),
    ],
)
def test_a_change_that_is_stuck_is_repaired(configure: t.Callable, fleet: MigFleet, trouble: str, said: str) -> None:
    fleet.trouble["gpu-0000"] = trouble
    run = configure(layout="all-1g.10gb", **ONE, timeout=120)
    assert run.rc == 0 and row(run)["repaired"] == [said] and is_free(fleet)
    assert row(run)["after"] == {"nvidia.com/mig-1g.10gb": 56} and run.result["summary"]["repaired"] == 1


def test_without_the_permission_to_repair_a_stuck_node_is_reported(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.trouble["gpu-0000"] = "stays-pending"
    run = configure(layout="all-1g.10gb", **ONE, timeout=60, repair=False)
    assert run.rc == 1 and measured(row(run)["reason"]) == wording(
        "For N s the MIG manager has made no progress (state pending). Look at the log of its pod on the node. Set repair: true to start the MIG manager again. It stays cordoned for the purpose mig."
    )
    assert row(run)["unschedulable"] is True
    assert "gpu-0000 stays cordoned." in run.result["msg"]
    fleet.trouble.clear()
    healed = configure(layout="all-1g.10gb", **ONE, timeout=60)
    assert healed.rc == 0 and row(healed)["action"] == "resume" and is_free(fleet)


def test_operands_that_a_failed_run_left_paused_come_back(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.trouble["gpu-0000"] = "left-paused"
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 1 and is_free(fleet), "the GPUs are as they were, so the node serves again"
    assert row(run)["repaired"] == [
        wording("operands that were left paused (dcgm-exporter, device-plugin) were set back")
    ]
    assert row(run)["reason"] == wording(
        "The MIG manager could not apply the layout (state failed). Read the log of its pod on the node, end what holds its GPUs, and run this again."
    )
    fleet.trouble.clear()
    again = configure(layout="all-1g.10gb", **ONE)
    assert again.rc == 0 and fleet.log[-1] == ("gpu-0000", "all-1g.10gb"), "the same value was removed and set again"


def test_a_manager_that_reports_pods_in_its_way_is_started_again(configure: t.Callable, fleet: MigFleet) -> None:
    """Managers after v0.15.0 end such a run as failed; earlier ones leave it pending for ever."""
    fleet.trouble["gpu-0000"] = "left-paused"
    log = 'level=error msg="Error: failed to wait for pods to be deleted: dcgm pod did not shutdown"'
    fleet.special = lambda method, path: (200, t.cast("t.Any", log)) if path.endswith("/log") else None
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and row(run)["after"] == {"nvidia.com/mig-1g.10gb": 56} and is_free(fleet)
    assert row(run)["repaired"] == [
        wording("operands that were left paused (dcgm-exporter, device-plugin) were set back"),
        wording("the MIG manager was started again, because pods of operands had been in its way"),
    ]


def test_operands_that_are_paused_for_no_reason_come_back_without_a_drain(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    fleet.settle("gpu-0000", "all-1g.10gb")
    fleet.label("gpu-0000", {PLUGIN: PAUSED})
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and row(run)["action"] == "repair" and is_free(fleet) and fleet.most == 0 and fleet.log == []
    assert fleet.labels()[PLUGIN] == "true" and run.result["changed"] is True


def test_a_value_that_a_user_had_set_stays_in_front_of_the_pause(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.settle("gpu-0000", "all-1g.10gb")
    fleet.label("gpu-0000", {PLUGIN: f"mine_{PAUSED}"})
    assert configure(layout="all-1g.10gb", **ONE).rc == 0 and fleet.labels()[PLUGIN] == "mine"


def test_a_success_of_another_layout_is_not_believed(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.managers["gpu-0000"].read = "all-1g.10gb"
    fleet.label("gpu-0000", {CONFIG: "all-1g.10gb"})
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and row(run)["action"] == "change" and row(run)["after"] == {"nvidia.com/mig-1g.10gb": 56}
    assert row(run)["why"].startswith("success is not true: it has 0 of nvidia.com/mig-1g.10gb")


def test_a_success_without_the_devices_is_a_failure(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.trouble["gpu-0000"] = "wrong"
    run = configure(layout="all-1g.10gb", **ONE, timeout=60)
    assert run.rc == 1 and row(run)["reason"] == (
        wording(
            "The MIG manager reports success, but it has 0 of nvidia.com/mig-1g.10gb, which should be 56. "
            "Check gpu-feature-discovery and the device plugin on it. It stays cordoned for the purpose mig."
        )
    )


def test_a_device_that_is_missing_is_reported_and_disturbs_nobody(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.settle("gpu-0000", "all-1g.10gb")
    fleet.node()["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "55"
    predicted = configure(layout="all-1g.10gb", **BOTH, canary="1", _ansible_check_mode=True)
    run = configure(layout="all-1g.10gb", **BOTH, canary="1")
    assert (run.rc, row(run)["action"], row(run)["wave"]) == (0, "degraded", 0)
    assert fleet.log == [("gpu-0001", "all-1g.10gb")] and fleet.most == 1, "the other node is the canary"
    assert (
        run.warnings
        == predicted.warnings
        == wording(
            [
                "Degraded, which stops no other node: gpu-0000: 55 of nvidia.com/mig-1g.10gb are allocatable, which should be 56."
            ]
        )
    )
    again = configure(layout="all-1g.10gb", **BOTH)
    assert (again.rc, again.result["changed"], row(again)["degraded"]) == (0, False, row(run)["degraded"])


def test_a_node_without_a_manager_pod_is_left_out_and_named(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    api.table = [each for each in api.table if each[6] != "gpu-0000"]
    run = configure(layout="all-1g.10gb", **BOTH)
    assert (run.rc, run.result["finished"], row(run)["action"]) == (0, False, "left")
    assert fleet.log == [("gpu-0001", "all-1g.10gb")] and run.warnings == wording(
        [
            "gpu-0000 not begun: no pod of the MIG manager runs on it, so its layout cannot change: check its label nvidia.com/gpu.deploy.mig-manager, which must be true, and the DaemonSet nvidia-mig-manager."
        ]
    )


def test_shared_mig_devices_are_counted_with_their_shares(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.settle("gpu-0000", "all-1g.10gb")
    fleet.label("gpu-0000", {"nvidia.com/mig-1g.10gb.replicas": "4"})
    fleet.node()["status"]["allocatable"] = {"nvidia.com/mig-1g.10gb.shared": "224"}
    assert row(configure(layout="all-1g.10gb", **ONE))["action"] == "nothing"


def test_a_reboot_needs_permission_and_is_waited_for(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    manager = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-mig-manager")
    manager["spec"]["template"]["spec"]["containers"] = [{"env": [{"name": "WITH_REBOOT", "value": "true"}]}]
    refused = configure(layout="all-1g.10gb", **ONE)
    assert refused.result["msg"] == wording(
        "gpu-0000 cannot get all-1g.10gb: the MIG manager may reboot it (WITH_REBOOT in migManager.env): allow_reboot permits that. Nothing has been changed."
    )
    fleet.trouble["gpu-0000"] = "rebooting"
    run = configure(layout="all-1g.10gb", **ONE, allow_reboot=True, timeout=60)
    assert run.rc == 1 and "it has been rebooting" in row(run)["reason"] and row(run)["waits_for"] == "its reboot"


def test_a_run_for_another_layout_is_awaited_first(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.label("gpu-0000", {CONFIG: "all-3g.40gb", STATE: "pending"})
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and fleet.log == [("gpu-0000", "all-3g.40gb"), ("gpu-0000", "all-1g.10gb")]


# ---- waves --------------------------------------------------------------------------------------------------------


@pytest.fixture
def five(api: FakeApi) -> MigFleet:
    api.lists[NODES][:] = [gpu_node(number) for number in range(5)]
    return MigFleet(api)


ALL = {"node_selector": {"nvidia.com/gpu.present": "true"}}


def test_the_canary_is_first_and_the_window_is_never_exceeded(configure: t.Callable, five: MigFleet) -> None:
    run = configure(layout="all-1g.10gb", **ALL, canary=1, max_unavailable="40%")
    assert run.rc == 0 and five.most == 2 and five.log[0] == ("gpu-0000", "all-1g.10gb")
    assert len(five.log) == 5 and all(is_free(five, f"gpu-{number:04}") for number in range(5))


def test_a_canary_that_fails_ends_the_run(configure: t.Callable, five: MigFleet) -> None:
    five.trouble["gpu-0000"] = "failed"
    run = configure(layout="all-1g.10gb", **ALL, canary=1, max_unavailable="5", max_failed="5")
    assert run.rc == 1 and run.result["msg"] == wording(
        "The canary gpu-0000 failed. gpu-0000: The MIG manager could not apply the layout (state failed). Read the log of its pod on the node, end what holds its GPUs, and run this again. 4 nodes have not been begun. Run it again to continue where this call ended."
    )
    assert run.result["summary"]["waiting"] == 4
    assert five.log == [("gpu-0000", "all-1g.10gb")]


def test_failures_within_the_budget_are_warnings(configure: t.Callable, five: MigFleet) -> None:
    five.trouble["gpu-0001"] = "failed"
    run = configure(layout="all-1g.10gb", **ALL, max_unavailable="2", max_failed="1")
    assert run.rc == 0 and run.result["summary"]["failed"] == 1 and run.result["summary"]["changed"] == 5
    assert run.warnings[0] == wording(
        "Node gpu-0001: The MIG manager could not apply the layout (state failed). Read the log of its pod on the node, end what holds its GPUs, and run this again."
    )


def test_a_rerun_changes_only_what_is_left(configure: t.Callable, five: MigFleet) -> None:
    five.trouble["gpu-0002"] = "failed"
    assert configure(layout="all-1g.10gb", **ALL).rc == 1
    five.trouble.clear()
    five.log.clear()
    assert configure(layout="all-1g.10gb", **ALL).rc == 0
    assert five.log == [(f"gpu-000{number}", "all-1g.10gb") for number in (2, 3, 4)]


def test_groups_never_change_together(configure: t.Callable, five: MigFleet) -> None:
    for number in range(5):
        five.label(f"gpu-{number:04}", {"zone": f"z{number % 2}"})
    together: set[frozenset[str]] = set()

    def look() -> None:
        held = [node for node in five.api.lists[NODES] if node["spec"].get("unschedulable")]
        together.add(frozenset(node["metadata"]["labels"]["zone"] for node in held))

    five.on_tick = look
    assert configure(layout="all-1g.10gb", **ALL, max_unavailable="100%", group_by="zone").rc == 0
    assert together == {frozenset(), frozenset({"z0"}), frozenset({"z1"})} and five.most == 3


# ---- other maintainers, and faults --------------------------------------------------------------------------------


def test_a_node_waits_for_another_maintainer(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.label("gpu-0000", {"nvidia.com/gpu-driver-upgrade-state": "drain-required"})
    looks = [0]

    def look() -> None:
        looks[0] += 1
        if looks[0] == 12:
            fleet.label("gpu-0000", {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"})

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **BOTH)
    assert run.rc == 0 and row(run)["action"] == "wait" and is_free(fleet)
    assert [name for name, dummy in fleet.log] == ["gpu-0001", "gpu-0000"], "the other node does not wait for it"


def test_a_maintainer_that_never_finishes_is_named(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.label("gpu-0000", {"nvidia.com/gpu-driver-upgrade-state": "drain-required"})
    run = configure(layout="all-1g.10gb", **ONE, timeout=60)
    assert (
        run.rc == 1
        and "gpu-operator (label nvidia.com/gpu-driver-upgrade-state=drain-required)" in (row(run)["reason"])
    )
    assert configure(layout="all-1g.10gb", **ONE, allow_shared=True).rc == 0


def test_a_node_that_was_cordoned_before_stays_cordoned(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.node()["spec"]["unschedulable"] = True
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and fleet.node()["spec"]["unschedulable"] is True and HELD not in notes(fleet)
    assert row(run)["unschedulable"] is True and row(run)["held_by"][0]["owner"] == "unknown"


def test_a_node_that_another_tool_quarantines_in_the_middle_stays_cordoned(
    configure: t.Callable, fleet: MigFleet
) -> None:
    def look() -> None:
        if fleet.labels().get(STATE) == "pending":
            fleet.node()["metadata"].setdefault("annotations", {})["quarantineHealthEventIsCordoned"] = "True"

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and fleet.node()["spec"]["unschedulable"] is True
    assert row(run)["held_by"] == [
        {"owner": "nvsentinel", "mark": "annotation quarantineHealthEventIsCordoned=True", "at_work": False}
    ]
    assert "It stays cordoned for nvsentinel" in run.warnings[0]


def test_a_node_that_somebody_uncordons_in_the_middle_is_cordoned_again(configure: t.Callable, fleet: MigFleet) -> None:
    once = [True]

    def look() -> None:
        if fleet.labels().get(STATE) == "pending" and once:
            once.clear()
            fleet.node()["spec"].pop("unschedulable", None)

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 0 and is_free(fleet)
    assert row(run)["notes"] == [
        wording("Somebody else uncordoned it in the middle of its change. It is cordoned again.")
    ]


def test_a_layout_that_somebody_else_sets_in_the_middle_is_a_failure(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.ticks = 10

    def look() -> None:
        if fleet.labels().get(STATE) == "pending":
            fleet.label("gpu-0000", {CONFIG: "all-3g.40gb"})

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 1
    assert row(run)["reason"] == wording(
        "Somebody else has changed its label nvidia.com/mig.config in the middle: it is all-3g.40gb. It stays cordoned for the purpose mig."
    )


def test_a_node_that_dies_in_the_middle_is_reported(configure: t.Callable, fleet: MigFleet) -> None:
    fleet.trouble["gpu-0000"] = "hangs"

    def look() -> None:
        if fleet.labels().get(STATE) == "pending":
            fleet.node()["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **ONE, timeout=60)
    assert run.rc == 1 and measured(row(run)["reason"]) == wording(
        "For N s the node has not been Ready, in the middle of its change. Repair it, and run this again. It stays cordoned for the purpose mig."
    )
    assert row(run)["waits_for"] == wording("its kubelet, because it is not Ready")


def test_an_operator_that_is_removed_in_the_middle_is_reported(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    fleet.trouble["gpu-0000"] = "hangs"

    def look() -> None:
        if fleet.labels().get(STATE) == "pending":
            api.lists[DAEMONSETS], api.table, api.lists[PODS] = [], [], []

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **ONE, timeout=60)
    assert run.rc == 1 and row(run)["waits_for"] == wording("the MIG manager's pod, which does not exist")
    assert measured(row(run)["reason"]) == wording(
        "For N s it has had no pod of the MIG manager. Check the DaemonSet nvidia-mig-manager. It stays cordoned for the purpose mig."
    )
    assert "gpu-0000 stays" in run.result["msg"]


def test_a_node_that_is_deleted_in_the_middle_is_reported(configure: t.Callable, api: FakeApi, fleet: MigFleet) -> None:
    def look() -> None:
        if len(api.lists[NODES]) == 2 and fleet.labels().get(STATE) == "pending":
            api.lists[NODES] = api.lists[NODES][1:]

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **BOTH, max_failed="1")
    assert run.rc == 0 and row(run)["reason"] == wording("The node was deleted in the meantime.")
    assert row(run, "gpu-0001")["step"] == "done"


def test_an_api_server_that_is_away_for_a_moment_is_awaited(configure: t.Callable, fleet: MigFleet) -> None:
    away = [0]

    def special(method: str, path: str) -> t.Any:
        if fleet.labels().get(STATE) == "pending" and away[0] < 5:
            away[0] += 1
            return refusal(503, "the server is currently unable to handle the request")
        return None

    fleet.special = special
    assert configure(layout="all-1g.10gb", **ONE).rc == 0 and is_free(fleet) and away == [5]


def test_an_api_server_that_stays_away_leaves_a_node_that_is_named_and_resumed(
    configure: t.Callable, fleet: MigFleet
) -> None:
    fleet.ticks = 5
    fleet.special = lambda method, path: (
        refusal(503, "the server is currently unable to handle the request")
        if fleet.labels().get(STATE) == "pending"
        else None
    )
    run = configure(layout="all-1g.10gb", **ONE)
    assert (
        run.rc == 1 and "gpu-0000 stays cordoned." in run.result["msg"] and "Its last answer was" in run.result["msg"]
    )
    fleet.special = lambda method, path: None
    resumed = configure(layout="all-1g.10gb", **ONE)
    assert resumed.rc == 0 and row(resumed)["action"] == "resume" and is_free(fleet)
    assert fleet.log == [("gpu-0000", "all-1g.10gb")], "the run of the MIG manager was not disturbed"


def test_a_signal_puts_back_what_is_not_half_done(configure: t.Callable, five: MigFleet) -> None:
    def look() -> None:
        if five.labels().get(STATE) == "pending":
            os.kill(os.getpid(), signal.SIGTERM)

    five.ticks = 5
    five.on_tick = look
    run = configure(layout="all-1g.10gb", **ALL, max_unavailable="1")
    assert run.rc == 1 and run.result["reason"] == "Interrupted" and "The call was interrupted." in run.result["msg"]
    assert row(run)["reason"] == wording(
        "The call ended in the middle of the node's change (watch). It stays cordoned for the purpose mig."
    )
    five.on_tick = lambda: None
    assert configure(layout="all-1g.10gb", **ALL, max_unavailable="5").rc == 0
    assert all(is_free(five, f"gpu-{number:04}") for number in range(5))


@pytest.mark.parametrize("layout", ["all-1g.10gb", "all-disabled"])
def test_a_signal_during_the_release_does_not_lose_the_node(
    configure: t.Callable, fleet: MigFleet, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    if layout == "all-disabled":
        fleet.settle("gpu-0000", "all-1g.10gb")
    real = held_nodes.release
    held: list[bool] = []

    def release(*arguments: t.Any) -> t.Any:
        held.append(bool(fleet.node()["spec"].get("unschedulable")))
        if len(held) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    monkeypatch.setattr(held_nodes, "release", release)
    run = configure(layout=layout, **ONE)
    assert run.rc == 1 and run.result["reason"] == "Interrupted" and held == [True, True]
    assert is_free(fleet) and run.result["nodes"] == [], "A failure names only nodes that are not as they should be."
    assert run.result["summary"]["changed"] == 1 and run.result["summary"]["failed"] == 0


def test_a_layout_whose_request_got_no_answer_may_be_under_way(
    configure: t.Callable, fleet: MigFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call ends then. The node keeps its cordon, because its MIG manager may be at work."""
    real = _cluster.Cluster.merge

    def merge(self: t.Any, path: str, body: dict) -> dict:
        made = real(self, path, body)
        if CONFIG in (body["metadata"].get("labels") or {}):
            os.kill(os.getpid(), signal.SIGTERM)
            raise GpuOpsError("The answer was lost.", reason="ServerError")
        return made

    monkeypatch.setattr(_cluster.Cluster, "merge", merge)
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 1 and row(run)["reason"] == wording(
        "The call ended in the middle of the node's change (set). It stays cordoned for the purpose mig."
    )
    assert fleet.node()["spec"]["unschedulable"] is True
    monkeypatch.setattr(_cluster.Cluster, "merge", real)
    assert configure(layout="all-1g.10gb", **ONE).rc == 0 and is_free(fleet)


def test_a_hold_whose_answer_was_lost_is_undone(
    configure: t.Callable, fleet: MigFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _cluster.Cluster.merge
    cordoned: list[bool] = []

    def merge(self: t.Any, path: str, body: dict) -> dict:
        made = real(self, path, body)
        if not cordoned:
            cordoned.append(fleet.node()["spec"]["unschedulable"])
            raise GpuOpsError("The answer was lost.", reason="Forbidden")
        return made

    monkeypatch.setattr(_cluster.Cluster, "merge", merge)
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 1 and cordoned == [True] and is_free(fleet) and fleet.log == []


def _refusing_after(last: int) -> t.Callable[[str, str], t.Any]:
    """Return an API server's answers that refuse every write after this one."""
    count = 0

    def special(method: str, path: str) -> t.Any:
        nonlocal count
        count += method == "PATCH"
        return refusal(401, "Unauthorized") if method == "PATCH" and count > last else None

    return special


def test_a_kill_after_any_write_and_a_rerun_lead_to_the_layout(
    configure: t.Callable, api: FakeApi, fleet: MigFleet
) -> None:
    """Every write to the cluster is the last one of a run once. The rerun must find its way from there."""
    for last in range(20):
        fleet.settle("gpu-0000", "all-disabled")
        fleet.special = _refusing_after(last)
        first = configure(layout="all-1g.10gb", **ONE)
        fleet.special = lambda method, path: None
        if first.rc == 0:
            break
        if not is_free(fleet):
            assert "gpu-0000" in first.result["msg"] and "cordoned" in first.result["msg"], last
        assert configure(layout="all-1g.10gb", **ONE).rc == 0 and is_free(fleet), last
    assert last == 3, "hold, set, restore: a run writes three times"


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_at_any_request_leaves_no_node_out_of_service_unsaid(
    configure: t.Callable, api: FakeApi, fleet: MigFleet, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request from the first write on fails once, and a rerun ends the change."""
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.2 if kind == "down" else 30.0)
    api.lists[ALL_PODS] = [workload("train")]
    start, managers, number = copy.deepcopy(api.lists), copy.deepcopy(fleet.managers), 0
    while True:
        number += 1
        api.lists, fleet.managers = copy.deepcopy(start), copy.deepcopy(managers)
        api.end = api.lists[ALL_PODS].remove
        with fault(api, kind, number) as hit:
            first = configure(layout="all-1g.10gb", **ONE, allow_disruption=True)
        if not hit:
            break
        if not is_free(fleet):
            assert first.rc == 1 and "gpu-0000 stays cordoned." in first.result["msg"], (number, hit, first.result)
            assert "It stays cordoned" in row(first)["reason"], (number, hit, first.result)
        again = configure(layout="all-1g.10gb", **ONE, allow_disruption=True)
        assert again.rc == 0 and is_free(fleet) and fleet.labels()[STATE] == "success", (number, hit, again.result)
        assert row(again)["after"] == {"nvidia.com/mig-1g.10gb": 56}, (number, hit)
    assert number > 10 and first.rc == 0


FAILED, DONE = "gpuops.nvidia/failed.mig", "gpuops.nvidia/rollout-done.mig"


def test_a_failed_manager_that_has_changed_the_gpus_leaves_the_node_held(
    configure: t.Callable, fleet: MigFleet
) -> None:
    fleet.trouble["gpu-0000"] = "failed"

    def look() -> None:
        if fleet.labels().get(STATE) == "pending":
            fleet.node()["status"]["allocatable"]["nvidia.com/gpu"] = "7"

    fleet.on_tick = look
    run = configure(layout="all-1g.10gb", **ONE)
    assert run.rc == 1 and fleet.node()["spec"]["unschedulable"] is True and HELD in notes(fleet)
    assert notes(fleet)[FAILED] == wording(
        "The MIG manager could not apply the layout (state failed). Read the log of its pod on the node, end what holds its GPUs, and run this again. It stays cordoned for the purpose mig"
    )
    assert row(run)["purposes"] == ["mig"] and fleet.labels()[CONFIG] == "all-1g.10gb"
    fleet.on_tick = lambda: None
    again = configure(layout="all-1g.10gb", **ONE)
    assert again.rc == 1 and FAILED in notes(fleet), "unchanged since then is no proof, because the node was held"
    fleet.trouble.clear()
    assert configure(layout="all-1g.10gb", **ONE).rc == 0 and is_free(fleet) and FAILED not in notes(fleet)


def test_a_wave_waits_for_the_soak_of_the_one_before(
    configure: t.Callable, five: MigFleet, leaps: LeapingClock
) -> None:
    began: list[float] = []

    def look() -> None:
        if len(five.log) > len(began):
            began.append(leaps.monotonic())

    five.on_tick = look
    run = configure(layout="all-1g.10gb", **ALL, canary=1, waves=["2", "100%"], soak=120, max_unavailable="5")
    assert run.rc == 0 and [row["wave"] for row in run.result["nodes"]] == [1, 2, 2, 3, 3]
    assert len(began) == 5 and began[1] - began[0] >= 120 and began[3] - began[2] >= 120
    assert not any(DONE in notes(five, f"gpu-{number:04}") for number in range(5))


def test_outside_its_windows_a_call_finishes_what_is_out_of_service_as_check_mode_says(
    configure: t.Callable, fleet: MigFleet, leaps: LeapingClock
) -> None:
    fleet.trouble["gpu-0000"] = "stays-pending"
    assert configure(layout="all-1g.10gb", **ONE, timeout=60, repair=False).rc == 1 and FAILED in notes(fleet)
    fleet.trouble.clear()
    leaps.leapt_s += datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp() - leaps.time()  # a Tuesday
    closed = {"windows": ["mon 00:00-00:01"], "lease": 1}
    predicted = configure(layout="all-1g.10gb", **BOTH, **closed, _ansible_check_mode=True)
    run = configure(layout="all-1g.10gb", **BOTH, **closed, timeout=60)
    for each in (predicted, run):
        assert each.rc == 0 and each.result["finished"] is False and row(each, "gpu-0001")["changed"] is False
        assert row(each)["changed"] is True and "No maintenance window is" in each.warnings[-1]
        assert row(each, "gpu-0001")["waits_for"].startswith("the next maintenance window (mon 00:00-00:01")
    assert is_free(fleet) and fleet.labels("gpu-0001")[CONFIG] == "all-disabled"
    assert ("gpu-0001", "all-1g.10gb") not in fleet.log


def test_the_progress_says_how_many_and_who_waits_for_what(
    configure: t.Callable, five: MigFleet, tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    assert configure(layout="all-1g.10gb", **ALL, progress_path=str(progress)).rc == 0
    lines = progress.read_text().splitlines()
    assert "0/5 nodes have their layout, 1 are changing; gpu-0000 waits for its pods to leave (for 00:00)" in lines
    assert (
        "1/5 nodes have their layout, 1 are changing; gpu-0001 waits for the MIG manager (pending) (for 00:00)" in lines
    )
    assert lines[-1] == "5/5 nodes have their layout, 0 are changing"


def test_a_no_op_reads_the_fleet_once(configure: t.Callable, api: FakeApi, five: MigFleet) -> None:
    assert configure(layout="all-disabled", **ALL).result["changed"] is False
    assert sorted(path for method, path, query in api.log if "limit" not in query) == sorted(
        [
            "/api/v1/nodes",
            "/apis/nvidia.com/v1/clusterpolicies",
            "/apis/apps/v1/daemonsets",
            "/apis/maintenance.nvidia.com/v1alpha1/nodemaintenances",
            "/apis/apps/v1/namespaces/gpu-operator/daemonsets/nvidia-mig-manager",
            "/api/v1/namespaces/gpu-operator/pods",
            "/api/v1/namespaces/gpu-operator/configmaps/default-mig-parted-config",
        ]
    )
