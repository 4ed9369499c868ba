# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import preflight
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost
from tests.unit.plugins.module_utils._host.guests.test_guest_problems import FOR_GUESTS

FACTS: dict[str, t.Any] = {
    "gpus": [{"pci_address": "0000:18:00.0", "lost": False}],
    "driver": {"version": None, "userspace_version": None, "matches": None, "containerised": False},
    "fabric": {"kind": "none"},
    "nouveau": {"loaded": False, "modules": {"nouveau": {"loaded": False}}},
    "kernel": {
        "running": "6.8.0-60-generic",
        "next_boot": "6.8.0-60-generic",
        "newest_installed": "6.8.0-60-generic",
        "headers": True,
    },
    "secure_boot": {"enabled": False, "lockdown": "none"},
    "services": {"fabric_manager": {"package": None}},
    "xid": [],
}
HEALTHY = preflight.CheckedHost(
    facts=FACTS,
    os_release={"ID": "ubuntu", "VERSION_ID": "24.04"},
    machine="x86_64",
    free={"/var/lib": 100 * preflight.GIB, "/boot": preflight.GIB},
    clock=True,
    modules={"ib_umad": "loaded", "mlx5_core": "available"},
    driver="container",
    precompiled=False,
    remove_host_driver=False,
    operator_version="v26.7.0",
)


FOR_CONTAINERS = [
    "host_gpus",
    "host_operating_system",
    "host_kernel",
    "host_modules",
    "host_imex",
    "host_secure_boot",
    "host_disk",
    "host_clock",
    "host_driver",
]


def loaded(name: str) -> dict[str, t.Any]:
    return {"nouveau": {"loaded": True, "modules": {name: {"loaded": True}, "nova_drm": {"loaded": False}}}}


def subject(facts: dict[str, t.Any] | None = None, **changes: t.Any) -> preflight.CheckedHost:
    merged = {
        key: {**value, **(facts or {}).get(key, {})} if isinstance(value, dict) else (facts or {}).get(key, value)
        for key, value in FACTS.items()
    }
    return dataclasses.replace(HEALTHY, facts=merged, **changes)


def worst(given: preflight.CheckedHost) -> preflight.CheckFinding:
    return preflight.run_checks(given)[0]


def test_a_healthy_host_has_one_finding_for_each_check() -> None:
    findings = preflight.run_checks(HEALTHY)
    assert {finding.level for finding in findings} == {"ok"}
    assert [finding.check for finding in findings] == FOR_CONTAINERS
    assert preflight.run_checks(HEALTHY, preflight.CHECKS) == []


def test_a_healthy_host_of_virtual_machines() -> None:
    for kind, own in (("vm-passthrough", "host_vfio"), ("vm-vgpu", "host_vgpu")):
        given = dataclasses.replace(HEALTHY, facts={**FACTS, **FOR_GUESTS}, workload_kind=kind)
        findings = preflight.run_checks(given)
        assert {finding.level for finding in findings} == {"ok"}, findings
        names = ["host_iommu", "host_iommu_groups", own, "host_virtualization"]
        assert [finding.check for finding in findings] == [*FOR_CONTAINERS[:3], *names, *FOR_CONTAINERS[5:]]


def test_a_gpu_of_virtual_machines_is_not_for_containers() -> None:
    held = worst(subject({"gpus": [{"pci_address": "0000:18:00.0", "lost": False, "bound_driver": "vfio-pci"}]}))
    assert (held.check, held.level) == ("host_driver", "warning")
    assert held.message == wording(
        "vfio holds the GPUs 0000:18:00.0 for virtual machines, so containers cannot have them."
    )


def test_unsigned_modules_matter_to_vgpus_and_not_to_passthrough() -> None:
    facts = {**FACTS, **FOR_GUESTS, "secure_boot": {"enabled": True, "lockdown": "integrity"}}
    by_kind = {
        kind: worst(dataclasses.replace(HEALTHY, facts=facts, workload_kind=kind)).level
        for kind in ("container", "vm-passthrough", "vm-vgpu")
    }
    assert by_kind == {"container": "failure", "vm-passthrough": "ok", "vm-vgpu": "failure"}


XID = {"kind": "xid", "gpu": "0000:18:00.0", "recovery_action": None}
SECURE = {"secure_boot": {"enabled": True}}


