# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Checks of everything on a host that would keep its GPUs from serving a cluster.

The checks are pure. They judge the host's facts and a few more observations, which ``inspect`` makes.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import CheckFinding, Level, as_result, worst_first
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import imex, systems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import module_files, other_drivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.own_driver import own_driver
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests import guest_preflight, guest_problems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_line import OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import line_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import messages

GIB = 2**30

NEEDED_FACTS = ("gpus", "driver", "nouveau", "kernel", "secure_boot")


@dataclasses.dataclass(frozen=True)
class Space:
    """The free bytes that a folder needs. Less than ``minimum`` is a failure, less than ``enough`` a warning."""

    folder: str
    minimum: int
    enough: int


# /var/lib has the images of the operands, and /boot gets an initramfs.
# The fabric manager of NVLink 5 manages the switches through these.
_FABRIC_MODULES = ("ib_umad", "mlx5_core")

SPACES = (Space("/var/lib", 5 * GIB, 20 * GIB), Space("/boot", 0, GIB // 8))


@dataclasses.dataclass(frozen=True)
class CheckedHost:
    """The host that is checked, and the driver that it should get."""

    facts: Json
    os_release: dict[str, str]
    machine: str
    free: dict[str, int]
    clock: bool | None
    """Whether the clock is synchronized, or None if the host does not report it."""
    modules: t.Mapping[str, str | None]
    """The state of each kernel module of a fabric in the running kernel, or None if nobody can tell."""
    driver: str
    precompiled: bool
    remove_host_driver: bool
    """Whether the run may remove a driver of the host that would conflict with a driver container."""
    operator_version: str | None
    workload_kind: str = "container"
    """Whom the GPUs serve."""

    @property
    def in_container(self) -> bool:
        """Whether the driver should come from a container."""
        return self.driver == "container"

    @property
    def line(self) -> OperatorLine | None:
        """The compatibility data of the operator's release line, or None if the line is unknown.

        Without a version it is the newest line.
        """
        return line_of(self.operator_version or None)

    @property
    def system(self) -> str:
        """The operating system's name and version."""
        return f"{self.os_release.get('ID', 'unknown')} {self.os_release.get('VERSION_ID', '')}".strip()


def check(host: Host, options: t.Mapping[str, t.Any]) -> Json:
    """Check a host, and return the module's result."""
    missing = [name for name in NEEDED_FACTS if name not in options["facts"]]
    if missing:
        raise GpuOpsError(
            f"The facts lack {', '.join(missing)}. "
            "Gather the subsets min, services, secure_boot and xid of gpuops.nvidia.gpu_facts."
        )
    guest_problems.assert_gathered(options["facts"], options["workload_kind"])
    return as_result(run_checks(inspect(host, options), options["skip"]))


def inspect(host: Host, options: t.Mapping[str, t.Any]) -> CheckedHost:
    """Observe what the facts do not contain."""
    clock = host.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    return CheckedHost(
        facts=options["facts"],
        os_release=systems.os_release(host),
        machine=host.machine(),
        free={space.folder: host.free_bytes(space.folder) for space in SPACES if host.exists(space.folder)},
        clock=clock.stdout.strip() == "yes" if clock.ok else None,
        modules=module_files.states(host, _FABRIC_MODULES),
        driver=options["driver"],
        remove_host_driver=options["remove_host_driver"],
        precompiled=options["precompiled"],
        operator_version=options["operator_version"],
        workload_kind=options["workload_kind"],
    )


def check_gpus(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Find missing and lost GPUs, and GPUs with errors in the kernel log."""
    name, gpus = "host_gpus", subject.facts["gpus"]
    if not gpus:
        remedy = "Check lspci -d 10de: and the firmware's settings, or remove the host from the inventory."
        yield CheckFinding(name, "failure", "There is no NVIDIA GPU on the PCI bus.", remedy)
        return
    lost = [gpu["pci_address"] for gpu in gpus if gpu.get("lost")]
    if lost:
        message = f"The GPUs {', '.join(lost)} have fallen off the bus."
        yield CheckFinding(
            name, "failure", message, "Turn the host off and on. If that does not help, replace the GPUs."
        )
    errors = messages.standing(subject.facts.get("xid") or [])
    if errors:
        message = f"The kernel log since the last boot has GPU errors: {_describe(errors)}."
        yield CheckFinding(name, "warning", message, "Follow NVIDIA's Xid catalog before the host runs workloads.")
    if not lost and not errors:
        yield CheckFinding(name, "ok", f"NVIDIA GPUs found: {len(gpus)}. All of them work.")


def _describe(errors: t.Iterable[Json]) -> str:
    return first_few(sorted(set(map(messages.describe, errors))))


def check_operating_system(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Compare the operating system and the architecture with the compatibility data."""
    name, line = "host_operating_system", subject.line
    if subject.machine not in ("x86_64", "aarch64"):
        yield CheckFinding(
            name, "failure", f"NVIDIA has no driver for {subject.machine}.", "Use an x86_64 or aarch64 host."
        )
    elif systems.refusal(subject.os_release):
        remedy = f"Use {systems.SUPPORTED}, or leave the check out (preflight_skip: [{name}])."
        yield CheckFinding(name, "failure", systems.refusal(subject.os_release), remedy)
    elif line is None or _is_validated(subject, line):
        yield CheckFinding(name, "ok", f"{subject.system} on {subject.machine} is supported.")
    elif subject.in_container:
        message = f"{_not_validated(subject, line)} there may be no driver container for it."
        remedy = "Install the driver on the host (gpuops_driver: host), or use a validated system."
        yield CheckFinding(name, "warning", message, remedy)
    else:
        message = f"{_not_validated(subject, line)} its packages may not fit."
        yield CheckFinding(name, "warning", message, "Use a validated system.")


def _is_validated(subject: CheckedHost, line: OperatorLine) -> bool:
    versions = line.operating_systems.get(subject.os_release.get("ID", ""))
    return versions is not None and (not versions or subject.os_release.get("VERSION_ID") in versions)


def _not_validated(subject: CheckedHost, line: OperatorLine) -> str:
    return f"NVIDIA has not validated GPU Operator {line.name} on {subject.system}, and"


def check_kernel(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Find a kernel that changes at the next boot, and missing kernel headers."""
    name, kernel = "host_kernel", subject.facts["kernel"]
    running, upcoming = kernel["running"], kernel["next_boot"]
    changes = bool(upcoming and running and upcoming != running)
    lacks_headers = not subject.in_container and not kernel["headers"]
    if changes:
        message = f"The kernel {running} is running, and the next boot uses {upcoming}."
        remedy = "Reboot before the driver is built, or hold the kernel (host_prep_hold: [kernel])."
        yield CheckFinding(name, "warning", message, remedy)
    if lacks_headers:
        message = f"The headers of {running} are missing. They are needed to build the driver on the host."
        yield CheckFinding(name, "warning", message, "The role host_driver installs them.")
    if not changes and not lacks_headers:
        yield CheckFinding(name, "ok", f"The next boot uses the running kernel, {running}.")


_ENROLL = "Sign modules built by DKMS with a key that the firmware knows (mokutil --import)"


def check_secure_boot(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Compare what secure boot allows with where the driver comes from."""
    name, state = "host_secure_boot", subject.facts["secure_boot"]
    locked = state["lockdown"] in ("integrity", "confidentiality")
    if subject.workload_kind == "vm-passthrough":
        yield CheckFinding(name, "ok", "Virtual machines get the GPUs through modules that the system has signed.")
        return
    if not state["enabled"] and not locked:
        yield CheckFinding(name, "ok", "Secure boot is off, so any driver can be loaded.")
        return
    why = "Secure boot is on" if state["enabled"] else f"The kernel is locked down ({state['lockdown']})"
    on_ubuntu = subject.os_release.get("ID") == "ubuntu"
    if subject.in_container and subject.precompiled and on_ubuntu:
        yield CheckFinding(name, "ok", f"{why}, and Ubuntu's precompiled driver is signed.")
    elif subject.in_container:
        message = f"{why}, so the kernel refuses the unsigned modules that a driver container builds."
        yield CheckFinding(name, "failure", message, _ways_around_secure_boot(on_ubuntu))
    else:
        yield _host_driver_and_secure_boot(subject, why, on_ubuntu)


def _host_driver_and_secure_boot(subject: CheckedHost, why: str, on_ubuntu: bool) -> CheckFinding:
    name, driver, remedy = "host_secure_boot", subject.facts["driver"], f"{_ENROLL}."
    if driver.get("signer_enrolled"):
        return CheckFinding(name, "ok", f"{why}, and the kernel trusts the driver's signer, {driver['signer']}.")
    if driver.get("signer"):
        message = f"{why}, and neither the kernel nor the firmware knows the driver's signer, {driver['signer']}."
        level: Level = "failure" if driver["signer_enrolled"] is False else "warning"
        return CheckFinding(name, level, message, remedy)
    if driver.get("module_installed") and driver.get("installed_version"):
        return CheckFinding(name, "failure", f"{why}, and the installed driver has no signature.", remedy)
    if on_ubuntu:
        return CheckFinding(name, "ok", f"{why}, and the role host_driver installs Ubuntu's signed modules.")
    return CheckFinding(name, "warning", f"{why}, so the kernel only loads signed modules.", remedy)


def _ways_around_secure_boot(on_ubuntu: bool) -> str:
    ways = [
        "install the driver on the host with modules signed by a key that the firmware knows (mokutil --import)",
        "turn secure boot off",
    ]
    if on_ubuntu:
        ways.insert(0, "use Ubuntu's signed modules in precompiled driver containers (driver.usePrecompiled)")
    return f"Either {', or '.join(ways)}."


def check_disk(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Find file systems that are nearly full."""
    found = False
    for space in SPACES:
        free = subject.free.get(space.folder)
        if free is not None and free < space.enough:
            found = True
            level: Level = "failure" if free < space.minimum else "warning"
            message = f"{space.folder} has {free / GIB:.1f} GiB free, and needs {space.enough / GIB:g} GiB."
            yield CheckFinding("host_disk", level, message, "Free some space.")
    if not found:
        yield CheckFinding("host_disk", "ok", "There is enough free space for images and an initramfs.")


def check_clock(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Find a clock that is not synchronized."""
    if subject.clock is False:
        message = "The clock is not synchronized. If it drifts, certificates and leases become invalid."
        yield CheckFinding("host_clock", "warning", message, "Install and start chrony.")
    elif subject.clock is None:
        yield CheckFinding("host_clock", "ok", "The host does not report whether its clock is synchronized.")
    else:
        yield CheckFinding("host_clock", "ok", "The clock is synchronized.")


def check_driver(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Find a second driver, libraries that do not match the loaded modules, and nouveau."""
    driver = subject.facts["driver"]
    if subject.workload_kind != "container":
        kind, wants_own = subject.workload_kind, not subject.in_container
        yield from guest_preflight.check_driver(subject.facts, kind, wants_own, subject.remove_host_driver)
        return
    found = [*_for_guests(subject), *_second_driver(subject), *_not_loaded(subject)]
    if driver["matches"] is False:
        versions = f"the modules are {driver['version']}, the libraries {driver['userspace_version']}"
        message = f"The driver was updated, but the old modules are still loaded: {versions}."
        found.append(CheckFinding("host_driver", "warning", message, "Reboot."))
    for name in other_drivers.loaded(subject.facts["nouveau"]):
        message = f"{name} is loaded, and NVIDIA's driver cannot be loaded at the same time."
        found.append(
            CheckFinding("host_driver", "warning", message, "The role host_prep blacklists it for the next boot.")
        )
    yield from found or [CheckFinding("host_driver", "ok", "The driver has no conflicts on this host.")]


def _for_guests(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    held = [
        gpu["pci_address"] for gpu in subject.facts["gpus"] if gpu.get("bound_driver") in guest_problems.VFIO_DRIVERS
    ]
    if held:
        message = f"vfio holds the GPUs {first_few(held)} for virtual machines, so containers cannot have them."
        remedy = "Remove what binds them at boot (vfio-pci.ids), or set gpuops_workload_kind to vm-passthrough."
        yield CheckFinding("host_driver", "warning", message, remedy)


def _second_driver(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    driver = subject.facts["driver"]
    if subject.in_container and own_driver(subject.facts):
        names = ", ".join(own_driver(subject.facts))
        message = f"The driver should come from a container, but the host has {names}, which would conflict with it."
        if subject.remove_host_driver:
            remedy = "The role host_change removes it, as host_driver_remove permits."
            yield CheckFinding("host_driver", "warning", message, remedy)
        else:
            remedy = "Let the run remove it (host_driver_remove: true), or declare it (gpuops_driver: host)."
            yield CheckFinding("host_driver", "failure", message, remedy)
    if not subject.in_container and driver["containerised"]:
        message = "The driver should be installed on the host, but a driver container provides it now."
        yield CheckFinding(
            "host_driver", "failure", message, "First set driver.enabled to false in the operator's values."
        )


def _not_loaded(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    driver = subject.facts["driver"]
    if subject.in_container or driver.get("loaded", True) or not driver.get("module_installed"):
        return
    version = driver.get("installed_version") or driver["userspace_version"]
    message = f"The driver {version} is installed and not loaded."
    yield CheckFinding(
        "host_driver", "warning", message, "Load it (modprobe nvidia), or let the role host_change reboot."
    )


def check_modules(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Find the kernel modules through which the switches of NVLink 5 are managed."""
    name = "host_modules"
    if (subject.facts.get("fabric") or {}).get("kind") != "nvlink5":
        yield CheckFinding(name, "ok", "The GPUs need no kernel module but the driver's.")
        return
    missing = [module for module, state in subject.modules.items() if state == "missing"]
    if missing:
        kernel = subject.facts["kernel"]["running"]
        message = f"The kernel {kernel} lacks {' and '.join(missing)}, through which the NVLink switches are managed."
        remedy = (
            "Install linux-modules-extra (Ubuntu), kernel-modules-extra (Red Hat) or NVIDIA's DOCA for this kernel."
        )
        yield CheckFinding(name, "failure", message, remedy)
    else:
        yield CheckFinding(name, "ok", "The kernel has the modules that the NVLink switches need.")


def check_imex(subject: CheckedHost) -> t.Iterator[CheckFinding]:
    """Look at IMEX in a rack."""
    yield from imex.check(subject.facts, subject.in_container)


CHECKS: dict[str, t.Callable[[CheckedHost], t.Iterator[CheckFinding]]] = {
    "host_gpus": check_gpus,
    "host_operating_system": check_operating_system,
    "host_kernel": check_kernel,
    "host_modules": check_modules,
    imex.CHECK: check_imex,
    "host_iommu": lambda subject: guest_preflight.check_iommu(subject.facts),
    "host_iommu_groups": lambda subject: guest_preflight.check_groups(subject.facts),
    "host_vfio": lambda subject: guest_preflight.check_vfio(subject.facts),
    "host_vgpu": lambda subject: guest_preflight.check_vgpu(subject.facts),
    "host_virtualization": lambda subject: guest_preflight.check_machine(subject.facts),
    "host_secure_boot": check_secure_boot,
    "host_disk": check_disk,
    "host_clock": check_clock,
    "host_driver": check_driver,
}

_GUESTS = ("vm-passthrough", "vm-vgpu")
_ONLY_FOR: dict[str, tuple[str, ...]] = {
    "host_modules": ("container",),
    imex.CHECK: ("container",),
    "host_iommu": _GUESTS,
    "host_iommu_groups": _GUESTS,
    "host_virtualization": _GUESTS,
    "host_vfio": ("vm-passthrough",),
    "host_vgpu": ("vm-vgpu",),
}
"""The kinds of workload that a check is for. The others are for all kinds."""


def run_checks(subject: CheckedHost, skip: t.Collection[str] = ()) -> list[CheckFinding]:
    """Run the checks of the host's kind of workload, except those to skip. Failures come first in the result."""
    kind = subject.workload_kind
    names = [name for name in CHECKS if name not in skip and kind in _ONLY_FOR.get(name, (kind,))]
    return worst_first(finding for name in names for finding in CHECKS[name](subject))
