# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.loading import load
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Observed,
    Outcome,
    Package,
    Plan,
)
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost

GPU = {"bound_driver": None}


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path, modprobe="")


def loaded(
    host: FakeHost,
    plan: Plan,
    driver: InstalledDriver = InstalledDriver(),  # noqa: B008
    check_mode: bool = False,
    now: bool = True,
    gpus: tuple[dict[str, str | None], ...] = (GPU,),
) -> tuple[bool, list[str], bool]:
    observed = Observed(driver, (Package("nvidia-smi", "1"),), gpus=gpus)
    found = load(host, plan, observed, Outcome({"nvidia-smi": "2"}), {"load": now}, check_mode)
    assert found["reboot_required"] == bool(found["reboot_reasons"])
    return found["loaded"], found["reboot_reasons"], found["changed"]


@pytest.mark.parametrize("action", ["install", "adopt", "change", "restore"])
def test_a_driver_that_nothing_hinders_is_loaded(host: FakeHost, action: str) -> None:
    assert loaded(host, Plan(action)) == (True, [], True)
    assert host.ran == [["modprobe", "nvidia"]]


def test_in_check_mode_it_would_be_loaded(host: FakeHost) -> None:
    assert loaded(host, Plan("install"), check_mode=True) == (False, [], True)
    assert host.ran == []


def test_what_holds_the_gpus_is_a_reason_to_reboot(host: FakeHost) -> None:
    vfio = ({"bound_driver": "vfio-pci"}, GPU)
    assert loaded(host, Plan("install"), gpus=vfio) == (
        False,
        [wording("The GPUs are bound to vfio-pci, and the installed driver is not loaded")],
        False,
    )
    host.put("/sys/module/nouveau/refcnt", "1")
    assert loaded(host, Plan("install")) == (
        False,
        [wording("nouveau is loaded, and holds the GPUs that the installed driver is for")],
        False,
    )
    assert host.ran == []


def test_without_gpus_or_wish_nothing_is_loaded(host: FakeHost) -> None:
    assert loaded(host, Plan("install"), gpus=()) == (False, [], False)
    assert loaded(host, Plan("install"), now=False) == (False, [], False)
    assert host.ran == []


def test_a_module_that_cannot_be_loaded_is_a_reason_to_reboot(host: FakeHost) -> None:
    host.commands["modprobe"] = Output(error="modprobe ended with 1: Key was rejected by service")
    assert loaded(host, Plan("install")) == (
        False,
        [
            wording(
                "The driver is installed and could not be loaded: modprobe ended with 1: Key was rejected by service"
            )
        ],
        False,
    )


@pytest.mark.parametrize(
    ("plan", "reasons"),
    [
        (Plan("change", version="580.1"), ["The driver 580.1 is installed, and 570.1 is loaded"]),
        (Plan("restore", version="560.1"), ["The driver 560.1 is installed, and 570.1 is loaded"]),
        (Plan("remove"), [wording("The driver 570.1 was removed and is still loaded")]),
        (Plan("install", version="570.1"), []),
        (Plan("adopt", version="570.1"), []),
        (Plan("change", refused="no"), []),
        (Plan("none"), []),
    ],
)
def test_a_loaded_driver_stays_until_the_reboot(host: FakeHost, plan: Plan, reasons: list[str]) -> None:
    assert loaded(host, plan, InstalledDriver(True, "nvidia", "570.1", loaded=True)) == (True, reasons, False)


def test_a_driver_that_is_not_loaded_is_removed_without_a_trace(host: FakeHost) -> None:
    assert loaded(host, Plan("remove"), InstalledDriver(True, "nvidia", "570.1")) == (False, [], False)
