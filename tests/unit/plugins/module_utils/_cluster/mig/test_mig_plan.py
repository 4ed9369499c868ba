# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_plan import (
    NodePlan,
    Stack,
    check,
    is_halfway,
    plan_node,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Catalog
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig import text
from tests.unit.fakes.mig_nodes import DIVIDED, LAYOUT, held, mig_node, mig_plan, mig_sight

SOURCE = Catalog({"default-mig-parted-config": text()}).of("gpu-0000")
DEVICES = {"nvidia.com/mig-1g.10gb": "56"}
SET = {"config": LAYOUT, "state": "success", **DIVIDED}


def planned(sight: Sight, layout: str = LAYOUT, holders: t.Sequence[Holder] = (), **stack: t.Any) -> NodePlan:
    fields = {"strategy": "mixed", "managed": frozenset({"gpu-0000"}), **stack}
    return plan_node(sight, layout, SOURCE, Stack(**fields), holders)


@pytest.mark.parametrize(
    ("sight", "todo"),
    [
        (mig_sight(DEVICES, **SET), "nothing"),
        (mig_sight(), "change"),
        (mig_sight(config="all-disabled", state="success"), "change"),
        (mig_sight(config=LAYOUT, state="failed"), "change"),
        (mig_sight(config=LAYOUT), "change"),
        (mig_sight(config=LAYOUT, state="success"), "change"),
        (mig_sight(config=LAYOUT, state="pending"), "resume"),
        (Sight(held(mig_node(DEVICES, **SET))), "resume"),
        (Sight(held(mig_node(config=LAYOUT))), "resume"),
        (Sight(held(mig_node(config=LAYOUT, state="failed"))), "change"),
        (mig_sight(DEVICES, **SET, **{"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}), "repair"),
        (mig_sight({"nvidia.com/mig-1g.10gb": "55"}, **SET), "degraded"),
        (mig_sight(**{"nvidia.com/mig.capable": "false"}), "refuse"),
        (mig_sight(count=None), "refuse"),
    ],
)
def test_what_is_to_be_done_follows_from_what_the_node_says(sight: Sight, todo: str) -> None:
    assert planned(sight).todo == todo


def test_a_node_that_has_no_manager_yet_is_left_out_if_others_have_one() -> None:
    others = frozenset({"gpu-0001"})
    assert planned(mig_sight(), managed=others).todo == "left"
    assert planned(mig_sight(DEVICES, **SET), managed=others).todo == "nothing"


MAX_Q = "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition"
QUARTERS = Catalog({"default-mig-parted-config": text({"all-1g.24gb": {"1g.24gb": 4}, "all-disabled": {}})}).of("x")


def quarters(product: str | None = None, **labels: str | None) -> NodePlan:
    """Return the plan of a node with two RTX PRO 6000 that are divided into quarters."""
    shown = {"count": "8", "config": "all-1g.24gb", "state": "success", "product": product, **labels}
    sight = mig_sight({"nvidia.com/gpu": "8"}, **shown)
    sight.node["metadata"]["annotations"] = {"gpuops.nvidia/gpus": "2", "gpuops.nvidia/gpu-product": MAX_Q}
    return plan_node(sight, "all-1g.24gb", QUARTERS, Stack("single", managed=frozenset({"gpu-0000"})))


@pytest.mark.parametrize(
    ("labels", "todo"),
    [
        ({"product": f"{MAX_Q}-MIG-1g.24gb"}, "nothing"),
        ({"product": "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Ed-MIG-1g.24gb"}, "nothing"),
        ({"nvidia.com/gpu.slices.gi": "1", "nvidia.com/gpu.memory": "24192"}, "nothing"),
        ({"nvidia.com/gpu.slices.gi": "2", "nvidia.com/gpu.memory": "48512"}, "change"),
        ({"nvidia.com/gpu.slices.gi": "1", "nvidia.com/gpu.memory": "24192", "count": "7"}, "change"),
        ({"nvidia.com/gpu.memory": "97887"}, "degraded"),
        ({}, "degraded"),
    ],
)
def test_a_missing_product_label_is_unknown_and_causes_no_second_change(labels: dict, todo: str) -> None:
    assert quarters(**labels).todo == todo


def test_a_layout_that_is_meant_for_none_of_the_gpus_is_refused() -> None:
    filtered = text({"all-disabled": {}}) + (
        "  all-1g.8gb:\n  - devices: all\n    device-filter: ['0x233010DE']\n    mig-enabled: true\n"
        "    mig-devices: {1g.10gb: 7}\n"
    )
    source = Catalog({"default-mig-parted-config": filtered}).of("gpu-0000")
    stack = Stack("mixed", managed=frozenset({"gpu-0000"}))
    for product in ("NVIDIA-Z900", "NVIDIA-A100-SXM-64GB"):
        assert plan_node(mig_sight(product=product), "all-1g.8gb", source, stack).todo == "refuse"
    assert plan_node(mig_sight(), "all-1g.8gb", source, stack).todo == "change"
    assert plan_node(mig_sight(product="NVIDIA-Z900"), "all-1g.8gb", source, stack).reason == wording(
        "none of its entries is meant for NVIDIA-Z900: publish a layout for them (mig_custom_layouts)"
    )


def test_a_node_with_several_models_is_refused_by_name() -> None:
    node = mig_node()
    node["metadata"]["labels"]["nvidia.com/gpu.count"] = "4"
    node["status"]["capacity"] = {"cpu": "64", "nvidia.com/gpu": "8"}
    plan = planned(Sight(node))
    assert plan.todo == "refuse" and plan.reason == wording(
        "its labels count 4 of its 8 GPUs, which are of several models, so its layout could not be proved: leave it out, and divide its GPUs on the host (role mig_partition)"
    )
    node["status"]["capacity"] = {"nvidia.com/gpu": "4", "nvidia.com/gpu.shared": "8"}  # shares of former times
    assert planned(Sight(node)).todo == "change"
    node["status"] |= {"allocatable": {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "28"}}
    node["status"]["capacity"] = {"nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "28"}
    assert planned(Sight(node)).todo == "change"


def test_without_any_manager_only_a_node_that_changes_is_refused() -> None:
    nobody: frozenset[str] = frozenset()
    assert planned(mig_sight(DEVICES, **SET), managed=nobody).todo == "nothing"
    assert planned(mig_sight(), managed=nobody).reason == wording(
        "no pod of the MIG manager runs on it, so its layout cannot change: check its label nvidia.com/gpu.deploy.mig-manager, which must be true, and the DaemonSet nvidia-mig-manager"
    )
    assert "no DaemonSet nvidia-mig-manager" in planned(mig_sight(DEVICES, **SET), managed=None).reason


def test_a_reboot_needs_permission() -> None:
    assert planned(mig_sight(), may_reboot=True).todo == "refuse"
    assert planned(mig_sight(), may_reboot=True, allows_reboot=True).todo == "change"
    assert planned(mig_sight(DEVICES, **SET), may_reboot=True).todo == "nothing"


def test_another_maintainer_is_awaited_unless_the_user_permits_otherwise() -> None:
    busy, idle = Holder("kured", "lock"), Holder("nvsentinel", "mark", at_work=False)
    waits = planned(mig_sight(), holders=[busy])
    assert (waits.todo, waits.reason) == ("wait", wording("kured (lock) is working on it"))
    assert planned(mig_sight(), holders=[idle]).todo == "change"
    assert planned(mig_sight(), holders=[busy], allows_shared=True).todo == "change"
    assert planned(mig_sight(DEVICES, **SET), holders=[busy]).todo == "nothing"


def test_absent_is_done_without_a_label_or_with_one_that_the_operator_sets() -> None:
    whole = {"config": "all-disabled", "state": "success"}
    assert planned(mig_sight(), "all-disabled", removes=True).todo == "nothing"
    assert planned(mig_sight(**whole), "all-disabled", removes=True).todo == "prove"
    assert planned(mig_sight(**whole), "all-disabled").todo == "nothing"
    assert planned(mig_sight(**DIVIDED), "all-disabled", removes=True).todo == "change"
    incapable = mig_sight(**{"nvidia.com/mig.capable": None})
    assert planned(incapable, "all-disabled").todo == "nothing"


def test_a_layout_that_does_not_fit_is_refused_with_those_that_do() -> None:
    refused = planned(mig_sight(), "too-much")
    assert refused.todo == "refuse"
    assert refused.reason.endswith("fit its NVIDIA-H100-80GB-HBM3: all-1g.10gb, all-3g.40gb, all-balanced")


def test_a_layout_under_which_a_node_offers_nothing_is_no_suggestion() -> None:
    enabled = "  all-enabled:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {}\n"
    source = Catalog({"default-mig-parted-config": text() + enabled}).of("gpu-0000")
    refused = plan_node(mig_sight(), "too-much", source, Stack(strategy="mixed", managed=frozenset({"gpu-0000"})), ())
    assert "all-enabled" in source.layouts and "all-enabled" not in refused.reason


def test_the_profiles_of_an_unknown_model_are_left_to_its_manager() -> None:
    assert planned(mig_sight(product="NVIDIA-Z900"), "too-much").todo == "change"


def test_nodes_with_the_same_trouble_share_a_sentence() -> None:
    refused = [NodePlan(name, "x", "refuse", "it is so") for name in ("a", "b")]
    with pytest.raises(GpuOpsError) as error:
        check([mig_plan(), *refused])
    assert error.value.reason == "LayoutRefused"
    assert error.value.msg == wording("a, b cannot get x: it is so. Nothing has been changed.")
    check([mig_plan()])


def test_a_node_is_halfway_while_a_run_holds_it() -> None:
    assert is_halfway(Sight(held(mig_node()))) and not is_halfway(mig_sight())
    cordoned, uncordoned = mig_node(), held(mig_node())
    cordoned["spec"]["unschedulable"], uncordoned["spec"]["unschedulable"] = True, False
    assert not is_halfway(Sight(cordoned)) and not is_halfway(Sight(uncordoned))


def test_a_gpu_that_cannot_be_divided_is_named() -> None:
    known = planned(mig_sight(**{"nvidia.com/mig.capable": "false", "nvidia.com/gpu.product": "NVIDIA-L4"}))
    assert known.todo == "refuse" and known.reason.startswith("it has NVIDIA-L4, which cannot be divided")
    unlabelled = mig_sight(**{"nvidia.com/mig.capable": "false", "nvidia.com/gpu.product": ""})
    assert planned(unlabelled).reason.startswith("it has an unknown GPU, which cannot be divided")