@pytest.mark.parametrize(
    ("given", "check", "level", "sentence"),
    [
        (subject({"gpus": []}), "host_gpus", "failure", wording("There is no NVIDIA GPU on the PCI bus.")),
        (
            subject({"gpus": [{"pci_address": "0000:18:00.0", "lost": True}]}),
            "host_gpus",
            "failure",
            wording("The GPUs 0000:18:00.0 have fallen off the bus."),
        ),
        (
            subject({"xid": [{**XID, "code": 79, "action": "RESTART_BM", "meaning": "GPU has fallen off the bus"}]}),
            "host_gpus",
            "warning",
            wording(
                "The kernel log since the last boot has GPU errors: 0000:18:00.0: Xid 79 (GPU has fallen off the bus)."
            ),
        ),
        (subject(machine="ppc64le"), "host_operating_system", "failure", wording("NVIDIA has no driver for ppc64le.")),
        (
            subject(os_release={"ID": "debian", "VERSION_ID": "12"}),
            "host_operating_system",
            "warning",
            wording(
                "NVIDIA has not validated GPU Operator 26.7 on debian 12, and there may be no driver container for it."
            ),
        ),
        (
            subject(os_release={"ID": "debian", "VERSION_ID": "13"}, driver="host"),
            "host_operating_system",
            "warning",
            wording("NVIDIA has not validated GPU Operator 26.7 on debian 13, and its packages may not fit."),
        ),
        (
            subject(os_release={"ID": "ubuntu", "VERSION_ID": "23.10"}, driver="host"),
            "host_operating_system",
            "failure",
            wording("This collection does not support ubuntu 23.10, so the host was not changed."),
        ),
        (
            subject(os_release={"ID": "rhel", "VERSION_ID": "8.10"}),
            "host_operating_system",
            "failure",
            wording(
                "The package manager of Enterprise Linux 8 works only with Python 3.6, with which no supported ansible-core works."
            ),
        ),
        (
            subject(os_release={"ID": "ubuntu", "VERSION_ID": "26.04"}, operator_version="v25.10.1"),
            "host_operating_system",
            "warning",
            wording(
                "NVIDIA has not validated GPU Operator 25.10 on ubuntu 26.04, and there may be no driver container for it."
            ),
        ),
        (
            subject({"kernel": {"next_boot": "6.8.0-87-generic"}}),
            "host_kernel",
            "warning",
            wording("The kernel 6.8.0-60-generic is running, and the next boot uses 6.8.0-87-generic."),
        ),
        (
            subject({"kernel": {"headers": False}}, driver="host"),
            "host_kernel",
            "warning",
            wording("The headers of 6.8.0-60-generic are missing. They are needed to build the driver on the host."),
        ),
        (
            subject(SECURE),
            "host_secure_boot",
            "failure",
            wording("Secure boot is on, so the kernel refuses the unsigned modules that a driver container builds."),
        ),
        (
            subject({"secure_boot": {"lockdown": "integrity"}}),
            "host_secure_boot",
            "failure",
            wording(
                "The kernel is locked down (integrity), so the kernel refuses the unsigned modules that a driver container builds."
            ),
        ),
        (
            subject(SECURE, driver="host", os_release={"ID": "debian", "VERSION_ID": "12"}, operator_version="v99.1"),
            "host_secure_boot",
            "warning",
            wording("Secure boot is on, so the kernel only loads signed modules."),
        ),
        (
            subject({**SECURE, "driver": {"module_installed": True, "installed_version": "580.95.05"}}, driver="host"),
            "host_secure_boot",
            "failure",
            wording("Secure boot is on, and the installed driver has no signature."),
        ),
        (
            subject({**SECURE, "driver": {"signer": "gpu-4 key", "signer_enrolled": False}}, driver="host"),
            "host_secure_boot",
            "failure",
            wording("Secure boot is on, and neither the kernel nor the firmware knows the driver's signer, gpu-4 key."),
        ),
        (
            subject({**SECURE, "driver": {"signer": "gpu-4 key", "signer_enrolled": None}}, driver="host"),
            "host_secure_boot",
            "warning",
            wording("Secure boot is on, and neither the kernel nor the firmware knows the driver's signer, gpu-4 key."),
        ),
        (
            subject({"fabric": {"kind": "nvlink5"}}, modules={"ib_umad": "missing", "mlx5_core": "missing"}),
            "host_modules",
            "failure",
            wording(
                "The kernel 6.8.0-60-generic lacks ib_umad and mlx5_core, through which the NVLink switches are managed."
            ),
        ),
        (
            subject(
                {"driver": {"loaded": False, "module_installed": True, "installed_version": "580.95.05"}},
                driver="host",
            ),
            "host_driver",
            "warning",
            wording("The driver 580.95.05 is installed and not loaded."),
        ),
        (
            subject(free={"/var/lib": 4 * preflight.GIB}),
            "host_disk",
            "failure",
            wording("/var/lib has 4.0 GiB free, and needs 20 GiB."),
        ),
        (
            subject(free={"/boot": 2**20}),
            "host_disk",
            "warning",
            wording("/boot has 0.0 GiB free, and needs 0.125 GiB."),
        ),
        (
            subject(clock=False),
            "host_clock",
            "warning",
            wording("The clock is not synchronized. If it drifts, certificates and leases become invalid."),
        ),
        (
            subject({"driver": {"userspace_version": "580.95.05"}}),
            "host_driver",
            "failure",
            wording(
                "The driver should come from a container, but the host has the driver 580.95.05, which would conflict with it."
            ),
        ),
        (
            subject({"driver": {"userspace_version": "580.95.05"}}, remove_host_driver=True),
            "host_driver",
            "warning",
            wording(
                "The driver should come from a container, but the host has the driver 580.95.05, which would conflict with it."
            ),
        ),
        (
            subject({"driver": {"userspace_version": None, "installed_version": "580.95.05", "origin": "runfile"}}),
            "host_driver",
            "failure",
            wording(
                "The driver should come from a container, but the host has the driver 580.95.05 of a .run file, which would conflict with it."
            ),
        ),
        (
            subject({"driver": {"userspace_version": "580.95.05", "origin": "ubuntu-signed"}}),
            "host_driver",
            "failure",
            wording(
                "The driver should come from a container, but the host has the driver 580.95.05 of Ubuntu's signed modules, which would conflict with it."
            ),
        ),
        (
            subject({"services": {"fabric_manager": {"package": "nvidia-fabricmanager"}}}),
            "host_driver",
            "failure",
            wording(
                "The driver should come from a container, but the host has nvidia-fabricmanager, which would conflict with it."
            ),
        ),
        (
            subject({"driver": {"containerised": True}}, driver="host"),
            "host_driver",
            "failure",
            wording("The driver should be installed on the host, but a driver container provides it now."),
        ),
        (
            subject(
                {"driver": {"version": "580.65.06", "userspace_version": "580.95.05", "matches": False}}, driver="host"
            ),
            "host_driver",
            "warning",
            wording(
                "The driver was updated, but the old modules are still loaded: the modules are 580.65.06, the libraries 580.95.05."
            ),
        ),
        (
            subject(loaded("nouveau")),
            "host_driver",
            "warning",
            wording("nouveau is loaded, and NVIDIA's driver cannot be loaded at the same time."),
        ),
        (
            subject(loaded("nova_core")),
            "host_driver",
            "warning",
            wording("nova_core is loaded, and NVIDIA's driver cannot be loaded at the same time."),
        ),
    ],
)
def test_problems_come_first_and_have_a_remedy(
    given: preflight.CheckedHost, check: str, level: str, sentence: str
) -> None:
    finding = worst(given)
    assert (finding.check, finding.level) == (check, level)
    assert finding.message == sentence and finding.remedy


