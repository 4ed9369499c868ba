# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The driver's modules cannot be built or found for the kernel: headers, packages, compiler, source."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_KERNEL = r"(?P<kernel>\d[\w.+~-]*\w)"

_HEADERS = (
    pattern(r"Could not resolve Linux kernel version", "could not resolve linux kernel version"),
    pattern(rf"Unable to find a match:.*\bkernel-(?:headers|devel)-{_KERNEL}", "unable to find a match"),
    pattern(rf"No package kernel-(?:headers|devel)-{_KERNEL}", "no package kernel-"),
    pattern(r"Unable to locate package linux-headers-(?P<kernel>\d\S+)", "unable to locate package linux-headers-"),
    pattern(rf"/lib/modules/{_KERNEL}/build: No such file or directory", "/build: no such file or directory"),
    pattern(rf"Your kernel headers for kernel {_KERNEL} cannot be found", "your kernel headers for kernel"),
)
_ENTITLEMENT = (
    pattern(r"RHEL entitlement may be improperly deployed", "rhel entitlement may be improperly deployed"),
    # The first package that the driver container installs. Every release of RHEL has it.
    pattern(r"Unable to find a match:.*\belfutils-libelf-devel\b", "unable to find a match"),
)
_TOOLKIT = (
    pattern(r"OpenShift DriverToolkit was requested but could not be enabled", "drivertoolkit was requested but"),
    pattern(r"ocpHasDriverToolkitImageStream: driver-toolkit imagestream not found", "imagestream not found"),
    pattern(r"broken driver toolkit detected, using entitlement-based fallback", "broken driver toolkit detected"),
)
_NO_REPOSITORY = pattern(r"FATAL: failed to reach RHEL package repositories", "failed to reach rhel package reposi")
_UNREACHED = r"(?:could not connect|connection (?:refused|timed out|failed)|network is unreachable|unable to connect)"
_ARCHIVE = (
    pattern(
        rf"Failed to fetch https?://(?P<host>[\w.-]+)\S*\s.*(?:{_UNREACHED}|certificate|40[37] )",
        "failed to fetch http",
        of=("driver",),
    ),
    pattern(
        r"^(?:Err:\d+|E:|W:) .*?Could not connect to (?P<host>[\w.-]+):\d+", "could not connect to", of=("driver",)
    ),
    pattern(
        r"Curl error \((?:5|6|7|28|35|56|60)\): .{1,120}? for https?://(?P<host>[\w.-]+)", "curl error", of=("driver",)
    ),
    pattern(r"Failed to download metadata for repo '(?P<host>[\w.-]+)'", "failed to download metadata", of=("driver",)),
)
"""What apt and dnf say of an archive behind a closed network, a proxy that refuses, or an unknown certificate."""
_NO_NAME = pattern(r"Temporary failure resolving '(?P<host>[\w.-]+)'", "temporary failure resolving", "pod")
_COMPILER = (
    pattern(r"Compiler version check failed", "compiler version check failed"),
    pattern(r"Failed CC version check\. Bailing out", "failed cc version check"),
)
_FLAG = pattern(r"error: unrecognized command[- ]line option", "error: unrecognized command", "pod")
_PRECOMPILED = pattern(
    r"Unable to locate package linux-(?:modules|objects|signatures)-nvidia-(?:[\w-]*?-)??(?P<kernel>\d+\.\d+\.\S+)",
    "unable to locate package linux-",
)
_BUILD = (
    pattern(r"/var/lib/dkms/nvidia[\w-]*/[^/\s]+/build/make\.log", "/var/lib/dkms/nvidia"),
    pattern(r'An error occurred while performing the step: "Building kernel modules"', "building kernel modules"),
    pattern(r"modpost: GPL-incompatible module nvidia[\w-]*\.ko uses GPL-only symbol", "modpost: gpl-incompatible"),
    # The compiler and make speak the language of their user.
    *(
        pattern(
            rf"\bnvidia(?:-(?:uvm|drm|modeset|peermem))?/[\w./-]+\.{end}:\d+:\d+: "
            r"(?:fatal error|error|Fehler|erreur|erro|ошибка|错误|錯誤|エラー) ?[:\uff1a]",
            f".{end}:",
        )
        for end in ("c", "h")
    ),
    # Headers of NVIDIA's, named from the folder of the build.
    pattern(r"(?:^|[\s:])\.?/?common/inc/nv[\w-]*\.h:\d+:\d+: (?:fatal )?error: ", "common/inc/nv"),
    pattern(r"\bkernel v?(?P<kernel>\d+\.\d+[\w.-]*): (?:error: )?implicit declaration of function", "implicit decl"),
    pattern(r"\*\*\* \[(?:[^\]]*[ /])?nvidia(?:-(?:uvm|drm|modeset|peermem))?/[^\]\s]+\.o\] ", "*** ["),
)
_DKMS = pattern(r"\bDKMS make\.log\b.{0,40}\bnvidia", "dkms make.log")
_MAKE = pattern(
    rf"make(?:\[\d+\])?: \*\*\* \[\S*/(?:linux-headers-|kernels/){_KERNEL}/Makefile:\d+: \S+\] Error", "*** ["
)
_BAD_RETURN = pattern(
    rf"Bad return status for module build on kernel: {_KERNEL}", "bad return status for module build on kernel"
)
_NO_DRIVER = pattern(r"^NVIDIA-SMI has failed because", "nvidia-smi has failed because")
_SYMBOLS = (
    pattern(r"\bnvidia: disagrees about version of symbol", "nvidia: disagrees about version of symbol"),
    pattern(r"\bnvidia: version magic '(?P<built>[^']+)' should be '", "nvidia: version magic"),
)
_OWN_MODULE = pattern(
    r"modprobe: (?:ERROR|FATAL): (?:could not insert '|Module )(?P<module>ipmi_\w+|i2c_core)"
    r"(?:': Invalid argument| not)",
    "modprobe: ",
)

