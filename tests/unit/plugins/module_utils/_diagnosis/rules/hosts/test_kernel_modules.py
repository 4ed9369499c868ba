# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.kernel_modules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE


@pytest.mark.parametrize(
    ("line", "code", "certainty"),
    [
        # https://github.com/acidanthera/bugtracker/issues/2237
        (
            "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
            "ModuleSignatureRefused",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/266
        (
            "ERROR: The kernel module failed to load, because it was not signed by a key that is trusted by the ker",
            "ModuleSignatureRefused",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/1142
        ("Kernel module load error: Operation not permitted", "ModuleSignatureRefused", "likely"),
        # https://github.com/negativo17/nvidia-driver/issues/158
        ("NVRM: installed in this system is not supported by open", "OpenModulesUnsupported", "likely"),
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/230
        ("NVRM: Open nvidia.ko is only ready for use on Data Center GPUs.", "OpenModulesUnsupported", "likely"),
        # the kernel's message in a public log of the driver 580.105.08 on a GPU 10de:2c58
        (
            "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
            "OpenModulesRequired",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/918
        ("               NVRM: installed in this system is not supported by the", "GPUUnsupportedByBranch", "certain"),
        # https://github.com/anomixer/proxmox-vgpu-installer/issues/29
        ("NVRM:  supported through the NVIDIA 580.xx Legacy drivers.", "GPUUnsupportedByBranch", "certain"),
        # https://github.com/pando85/homelab/pull/4110
        ("Driver/library version mismatch — failed to initialize NVML", "DriverLibraryMismatch", "certain"),
        # https://github.com/NVIDIA/nvidia-docker/issues/182
        ("kernel: NVRM: API mismatch: the client has the version 367.44, but", "DriverLibraryMismatch", "certain"),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/1269
        (
            "nvidia-container-cli: initialization error: nvml error: driver not loaded",
            "DriverNotLoaded",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/2868
        (
            "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
            "GPUDirectModuleFails",
            "certain",
        ),
        # https://github.com/NVIDIA/gdrcopy/issues/13
        ("gdrdrv: Unknown symbol nvidia_p2p_get_pages (err -22)", "GPUDirectModuleFails", "certain"),
        # https://docs.nvidia.com/cuda/archive/13.2.1/cuda-features-archive/index.html
        (
            "[64689.125237] nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:92821] request_free_mem_region() "
            "err -34",
            "CUDAWithoutAddresses",
            "certain",
        ),
        # https://github.com/NVIDIA/aicr/issues/1553
        ("Modules linked in: ... nvidia_uvm(OE-) nvidia(OE) ...", "ModuleStuckUnloading", "likely"),
    ],
)
def test_published_lines(line: str, code: str, certainty: str) -> None:
    found = diagnosed.found(RULES, line)
    assert {each: finding.certainty for each, finding in found.items()} == {code: certainty}


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/hhfeuer/nvhda/issues/8, https://github.com/OpenMPDK/KVSSD/issues/6
        "modprobe: ERROR: could not insert 'nvhda': Required key not available",
        "insmod: ERROR: could not insert module nvme-core.ko: Required key not available",
        "request_free_mem_region() failed for nouveau",
        # Harmless: the kernel only notes it.
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        'The preflight looks for the message "requires use of the NVIDIA open kernel modules" in the log of the kernel',
        "Data Center GPUs are supported by open kernel modules",
        # Loaded, being loaded, and another module that is being unloaded.
        "Modules linked in: xt_conntrack nvidia_uvm(OE) nvidia(OE+) gdrdrv(OE-) ipmi_devintf",
        "nvidia_uvm: module uses symbols nvUvmInterfaceDisableAccessCntr from proprietary module nvidia",
    ],
)
def test_near_misses(line: str) -> None:
    assert not diagnosed.found(RULES, line)


SMI = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that"


def test_what_nvidia_smi_says_of_the_driver_may_be_about_its_container() -> None:
    """https://github.com/acidanthera/bugtracker/issues/2237, kubernetes-sigs/dra-driver-nvidia-gpu/issues/1380."""
    found = diagnosed.found(RULES, SMI)
    assert {code: each.certainty for code, each in found.items()} == {
        "ContainerWithoutDeviceFiles": "possible",
        "DriverNotLoaded": "possible",
    }
    assert found["DriverNotLoaded"].tell_apart == found["ContainerWithoutDeviceFiles"].tell_apart != ()
    line = diagnosed.log(SMI, "nvidia-driver-daemonset-x7k2p", "nvidia-driver-ctr")
    of_driver = diagnosed.found(RULES, line)
    assert [(code, each.certainty) for code, each in of_driver.items()] == [("DriverNotLoaded", "likely")]
    other = diagnosed.log(SMI, "job-0", "train")
    assert [*diagnosed.found(RULES, other, **host(driver=LOADED))] == ["ContainerWithoutDeviceFiles"]


def host(architecture: str = "Hopper", **facts: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host with one GPU."""
    gpu = {"pci_address": "0000:18:00.0", "architecture": architecture, "name": "a GPU", "lost": False}
    return {"hosts": {NODE: {"facts": {"gpus": [gpu], **facts}}}}


LOADED = {"loaded": True, "matches": True, "module_installed": True, "version": "580.95.05"}


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        (host("Volta", driver={**LOADED, "module_type": "open"}), "OpenModulesUnsupported"),
        (host("Blackwell", driver={**LOADED, "module_type": "proprietary"}), "OpenModulesRequired"),
        (host(driver={**LOADED, "matches": False, "userspace_version": "580.105.08"}), "DriverLibraryMismatch"),
        (
            host(driver={"loaded": False, "module_installed": True, "installed_version": "580.95.05"}),
            "DriverNotLoaded",
        ),
        (
            host(
                driver={"loaded": False, "module_installed": True, "installed_version": "580.95.05",
                        "signer": "gpu-4", "signer_enrolled": False},
                secure_boot={"enabled": True},
            ),
            "ModuleSignatureRefused",
        ),
    ],
)  # fmt: skip
def test_facts_of_a_host(evidence: dict[str, t.Any], code: str) -> None:
    found = diagnosed.found(RULES, **evidence)
    assert {each: finding.certainty for each, finding in found.items()} == {code: "certain"}


UNSIGNED = {"loaded": False, "module_installed": True, "signer": "gpu-4", "signer_enrolled": False,
            "installed_version": "580.95.05"}  # fmt: skip


def waiting(driver: dict[str, t.Any], *, waits: bool = True, boot: bool = True) -> dict[str, t.Any]:
    """Return what is known of a host on which a key for secure boot waits, or does not."""
    evidence = host(driver=driver, secure_boot={"enabled": boot})
    evidence["hosts"][NODE]["state"] = {"mok_pending": waits}
    return evidence


def test_a_key_that_nobody_has_confirmed_explains_the_refused_signature() -> None:
    found = diagnosed.found(RULES, **waiting(UNSIGNED))
    assert {code: finding.certainty for code, finding in found.items()} == {"SecureBootKeyWaits": "likely"}
    assert "ModuleSignatureRefused" in {each.code for each in found["SecureBootKeyWaits"].consequences}


@pytest.mark.parametrize(
    "evidence",
    [
        waiting(UNSIGNED, waits=False),
        waiting(UNSIGNED, boot=False),
        # The key that waits is for another module.
        waiting({**UNSIGNED, "signer_enrolled": True}),
        waiting({**LOADED, "signer_enrolled": False}),
    ],
)
def test_keys_that_wait_for_nothing_of_ours(evidence: dict[str, t.Any]) -> None:
    assert "SecureBootKeyWaits" not in diagnosed.found(RULES, **evidence)


REFUSED = TextLine(
    "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", "kernel", "kernel log", NODE
)


def test_a_refused_signature_is_over_when_the_driver_is_loaded() -> None:
    assert not diagnosed.found(RULES, REFUSED, **host(driver=LOADED))
    assert "ModuleSignatureRefused" in diagnosed.found(RULES, REFUSED, **host(driver=UNSIGNED))


@pytest.mark.parametrize("boot", [{}, {"secure_boot": {"enabled": False}}])
def test_without_secure_boot_no_key_is_needed(boot: dict[str, t.Any]) -> None:
    assert "ModuleSignatureRefused" not in diagnosed.found(RULES, **host(driver=UNSIGNED, **boot))


@pytest.mark.parametrize("architecture", ["Turing", "Ampere", "Ada", "Hopper"])
@pytest.mark.parametrize("kind", ["open", "proprietary"])
def test_both_kinds_of_modules_serve_these(architecture: str, kind: str) -> None:
    assert not diagnosed.found(RULES, **host(architecture, driver={**LOADED, "module_type": kind}))


def test_a_host_that_gives_its_gpus_to_virtual_machines_needs_no_loaded_driver() -> None:
    evidence = host(driver={"loaded": False, "module_installed": True, "installed_version": "580.95.05"})
    evidence["hosts"][NODE]["facts"]["gpus"][0]["bound_driver"] = "vfio-pci"
    assert not diagnosed.found(RULES, **evidence)


def test_an_old_mismatch_in_a_log_is_over_when_the_host_is_well() -> None:
    old = TextLine("NVRM: API mismatch: the client has the version 367.44, but", "kernel", "kernel log", NODE)
    assert not diagnosed.found(RULES, old, **host(driver=LOADED))