def test_the_ways_around_secure_boot() -> None:
    assert "driver.usePrecompiled" in worst(subject(SECURE)).remedy
    rhel = subject(SECURE, os_release={"ID": "rhel", "VERSION_ID": "9.6"})
    assert "driver.usePrecompiled" not in worst(rhel).remedy and "mokutil" in worst(rhel).remedy
    assert worst(subject(SECURE, precompiled=True)).level == "ok"
    assert worst(subject(SECURE, driver="host")).level == "ok"
    trusted = {"signer": "Canonical Ltd. Kernel Module Signing", "signer_enrolled": True, "module_installed": True}
    (finding,) = preflight.check_secure_boot(subject({**SECURE, "driver": trusted}, driver="host"))
    assert (finding.level, finding.message) == (
        "ok",
        wording("Secure boot is on, and the kernel trusts the driver's signer, Canonical Ltd. Kernel Module Signing."),
    )


def test_the_modules_of_the_fabric() -> None:
    nvlink5 = {"fabric": {"kind": "nvlink5"}}
    assert worst(subject(nvlink5)).level == "ok"
    assert worst(subject(nvlink5, modules={"ib_umad": None, "mlx5_core": None})).level == "ok"
    assert (
        worst(subject({"fabric": {"kind": "nvswitch"}}, modules={"ib_umad": "missing", "mlx5_core": "missing"})).level
        == "ok"
    )


