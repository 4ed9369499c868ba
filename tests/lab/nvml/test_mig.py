# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MIG of the simulated NVML, against what nvidia-smi printed on real GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pynvml
import pytest

from lab.cli import main
from lab.nvml import A30, A100, B200, H100, L4, Instance, Model, machine, read, reboot, reset
from lab.nvml.models import MODELS
from tests.support.nvml import SetNvml

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())["gpus"]
recordings = pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["model"])


def path() -> Path:
    return Path(os.environ["FAKE_NVML_STATE"])


def modes() -> list[tuple[str, str]]:
    return [(gpu.keys["mig"], gpu.keys["mig_pending"]) for gpu in read(path())]


@pytest.fixture(name="gpu")
def first_gpu(nvml: SetNvml) -> t.Iterator[t.Callable[..., t.Any]]:
    """``gpu(model, **keys)`` returns the handle of the first of two GPUs."""
    opened = []

    def one(model: Model, instances: t.Sequence[Instance] = (), **keys: t.Any) -> t.Any:
        gpus = machine(model, 2, **keys)
        gpus[0].instances = list(instances)
        nvml(gpus)
        pynvml.nvmlInit()
        opened.append(model)
        return pynvml.nvmlDeviceGetHandleByIndex(0)

    yield one
    for _ in opened:
        pynvml.nvmlShutdown()


def refused(code: int, function: t.Callable[..., t.Any], *arguments: t.Any) -> None:
    with pytest.raises(pynvml.NVMLError) as e:
        function(*arguments)
    assert e.value.value == code


@recordings
def test_profiles_are_those_of_real_gpus(gpu: t.Callable[..., t.Any], recorded: dict[str, t.Any]) -> None:
    handle = gpu(MODELS[recorded["model"]])
    found = {}
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            old = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, 1)
            new = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, 2)
        except pynvml.NVMLError_NotSupported:
            continue
        assert (old.id, old.memorySizeMB, old.ofaCount) == (new.id, new.memorySizeMB, new.ofaCount)
        engines = (new.decoderCount, new.copyEngineCount, new.jpegCount, new.ofaCount)
        gibibytes = new.memorySizeMB / 1024
        found[new.id] = (new.name, new.instanceCount, gibibytes, new.multiprocessorCount, *engines)
    for name, number, most, gibibytes, *others in recorded["profiles"]:
        assert found[number][:2] == (f"MIG {name}", most)
        assert found[number][2] == pytest.approx(gibibytes, abs=0.006)
        assert list(found[number][3:]) == others


@recordings
def test_placements_are_those_of_real_gpus(gpu: t.Callable[..., t.Any], recorded: dict[str, t.Any]) -> None:
    handle = gpu(MODELS[recorded["model"]], mig=1, mig_pending=1)
    for number, (*starts, size) in recorded["placements"].items():
        count = pynvml.c_uint(0)
        function = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetGpuInstancePossiblePlacements_v2")
        assert function(handle, int(number), None, pynvml.byref(count)) == 0
        array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        assert function(handle, int(number), array, pynvml.byref(count)) == 0
        assert [(place.start, place.size) for place in array] == [(start, size) for start in starts]


@recordings
def test_the_driver_chooses_the_same_places(gpu: t.Callable[..., t.Any], recorded: dict[str, t.Any]) -> None:
    for profiles, instances in recorded["created"]:
        handle = gpu(MODELS[recorded["model"]], mig=1, mig_pending=1)
        made = [pynvml.nvmlDeviceCreateGpuInstance(handle, profile) for profile in profiles]
        assert [pynvml.nvmlGpuInstanceGetInfo(instance).id for instance in made] == instances


def test_two_halves_leave_no_room(gpu: t.Callable[..., t.Any]) -> None:
    handle = gpu(H100, [Instance("3g.40gb", 0)], mig=1, mig_pending=1)
    remaining = pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity
    assert {id_: remaining(handle, id_) for id_ in (19, 20, 15, 14, 9, 5, 0)} == {
        19: 3,
        20: 1,
        15: 2,
        14: 1,
        9: 1,
        5: 0,
        0: 0,
    }
    pynvml.nvmlDeviceCreateGpuInstance(handle, 9)
    assert remaining(handle, 19) == 0
    refused(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, pynvml.nvmlDeviceCreateGpuInstance, handle, 19)
    assert read(path())[0].instances == [Instance("3g.40gb", 0), Instance("3g.40gb", 4, ())]


