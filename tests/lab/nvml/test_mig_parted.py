# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated NVML still does for a program what it did for NVIDIA's own ``nvidia-mig-parted``.

mig_parted.json has what that program applied and what it could not, so that no test needs the program.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import time
import typing as t
from pathlib import Path

import pynvml
import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import nvml as facts
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import placement, table

from lab.nvml import Gpu, Instance, machine, read
from lab.nvml.models import MODELS
from lab.nvml.profiles import Profile, find
from tests.support.nvml import SetNvml

Row = dict[str, t.Any]

RECORDED = json.loads(Path(__file__).with_name("mig_parted.json").read_text())
DEFAULT: list[tuple[str, str, Row]] = [
    (model, layout, row) for model, layouts in RECORDED["default"].items() for layout, row in layouts.items()
]
OWN: list[tuple[str, Row]] = [(model, row) for model, rows in RECORDED["own"].items() for row in rows]
APPLIED = [(model, row) for model, row in OWN if "instances" in row]
REFUSED = [(model, row) for model, row in OWN if "instances" not in row]


@pytest.fixture(autouse=True)
def _library(nvml_library: Path) -> None:
    """Load the simulated library."""


@pytest.fixture(name="empty")
def empty_gpu(nvml: SetNvml) -> t.Iterator[t.Callable[[str], t.Any]]:
    """``empty(model)`` returns the handle of a GPU in MIG mode, without instances."""
    opened = []

    def one(model: str) -> t.Any:
        nvml(machine(MODELS[model], 1, mig=1, mig_pending=1))
        pynvml.nvmlInit()
        opened.append(model)
        return pynvml.nvmlDeviceGetHandleByIndex(0)

    yield one
    for _ in opened:
        pynvml.nvmlShutdown()


def found() -> list[Instance]:
    return _in_order(read(Path(os.environ["FAKE_NVML_STATE"]))[0].instances)


def expected(row: Row) -> list[Instance]:
    rows = row["instances"]
    return _in_order(Instance(name, start, tuple(compute[0]) if compute else None) for name, start, *compute in rows)


def _in_order(instances: t.Iterable[Instance]) -> list[Instance]:
    return sorted(instances, key=lambda instance: (instance.start, instance.profile))


def profiles(model: str, devices: dict[str, int]) -> list[Profile]:
    """Return the profiles of the GPU instances of a layout, those with most slices first."""
    names = (name for name, count in devices.items() for _ in range(count))
    return sorted((find(str(MODELS[model].mig_table), name) for name in names), key=lambda profile: -profile.slices)


def compute_profile(slices: int) -> int:
    return 4 if slices == 7 else slices - 1


def test_the_record_is_complete() -> None:
    # Each model can hold its own profiles, all-enabled and all-balanced.
    sizes = {model: len(layouts) for model, layouts in RECORDED["default"].items()}
    assert sizes == {"a30": 7, "a100-40gb": 9, "a100": 9, "h100": 9, "h200": 9, "b200": 9}
    # With all-disabled, that makes the 81 default layouts.
    for model, size in sizes.items():
        assert size + RECORDED["mig_on_but_empty"][model] + RECORDED["nothing"][model] + 1 == RECORDED["layouts"] == 81
    assert (len(APPLIED), len(REFUSED)) == (26, 15)


@pytest.mark.parametrize(("model", "layout", "row"), DEFAULT, ids=lambda value: value if isinstance(value, str) else "")
def test_default_layouts(empty: t.Callable[[str], t.Any], model: str, layout: str, row: Row) -> None:
    handle = empty(model)
    for profile in profiles(model, row["devices"]):
        instance = pynvml.nvmlDeviceCreateGpuInstance(handle, profile.id)
        pynvml.nvmlGpuInstanceCreateComputeInstance(instance, compute_profile(profile.slices))
    assert found() == expected(row), layout


@pytest.mark.parametrize("model", RECORDED["default"])
def test_gpu_facts_reads_what_was_applied(nvml: SetNvml, model: str) -> None:
    rows = [row for row in RECORDED["default"][model].values() if row["devices"]]
    gpus: list[Gpu] = machine(MODELS[model], len(rows), mig=1, mig_pending=1)
    for gpu, row in zip(gpus, rows, strict=True):
        gpu.instances = expected(row)
    nvml(gpus)
    for report, row in zip(facts.NvmlChild(None).answer(time.monotonic() + 30).gpus, rows, strict=True):
        mig = report.values["mig"]
        assert mig["mode"] is True
        assert collections.Counter(instance["profile"] for instance in mig["instances"]) == row["devices"]


@pytest.mark.parametrize(("model", "row"), APPLIED, ids=lambda value: value if isinstance(value, str) else "")
def test_own_layouts(empty: t.Callable[[str], t.Any], model: str, row: Row) -> None:
    handle = empty(model)
    for wanted in expected(row):
        profile = find(str(MODELS[model].mig_table), wanted.profile)
        place = pynvml.c_nvmlGpuInstancePlacement_t(wanted.start, profile.size)
        instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile.id, pynvml.byref(place))
        for compute in wanted.compute or (f"{profile.slices}c",):
            pynvml.nvmlGpuInstanceCreateComputeInstance(instance, compute_profile(int(compute[:-1])))
    assert found() == expected(row)
    names = collections.Counter()
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            break
        names[pynvml.nvmlDeviceGetName(device).split(" MIG ")[1]] += 1
    assert names == row["devices"]


@pytest.mark.parametrize(("model", "row"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_no_order_makes_a_layout_fit_that_is_too_big(empty: t.Callable[[str], t.Any], model: str, row: Row) -> None:
    ids = [profile.id for profile in profiles(model, row["devices"])]
    for order in set(itertools.permutations(ids)):
        handle = empty(model)
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            for profile in order:
                pynvml.nvmlDeviceCreateGpuInstance(handle, profile)


@pytest.mark.parametrize(("model", "name", "most"), [("a30", "A30", 4), ("h100", "H100-80GB", 3)])
def test_what_the_collection_calls_possible_is_what_the_driver_does(
    empty: t.Callable[[str], t.Any], model: str, name: str, most: int
) -> None:
    """A layout fits by the collection's rules exactly if the driver makes its instances in some order."""
    known = table.named(name)
    verdicts = set()
    for size in range(1, most + 1):
        for wanted in itertools.combinations_with_replacement([profile.name for profile in known.profiles], size):
            possible = placement.place(known, dict(collections.Counter(wanted))) is not None
            ids = [find(str(MODELS[model].mig_table), each).id for each in wanted]
            assert any(_created(empty(model), order) for order in set(itertools.permutations(ids))) is possible, wanted
            verdicts.add(possible)
    assert verdicts == {True, False}


def _created(handle: t.Any, ids: t.Iterable[int]) -> bool:
    try:
        for profile in ids:
            pynvml.nvmlDeviceCreateGpuInstance(handle, profile)
    except pynvml.NVMLError_InsufficientResources:
        return False
    return True
