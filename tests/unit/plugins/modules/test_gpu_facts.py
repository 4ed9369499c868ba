# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import gather
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import nvml as nvml_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.modules import gpu_facts
from inline_snapshot import snapshot as wording

from lab.nvml import A100, H100, L4, machine, plant
from lab.nvml.tree import load, write
from tests.unit.fakes.host import FakeHost, recorded

SetNvml = t.Callable[..., None]
PLUGINS = Path(gpu_facts.__file__).parents[1]
EVERYTHING = {
    "nics",
    "files",
    "system",
    "gpus",
    "nvswitches",
    "fabric",
    "driver",
    "nouveau",
    "kernel",
    "secure_boot",
    "iommu",
    "passthrough",
    "acs",
    "services",
    "runtimes",
    "xid",
    "hugepages",
    "numa",
    "node",
    "reboot",
    "sources",
}
MINIMUM = {"system", "gpus", "nvswitches", "fabric", "driver", "nouveau", "kernel", "sources"}


class HangingHost(FakeHost):
    """A host on which nvidia-smi does not answer."""

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        if command[0] != "nvidia-smi":
            return super().run(command, timeout_s)
        time.sleep(timeout_s or 0)
        return Output(error=f"nvidia-smi did not answer within {timeout_s:g} s")


class Facts(t.Protocol):
    def __call__(self, host: FakeHost, **options: t.Any) -> dict[str, t.Any]: ...


@pytest.fixture
def facts(run_module: t.Any, monkeypatch: pytest.MonkeyPatch) -> Facts:
    """Run the module on a host and return its facts."""

    def run(host: FakeHost, **options: t.Any) -> dict[str, t.Any]:
        monkeypatch.setattr(gpu_facts, "Host", lambda timeout_s: host)
        outcome = run_module("gpu_facts", **options)
        assert outcome.rc == 0
        assert outcome.result["changed"] is False
        return outcome.result["ansible_facts"]["gpuops"]

    return run


def test_a_machine_with_nvml(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100)
    nvml(machine(H100))
    host = FakeHost(
        tmp_path,
        dpkg_query=recorded("packages/dpkg-ubuntu-22.04.txt"),
        systemctl=recorded("systemd/ubuntu-22.04.txt"),
        journalctl="\n".join(reversed(recorded("logs/journal-ubuntu-22.04.txt").splitlines())),
    )
    found = facts(host)
    assert set(found) == EVERYTHING
    assert len(found["gpus"]) == 8
    assert found["gpus"][0]["uuid"] == "GPU-23300000-0000-4000-8000-000000000000"
    assert found["gpus"][0]["iommu_group"] == 20
    assert found["gpus"][0]["reason"] is None
    assert len(found["nvswitches"]) == 4
    assert found["fabric"] == {"kind": "nvswitch"}
    assert (found["driver"]["origin"], list(found["driver"]["packages"])) == (
        "ubuntu",
        ["nvidia-compute-utils-570-server", "nvidia-fabricmanager-570"],
    )
    assert found["driver"]["matches"] is True
    assert found["services"]["fabric_manager"]["matches_driver"] is False
    assert found["iommu"]["mode"] == "passthrough"
    assert found["runtimes"][0]["version"] == "1.7.27"
    assert found["xid"][3]["code"] == 79
    assert found["reboot"] == {"required": False, "reasons": [], "notes": []}
    assert found["sources"]["gpus.uuid"] == {"source": "nvml", "reason": None}
    assert found["sources"]["gpus"] == {"source": "sysfs", "reason": None}
    # The number of commands does not depend on the number of GPUs.
    assert sorted(command[0] for command in host.ran) == ["dpkg-query", "journalctl", "systemctl"]


def test_every_fact_has_a_source_or_a_reason(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, A100)
    nvml(machine(A100))
    found = facts(FakeHost(tmp_path))
    sources = found.pop("sources")
    for name, fact in found.items():
        fields = fact[0] if name == "gpus" else fact if isinstance(fact, dict) else {}
        for field, value in fields.items():
            source = sources.get(f"{name}.{field}") or sources[name]
            assert (source["source"] is None) != (source["reason"] is None)
            if value is None and f"{name}.{field}" in sources:
                assert source["reason"], f"{name}.{field}"


