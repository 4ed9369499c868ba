# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import gather
from inline_snapshot import snapshot as wording

from lab.nvml import A100, B200, H100, L4, Model, machine, plant
from tests.unit.fakes.host import FakeHost, recorded
from tests.unit.fakes.modules import RunModule

SetNvml = t.Callable[..., None]
UNITS = "Id=nvidia-fabricmanager.service\nActiveState=active\nUnitFileState=enabled\n"


def facts(root: Path) -> dict[str, t.Any]:
    """Gather what a machine of the lab has, as gpu_facts does."""
    nothing_logged = recorded("logs/journal-ubuntu-22.04.txt").splitlines()[0]
    host = FakeHost(root, dpkg_query="", systemctl=UNITS, journalctl=nothing_logged)
    return gather.gather(host, ["min", "gpus", "services", "xid"], 10)


@pytest.mark.parametrize("model", [A100, H100, B200, L4])
def test_a_healthy_machine_is_proved(run_module: RunModule, tmp_path: Path, nvml: SetNvml, model: Model) -> None:
    plant(tmp_path, model)
    nvml(machine(model))
    found = facts(tmp_path)
    first = run_module("host_proof_info", facts=found)
    assert (first.rc, first.result["reason"], first.result["proved"]) == (0, "", True)
    done = run_module(
        "host_proof_info",
        facts=found,
        before=first.result["record"],
        expected={
            "version": "580.95.05",
            "gpus": 8,
            "model": model.product,
            "nvswitches": model.switches,
            "persistence": True,
        },
    )
    assert (done.result["proved"], done.result["changed"]) == (True, False)


def test_a_machine_with_a_gpu_that_is_not_in_the_fabric(run_module: RunModule, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100)
    gpus = machine(H100)
    gpus[3].keys["fabric_status"] = 999
    nvml(gpus)
    done = run_module("host_proof_info", facts=facts(tmp_path))
    assert done.rc == 0
    assert done.result["reason"] == wording(
        "GPU 0000:5d:00.0 has not joined the fabric: its status is Unknown Error. Look at the log of the fabric manager or of IMEX (journalctl -u nvidia-fabricmanager -u nvidia-imex)."
    )
    assert done.result["findings"][0]["check"] == "proof_fabric"
    assert run_module("host_proof_info", facts=facts(tmp_path), skip=["proof_fabric"]).result["proved"] is True


def test_a_machine_whose_driver_did_not_come_up(run_module: RunModule, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100)
    nvml(machine(H100))
    before = run_module("host_proof_info", facts=facts(tmp_path)).result["record"]
    for path in ("sys/module/nvidia/version", "proc/driver/nvidia/version"):
        (tmp_path / path).unlink()
    (tmp_path / "sys/module/nvidia").rmdir()
    done = run_module("host_proof_info", facts=facts(tmp_path), before=before)
    assert done.result["proved"] is False
    assert done.result["reason"] == wording(
        "The kernel 6.8.0-87-generic has no module of NVIDIA's driver. Install the kernel's headers and build the module (dkms autoinstall), or install a matching package. 6 more findings are in the report."
    )


def test_names_missing_facts(run_module: RunModule) -> None:
    failed = run_module("host_proof_info", facts={"gpus": []})
    assert failed.rc == 1 and "The facts lack nvswitches, fabric, driver" in failed.result["msg"]


@pytest.mark.parametrize(
    ("bound", "proved", "reason"),
    [
        ("vfio-pci", True, ""),
        (None, False, "No driver holds the GPUs"),
        ("nvidia", False, "Another driver than vfio holds the GPUs 0000:18:00.0 (nvidia)"),
    ],
)
def test_a_host_that_gives_its_gpus_to_virtual_machines(
    run_module: RunModule, tmp_path: Path, bound: str | None, proved: bool, reason: str
) -> None:
    plant(tmp_path, L4, 2, driver=None, bound=bound, iommu="DMA-FQ")
    host = FakeHost(tmp_path, journalctl=recorded("logs/journal-ubuntu-22.04.txt").splitlines()[0])
    found = gather.gather(host, ["min", "xid", "iommu", "passthrough", "acs"], 10)
    done = run_module(
        "host_proof_info", facts=found, driver="none", workload_kind="vm-passthrough", expected={"bound": True}
    )
    assert done.result["proved"] is proved
    assert done.result["reason"].startswith(reason)