_SCRIPT = "https://github.com/NVIDIA/gpu-driver-container/blob/main/rhel9/nvidia-driver"
_APART = (
    "In the driver container, run dnf install elfutils-libelf-devel. If that fails, the entitlement is missing; if it "
    "works, only the headers of this kernel are."
)
_WHICH_PACKAGES = (
    "Look at driver.usePrecompiled in the ClusterPolicy. If it is true, the precompiled package is missing; if it is "
    "not, the headers are."
)


def _headers(view: View) -> t.Iterator[Sighting]:
    for hit in (hit for each in _HEADERS for hit in view.hits(each)):
        yield matches.sighting(hit, kernel=hit.values.get("kernel") or _kernel(view, hit.line.node))
    for node in view.names:
        kernel, driver = seen.part(view, node, "kernel"), seen.part(view, node, "driver")
        unbuilt = [row for row in seen.state(view, node).get("dkms") or [] if _is_unbuilt(row, kernel.get("running"))]
        if unbuilt and kernel.get("headers") is False and driver.get("loaded") is False:
            text = f"kernel.headers: false; dkms: {unbuilt[0]['module']}/{unbuilt[0]['version']} is not built"
            yield seen.on_node(node, text, kernel=kernel["running"])


def _is_unbuilt(row: t.Mapping[str, t.Any], kernel: str | None) -> bool:
    """Return whether dkms has the source of NVIDIA's module and nothing built for this kernel."""
    return str(row["module"]).startswith("nvidia") and bool(row["state"] == "added" or row["kernel"] != kernel)


def _kernel(view: View, node: str) -> str:
    return seen.part(view, node, "kernel").get("running") or view.rows.get(node, {}).get("kernel") or "of this node"


def _unreachable(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_NO_REPOSITORY):
        yield matches.sighting(hit, host="the repositories of Red Hat")
    for hit in (hit for each in _ARCHIVE for hit in view.hits(each)):
        yield matches.sighting(hit, "likely")
    for hit in view.hits(_NO_NAME):
        if "nvidia-driver" in f"{hit.line.source} {hit.line.text}":
            yield matches.sighting(hit)


