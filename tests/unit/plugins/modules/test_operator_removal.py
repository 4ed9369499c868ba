# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import removal_plan
from ansible_collections.gpuops.nvidia.plugins.modules import operator_removal

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import bare, gpu_pod, stack
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Store

__all__ = ["bare", "stack"]


@pytest.fixture
def removal(run_module: t.Callable, monkeypatch: pytest.MonkeyPatch, stack: Store) -> t.Callable:
    def connect(options: t.Mapping[str, t.Any], check_mode: bool) -> Store:
        stack.check_mode = check_mode
        return stack

    monkeypatch.setattr(operator_removal, "Cluster", connect)
    return lambda **options: run_module("operator_removal", **options)


def test_check_run_and_second_run(removal: t.Callable, stack: Store) -> None:
    wanted = {"remove": operator_removal.SPEC.options["remove"]["choices"]}
    predicted = removal(**wanted, _ansible_check_mode=True)
    assert (predicted.rc, predicted.result["changed"], stack.writes) == (0, True, [])
    done = removal(**wanted)
    assert done.result == predicted.result and done.result["diff"]["after"].startswith("delete ClusterPolicy ")
    for check in ({}, {"_ansible_check_mode": True}):
        again = removal(**wanted, **check)
        assert (again.rc, again.result["changed"], again.result["removed"]) == (0, False, [])


def test_pods_with_gpus_need_permission(removal: t.Callable, stack: Store) -> None:
    gpu_pod(stack)
    refused = removal()
    assert (refused.rc, refused.result["reason"], refused.result["gpu_pods"]) == (1, "Disruption", 1)
    assert removal(_ansible_check_mode=True).result["msg"] == refused.result["msg"]
    predicted = removal(check_refusal="warn", _ansible_check_mode=True)
    assert predicted.rc == 0 and predicted.warnings == [WOULD_STOP + refused.result["msg"]]
    assert removal(check_refusal="warn").result["msg"] == refused.result["msg"]
    assert removal(allow_disruption=True).result["gpu_pods"] == 1


def test_wrong_options_are_one_sentence(removal: t.Callable, stack: Store) -> None:
    assert removal(wait_timeout=-1).result["msg"] == "wait_timeout is -1: give 0 or more."
    assert removal(helm_timeout="300").result["msg"].startswith("'300' is not a duration.")
    assert "value of remove must be one or more of" in removal(remove=["everything"]).result["msg"]
    assert stack.writes == []


def test_the_choices_are_those_of_the_plan() -> None:
    assert tuple(operator_removal.SPEC.options["remove"]["choices"]) == (
        removal_plan.EVERY_LEFTOVER,
        *removal_plan.LEFTOVERS,
    )
