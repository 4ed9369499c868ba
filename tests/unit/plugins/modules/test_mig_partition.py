# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import mig_partition
from inline_snapshot import snapshot as wording

from lab.nvml import A30, A100, B200, H100, H200, L4, Model, machine, reset
from tests.unit.fakes.mig_host import MigHost
from tests.unit.fakes.modules import RunModule

SCRIPT = "/etc/gpuops/mig_partition/restore.sh"
UNIT = "/etc/systemd/system/gpuops-mig-partition.service"
FIRST = "GPU-23300000-0000-4000-8000-000000000000"
SECOND = "GPU-23300000-0000-4000-8000-000000000001"
SetNvml = t.Callable[..., None]
Start = t.Callable[..., MigHost]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nvml: SetNvml) -> Start:
    """``start(H100, 2)`` is a host with two of them, before anybody has divided them."""

    def start(model: Model = H100, count: int = 2, **keys: t.Any) -> MigHost:
        nvml(machine(model, count, **keys))
        host = MigHost(tmp_path / "host", model, count)
        monkeypatch.setattr(mig_partition, "Host", lambda: host)
        return host

    return start


def restored(host: MigHost) -> list[str]:
    return [line for line in (host.read(SCRIPT) or "").splitlines() if line.startswith("restore GPU-")]


def state_file(host: MigHost) -> Path:
    return Path(host.path("")).with_name("nvml.state")


def layouts(result: dict[str, t.Any]) -> list[list[str]]:
    return [gpu["layout"] for gpu in result["gpus"]]


def test_predicts_divides_changes_only_the_difference_and_gives_back(start: Start, run_module: RunModule) -> None:
    host = start()
    seven = [{"gpus": ["0"], "instances": {"1g.10gb": 7}}]
    predicted = run_module("mig_partition", layout=seven, _ansible_check_mode=True)
    assert predicted.result["changed"] and host.called() == [] and host.read(SCRIPT) is None
    done = run_module("mig_partition", layout=seven)
    for key in ("diff", "steps", "pending", "reboot_required"):
        assert predicted.result[key] == done.result[key], key
    assert done.result["diff"][0]["before"] == (
        "GPU 0 (NVIDIA H100 80GB HBM3, 0000:18:00.0): MIG off\nGPU 1 (NVIDIA H100 80GB HBM3, 0000:2a:00.0): MIG off\n"
    )
    assert layouts(done.result) == [[f"  {place}: 1g.10gb" for place in range(7)], []]
    assert host.called() == [
        "daemon-reload",
        "enable gpuops-mig-partition.service",
        "restart gpuops-mig-partition.service",
    ]
    assert restored(host) == [f"restore {FIRST} " + " ".join(f"1g.10gb:{place}" for place in range(7))]
    again = run_module("mig_partition", layout=seven)
    assert not again.result["changed"] and again.result["steps"] == [] and host.called() == []

    uuids = {each["uuid"] for each in done.result["gpus"][0]["mig"]["instances"]}
    mixed = [{"gpus": ["0000:18:00.0"], "instances": {"1g.10gb": 3, "3g.40gb": 1}}]
    predicted = run_module("mig_partition", layout=mixed, _ansible_check_mode=True)
    changed = run_module("mig_partition", layout=mixed)
    assert predicted.result["steps"] == changed.result["steps"]
    assert sum("destroy 1g.10gb" in step for step in changed.result["steps"]) == 4
    assert sum("create 3g.40gb" in step for step in changed.result["steps"]) == 1
    assert len(uuids & {each["uuid"] for each in changed.result["gpus"][0]["mig"]["instances"]}) == 3

    host.called()
    back = run_module("mig_partition", layout=[{"mode": "disabled"}])
    assert back.result["changed"] and layouts(back.result) == [[], []]
    assert not back.result["gpus"][0]["mig"]["mode"]
    assert not host.exists(SCRIPT) and not host.exists(UNIT)
    assert host.called() == ["disable gpuops-mig-partition.service", "daemon-reload"]
    assert not run_module("mig_partition", layout=[{"mode": "disabled"}]).result["changed"]