def test_a_gpu_has_one_set_of_media_engines_to_give_away(gpu: t.Callable[..., t.Any]) -> None:
    handle = gpu(A30, mig=1, mig_pending=1)
    pynvml.nvmlDeviceCreateGpuInstance(handle, 21)
    refused(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, pynvml.nvmlDeviceCreateGpuInstance, handle, 21)
    refused(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, pynvml.nvmlDeviceCreateGpuInstance, handle, 6)
    pynvml.nvmlDeviceCreateGpuInstance(handle, 5)


def test_a_wanted_place(gpu: t.Callable[..., t.Any]) -> None:
    handle = gpu(A100, mig=1, mig_pending=1)

    def create(profile: int, start: int, size: int) -> t.Any:
        place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
        return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile, pynvml.byref(place))

    assert pynvml.nvmlGpuInstanceGetInfo(create(14, 2, 2)).id == 4
    refused(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, create, 9, 0, 4)
    refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, create, 14, 1, 2)
    refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, create, 14, 4, 1)
    refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, create, 77, 0, 1)


def test_compute_instances(gpu: t.Callable[..., t.Any]) -> None:
    """The profiles of a 3g.40gb are those that ``nvidia-smi mig -lcip`` prints on an A100 80GB."""
    handle = gpu(A100, [Instance("3g.40gb", 4, ())], mig=1, mig_pending=1)
    instance = pynvml.nvmlDeviceGetGpuInstanceById(handle, 2)
    profiles = {}
    for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, 0, 2)
        except pynvml.NVMLError_NotSupported:
            continue
        profiles[info.id] = (info.name, info.instanceCount, info.multiprocessorCount)
    assert profiles == {0: ("MIG 1c.3g.40gb", 3, 14), 1: ("MIG 2c.3g.40gb", 1, 28), 2: ("MIG 3g.40gb", 1, 42)}
    create = pynvml.nvmlGpuInstanceCreateComputeInstance
    infos = [pynvml.nvmlComputeInstanceGetInfo(create(instance, profile)) for profile in (0, 0)]
    assert [(info.id, info.placement.start, info.placement.size) for info in infos] == [(0, 0, 1), (1, 1, 1)]
    refused(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, create, instance, 1)
    refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, create, instance, 4)
    refused(pynvml.NVML_ERROR_IN_USE, pynvml.nvmlGpuInstanceDestroy, instance)
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 1)
    attributes = pynvml.nvmlDeviceGetAttributes_v2(device)
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 1)
    assert attributes.multiprocessorCount == 14 and attributes.memorySizeMB == 40192
    uuid = pynvml.nvmlDeviceGetUUID(device)
    assert pynvml.nvmlDeviceGetComputeInstanceId(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == 1
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb"
    for number in (0, 1):
        pynvml.nvmlComputeInstanceDestroy(pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, number))
    refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetUUID, device)
    pynvml.nvmlGpuInstanceDestroy(instance)
    refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetGpuInstanceById, handle, 2)


def test_a_process_keeps_the_mode_and_its_instances(gpu: t.Callable[..., t.Any]) -> None:
    handle = gpu(H100, processes="4711:512")
    assert pynvml.nvmlDeviceSetMigMode(handle, 1) == pynvml.NVML_ERROR_IN_USE
    assert modes()[0] == ("0", "1") and not reset(path())
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert (process.pid, process.usedGpuMemory) == (4711, 512 << 20)
    halves = [Instance("3g.40gb", 0), Instance("3g.40gb", 4)]
    handle = gpu(H100, halves, mig=1, mig_pending=1, processes="4711:512@1/0")
    for number in (1, 2):
        instance = pynvml.nvmlDeviceGetGpuInstanceById(handle, number)
        compute = pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
        device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number - 1)
        assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(device)) == (number == 1)
        if number == 1:
            refused(pynvml.NVML_ERROR_IN_USE, pynvml.nvmlComputeInstanceDestroy, compute)
        else:
            pynvml.nvmlComputeInstanceDestroy(compute)
            pynvml.nvmlGpuInstanceDestroy(instance)
    assert read(path())[0].instances == [halves[0]]


