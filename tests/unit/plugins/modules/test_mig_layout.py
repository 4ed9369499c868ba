# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

import pytest
import yaml
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.managed import entry
from tests.unit.fakes.stack import node, workload

MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
A100, A30 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A30"
MAP = "gpuops-mig-layouts"


@pytest.fixture
def layout(run_module: t.Callable, api: FakeApi) -> t.Callable:
    """The module on two nodes with eight H100s each, and NVIDIA's static layouts."""
    api.lists[MAPS] = [configmap("default-mig-parted-config", DEFAULT)]
    return functools.partial(run_module, "mig_layout", **api.connection)


def configmap(name: str, layouts: dict[str, t.Any] | str, **metadata: t.Any) -> dict[str, t.Any]:
    text = layouts if isinstance(layouts, str) else yaml.safe_dump({"version": "v1", "mig-configs": layouts})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"config.yaml": text},
    }


def every(**counts: int) -> list[dict[str, t.Any]]:
    """Return the entries of a layout of all GPUs; __ stands for a dot."""
    named = {name.replace("g__", "g.").lstrip("_"): count for name, count in counts.items()}
    return [{"devices": "all", "mig-enabled": True, "mig-devices": named}]


DEFAULT = {
    "all-disabled": [{"devices": "all", "mig-enabled": False}],
    "all-1g.10gb": [
        {"device-filter": ["0x233010DE"], **every(_1g__10gb=7)[0]},
        {"device-filter": ["0x20B010DE"], **every(_1g__10gb=4)[0]},
    ],
    "all-1g.6gb": every(_1g__6gb=4),
}