def test_nvidia_smi_without_nvidia_ml_py(facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_module, "HAS_PYNVML", False)
    plant(tmp_path, H100, 2)
    xml = (
        recorded("nvidia-smi/h100-550.xml").replace("00000000:19", "00000000:18").replace("00000000:3B", "00000000:2A")
    )
    found = facts(FakeHost(tmp_path, nvidia_smi=xml), gather_subset=["!all", "!min", "gpus"])
    assert set(found) == {"gpus", "nvswitches", "fabric", "sources"}
    assert [gpu["serial"] for gpu in found["gpus"]] == ["1653723052734", "1653723051180"]
    assert found["gpus"][1]["fabric"]["state"] == "In Progress"
    assert found["gpus"][1]["mig"]["pending"] is True
    assert found["sources"]["gpus.uuid"]["source"] == "nvidia-smi"
    assert found["sources"]["gpus.nvlink"]["reason"] == "nvidia-smi lists no NVLink"


def test_nvidia_smi_is_used_if_the_nvml_library_is_missing(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100, 2)
    found = facts(
        FakeHost(tmp_path, nvidia_smi=recorded("nvidia-smi/h100-550.xml").replace("00000000:19", "00000000:18"))
    )
    assert found["gpus"][0]["serial"] == "1653723052734"
    assert found["sources"]["gpus.uuid"]["source"] == "nvidia-smi"


def test_neither_nvml_nor_nvidia_smi(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, L4, 1)
    found = facts(FakeHost(tmp_path))
    assert found["gpus"][0]["name"] == "AD104GL [L4]"
    assert found["gpus"][0]["reason"] == "NVML: NVML Shared Library Not Found; nvidia-smi is not installed"


def test_if_nvml_hangs_the_other_gpus_are_reported(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100)
    gpus = machine(H100)
    gpus[6].keys["hang"] = 1
    nvml(gpus)
    host = FakeHost(tmp_path, nvidia_smi=recorded("nvidia-smi/h100-550.xml"))
    found = facts(host, gather_subset=["gpus"], gather_timeout=1)
    assert [gpu["reason"] for gpu in found["gpus"]] == [None] * 6 + [
        wording("NVML did not answer in time, because the driver hangs")
    ] * 2
    assert found["gpus"][7]["name"] == "GH100 [H100 SXM5 80GB]"
    assert host.ran == []


def test_if_nvidia_smi_hangs_everything_else_is_reported(
    facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_module, "HAS_PYNVML", False)
    plant(tmp_path, A100)
    started = time.monotonic()
    found = facts(HangingHost(tmp_path, journalctl=recorded("logs/journal-ubuntu-22.04.txt")), gather_timeout=1)
    assert time.monotonic() - started < 30
    assert len(found["gpus"]) == 8
    assert "did not answer within" in found["gpus"][0]["reason"]
    assert found["driver"]["version"] == "580.95.05"
    assert len(found["xid"]) == 5


def test_a_lost_gpu(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100)
    gpus = machine(H100)
    gpus[3].keys["error"] = 15
    nvml(gpus)
    write(tmp_path / "sys/bus/pci/devices/0000:5d:00.0/config", b"\xff" * 256)
    found = facts(FakeHost(tmp_path))
    lost = [gpu for gpu in found["gpus"] if gpu["lost"]]
    assert [(gpu["pci_address"], gpu["uuid"], gpu["reason"]) for gpu in lost] == [
        ("0000:5d:00.0", None, wording("The GPU fell off the bus (NVML: GPU is lost)"))
    ]
    assert len([gpu for gpu in found["gpus"] if gpu["uuid"]]) == 7


def test_a_driver_that_was_updated_while_its_module_was_loaded(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100, driver=None)
    load(tmp_path, "570.158.01", libraries="580.95.05")
    nvml([], init=18)
    error = Output(recorded("nvidia-smi/mismatch.txt"), error="nvidia-smi ended with 18: NVML library version: 580.95")
    found = facts(FakeHost(tmp_path, nvidia_smi=error))
    assert found["driver"]["matches"] is False
    assert found["reboot"]["reasons"] == ["The loaded driver is 570.158.01, its installed libraries are 580.95.05"]
    assert found["gpus"][0]["reason"].startswith(
        "NVML: RM has detected an NVML/RM version mismatch.; nvidia-smi ended with 18"
    )


def test_a_gpu_without_a_driver(facts: Facts, tmp_path: Path) -> None:
    plant(tmp_path, L4, 2, driver=None, bound=None)
    host = FakeHost(tmp_path)
    found = facts(host, gather_subset=["gpus"])
    assert [(gpu["device_id"], gpu["bound_driver"], gpu["uuid"]) for gpu in found["gpus"]] == [
        ("10de:27b8", None, None)
    ] * 2
    assert found["sources"]["gpus.uuid"]["reason"] == wording("The module nvidia is not loaded")
    assert host.ran == []