@pytest.mark.parametrize(
    ("model", "counts", "lines"),
    [
        (A30, {"2g.12gb": 1, "1g.6gb": 2}, ["  0-1: 2g.12gb", "  2: 1g.6gb", "  3: 1g.6gb"]),
        (A100, {"4g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}, ["  0-3: 4g.40gb", "  4-5: 2g.20gb", "  6: 1g.10gb"]),
        (H100, {"1g.20gb": 4}, [f"  {place}-{place + 1}: 1g.20gb" for place in (0, 2, 4, 6)]),
        (H200, {"3g.71gb": 2}, ["  0-3: 3g.71gb", "  4-7: 3g.71gb"]),
        (B200, {"7g.180gb": 1}, ["  0-7: 7g.180gb"]),
        (H100, {"1c.3g.40gb": 3, "1g.10gb+me": 1}, None),
    ],
)
def test_each_model_has_its_own_profiles(
    start: Start, run_module: RunModule, model: Model, counts: dict[str, int], lines: list[str] | None
) -> None:
    start(model, 1)
    done = run_module("mig_partition", layout=[{"instances": counts}])
    if lines is not None:
        assert layouts(done.result) == [lines]
    found: dict[str, int] = {}
    for each in done.result["gpus"][0]["mig"]["instances"]:
        found[each["profile"]] = found.get(each["profile"], 0) + 1
    assert found == counts
    assert not run_module("mig_partition", layout=[{"instances": counts}]).result["changed"]


def test_processes_in_the_way_are_named_and_those_elsewhere_go_on(start: Start, run_module: RunModule) -> None:
    host = start(count=1)
    run_module("mig_partition", layout=[{"instances": {"3g.40gb": 2}}])
    state = state_file(host)
    # The instance at 4 has the number 2.
    state.write_text(state.read_text().replace("[gpu]\n", "[gpu]\nprocesses=4012:512@2/0\n", 1))
    host.process(4012, "python3")
    before = state.read_text()
    for counts in ({"1g.10gb": 7}, {}):
        refused = run_module("mig_partition", layout=[{"instances": counts}])
        assert (refused.rc, refused.result["reason"]) == (1, "InUse")
        assert ": 4012 (python3, alice) on GPU 0." in refused.result["msg"]
        assert refused.result["processes"] == [{"gpu": 0, "pid": 4012, "name": "python3", "user": "alice"}]
    assert run_module("mig_partition", layout=[{"mode": "disabled"}]).result["reason"] == "InUse"
    off = [{"mode": "disabled"}]
    drained = run_module("mig_partition", layout=off, after_drain=True, _ansible_check_mode=True)
    assert drained.result["changed"] and [gpu["mig"]["mode"] for gpu in drained.result["gpus"]] == [False]
    assert run_module("mig_partition", layout=off, after_drain=True).result["reason"] == "InUse"
    assert run_module("mig_partition", layout=off, _ansible_check_mode=True).result["reason"] == "InUse"
    assert state.read_text() == before
    halved = run_module("mig_partition", layout=[{"instances": {"3g.40gb": 1, "1g.10gb": 2}}])
    assert layouts(halved.result) == [["  0: 1g.10gb", "  1: 1g.10gb", "  4-7: 3g.40gb"]]


def test_an_ampere_gpu_that_a_service_holds_waits_for_a_reset(start: Start, run_module: RunModule) -> None:
    host = start(A100, 1, mig_reset_required=1)
    host.process(1207, "nv-hostengine", 0, "/dev/nvidiactl", "/dev/nvidia0")
    host.process(1300, "nvidia-persiste", 0, "/dev/nvidia0")
    layout = [{"instances": {"3g.40gb": 2}}]
    predicted = run_module("mig_partition", layout=layout, _ansible_check_mode=True)
    done = run_module("mig_partition", layout=layout)
    held = [{"pid": 1207, "name": "nv-hostengine", "user": "root"}]
    for result in (predicted.result, done.result):
        assert result["changed"] and result["reboot_required"] and result["pending"][0]["held_by"] == held
        assert result["steps"] == ["GPU 0: turn MIG on"] and layouts(result) == [[]]
        assert result["diff"][0]["after"].endswith("MIG off, on after a reset\n")
    assert done.result["pending"][0]["reason"] == "GPU requires reset"
    assert restored(host) == ["restore GPU-20b20000-0000-4000-8000-000000000000 3g.40gb:0 3g.40gb:4"]
    assert host.called() == ["daemon-reload", "enable gpuops-mig-partition.service"]
    again = run_module("mig_partition", layout=layout)
    assert not again.result["changed"] and again.result["reboot_required"]

    reset(state_file(host))
    assert layouts(run_module("mig_partition", layout=layout).result) == [["  0-3: 3g.40gb", "  4-7: 3g.40gb"]]


def test_what_the_driver_refuses_is_undone_or_named(start: Start, run_module: RunModule) -> None:
    host = start(count=1)
    run_module("mig_partition", layout=[{"instances": {"3g.40gb": 2}}])
    text = state_file(host).read_text()
    state_file(host).write_text(text.replace("[gpu]\n", "[gpu]\ncreate_error=23\n", 1))
    failed = run_module("mig_partition", layout=[{"instances": {"3g.40gb": 1, "1g.10gb": 1}}])
    assert failed.result["reason"] == "DriverRefused" and not failed.result["undone"]
    assert failed.result["msg"] == (
        wording(
            'The driver refused the step "GPU 0: create 1g.10gb at 4": Insufficient Resources. These steps back failed, '
            "too: GPU 0: create 3g.40gb at 4 (Insufficient Resources)."
        )
    )
    state_file(host).write_text(text.replace("[gpu]\n", "[gpu]\ndestroy_error=999\n", 1))
    failed = run_module("mig_partition", layout=[{"instances": {}}])
    assert failed.result["undone"] and failed.result["msg"] == wording(
        'The driver refused the step "GPU 0: destroy the compute instance 3c in 3g.40gb at 0": Unknown Error. Everything before it was undone.'
    )


def test_a_driver_that_hangs_or_fails_is_one_message(start: Start, run_module: RunModule, nvml: SetNvml) -> None:
    start(hang=1)
    hung = run_module("mig_partition", layout=[{"instances": {}}], timeout=1)
    assert hung.result["reason"] == "TimedOut"
    assert hung.result["msg"] == wording(
        "The driver did not answer within 1 s while it was asked for its GPUs. Look for Xid errors in the kernel log, and reboot the host."
    )
    nvml([], init=18)
    failed = run_module("mig_partition", layout=[{"instances": {}}])
    assert "NVML cannot be asked: Driver/library version mismatch." in failed.result["msg"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"instances": {"1g.5gb": 7}},
            wording(
                "GPU 0 (NVIDIA H100 80GB HBM3, 0000:18:00.0) has no MIG profile 1g.5gb. It has 1g.10gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb, 1g.10gb+me, 1g.20gb."
            ),
        ),
        (
            {"instances": {"3g.40gb": 3}},
            wording(
                "The layout does not fit on GPU 0 (NVIDIA H100 80GB HBM3, 0000:18:00.0): NVIDIA H100 80GB HBM3 holds at most 2 x 3g.40gb, and 3 are wanted. Ask for fewer or smaller instances."
            ),
        ),
        (
            {"instances": {"3g.40gb": 2, "1g.10gb": 1}},
            wording(
                "The layout does not fit on GPU 0 (NVIDIA H100 80GB HBM3, 0000:18:00.0): 1 x 1g.10gb, 2 x 3g.40gb take 9 of the 8 memory slices of NVIDIA H100 80GB HBM3. Ask for fewer or smaller instances."
            ),
        ),
        (
            {"instances": {"1g.10gb-2": 1}},
            wording(
                "'1g.10gb-2' is no MIG profile. A layout has one name: publish a layout with the mig_devices {1g.10gb: 2}, and name that."
            ),
        ),
        (
            {"instances": {"3c.4g.40gb": 1}},
            wording(
                "A GPU instance 4g.40gb has no compute instance 3c.4g.40gb. Beside 4g.40gb itself it can hold 1c.4g.40gb, 2c.4g.40gb."
            ),
        ),
        (
            {"placements": [{"profile": "3g.40gb", "start": 2}]},
            wording(
                "On GPU 0 (NVIDIA H100 80GB HBM3, 0000:18:00.0), an instance 3g.40gb cannot start at 2. It can at 0, 4."
            ),
        ),
        (
            {"gpus": ["7"], "instances": {}},
            wording(
                "The driver has no GPU 7. Name it by its index, UUID or PCI address; there are 0 (0000:18:00.0, GPU-23300000-0000-4000-8000-000000000000), 1 (0000:2a:00.0, GPU-23300000-0000-4000-8000-000000000001)."
            ),
        ),
        (
            {"mode": "disabled", "instances": {"1g.10gb": 1}},
            wording(
                "The layout of GPU 0 (NVIDIA H100 80GB HBM3, 0000:18:00.0) turns MIG off and has instances: leave out one of the two."
            ),
        ),
    ],
)
def test_a_layout_that_cannot_be_is_refused_before_anything_changes(
    start: Start, run_module: RunModule, options: dict[str, t.Any], sentence: str
) -> None:
    start()
    refused = run_module("mig_partition", layout=[options], _ansible_check_mode=True)
    assert refused.result["reason"] == "Invalid" and refused.result["msg"] == sentence, refused.result["msg"]


