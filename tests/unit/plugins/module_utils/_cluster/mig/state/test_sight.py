# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight, resumed

from tests.unit.fakes.mig_nodes import held, mig_node, mig_sight

PLUGIN = "nvidia.com/gpu.deploy.device-plugin"


def test_a_look_says_what_the_labels_say() -> None:
    sight = mig_sight(config="all-1g.10gb", state="pending")
    assert (sight.name, sight.config, sight.state, sight.is_changing) == ("gpu-0000", "all-1g.10gb", "pending", True)
    assert sight.is_capable and sight.is_ready and not sight.is_cordoned and not sight.is_held
    assert sight.model is not None and sight.offered == {"nvidia.com/gpu": 8} and sight.counted == 8
    assert Sight(held(mig_node())).is_held and Sight(held(mig_node())).is_cordoned


def test_a_node_without_labels_says_nothing() -> None:
    empty = Sight({"metadata": {"name": "a"}, "spec": {}, "status": {}})
    assert (empty.config, empty.state, empty.strategy, empty.product, empty.model) == ("", "", "", "", None)
    assert empty.counted is None and empty.paused == () and empty.offered == {} and not empty.is_capable


def test_a_divided_node_counts_devices_so_only_the_note_says_how_many_gpus_it_has() -> None:
    divided = mig_node(product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", count="56")
    assert Sight(divided).counted is None and Sight(divided).is_divided
    divided["metadata"]["annotations"] = {"gpuops.nvidia/gpus": "8"}
    assert Sight(divided).counted == 8


def test_pauses_are_found_and_end_with_what_the_user_had_set() -> None:
    sight = mig_sight(**{PLUGIN: "paused-for-mig-change", "nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"})
    assert sight.paused == (PLUGIN,), "a pause for a driver upgrade is not ours"
    assert resumed("paused-for-mig-change") == "true" and resumed("mine_paused-for-mig-change") == "mine"


def test_progress_is_a_change_of_labels_devices_readiness_or_cordon() -> None:
    marks = {
        mig_sight().marks,
        mig_sight(state="pending").marks,
        mig_sight({"nvidia.com/gpu": "7"}).marks,
        Sight(held(mig_node())).marks,
    }
    assert len(marks) == 4 and mig_sight().marks == mig_sight(other="label").marks
