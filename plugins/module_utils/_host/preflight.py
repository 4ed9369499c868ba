# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What would keep a host's GPUs from serving a cluster: pure checks on its facts and on a few more things that are read here."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._compatibility import Line, line_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Finding, Level, worst_first
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import xid
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GIB = 2**30
ROOM = (("/var/lib", 5 * GIB, 20 * GIB), ("/boot", 0, GIB // 8))
"""Folders with the bytes below which nothing will work, and below which it soon may not: images of the operands, and an initramfs."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """A host as it was seen, and what is to come onto it."""

    facts: Json
    os_release: dict[str, str]
    machine: str
    free: dict[str, int]
    clock: bool | None
    """Whether the clock is kept by the network; None when the host does not say."""
    driver: str
    precompiled: bool
    operator_version: str | None

    @property
    def in_container(self) -> bool:
        """Whether the driver is to come from a container."""
        return self.driver == "container"

    @property
    def line(self) -> Line | None:
        """The compatibility data of the operator's release line; the newest without a version, None for an unknown one."""
        return line_of(self.operator_version or None)

    @property
    def system(self) -> str:
        """The operating system's name and version."""
        return f"{self.os_release.get('ID', 'unknown')} {self.os_release.get('VERSION_ID', '')}".strip()


def read(host: Host, options: t.Mapping[str, t.Any]) -> Subject:
    """Read what the facts do not tell."""
    pairs = re.findall(r"^(\w+)=[\"']?(.*?)[\"']?$", host.read("/etc/os-release") or "", re.MULTILINE)
    clock = host.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    return Subject(
        facts=options["facts"],
        os_release=dict(pairs),
        machine=os.uname().machine,
        free={folder: host.free_bytes(folder) for folder, dummy, other in ROOM if host.exists(folder)},
        clock=clock.stdout.strip() == "yes" if clock.ok else None,
        driver=options["driver"],
        precompiled=options["precompiled"],
        operator_version=options["operator_version"],
    )


def check_gpus(subject: Subject) -> t.Iterator[Finding]:
    """Find missing and lost GPUs, and those that the kernel log complains about."""
    check, gpus = "host_gpus", subject.facts["gpus"]
    if not gpus:
        yield Finding(
            check,
            "failure",
            "There is no NVIDIA GPU on the PCI bus.",
            "See lspci -d 10de: and the firmware's settings, or take the host out.",
        )
        return
    lost = [gpu["pci_address"] for gpu in gpus if gpu.get("lost")]
    if lost:
        yield Finding(
            check,
            "failure",
            f"The GPUs {', '.join(lost)} have fallen off the bus.",
            "Take the host's power away and back; then have them replaced.",
        )
    errors = [event for event in subject.facts.get("xid") or [] if xid.needs_attention(event)]
    if errors:
        named = ", ".join(sorted({f"{event['gpu']}: Xid {event['code']} ({event['meaning']})" for event in errors})[:5])
        yield Finding(
            check,
            "warning",
            f"The kernel log of this boot has errors of GPUs: {named}.",
            "Follow NVIDIA's Xid catalogue before the host gets work.",
        )
    if not lost and not errors:
        yield Finding(check, "ok", f"{len(gpus)} GPUs are there.")


def check_operating_system(subject: Subject) -> t.Iterator[Finding]:
    """Compare operating system and architecture with the compatibility data."""
    check, line = "host_operating_system", subject.line
    if subject.machine not in ("x86_64", "aarch64"):
        yield Finding(
            check, "failure", f"NVIDIA has no driver for {subject.machine}.", "Use a host of x86_64 or aarch64."
        )
        return
    versions = line.operating_systems.get(subject.os_release.get("ID", "")) if line else ()
    if versions is None or (versions and subject.os_release.get("VERSION_ID") not in versions):
        name = line.name if line else ""
        what = "there may be no driver container for it" if subject.in_container else "its packages may not fit"
        yield Finding(
            check,
            "warning",
            f"NVIDIA did not validate GPU Operator {name} on {subject.system}, and {what}.",
            "Install the driver on the host (gpuops_driver: host), or use a validated system."
            if subject.in_container
            else "Use a validated system.",
        )
    else:
        yield Finding(check, "ok", f"{subject.system} on {subject.machine} is fine.")


def check_kernel(subject: Subject) -> t.Iterator[Finding]:
    """Find a kernel that is about to change, and headers that are missing."""
    check, kernel = "host_kernel", subject.facts["kernel"]
    coming = kernel.get("next_boot") or kernel["newest_installed"]
    found = False
    if coming and kernel["running"] and coming != kernel["running"]:
        found = True
        yield Finding(
            check,
            "warning",
            f"The kernel {kernel['running']} runs, and the next boot takes {coming}.",
            "Reboot before the driver is built, or hold the kernel (host_prep_hold: [kernel]).",
        )
    if not subject.in_container and not kernel["headers"]:
        found = True
        yield Finding(
            check,
            "warning",
            f"The headers of {kernel['running']} are missing, which a driver on the host is built with.",
            "host_driver installs them.",
        )
    if not found:
        yield Finding(check, "ok", f"The kernel {kernel['running']} is the one of the next boot.")


def check_secure_boot(subject: Subject) -> t.Iterator[Finding]:
    """Say what secure boot allows."""
    check, state = "host_secure_boot", subject.facts["secure_boot"]
    locked = state["lockdown"] in ("integrity", "confidentiality")
    if not state["enabled"] and not locked:
        yield Finding(check, "ok", "Secure boot is off, so any driver can be loaded.")
        return
    why = "Secure boot is on" if state["enabled"] else f"The kernel is locked down ({state['lockdown']})"
    ubuntu = subject.os_release.get("ID") == "ubuntu"
    if subject.in_container and subject.precompiled and ubuntu:
        yield Finding(check, "ok", f"{why}, and Ubuntu's precompiled driver is signed.")
    elif subject.in_container:
        ways = (
            ["use Ubuntu's signed modules by precompiled driver containers (driver.usePrecompiled)"] if ubuntu else []
        )
        ways += [
            "install the driver on the host with modules signed by a key that the firmware knows (mokutil --import)",
            "turn secure boot off",
        ]
        message = f"{why}, so the kernel refuses the modules that a driver container builds, which nobody has signed."
        yield Finding(check, "failure", message, f"Either {', or '.join(ways)}.")
    else:
        signed = (
            "Ubuntu's linux-modules-nvidia packages are signed. Modules of DKMS need"
            if ubuntu
            else "Modules of DKMS need"
        )
        yield Finding(
            check,
            "warning",
            f"{why}, so the kernel loads signed modules only.",
            f"{signed} a key that the firmware knows (mokutil --import).",
        )


def check_disk(subject: Subject) -> t.Iterator[Finding]:
    """Find file systems that are nearly full."""
    found = False
    for folder, least, enough in ROOM:
        free = subject.free.get(folder)
        if free is not None and free < enough:
            found = True
            level: Level = "failure" if free < least else "warning"
            yield Finding(
                "host_disk", level, f"{folder} has {free / GIB:.1f} GiB left, and needs {enough / GIB:g}.", "Make room."
            )
    if not found:
        yield Finding("host_disk", "ok", "There is room for images and an initramfs.")


def check_clock(subject: Subject) -> t.Iterator[Finding]:
    """Find a clock that nobody keeps."""
    if subject.clock is False:
        yield Finding(
            "host_clock",
            "warning",
            "The clock is not kept by the network, and certificates and leases fail when it drifts.",
            "Run chrony.",
        )
    else:
        yield Finding(
            "host_clock",
            "ok",
            "The clock is kept by the network."
            if subject.clock
            else "The host does not say whether its clock is kept.",
        )


def check_driver(subject: Subject) -> t.Iterator[Finding]:
    """Find drivers that fight each other, one that was updated under its loaded modules, and nouveau."""
    check, driver = "host_driver", subject.facts["driver"]
    packages = sorted(each["package"] for each in (subject.facts.get("services") or {}).values() if each["package"])
    on_host = (
        [f"the driver {driver['userspace_version']}"]
        if driver["userspace_version"] and not driver["containerised"]
        else []
    )
    found = []
    if subject.in_container and on_host + packages:
        message = f"The driver is to come from a container, and the host has {', '.join(on_host + packages)}, which would fight it."
        found.append(
            Finding(
                check,
                "failure",
                message,
                "Let host_prep remove it (host_prep_remove_host_driver), or keep it (gpuops_driver: host).",
            )
        )
    if not subject.in_container and driver["containerised"]:
        message = "The driver is to be the host's, and a driver container serves it now."
        found.append(Finding(check, "failure", message, "Set driver.enabled to false in the operator's values first."))
    if driver["matches"] is False:
        message = f"The driver was updated under the loaded modules: they are {driver['version']}, the libraries {driver['userspace_version']}."
        found.append(Finding(check, "warning", message, "Reboot."))
    if subject.facts["nouveau"]["loaded"]:
        found.append(
            Finding(
                check,
                "warning",
                "nouveau is loaded, and NVIDIA's driver cannot be beside it.",
                "host_prep keeps it out from the next boot on.",
            )
        )
    yield from found
    if not found:
        yield Finding(check, "ok", "Nothing is in the driver's way.")


CHECKS: dict[str, t.Callable[[Subject], t.Iterator[Finding]]] = {
    "host_gpus": check_gpus,
    "host_operating_system": check_operating_system,
    "host_kernel": check_kernel,
    "host_secure_boot": check_secure_boot,
    "host_disk": check_disk,
    "host_clock": check_clock,
    "host_driver": check_driver,
}


def run_checks(subject: Subject, skip: t.Collection[str] = ()) -> list[Finding]:
    """Run all checks but those to skip; failures come first."""
    return worst_first(finding for name, check in CHECKS.items() if name not in skip for finding in check(subject))