def _compiler(view: View) -> t.Iterator[Sighting]:
    for hit in (hit for each in _COMPILER for hit in view.hits(each)):
        yield matches.sighting(hit)
    for hit in view.hits(_FLAG):
        if "nvidia-driver" in hit.line.source:
            yield matches.sighting(hit, "likely")


def _precompiled(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_PRECOMPILED):
        yield matches.sighting(hit)


def _built(view: View) -> t.Iterator[Sighting]:
    for hit in (*seen.together(view, _BAD_RETURN, _NO_DRIVER), *seen.together(view, _MAKE, _DKMS)):
        yield matches.sighting(hit, "likely")
    for hit in (hit for each in _BUILD for hit in view.hits(each)):
        yield matches.sighting(hit, kernel=hit.values.get("kernel") or _kernel(view, hit.line.node))


RULES = (
    Rule(
        code="HeadersMissing",
        title="No kernel headers for the driver",
        severity="failure",
        cause="The driver cannot be built, because the package repositories have no headers for the kernel {kernel}.",
        remedy="Set host_kernel_release to a kernel that the repositories still have and run "
        "playbooks/upgrade_kernel.yml, which drains each node. Or name repositories that have the headers "
        "(driver.repoConfig in the operator's values). On RHEL, check the release that the driver container asks for "
        "(DNF_RELEASEVER in driver.env) and the entitlement.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/190",
            "https://github.com/NVIDIA/gpu-operator/issues/85",
            "https://github.com/NVIDIA/gpu-operator/issues/583",
            _SCRIPT,
        ),
        check=_headers,
        patterns=_HEADERS,
        explains=seen.NO_DRIVER | {"HostPreflightHostKernel"},
        unlike={"EntitlementMissing": _APART, "PrecompiledDriverMissing": _WHICH_PACKAGES},
    ),
    Rule(
        code="EntitlementMissing",
        title="No entitlement for Red Hat's packages",
        severity="failure",
        cause="The driver container could not install a package from Red Hat's repositories. Usually the cluster or "
        "the host has no valid entitlement.",
        remedy="Renew the entitlement of the cluster. On OpenShift, you can also build with the driver toolkit, which "
        "needs no entitlement: set operator.use_ocp_driver_toolkit: true in operator_values and run "
        "playbooks/site.yml.",
        sources=(
            "https://docs.nvidia.com/datacenter/cloud-native/openshift/latest/troubleshooting-gpu-ocp.html",
            _SCRIPT,
        ),
        patterns=_ENTITLEMENT,
        certainty="likely",
        explains=seen.NO_DRIVER,
        unlike={"HeadersMissing": _APART},
    ),
    Rule(
        code="DriverToolkitMissing",
        title="OpenShift has no driver toolkit",
        severity="failure",
        cause="The operator is told to build the driver with OpenShift's driver toolkit, but the cluster has no image "
        "of the toolkit for the release of its nodes, or the image does not have their kernel.",
        remedy="Look for the image with `oc get imagestream driver-toolkit -n openshift`. Delete the driver's pod if "
        "the image is newer than the pod. Otherwise upgrade OpenShift, or give the nodes an entitlement, set "
        "operator.use_ocp_driver_toolkit: false in operator_values, and run playbooks/site.yml.",
        sources=(
            "https://docs.nvidia.com/datacenter/cloud-native/openshift/latest/troubleshooting-gpu-ocp.html",
            "https://github.com/NVIDIA/gpu-operator/issues/970",
        ),
        patterns=_TOOLKIT,
        explains=seen.NO_DRIVER,
    ),
    Rule(
        code="DriverPackagesUnreachable",
        title="The driver container cannot download packages",
        severity="failure",
        cause="The driver container needs packages to build the driver, and it cannot reach {host}.",
        remedy="Try curl -I with the address from a pod of the node, to see whether it is the name, the proxy or a "
        "certificate. Repair that, or set a proxy (driver.env), a mirror "
        "(driver.repoConfig), or precompiled drivers, which need no packages (driver.usePrecompiled: true), in "
        "operator_values and run playbooks/site.yml.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/1244", _SCRIPT),
        check=_unreachable,
        patterns=(_NO_REPOSITORY, _NO_NAME, *_ARCHIVE),
        explains=seen.NO_DRIVER | {"HeadersMissing"},
    ),
    Rule(
        code="CompilerMismatch",
        title="The compiler is not the one that built the kernel",
        severity="failure",
        cause="The driver cannot be compiled, because the kernel was built with another compiler than the installed "
        "one.",
        remedy="With a driver on the host, install the compiler that /proc/version names. With a driver container, "
        "use an image for the node's operating system, or set driver.usePrecompiled: true in operator_values, which "
        "needs no compiler, and run playbooks/site.yml.",
        sources=(
            "https://github.com/clearlinux/distribution/issues/1133",
            "https://github.com/NVIDIA/gpu-operator/issues/504",
        ),
        check=_compiler,
        patterns=(*_COMPILER, _FLAG),
        explains=seen.NO_DRIVER,
    ),
    Rule(
        code="PrecompiledDriverMissing",
        title="No precompiled driver for the kernel",
        severity="failure",
        cause="Ubuntu has no package with the driver's modules for the kernel {kernel}.",
        remedy="Set host_kernel_release to a kernel with such a package and run playbooks/upgrade_kernel.yml, which "
        "drains each node. Or choose another branch of the driver, or build it on the node (driver.usePrecompiled: "
        "false), in operator_values, and run playbooks/site.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/558",
            "https://github.com/NVIDIA/gpu-operator/issues/910",
        ),
        check=_precompiled,
        patterns=(_PRECOMPILED,),
        explains=seen.NO_DRIVER,
        unlike={"HeadersMissing": _WHICH_PACKAGES},
    ),
    Rule(
        code="DriverBuildFailed",
        title="The driver does not compile",
        severity="failure",
        cause="The source of the driver does not compile for the kernel {kernel}.",
        remedy="Read the end of the build's log (/var/lib/dkms/nvidia/*/build/make.log, or the log of the driver's "
        "pod). If the kernel is newer than the driver, use a newer driver (host_driver_version, or driver.version in "
        "operator_values; then playbooks/upgrade_driver.yml), or an older kernel (host_kernel_release and "
        "playbooks/upgrade_kernel.yml). If the compiler is newer than the one of the kernel (cat /proc/version), "
        "install that one: warnings of former releases are errors of GCC 14 and 15.",
        sources=(
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/526",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/558",
        ),
        check=_built,
        patterns=(*_BUILD, _BAD_RETURN, _NO_DRIVER, _DKMS, _MAKE),
        explains=seen.NO_DRIVER - {"DriverBuildFailed"},
    ),
    Rule(
        code="HostModuleRefused",
        title="The kernel's own modules do not load",
        severity="failure",
        cause="The driver container loads {module} of the host's kernel first, and that fails: the container sees "
        "module files of another kernel than the running one, or none.",
        remedy="Run modprobe {module} on the host. If that fails as well, install the modules of the running kernel "
        "(linux-modules-extra on Ubuntu, kernel-modules on Red Hat). If it works, use a driver image for the node's "
        "release: the release of the system must fit its kernel.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/1264", _SCRIPT),
        patterns=(_OWN_MODULE,),
        certainty="likely",
        explains=seen.NO_DRIVER,
    ),
    Rule(
        code="ModuleForOtherKernel",
        title="The driver was built for another kernel",
        severity="failure",
        cause="The kernel refuses to load the module nvidia, because the module was built for another kernel.",
        remedy="With a driver on the host, build the modules again for the running kernel (dkms autoinstall). With a "
        "driver container, use an image for the node's operating system. Check that the next boot uses the kernel "
        "whose headers are installed.",
        sources=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/482",),
        patterns=_SYMBOLS,
        explains=seen.NO_DRIVER,
    ),
)