def test_gpus_and_hosts_that_others_divide_are_refused(start: Start, run_module: RunModule) -> None:
    layout = [{"instances": {}}]
    start(L4)
    assert run_module("mig_partition", layout=layout).result["msg"] == wording(
        "GPU 0 (NVIDIA L4, 0000:18:00.0) has no MIG. Leave it out of layout."
    )
    assert not run_module("mig_partition", layout=[{"mode": "disabled"}]).result["changed"]
    start(H100, virtualization=3)
    assert "serves virtual GPUs" in run_module("mig_partition", layout=layout).result["msg"]
    host = start()
    host.put("/etc/kubernetes/kubelet.conf", "")
    refused = run_module("mig_partition", layout=layout)
    assert refused.result["reason"] == "HeldElsewhere" and "Use gpuops.nvidia.mig_config" in refused.result["msg"]
    assert run_module("mig_partition", layout=layout, allow_kubernetes_node=True).result["changed"]


def test_a_unit_that_cannot_restore_is_a_failure(start: Start, run_module: RunModule) -> None:
    host = start()
    host.broken = "gpuops-mig-partition: nvidia-smi: command not found"
    failed = run_module("mig_partition", layout=[{"instances": {"7g.80gb": 1}}])
    assert failed.result["msg"] == wording(
        "The layout is on the GPUs, but gpuops-mig-partition.service cannot restore it at boot: gpuops-mig-partition: nvidia-smi: command not found. Run the task again with persistent=false to do without it."
    )
    host.broken = ""
    run_module("mig_partition", layout=[{"gpus": ["0"], "instances": {"7g.80gb": 1}}], persistent=False)
    assert restored(host) == [f"restore {SECOND} 7g.80gb:0"]
