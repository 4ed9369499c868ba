# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.hang import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE


@pytest.mark.parametrize(
    ("line", "certainty"),
    [
        # https://github.com/NVIDIA/k8s-device-plugin/issues/77
        ("[  721.031434] INFO: task nvc:[driver]:6067 blocked for more than 120 seconds.", "certain"),
        # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html
        ("nvidia-container-cli.real: initialization error: driver rpc error: timed out: unknown", "likely"),
        # https://github.com/NVIDIA/nvidia-docker/issues/377
        ("root        935  0.0  0.0  16488  4056 ?        D    May04   0:00 /usr/bin/nvidia-smi", "likely"),
    ],
)
def test_published_lines(line: str, certainty: str) -> None:
    assert diagnosed.found(RULES, line)["DriverHangs"].certainty == certainty


def test_a_stack_in_the_driver_under_a_task_in_d() -> None:
    # https://github.com/rwth-i6/returnn/issues/1480
    task = "task:python3.11      state:D stack:    0 pid:15277 ppid: 15257 flags:0x00000002"
    assert not diagnosed.found(RULES, task)
    stack = "uvm_page_tree_get_ptes_async+0x93/0x970 [nvidia_uvm]"
    assert diagnosed.found(RULES, task, stack)["DriverHangs"].certainty == "likely"


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/leptonai/gpud/pull/117: the task is not the driver's.
        "INFO: task cache_mgr_event:620917 blocked for more than 120 seconds.",
        "root        935  0.0  0.0  16488  4056 ?        S    May04   0:00 /usr/bin/nvidia-persistenced",
        "INFO: task jbd2/sda2-8:512 blocked for more than 120 seconds.",
    ],
)
def test_near_misses(line: str) -> None:
    assert not diagnosed.found(RULES, line)


def host(*, nvidia: bool, reason: str | None = None) -> dict[str, t.Any]:
    """Return what is known of a host with a process that does not leave the kernel."""
    stuck = [{"pid": 4711, "name": "nvidia-smi", "wchan": "", "stack": ["os_acquire_rwlock_read"], "nvidia": nvidia}]
    sources = {"gpus.uuid": {"source": None, "reason": reason}}
    return {"hosts": {NODE: {"facts": {"driver": {"loaded": True}, "sources": sources}, "state": {"stuck": stuck}}}}


def test_one_sign_is_likely_and_two_are_certain() -> None:
    reason = "NVML did not answer in time, because the driver hangs"
    for evidence, certainty in (
        (host(nvidia=True), "likely"),
        (host(nvidia=False, reason=reason), "likely"),
        (host(nvidia=True, reason=reason), "certain"),
    ):
        assert {each.certainty for each in diagnosed.found(RULES, **evidence).values()} == {certainty}


def test_another_source_that_did_not_answer_says_nothing_of_the_driver() -> None:
    evidence = host(nvidia=False)
    sources = {"services.imex": {"source": None, "reason": "systemctl did not answer within 10 s"}}
    evidence["hosts"][NODE]["facts"]["sources"] = sources
    assert not diagnosed.found(RULES, **evidence)


def test_a_task_that_hung_once_is_over_when_the_driver_answers() -> None:
    line = TextLine("INFO: task nvidia-smi:6067 blocked for more than 120 seconds.", "kernel", "kernel log", NODE)
    well = {"hosts": {NODE: {"facts": {"gpus": [{"pci_address": "0000:18:00.0", "uuid": "GPU-1", "lost": False}]}}}}
    assert set(diagnosed.found(RULES, line)) == {"DriverHangs"}
    assert not diagnosed.found(RULES, line, **well)


def test_a_process_that_holds_the_driver_and_one_that_does_not() -> None:
    found = diagnosed.found(RULES, **host(nvidia=True))
    assert "os_acquire_rwlock_read" in found["DriverHangs"].quotes[0].text
    assert not diagnosed.found(RULES, **host(nvidia=False))


def test_nvml_that_does_not_answer_and_nvml_that_says_no() -> None:
    hangs = host(nvidia=False, reason="NVML did not answer in time, because the driver hangs")
    assert "NVML or nvidia-smi called the driver" in diagnosed.found(RULES, **hangs)["DriverHangs"].cause
    assert not diagnosed.found(RULES, **host(nvidia=False, reason="NVML: Not Supported"))


def test_it_explains_a_node_whose_gpus_look_well() -> None:
    stack = diagnosed.stack(diagnosed.row(waiting_for={"dcgm-exporter": "Running"}))
    found = diagnosed.found(RULES, stack=stack, **host(nvidia=True))
    assert set(found) == {"DriverHangs"}