@pytest.mark.parametrize(("model", "after"), [(A100, "1"), (H100, "0"), (B200, "0")])
def test_only_ampere_keeps_the_mode_over_a_reboot(gpu: t.Callable[..., t.Any], model: Model, after: str) -> None:
    handle = gpu(model)
    assert pynvml.nvmlDeviceSetMigMode(handle, 1) == 0 and modes()[0] == ("1", "1")
    pynvml.nvmlDeviceCreateGpuInstance(handle, 0)
    assert pynvml.nvmlDeviceSetMigMode(handle, 0) == pynvml.NVML_ERROR_IN_USE and modes()[0] == ("1", "0")
    assert pynvml.nvmlDeviceSetMigMode(handle, 1) == 0 and modes()[0] == ("1", "1")
    assert main(["nvml", "reboot", str(path())]) == 0
    assert modes() == [(after, after), ("0", "0")] and not read(path())[0].instances


def test_a_passed_through_gpu_changes_its_mode_with_a_reset(gpu: t.Callable[..., t.Any]) -> None:
    handle = gpu(A100, mig_reset_required=1)
    assert pynvml.nvmlDeviceSetMigMode(handle, 1) == pynvml.NVML_ERROR_RESET_REQUIRED
    refused(pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.nvmlDeviceCreateGpuInstance, handle, 0)
    assert modes()[0] == ("0", "1")
    assert main(["nvml", "reset", str(path())]) == 0
    # The running program sees what another one changed.
    assert pynvml.nvmlDeviceGetMigMode(handle) == [1, 1]
    pynvml.nvmlDeviceCreateGpuInstance(handle, 0)


def test_a_pending_mode_of_hopper_is_lost_in_a_reboot(gpu: t.Callable[..., t.Any]) -> None:
    gpu(H100, mig=0, mig_pending=1, processes="1:1")
    reboot(path())
    assert modes()[0] == ("0", "0") and "processes" not in read(path())[0].keys


def test_a_busy_gpu_is_not_reset(gpu: t.Callable[..., t.Any], capsys: pytest.CaptureFixture[str]) -> None:
    gpu(H100, processes="1:1")
    assert main(["nvml", "reset", str(path())]) != 0
    assert "A GPU is in use" in capsys.readouterr().err


def test_faults_and_gpus_without_mig(gpu: t.Callable[..., t.Any]) -> None:
    handle = gpu(H100, [Instance("1g.10gb", 0)], mig=1, mig_pending=1, mig_error=4, create_error=23, destroy_error=999)
    refused(pynvml.NVML_ERROR_NO_PERMISSION, pynvml.nvmlDeviceSetMigMode, handle, 0)
    refused(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, pynvml.nvmlDeviceCreateGpuInstance, handle, 19)
    instance = pynvml.nvmlDeviceGetGpuInstanceById(handle, 7)
    refused(pynvml.NVML_ERROR_UNKNOWN, pynvml.nvmlGpuInstanceDestroy, instance)
    handle = gpu(L4)
    refused(pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.nvmlDeviceGetMigMode, handle)
    refused(pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.nvmlDeviceSetMigMode, handle, 1)
    refused(pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, 0)
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 0


GRAB = """
import ctypes, sys, pynvml
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(int(sys.argv[2]))
print("ready", flush=True)
sys.stdin.read()
made = 0
try:
    while made < 8:
        pynvml.nvmlDeviceCreateGpuInstance(handle, 19)
        made += 1
except pynvml.NVMLError_InsufficientResources:
    pass
print(made)
"""
"""When told to, create small instances on a GPU until it is full, and print how many were created."""


def test_programs_at_the_same_time_never_share_a_place(gpu: t.Callable[..., t.Any], nvml_library: Path) -> None:
    gpu(H100, mig=1, mig_pending=1)
    commands = [[sys.executable, "-c", GRAB, str(nvml_library), index] for index in "0011"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    programs = [subprocess.Popen(command, text=True, **pipes) for command in commands]
    assert [program.stdout.readline() for program in programs if program.stdout] == ["ready\n"] * 4
    for program in programs:
        assert program.stdin
        program.stdin.close()
        program.stdin = None  # Otherwise communicate would flush it.
    made = [int(program.communicate(timeout=60)[0]) for program in programs]
    assert made[0] + made[1] == made[2] + made[3] == 7
    assert all([instance.start for instance in found.instances] == list(range(7)) for found in read(path()))