def test_a_loaded_driver_and_a_driver_container_are_not_missing() -> None:
    installed = {"module_installed": True, "installed_version": "580.95.05"}
    assert worst(subject({"driver": {**installed, "loaded": True}}, driver="host")).level == "ok"
    assert worst(subject({"driver": {"module_installed": None, "loaded": False}}, driver="host")).level == "ok"


def test_a_check_that_has_a_finding_does_not_also_say_that_all_is_well() -> None:
    lacking = subject({"kernel": {"headers": False}}, driver="host")
    upcoming = subject({"kernel": {"next_boot": "6.9"}}, driver="host")
    full = subject(free={"/var/lib": 1, "/boot": 1})
    for given, check in ((lacking, "host_kernel"), (upcoming, "host_kernel"), (full, "host_disk")):
        levels = {finding.level for finding in preflight.run_checks(given) if finding.check == check}
        assert levels and "ok" not in levels, check


def test_an_unknown_fact_is_not_a_problem() -> None:
    assert worst(subject(clock=None, operator_version="v99.1")).level == "ok"
    assert worst(subject(operator_version=None)).level == "ok"
    assert worst(subject({"driver": {"containerised": True, "userspace_version": "580.95.05"}})).level == "ok"


def test_an_error_that_nvidia_ignores_is_not_a_finding() -> None:
    remapped = {**XID, "code": 63, "action": "IGNORE", "meaning": "GPU memory remapping event"}
    assert worst(subject({"xid": [remapped]})).level == "ok"


def test_inspecting_a_host(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/etc/os-release", 'NAME="Rocky Linux"\nID="rocky"\nVERSION_ID="9.4"\n')
    host.put("/var/lib/x", "")
    options: dict[str, t.Any] = {"facts": FACTS, "driver": "host", "precompiled": False, "operator_version": None}
    options["workload_kind"] = "container"
    options["remove_host_driver"] = True
    assert (preflight.inspect(host, options).system, preflight.inspect(host, options).clock) == ("rocky 9.4", None)
    assert list(preflight.inspect(host, options).free) == ["/var/lib"]
    assert preflight.inspect(host, options).machine == "x86_64"
    host.commands["timedatectl"] = "no\n"
    assert preflight.inspect(host, options).clock is False
    assert preflight.inspect(host, options).remove_host_driver is True


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, {"ib_umad": None, "mlx5_core": None}),
        (
            {"lib/modules/6.8/modules.dep": "kernel/drivers/infiniband/core/ib_umad.ko.zst: kernel/ib_core.ko.zst\n"},
            {"ib_umad": "available", "mlx5_core": "missing"},
        ),
        (
            {
                "lib/modules/6.8/modules.dep": "updates/dkms/mlx5_core.ko:\n",
                "lib/modules/6.8/modules.builtin": "kernel/drivers/infiniband/core/ib_umad.ko\n",
            },
            {"ib_umad": "builtin", "mlx5_core": "available"},
        ),
        (
            {
                "lib/modules/6.8/modules.dep": "kernel/x/mlx5_core_other.ko: kernel/y/not_ib_umad.ko\n",
                "sys/module/mlx5_core/initstate": "live",
            },
            {"ib_umad": "missing", "mlx5_core": "loaded"},
        ),
    ],
)
def test_finding_the_modules_of_the_fabric(tmp_path: Path, files: dict[str, str], found: dict[str, str | None]) -> None:
    host = FakeHost(tmp_path)
    host.put("/proc/sys/kernel/osrelease", "6.8\n")
    for path, text in files.items():
        host.put(f"/{path}", text)
    options: dict[str, t.Any] = {"facts": FACTS, "driver": "host", "precompiled": False, "operator_version": None}
    options["workload_kind"] = "container"
    assert preflight.inspect(host, {**options, "remove_host_driver": False}).modules == found


def test_the_facts_must_be_complete(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError) as error:
        preflight.check(FakeHost(tmp_path), {"facts": {"gpus": []}})
    assert error.value.reason is None
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The facts lack driver, nouveau, kernel, secure_boot. Gather the subsets min, services, secure_boot and xid of gpuops.nvidia.gpu_facts."
    )
