# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.gpu_health import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE


@pytest.mark.parametrize(
    ("line", "code", "certainty"),
    [
        # https://github.com/ublue-os/bazzite/issues/2668
        ("NVRM: RmFetchGspRmImages: No firmware image found", "GSPFirmwareMissing", "certain"),
        # https://github.com/NVIDIA/gpu-operator/issues/1278
        (
            "Direct firmware load for nvidia/550.54.10/gsp_ga10x.bin failed with error -2",
            "GSPFirmwareMissing",
            "certain",
        ),
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1230
        (
            "[  101.287612] NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
            "GSPFailed",
            "certain",
        ),
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1230
        (
            "[   84.300488] NVRM: GPU6 _kgspLogRpcTimeout: ********************************* GSP Timeout **********************************",
            "GSPDoesNotAnswer",
            "likely",
        ),
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/935
        (
            "NVRM: kgspBootstrap_GH100: GSP-FMC reported an error while attempting to boot GSP: 0xb",
            "GSPFailed",
            "certain",
        ),
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/789
        ("[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM", "GSPFailed", "certain"),
        # https://github.com/microsoft/pai/issues/4344
        ("   38.773115] NVRM: RmInitAdapter failed! (0x26:0xffff:1127)", "GPUInitFailed", "likely"),
        # https://github.com/kata-containers/kata-containers/issues/1142
        ("[  177.642523] NVRM: Can't find an IRQ for your NVIDIA card!", "GPUInitFailed", "likely"),
        # https://github.com/NVIDIA/nvidia-docker/issues/1553
        ("Unable to determine the device handle for GPU 0000:09:00.0: Unknown Error", "GPUDoesNotAnswer", "likely"),
        # https://github.com/NVIDIA/gpu-operator/issues/20
        ("WARNING: infoROM is corrupted at gpu 0000:B3:00.0", "InfoROMCorrupt", "certain"),
        # https://github.com/Dunedan/mbp-2016-linux/issues/60
        ("               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)", "GPUBarUnassigned", "certain"),
        # https://github.com/rwth-i6/returnn/issues/1500
        ("[  +0.000844] nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)", "PCIeErrors", "certain"),
        # https://github.com/NVIDIA/cuda-samples/issues/48
        (
            "kernel: nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040",
            "IOMMUFaults",
            "likely",
        ),
        # https://github.com/NVIDIA/DCGM/issues/155
        (
            "nv-hostengine[1280071]: segfault at 28 ip 00007f09f65c74b2 sp 00007f09f61e2ba0 error 6 in libdcgmmodulenv",
            "HostengineCrashed",
            "certain",
        ),
        ("mce: [Hardware Error]: Machine check events logged", "MachineCheckErrors", "likely"),
        (
            "Out of memory: Killed process 2113 (kubelet) total-vm:5024000kB, anon-rss:90000kB",
            "HostOutOfMemory",
            "certain",
        ),
    ],
)
def test_published_lines(line: str, code: str, certainty: str) -> None:
    found = diagnosed.found(RULES, line)
    assert {each: finding.certainty for each, finding in found.items()} == {code: certainty}


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/NVIDIA/tegra-nouveau-rootfs/issues/10
        "nouveau 57000000.gpu: Direct firmware load for nvidia/gk20a/fecs_inst.bin failed with error -2",
        # https://github.com/minisforum-docs/MS-02-Ultra/issues/10
        "xhci_hcd 0000:97:00.0: AER: can't recover (no error_detected callback)",
        # https://github.com/pop-os/pop/issues/3363
        "pcieport 0000:00:03.1: AER: Correctable error message received from 0000:00:00.0",
        # https://github.com/home-assistant/operating-system/issues/1880
        "pci 0000:00:17.3: BAR 7: failed to assign [io  size 0x1000]",
        # A container that meets its own limit is no host without memory.
        "Memory cgroup out of memory: Killed process 33 (nvidia-device-p) total-vm:1000kB",
        "Out of memory: Killed process 4711 (python3) total-vm:5024000kB",
        "RmInitAdapter: GSP firmware is loaded",
        "python3[4711]: segfault at 28 ip 00007f09f65c74b2 sp 00007f09f61e2ba0 error 6 in libcuda.so",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
        "DMAR: [DMA Write NO_PASID] Request device [17:00.0] fault addr 0xbf000000",
    ],
)
def test_near_misses(line: str) -> None:
    assert not diagnosed.found(RULES, line)