def test_a_host_without_anything(facts: Facts, tmp_path: Path) -> None:
    found = facts(FakeHost(tmp_path))
    assert set(found) == EVERYTHING
    assert (found["gpus"], found["nvswitches"], found["runtimes"], found["xid"]) == ([], [], [], None)
    assert found["driver"]["loaded"] is False
    assert found["reboot"]["required"] is False
    assert found["sources"]["gpus"]["reason"] == "/sys/bus/pci/devices is empty"


def test_the_library_of_a_driver_container_is_used(
    facts: Facts, tmp_path: Path, nvml: SetNvml, nvml_library: Path
) -> None:
    plant(tmp_path, H100, 1)
    nvml(machine(H100, 1))
    write(tmp_path / "run/nvidia/driver/usr/bin/nvidia-smi", "")
    write(tmp_path / "run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", nvml_library.read_bytes())
    found = facts(FakeHost(tmp_path))
    assert found["driver"]["containerised"] is True
    assert found["gpus"][0]["product"] == "NVIDIA H100 80GB HBM3"


def test_a_driver_container_in_the_folder_of_the_option(facts: Facts, tmp_path: Path) -> None:
    plant(tmp_path, H100, 1)
    write(tmp_path / "opt/driver/usr/bin/nvidia-smi", "")
    assert facts(FakeHost(tmp_path), gather_subset=["min"])["driver"]["containerised"] is False
    found = facts(FakeHost(tmp_path), gather_subset=["min"], driver_root="/opt/driver/")
    assert (found["driver"]["containerised"], found["driver"]["origin"]) == (True, "container")


def test_the_minimum_needs_no_command_and_looks_into_no_process(facts: Facts, tmp_path: Path) -> None:
    plant(tmp_path, H100)
    write(tmp_path / "proc/1/comm", "systemd\n")
    host = FakeHost(tmp_path, modinfo="", dpkg_query="", systemctl="", nvidia_smi="")
    found = facts(host, gather_subset=["min"])
    assert host.ran == []
    assert found["driver"]["users"] is None
    assert found["driver"]["packages"] is None


def test_the_initramfs_is_inspected_only_on_request(facts: Facts, tmp_path: Path) -> None:
    write(tmp_path / "proc/sys/kernel/osrelease", "6.8\n")
    write(tmp_path / "boot/initrd.img-6.8", "")
    host = FakeHost(tmp_path, lsinitramfs="usr/lib/modules/6.8/kernel/drivers/gpu/drm/nouveau/nouveau.ko\n")
    assert facts(host, gather_subset=["all"])["nouveau"]["in_initramfs"] is None
    found = facts(host, gather_subset=["!all", "!min", "initramfs"])
    assert set(found) == {"nouveau", "sources"}
    assert found["nouveau"]["in_initramfs"] is True
    assert found["sources"]["nouveau.in_initramfs"] == {"source": "lsinitramfs", "reason": None}


@pytest.mark.parametrize(
    ("subset", "names"),
    [
        (["all"], EVERYTHING),
        (["min"], MINIMUM),
        (["!all"], MINIMUM),
        (["xid"], MINIMUM | {"xid"}),
        (["!all", "!min", "xid"], {"xid", "sources"}),
        (["!all", "!min", "pci"], {"gpus", "nvswitches", "fabric", "sources"}),
        (["all", "!services", "!runtimes", "!xid"], EVERYTHING - {"services", "runtimes", "xid"}),
        (["!all", "!min"], {"sources"}),
    ],
)
def test_subsets_mean_the_same_as_in_setup(facts: Facts, tmp_path: Path, subset: list[str], names: set[str]) -> None:
    assert set(facts(FakeHost(tmp_path), gather_subset=subset)) == names


def test_the_subset_pci_does_not_ask_the_driver(facts: Facts, tmp_path: Path, nvml: SetNvml) -> None:
    plant(tmp_path, H100, 1)
    nvml(machine(H100, 1))
    found = facts(FakeHost(tmp_path), gather_subset=["!all", "!min", "pci"])
    assert found["gpus"][0]["uuid"] is None
    assert found["sources"]["gpus.uuid"]["reason"] == wording("The subset gpus was not gathered")


def test_an_unknown_subset_is_an_error(run_module: t.Any) -> None:
    outcome = run_module("gpu_facts", gather_subset=["gpu"])
    assert outcome.rc == 1
    assert outcome.result["msg"].startswith("There is no subset gpu. gather_subset accepts all, min, system, pci,")


def test_every_subset_is_documented() -> None:
    documentation = gpu_facts.DOCUMENTATION
    assert [subset for subset in gather.SUBSETS if f"V({subset})" not in documentation] == []
    page = (PLUGINS.parent / "docs" / "reference" / "gpu_facts.md").read_text()
    assert [subset for subset in gather.SUBSETS if f"`{subset}`" not in page] == []