def add(api: FakeApi, number: int, product: str, count: int = 4, **labels: str) -> None:
    """Add a node with other GPUs."""
    made = node(number)
    made["metadata"]["labels"].update({"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(count), **labels})
    api.lists[NODES].append(made)


def label(api: FakeApi, number: int, name: str) -> None:
    """Give a node a layout, with which its MIG manager was successful."""
    labels = {"nvidia.com/mig.config": name, "nvidia.com/mig.config.state": "success"}
    api.lists[NODES][number]["metadata"]["labels"] |= labels


def published(api: FakeApi, name: str = MAP) -> dict[str, t.Any]:
    found = next(item for item in api.lists[MAPS] if item["metadata"]["name"] == name)
    return yaml.safe_load(found["data"]["config.yaml"])["mig-configs"]


def config(api: FakeApi) -> dict[str, t.Any]:
    return api.lists[POLICIES][0]["spec"].get("migManager", {}).get("config", {})


def writes(api: FakeApi) -> list[str]:
    return [path for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def test_a_layout_is_published_beside_nvidias_and_used(layout: t.Callable, api: FakeApi) -> None:
    run = layout(layouts={"mine": {"fit": "2g.20gb"}})
    assert (run.rc, run.result["changed"], run.result["config_map"]) == (0, True, f"gpu-operator/{MAP}")
    assert run.result["layouts"]["mine"] == {
        "nodes": 2,
        "models": {
            "H100-80GB": [
                {
                    "mig_devices": {"2g.20gb": 3},
                    "drawn": "|    2g.20gb    |    2g.20gb    |    2g.20gb    |      free     |",
                    "addable": {"1g.10gb": 1, "1g.10gb+me": 1, "1g.20gb": 1},
                }
            ]
        },
    }
    found = published(api)
    assert found["mine"] == every(_2g__20gb=3)
    # NVIDIA's own stay as they are, and those of the model that it has not written down are added.
    assert found["all-1g.10gb"] == DEFAULT["all-1g.10gb"] and found["all-1g.6gb"] == DEFAULT["all-1g.6gb"]
    assert found["all-3g.40gb"] == every(_3g__40gb=2)
    assert config(api) == {"name": MAP}
    assert "mine:" in run.result["diff"]["after"] and MAP in run.result["diff"]["after"]
    again = layout(layouts={"mine": {"fit": "2g.20gb"}})
    assert (again.result["changed"], len(writes(api))) == (False, 2)
    assert again.result["diff"]["before"] == again.result["diff"]["after"]


def test_check_mode_predicts_and_writes_nothing(layout: t.Callable, api: FakeApi) -> None:
    run = layout(layouts={"mine": {"balanced": True}}, _ansible_check_mode=True)
    assert run.result["changed"] and writes(api) == []
    assert run.result["layouts"]["mine"]["models"]["H100-80GB"][0]["mig_devices"] == {
        "1g.10gb": 2,
        "2g.20gb": 1,
        "3g.40gb": 1,
    }


def test_layouts_of_earlier_calls_stay_without_purge(layout: t.Callable, api: FakeApi) -> None:
    layout(layouts={"one": {"fit": "1g"}})
    assert layout(layouts={"two": [{"mig_devices": {"3g.40gb": 2}}]}).result["changed"]
    assert {"one", "two"} <= set(published(api))
    assert published(api)["two"] == every(_3g__40gb=2)
    assert layout(layouts={"two": [{"mig_devices": {"3g.40gb": 2}}]}, purge=True).result["changed"]
    assert "one" not in published(api)
    assert not layout(layouts={"two": [{"mig_devices": {"3g.40gb": 2}}]}, purge=True).result["changed"]
    # NVIDIA's layouts stay also when the map from which they came is gone.
    api.lists[MAPS] = [item for item in api.lists[MAPS] if item["metadata"]["name"] == MAP]
    assert not layout(layouts={"two": [{"mig_devices": {"3g.40gb": 2}}]}).result["changed"]
    assert published(api)["all-1g.6gb"] == DEFAULT["all-1g.6gb"]


def test_models_that_differ_get_an_entry_each(layout: t.Callable, api: FakeApi) -> None:
    add(api, 2, A100)
    run = layout(layouts={"two": {"mig_devices": {"3g": 1}, "fill": "1g"}})
    assert published(api)["two"] == [
        {
            "device-filter": ["0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"],
            **every(_3g__20gb=1, _1g__5gb=4)[0],
        },
        {
            "device-filter": ["0x233010DE", "0x233110DE", "0x232210DE", "0x232410DE"],
            **every(_3g__40gb=1, _1g__10gb=4)[0],
        },
    ]
    assert run.result["layouts"]["two"]["nodes"] == 3
    # The static layout means the same to both models.
    assert published(api)["all-1g.10gb"] == DEFAULT["all-1g.10gb"]


def test_what_nodes_have_generated_goes_on(layout: t.Callable, api: FakeApi) -> None:
    """Another driver names the profiles of the GB200 otherwise; the node's own ConfigMap says so."""
    add(api, 2, "NVIDIA-GB200")
    generated = {**DEFAULT, "all-7g.189gb": every(_7g__189gb=1), "all-balanced": every(_1g__24gb=2, _2g__47gb=1)}
    del generated["all-1g.6gb"]
    api.lists[MAPS].append(configmap("gpu-0002-mig-config", generated))
    label(api, 2, "all-balanced")
    assert layout(layouts={"mine": {"mig_devices": {"3g": 2}}}).rc == 0
    first = published(api)
    assert first["all-7g.189gb"] == every(_7g__189gb=1)
    assert {"device-filter": ["0x294110DE"], **every(_1g__24gb=2, _2g__47gb=1)[0]} in first["all-balanced"]
    # The MIG manager no longer generates once the ClusterPolicy names a ConfigMap.
    api.lists[MAPS] = [item for item in api.lists[MAPS] if item["metadata"]["name"] != "gpu-0002-mig-config"]
    assert not layout(layouts={"mine": {"mig_devices": {"3g": 2}}}).result["changed"]
    assert published(api) == first


@pytest.mark.parametrize(
    ("layouts", "words"),
    [
        ({"mine": {"fit": "1g.6gb"}}, ["1g.6gb is no profile of H100-80GB, which has 1g.10gb"]),
        ({"mine": {"fit": "8g"}}, ["'8g' is no MIG profile"]),
        ({"mine": {"mig_devices": {"7g.80gb": 1}, "fill": "1g"}}, ["no 1g.10gb fits on H100-80GB beside 1 x 7g.80gb"]),
        (
            {"mine": {"mig_devices": {"2g.20gb": 3, "1g.10gb": 2}}},
            ["layouts.mine[0]: 2 x 1g.10gb, 3 x 2g.20gb find no place on H100-80GB", "(nodes gpu-0000, gpu-0001)"],
        ),
        (
            {"mine": [{"devices": [8], "mig_devices": {"1g.10gb": 1}}]},
            ["layouts.mine[0]: there is no GPU 8, only 8 GPUs", "layouts.mine: no entry is meant for GPU 0, 1, 2"],
        ),
        (
            {"mine": [{"device_filter": "garbage"}]},
            ["there is no node that MIG can divide", "one of its filters matches"],
        ),
        (
            {"mine": {"fit": "1g", "node_selector": {"pool": "x"}}},
            ["layouts.mine: no node that it is meant for has GPUs"],
        ),
        ({"mine": [{"mig_device": {}}]}, ["layouts.mine[0]: there is no field 'mig-device'"]),
        ({"good": {"fit": "1g"}, "bad": [{"mig_devices": {"x": 1}}]}, ["layouts.bad[0].mig-devices: 'x' is no MIG"]),
        ({"all-disabled": {"fit": "1g"}}, ["all-disabled is the name of a layout of NVIDIA's"]),
        ({"all 1g": {"fit": "1g"}}, ["layouts.all 1g: a layout's name is the value of a label"]),
    ],
)
def test_nothing_that_is_wrong_is_published(layout: t.Callable, api: FakeApi, layouts: t.Any, words: list[str]) -> None:
    run = layout(layouts=layouts)
    assert run.rc == 1 and all(word in run.result["msg"] for word in words), run.result["msg"]
    assert run.result["reason"] == "Invalid" and writes(api) == []


def test_a_selector_says_for_which_nodes_a_layout_is_meant(layout: t.Callable, api: FakeApi) -> None:
    add(api, 2, A30, pool="small")
    refused = layout(layouts={"mine": {"mig_devices": {"1g.6gb": 4}}})
    assert "1g.6gb is no profile of H100-80GB" in refused.result["msg"]
    assert refused.result["problems"] == [
        "layouts.mine[0]: 1g.6gb is no profile of H100-80GB, which has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, "
        "4g.40gb, 7g.80gb (nodes gpu-0000, gpu-0001)"
    ]
    run = layout(layouts={"mine": {"mig_devices": {"1g.6gb": 4}, "node_selector": {"pool": "small"}}})
    assert (run.rc, run.result["layouts"]["mine"]["nodes"]) == (0, 1)


def test_what_cannot_be_checked_needs_permission(layout: t.Callable, api: FakeApi) -> None:
    add(api, 2, "NVIDIA-H100")
    del api.lists[NODES][0]["metadata"]["labels"]["nvidia.com/gpu.count"]
    layouts = {"mine": [{"mig_devices": {"1g.10gb": 7}}, {"devices": [0], "mig_enabled": False}]}
    refused = layout(layouts=layouts)
    assert refused.result["unchecked"] == [
        wording("mine on gpu-0000: no label tells how many GPUs there are"),
        "mine on gpu-0002: the profiles of NVIDIA-H100 are unknown",
    ]
    assert "set allow_unchecked: true" in refused.result["msg"] and writes(api) == []
    run = layout(layouts=layouts, allow_unchecked=True)
    assert run.rc == 0 and len(run.warnings) == 2
    assert run.result["layouts"]["mine"]["models"]["H100-80GB"][0] == {
        "mig_devices": {},
        "drawn": "MIG is off",
        "addable": {},
    }


def test_layouts_can_be_published_before_the_nodes_are_there(layout: t.Callable, api: FakeApi) -> None:
    api.lists[NODES] = []
    assert layout(layouts={"mine": [{"mig_devices": {"1g.10gb": 7}}]}).rc == 1
    run = layout(layouts={"mine": [{"mig_devices": {"1g.10gb": 7}}]}, allow_unchecked=True)
    assert (run.rc, run.result["layouts"]["mine"]) == (0, {"nodes": 0, "models": {}})


def test_a_layout_in_use_is_neither_removed_nor_changed(layout: t.Callable, api: FakeApi) -> None:
    layout(layouts={"mine": {"fit": "1g"}, "other": {"fit": "2g"}})
    label(api, 1, "mine")
    before = len(writes(api))
    for options in ({"state": "absent", "layouts": {"mine": {}}}, {"state": "absent"}):
        run = layout(**options)
        assert (run.rc, run.result["reason"], run.result["nodes"]) == (1, "NodesBusy", ["gpu-0001"])
        assert "in use on gpu-0001" in run.result["msg"]
    run = layout(layouts={"mine": {"fit": "3g"}})
    assert "in use on gpu-0001" in run.result["msg"]
    run = layout(layouts={"other": {"fit": "2g"}}, purge=True)
    assert run.rc == 1 and len(writes(api)) == before


def test_removal_gives_the_field_back(layout: t.Callable, api: FakeApi) -> None:
    layout(layouts={"one": {"fit": "1g"}, "two": {"fit": "2g"}})
    label(api, 0, "all-3g.40gb")
    assert layout(state="absent", layouts={"one": {}}).result["changed"]
    assert "one" not in published(api) and config(api) == {"name": MAP}
    run = layout(state="absent", layouts={"two": {}})
    assert run.result["changed"] and config(api) == {}
    assert [item["metadata"]["name"] for item in api.lists[MAPS]] == ["default-mig-parted-config"]
    assert not layout(state="absent").result["changed"]
    assert not layout(state="absent", layouts={"one": {}}).result["changed"]


def test_the_map_stays_while_somebody_else_names_it(layout: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["migManager"] = {"config": {"name": MAP}}
    fields = {"f:migManager": {"f:config": {"f:name": {}}}}
    api.lists[POLICIES][0]["metadata"]["managedFields"] = [entry("helm", fields)]
    api.lists[MAPS].append(configmap(MAP, DEFAULT, labels={"app.kubernetes.io/managed-by": "gpuops.nvidia"}))
    run = layout(state="absent")
    assert (run.result["changed"], len(api.lists[MAPS])) == (False, 2)
    assert run.warnings == [
        wording("somebody else still names the ConfigMap gpuops-mig-layouts in the ClusterPolicy, so it stays.")
    ]


def test_another_owner_of_the_field_is_named(layout: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["migManager"] = {"config": {"name": "custom"}}
    api.lists[MAPS].append(configmap("custom", DEFAULT))
    causes = [{"message": 'conflict with "helm" using nvidia.com/v1', "field": ".spec.migManager.config.name"}]
    conflict = refusal(409, "conflict", "Conflict", causes)
    api.answer = lambda method, path: conflict if method == "PATCH" and path.startswith(POLICIES) else None
    run = layout(layouts={"mine": {"fit": "1g"}})
    assert run.result["msg"] == (
        "migManager.config.name of ClusterPolicy cluster-policy is 'custom', and belongs to helm. Set it to "
        f"'{MAP}' in the Helm values (migManager.config.name; role operator: operator_values)."
    )


def test_a_configmap_of_somebody_else_is_left_alone(layout: t.Callable, api: FakeApi) -> None:
    api.lists[MAPS].append(configmap("custom", DEFAULT))
    run = layout(layouts={"mine": {"fit": "1g"}}, config_map="custom")
    assert run.result["reason"] == "AlreadyExists" and writes(api) == []


# ---- nodes that would be changed without a drain ---------------------------------------------------------------------


def state(api: FakeApi, number: int, value: str) -> None:
    api.lists[NODES][number]["metadata"]["labels"]["nvidia.com/mig.config.state"] = value


def test_nodes_that_the_managers_would_change_when_they_start_again_are_drained_first(
    layout: t.Callable, api: FakeApi
) -> None:
    label(api, 0, "mine")  # asked for before it was published, which failed
    state(api, 0, "failed")
    label(api, 1, "all-1g.10gb")
    wanted = {"layouts": {"mine": {"fit": "2g.20gb"}}}
    for options in ({}, {"_ansible_check_mode": True}):
        run = layout(**wanted, **options)
        assert (run.rc, run.result["reason"], run.result["nodes"]) == (1, "NodesBusy", ["gpu-0000"])
        assert "gpu-0000 (mine, state failed)" in run.result["msg"] and writes(api) == []
    predicted = layout(**wanted, allow_unattended=True, _ansible_check_mode=True)
    assert predicted.result["unattended"] == ["gpu-0000"] and "mine:" in predicted.result["content"]
    api.lists[NODES][0]["spec"]["unschedulable"] = True
    api.lists[ALL_PODS].append(workload("train"))
    assert "team/train" in layout(**wanted).result["msg"] or "train" in layout(**wanted).result["msg"]
    api.lists[ALL_PODS].clear()
    run = layout(**wanted)
    assert (run.rc, run.result["unattended"], run.result["content"]) == (0, ["gpu-0000"], predicted.result["content"])
    assert published(api)["mine"]


@pytest.mark.parametrize("name", ["mine", "all-3g.40gb"])
def test_an_edit_concerns_only_labels_that_it_makes_valid(layout: t.Callable, api: FakeApi, name: str) -> None:
    layout(layouts={"one": {"fit": "1g"}})
    label(api, 0, name)
    state(api, 0, "failed")
    run = layout(layouts={"mine": {"fit": "2g"}})
    assert run.result.get("nodes") == (["gpu-0000"] if name == "mine" else None)
    assert layout(layouts={"mine": {"fit": "2g"}}, allow_unattended=True).rc == 0


def test_a_removal_starts_the_managers_again_too(layout: t.Callable, api: FakeApi) -> None:
    layout(layouts={"one": {"fit": "1g"}})
    label(api, 1, "all-3g.40gb")
    state(api, 1, "failed")
    run = layout(state="absent")
    assert (run.rc, run.result["nodes"], config(api)) == (1, ["gpu-0001"], {"name": MAP})
    assert layout(state="absent", allow_unattended=True).rc == 0