def host(state: dict[str, t.Any] | None = None, **fields: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host with one GPU."""
    gpu = {"pci_address": "0000:18:00.0", "bound_driver": "nvidia", "lost": False, **fields}
    return {"hosts": {NODE: {"facts": {"gpus": [gpu], "driver": {"loaded": True}}, "state": state or {}}}}


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        (host(pcie={"width": 8, "width_max": 16, "degraded": True}), "PCIeDegraded"),
        (host({"driver_gpus": ["0000:2a:00.0"]}), "GPUsMissingFromDriver"),
    ],
)
def test_facts_of_a_gpu(evidence: dict[str, t.Any], code: str) -> None:
    found = diagnosed.found(RULES, **evidence)
    assert {each: finding.certainty for each, finding in found.items()} == {code: "certain"}
    assert found[code].objects == ("GPU 0000:18:00.0",)


@pytest.mark.parametrize(
    "evidence",
    [
        host({"driver_gpus": ["0000:18:00.0"]}),
        host({"driver_gpus": None}, pcie=None),
        host({"driver_gpus": ["0000:2a:00.0"]}, bound_driver="vfio-pci"),
    ],
)
def test_a_gpu_that_is_well_or_unknown(evidence: dict[str, t.Any]) -> None:
    assert not diagnosed.found(RULES, **evidence)


def test_a_lost_gpu_is_left_to_the_rule_about_lost_gpus() -> None:
    assert not diagnosed.found(RULES, **host({"driver_gpus": ["0000:2a:00.0"]}, lost=True))


def test_a_gsp_that_does_not_answer_is_left_to_the_xid_that_reports_it() -> None:
    texts = (
        "NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 812751949 timeout 5200",
        "NVRM: Xid (PCI:0000:a1:00): 119, Timeout after 45s of waiting for RPC response from GPU6 GSP!",
    )
    found = diagnosed.found(RULES, *(TextLine(text, "kernel", "kernel log", NODE) for text in texts))
    assert "GSPDoesNotAnswer" not in found


def test_a_gsp_that_does_not_start_is_not_said_to_be_silent_as_well() -> None:
    texts = (
        "NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 812751949 timeout 5200",
        "NVRM: GPU6 RmInitAdapter: Cannot initialize GSP firmware RM",
    )
    found = diagnosed.found(RULES, *(TextLine(text, "kernel", "kernel log", NODE) for text in texts))
    assert set(found) == {"GSPFailed"}


def test_the_gsp_explains_the_gpu_that_did_not_start_and_is_one_finding_per_host() -> None:
    # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1230
    texts = (
        "NVRM: GPU6 RmInitAdapter: Cannot initialize GSP firmware RM",
        "NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)",
        "NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
        "NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)",
    )
    found = diagnosed.found(RULES, *(TextLine(text, "kernel", "kernel log", NODE) for text in texts))
    assert set(found) == {"GSPFailed"}
    assert [each.code for each in found["GSPFailed"].consequences] == ["GPUInitFailed"]


def test_a_gpu_that_works_now_has_overcome_what_the_log_says() -> None:
    line = TextLine("NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0x40:2168)", "kernel", "kernel log", NODE)
    other = TextLine("NVRM: RmInitAdapter: Cannot initialize GSP firmware RM", "kernel", "kernel log", NODE)
    corrupt = TextLine("WARNING: infoROM is corrupted at gpu 00000000:18:00.0", "pod", "log", NODE)
    assert set(diagnosed.found(RULES, line, **host())) == {"GPUInitFailed"}
    assert not diagnosed.found(RULES, line, other, **host(uuid="GPU-1"))
    assert set(diagnosed.found(RULES, corrupt, **host(uuid="GPU-1"))) == {"InfoROMCorrupt"}
    assert set(
        diagnosed.found(RULES, TextLine(line.text.replace(":18:", ":2a:"), "kernel", "", NODE), **host(uuid="G"))
    ) == {"GPUInitFailed"}


def test_a_fault_of_the_iommu_counts_if_the_device_is_a_gpu_of_the_host() -> None:
    line = TextLine("DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0xbf000000", "kernel", "", NODE)
    assert set(diagnosed.found(RULES, line, **host())) == {"IOMMUFaults"}


def test_a_gpu_that_must_be_reset() -> None:
    """https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/982."""
    text = "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned"
    found = diagnosed.found(RULES, text)["GPUNeedsReset"]
    assert found.certainty == "likely" and found.remedy.startswith("Run nvidia-smi -q")
