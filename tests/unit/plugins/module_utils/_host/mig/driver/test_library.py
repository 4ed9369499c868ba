# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver import library
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.library import Driver, DriverError
from inline_snapshot import snapshot as wording

from lab.nvml import A30, A100, B200, H100, H200, L4, Model, machine

SetNvml = t.Callable[..., None]


@pytest.mark.parametrize(
    ("model", "profiles", "slots"),
    [
        (A30, ["1g.6gb", "2g.12gb", "4g.24gb", "1g.6gb+me", "2g.12gb+me"], 4),
        (A100, ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me", "1g.20gb"], 8),
        (H200, ["1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb", "1g.18gb+me", "1g.35gb"], 8),
        (B200, ["1g.23gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb", "1g.23gb+me", "1g.45gb"], 8),
        (L4, [], 0),
    ],
)
def test_profiles_and_places_come_from_the_gpu(nvml: SetNvml, model: Model, profiles: list[str], slots: int) -> None:
    nvml(machine(model, 1))
    (gpu,) = Driver().gpus()
    assert ([each.name for each in gpu.profiles], gpu.slots) == (profiles, slots)
    assert gpu.mode is (None if model is L4 else False) and gpu.ampere == (model in (A30, A100))


def test_instances_are_created_read_and_destroyed(nvml: SetNvml) -> None:
    nvml(machine(H100, 1, processes="4012:512"))
    driver = Driver()
    (gpu,) = driver.gpus()
    assert [process.pid for process in gpu.processes] == [4012]
    nvml(machine(H100, 1))
    assert driver.set_mode(gpu.uuid, True) is None
    number = driver.create(gpu.uuid, 2, 4, 4)
    compute = [driver.create_compute(gpu.uuid, number, slices, place) for slices, place in ((1, 2), (2, 0))]
    (gpu,) = driver.gpus()
    (instance,) = gpu.instances
    assert (instance.id, instance.profile, instance.start, instance.size) == (number, "3g.40gb", 4, 4)
    assert [(each.id, each.slices, each.start) for each in instance.compute] == [(0, 1, 2), (1, 2, 0)]
    assert all(each.uuid and each.uuid.startswith("MIG-") for each in instance.compute)
    with pytest.raises(DriverError, match="In use by another client"):
        driver.destroy(gpu.uuid, number)
    for each in compute:
        driver.destroy_compute(gpu.uuid, number, each)
    driver.destroy(gpu.uuid, number)
    (gpu,) = driver.gpus()
    assert gpu.instances == ()
    with pytest.raises(DriverError) as raised:
        driver.create(gpu.uuid, 2, 2, 4)
    assert raised.value.code
    with pytest.raises(DriverError) as error:
        driver.create_compute(gpu.uuid, driver.create(gpu.uuid, 0, 0, 1), 2, 0)
    assert str(error.value) == wording("The GPU instance can hold no compute instance of 2 slices")


def test_a_driver_that_knows_no_places_takes_the_first_free_one(nvml: SetNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml(machine(H100, 1))
    driver = Driver()
    (gpu,) = driver.gpus()
    driver.set_mode(gpu.uuid, True)
    number = driver.create(gpu.uuid, 2, 4, 4)
    monkeypatch.setattr(library, "_CREATE_AT_PLACE", "nvmlGpuInstanceCreateNothing")
    driver.create_compute(gpu.uuid, number, 1, 2)
    (gpu,) = driver.gpus()
    assert [(each.slices, each.start) for each in gpu.instances[0].compute] == [(1, 0)]


def test_a_mode_that_waits_says_why(nvml: SetNvml) -> None:
    nvml(machine(A100, 1, mig_reset_required=1))
    driver = Driver()
    (gpu,) = driver.gpus()
    assert driver.set_mode(gpu.uuid, True) == "GPU requires reset"
    (gpu,) = driver.gpus()
    assert (gpu.mode, gpu.pending) == (False, True)


def test_a_lost_gpu_an_old_driver_and_no_library_are_errors(nvml: SetNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml(machine(H100, 1, error=15))
    with pytest.raises(DriverError, match="GPU is lost"):
        list(Driver().gpus())
    monkeypatch.setattr(library, "_PROCESSES", ("nvmlDeviceGetNothing",))
    nvml(machine(H100, 1))
    (gpu,) = Driver().gpus()
    assert gpu.processes == ()
    with pytest.raises(OSError, match="cannot open shared object"):
        Driver("libnot-there.so.1")


def test_the_memory_in_a_name_is_counted_in_eighths() -> None:
    gib = 1024**3
    assert library.memory_gb(9856, 81559 * 1024**2) == 10
    assert library.memory_gb(22528, 183359 * 1024**2) == 23
    assert library.memory_gb(4864, 40 * gib) == 5
