# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import (
    remove_patch,
    set_patch,
    tidied,
    unpaused,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes.mig_nodes import mig_sight, seen

PLUGIN = "nvidia.com/gpu.deploy.device-plugin"


def test_one_patch_sets_the_layout_marks_it_clears_the_state_and_ends_pauses() -> None:
    look = seen(mig_sight(**{PLUGIN: "paused-for-mig-change"}), "set")
    assert set_patch(look) == {
        "metadata": {
            "labels": {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": None, PLUGIN: "true"},
            "annotations": {
                "gpuops.nvidia/mig": "all-1g.10gb",
                "gpuops.nvidia/gpus": "8",
                "gpuops.nvidia/gpu-product": "NVIDIA-H100-80GB-HBM3",
            },
        }
    }
    assert set_patch(seen(mig_sight(product=None), "set"))["metadata"]["annotations"] == {
        "gpuops.nvidia/mig": "all-1g.10gb",
        "gpuops.nvidia/gpus": "8",
    }
    assert unpaused(mig_sight()) == {}


def test_the_label_its_mark_and_the_state_leave_together() -> None:
    assert remove_patch() == {
        "metadata": {
            "labels": {"nvidia.com/mig.config": None, "nvidia.com/mig.config.state": None},
            "annotations": {"gpuops.nvidia/mig": None},
        }
    }


CONFIG, STATE, NOTE = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "gpuops.nvidia/gpus"
MARK = "gpuops.nvidia/mig"
RELEASED = {"spec": {"unschedulable": None}, "metadata": {"labels": {"a": None}, "annotations": {"b": None}}}


def labelled(*labels: str, notes: tuple[str, ...] = ()) -> Json:
    return {"metadata": {"name": "n", "labels": dict.fromkeys(labels, "x"), "annotations": dict.fromkeys(notes, "8")}}


def test_a_node_with_whole_gpus_loses_what_it_no_longer_needs_when_it_is_released() -> None:
    whole = labelled(CONFIG, STATE, "other", notes=(NOTE, MARK, "other"))
    assert tidied(whole, RELEASED, removes=True) == {
        "spec": {"unschedulable": None},
        "metadata": {
            "labels": {"a": None, CONFIG: None, STATE: None},
            "annotations": {"b": None, NOTE: None, MARK: None},
        },
    }
    kept = {"metadata": {"labels": {}, "annotations": {NOTE: None, MARK: None}}}
    assert tidied(whole, None, removes=False) == kept
    only_label = {"metadata": {"labels": {CONFIG: None}, "annotations": {}}}
    assert tidied(labelled(CONFIG), None, removes=True) == only_label


def test_a_node_that_has_nothing_to_lose_is_released_as_it_is() -> None:
    assert tidied(labelled("other"), RELEASED, removes=True) is RELEASED
    assert tidied(labelled(CONFIG), RELEASED, removes=False) is RELEASED
    assert tidied(labelled(), None, removes=True) is None


def test_a_node_is_stuck_after_the_timeout_without_a_change() -> None:
    assert not seen(mig_sight(), "watch", still_s=99.9).is_stuck and seen(mig_sight(), "watch", still_s=100.0).is_stuck
