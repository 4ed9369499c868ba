# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.driver_build import RULES
from inline_snapshot import snapshot as wording

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE

POD, CONTAINER = "nvidia-driver-daemonset-cs2sr", "nvidia-driver-ctr"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        # https://github.com/NVIDIA/gpu-operator/issues/190
        (
            "Error: Unable to find a match: kernel-devel-4.18.0-240.22.1.el8_3.x86_64",
            "HeadersMissing",
            wording(
                "The driver cannot be built, because the package repositories have no headers for the kernel 4.18.0-240.22.1.el8_3.x86_64."
            ),
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/85
        (
            "Could not resolve Linux kernel version",
            "HeadersMissing",
            wording(
                "The driver cannot be built, because the package repositories have no headers for the kernel of this node."
            ),
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/583
        (
            "make[1]: *** /lib/modules/5.15.0-60-generic/build: No such file or directory.  Stop.",
            "HeadersMissing",
            wording(
                "The driver cannot be built, because the package repositories have no headers for the kernel 5.15.0-60-generic."
            ),
        ),
        (
            "E: Unable to locate package linux-headers-6.8.0-31-generic",
            "HeadersMissing",
            wording(
                "The driver cannot be built, because the package repositories have no headers for the kernel 6.8.0-31-generic."
            ),
        ),
        # https://docs.nvidia.com/datacenter/cloud-native/openshift/latest/troubleshooting-gpu-ocp.html
        (
            "FATAL: failed to install elfutils packages. RHEL entitlement may be improperly deployed",
            "EntitlementMissing",
            wording(
                "The driver container could not install a package from Red Hat's repositories. Usually the cluster or the host has no valid entitlement."
            ),
        ),
        (
            "WARNING: OpenShift DriverToolkit was requested but could not be enabled (dependencies missing)",
            "DriverToolkitMissing",
            wording(
                "The operator is told to build the driver with OpenShift's driver toolkit, but the cluster has no image of the toolkit for the release of its nodes, or the image does not have their kernel."
            ),
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/64
        (
            "Error: Unable to find a match: elfutils-libelf-devel.x86_64",
            "EntitlementMissing",
            wording(
                "The driver container could not install a package from Red Hat's repositories. Usually the cluster or the host has no valid entitlement."
            ),
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/970
        (
            "WARNING: broken driver toolkit detected, using entitlement-based fallback",
            "DriverToolkitMissing",
            wording(
                "The operator is told to build the driver with OpenShift's driver toolkit, but the cluster has no image of the toolkit for the release of its nodes, or the image does not have their kernel."
            ),
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/751
        (
            "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'",
            "DriverBuildFailed",
            wording("The source of the driver does not compile for the kernel of this node."),
        ),
        # https://github.com/NVIDIA/gpu-driver-container/blob/main/rhel9/nvidia-driver
        (
            "FATAL: failed to reach RHEL package repositories. Ensure that the cluster can access the proper networks.",
            "DriverPackagesUnreachable",
            wording(
                "The driver container needs packages to build the driver, and it cannot reach the repositories of Red Hat."
            ),
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/1244
        (
            "nvidia-driver-ctr   Temporary failure resolving 'security.ubuntu.com'",
            "DriverPackagesUnreachable",
            wording(
                "The driver container needs packages to build the driver, and it cannot reach security.ubuntu.com."
            ),
        ),
        # https://github.com/clearlinux/distribution/issues/1133
        (
            "*** Failed CC version check. Bailing out! ***",
            "CompilerMismatch",
            wording(
                "The driver cannot be compiled, because the kernel was built with another compiler than the installed one."
            ),
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/558
        (
            "E: Unable to locate package linux-modules-nvidia-535-server-5.10.0-23-amd64",
            "PrecompiledDriverMissing",
            wording("Ubuntu has no package with the driver's modules for the kernel 5.10.0-23-amd64."),
        ),
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/482
        (
            "[25536.883206] nvidia: disagrees about version of symbol sme_me_mask",
            "ModuleForOtherKernel",
            wording("The kernel refuses to load the module nvidia, because the module was built for another kernel."),
        ),
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/635
        (
            "Consult /var/lib/dkms/nvidia/545.29.02/build/make.log for more information.",
            "DriverBuildFailed",
            wording("The source of the driver does not compile for the kernel of this node."),
        ),
        (
            'ERROR: An error occurred while performing the step: "Building kernel modules". See /var/log/nvidia-inst',
            "DriverBuildFailed",
            wording("The source of the driver does not compile for the kernel of this node."),
        ),
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/840
        (
            "nvidia-uvm/uvm_pmm_gpu.c:2631:5: 错误：隐式声明函数'hmm_range_fault_begin'",  # noqa: RUF001
            "DriverBuildFailed",
            wording("The source of the driver does not compile for the kernel of this node."),
        ),
        # https://github.com/Frogging-Family/nvidia-all/issues/34
        (
            "make[2]: *** [scripts/Makefile.build:271: /var/lib/dkms/nvidia/465.19.01/build/nvidia/nv-caps.o] Error 1",
            "DriverBuildFailed",
            wording("The source of the driver does not compile for the kernel of this node."),
        ),
        (
            "/var/lib/dkms/nvidia/465.19.01/build/nvidia/nv-caps.c:598:5: error: implicit declaration of function",
            "DriverBuildFailed",
            wording("The source of the driver does not compile for the kernel of this node."),
        ),
    ],
)
def test_published_lines(line: str, code: str, words: str) -> None:
    found = diagnosed.found(RULES, line)
    assert set(found) == {code}
    assert found[code].cause == words


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/gridhead/nvidia-auto-installer-for-fedora-linux/issues/99
        "Error: Unable to find a match: kernel-headers kernel-devel",
        "Error: Unable to find a match: htop elfutils-debuginfod",
        "modpost: GPL-incompatible module wl.ko uses GPL-only symbol '__rcu_read_lock'",
        "driver toolkit detected",
        # https://github.com/NVIDIA/cuda-repo-management/issues/14
        "  Temporary failure resolving 'security.ubuntu.com'",
        # https://github.com/NVIDIA/gpu-operator/issues/504
        "nvidia-driver-ctr warning: the compiler differs from the one used to build the kernel",
        # https://github.com/raphael/linux-samus/issues/110
        "Error! Bad return status for module build on kernel: 4.4.1ph+ (x86_64)",
        "Consult /var/lib/dkms/ndiswrapper/1.59/build/make.log for more information.",
        # https://github.com/Frogging-Family/linux-tkg/issues/205: only a warning
        "/var/lib/dkms/nvidia/455.50.10/build/nvidia/nv-mmap.c:334:16: warning: this statement may fall through",
        "make[2]: *** [scripts/Makefile.build:271: /var/lib/dkms/ndiswrapper/1.59/build/crt.o] Error 1",
        "Proceeding with Linux kernel version 6.8.0-31-generic",
        "E: Unable to locate package linux-tools-6.8.0-31-generic",
        # https://github.com/NVIDIA/gpu-operator/issues/2868: another rule
        "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
    ],
)
def test_near_misses(line: str) -> None:
    assert not diagnosed.found(RULES, line)


def test_a_flag_that_the_compiler_does_not_know_counts_in_the_drivers_container() -> None:
    words = "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'"
    found = diagnosed.found(RULES, diagnosed.log(words, POD, CONTAINER))
    assert found["CompilerMismatch"].certainty == "likely"
    assert not diagnosed.found(RULES, diagnosed.log(words, "some-build-x", "build"))


def test_a_build_that_failed_beside_a_missing_driver() -> None:
    # https://github.com/M-Bab/linux-kernel-amdgpu-binaries/issues/101
    lines = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Error! Bad return status for module build on kernel: 5.13.18-21.09.16.amdgpu.ubuntu (x86_64)",
    )
    found = diagnosed.found(RULES, *lines)
    assert found["DriverBuildFailed"].certainty == "likely"
    assert "the kernel 5.13.18-21.09.16.amdgpu.ubuntu." in found["DriverBuildFailed"].cause


def host(**kernel: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host where dkms has the source of the driver and has not built it."""
    row = {"module": "nvidia", "version": "580.95.05", "kernel": None, "state": "added"}
    facts = {"kernel": {"running": "6.8.0-60-generic", **kernel}, "driver": {"loaded": False}}
    return {"hosts": {NODE: {"facts": facts, "state": {"dkms": [row]}}}}


def test_a_host_without_headers_and_with_an_unbuilt_module() -> None:
    found = diagnosed.found(RULES, **host(headers=False))
    assert "the kernel 6.8.0-60-generic." in found["HeadersMissing"].cause
    assert not diagnosed.found(RULES, **host(headers=True))


def test_missing_headers_explain_the_failed_build_and_the_waiting_driver() -> None:
    lines = [
        diagnosed.log("Could not resolve Linux kernel version", POD, CONTAINER),
        diagnosed.log('An error occurred while performing the step: "Building kernel modules"', POD, CONTAINER),
    ]
    stack = diagnosed.stack(diagnosed.row(waiting_for={"driver": "CrashLoopBackOff", "device-plugin": "Init:0/1"}))
    found = diagnosed.found(RULES, *lines, stack=stack)
    assert set(found) == {"HeadersMissing"}
    assert "the kernel 6.8.0-31-generic." in found["HeadersMissing"].cause


@pytest.mark.parametrize(
    ("row", "is_unbuilt"),
    [
        ({"module": "nvidia", "version": "580", "state": "added", "kernel": None}, True),
        ({"module": "nvidia", "version": "580", "state": "added", "kernel": "6.8.0-31-generic"}, True),
        ({"module": "nvidia", "version": "580", "state": "installed", "kernel": "6.8.0-30-generic"}, True),
        ({"module": "nvidia", "version": "580", "state": "installed", "kernel": "6.8.0-31-generic"}, False),
        ({"module": "zfs", "version": "2.2", "state": "added", "kernel": None}, False),
    ],
)
def test_a_module_that_is_not_built_for_the_running_kernel(row: dict[str, str | None], is_unbuilt: bool) -> None:
    facts = {"kernel": {"running": "6.8.0-31-generic", "headers": False}, "driver": {"loaded": False}}
    found = diagnosed.found(RULES, hosts={NODE: {"facts": facts, "state": {"dkms": [row]}}})
    assert ("HeadersMissing" in found) is is_unbuilt


@pytest.mark.parametrize(
    ("line", "certainty"),
    [
        # https://github.com/NVIDIA/gpu-operator/issues/302
        (
            "W: Failed to fetch http://archive.ubuntu.com/ubuntu/dists/bionic/InRelease  Could not connect to "
            "archive.ubuntu.com:80 (192.0.2.10). - connect (111: Connection refused)",
            "likely",
        ),
        ("Curl error (28): Timeout was reached for https://cdn.redhat.com/content/repodata/repomd.xml", "likely"),
        ("Error: Failed to download metadata for repo 'cuda'", "likely"),
    ],
)
def test_an_archive_that_the_driver_container_does_not_reach(line: str, certainty: str) -> None:
    known = diagnosed.log(line, "nvidia-driver-daemonset-x7k2p", "nvidia-driver-ctr")
    assert diagnosed.found(RULES, known)["DriverPackagesUnreachable"].certainty == certainty
    assert diagnosed.found(RULES, line)["DriverPackagesUnreachable"].certainty == "possible"
    other = diagnosed.log(line, "nvidia-dcgm-exporter-x7k2p", "nvidia-dcgm-exporter")
    assert not diagnosed.found(RULES, other)


def test_a_module_of_the_kernel_itself_that_does_not_load() -> None:
    """https://github.com/NVIDIA/gpu-operator/issues/1264."""
    found = diagnosed.found(RULES, "modprobe: ERROR: could not insert 'ipmi_msghandler': Invalid argument")
    assert found["HostModuleRefused"].certainty == "likely" and "ipmi_msghandler" in found["HostModuleRefused"].cause
