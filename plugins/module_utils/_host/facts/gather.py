# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""All facts of a GPU host: the subsets, what each of them needs, and gathering them in one pass.

Everything that waits for another process runs in parallel: NVML in a child process, commands in threads. If a source
fails, the gathering continues.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import software, systems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import (
    driver,
    kernel,
    kernel_log,
    memory,
    node,
    nvidia_packages,
    passthrough,
    runtimes,
    services,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries, other_drivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import (
    acs_facts,
    driver_origin,
    fabric,
    merge,
    mig,
    nics,
    nvml,
    pci,
    smi,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import DriverReport
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_if
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# Each subset and the top-level facts that it returns.
SUBSETS: dict[str, tuple[str, ...]] = {
    "system": ("system",),
    "pci": ("gpus", "nvswitches", "fabric"),
    "gpus": ("gpus", "nvswitches", "fabric"),
    "nics": ("nics",),
    "driver": ("driver",),
    "nouveau": ("nouveau",),
    "initramfs": ("nouveau",),
    "kernel": ("kernel",),
    "secure_boot": ("secure_boot",),
    "iommu": ("iommu",),
    "passthrough": ("passthrough",),
    "acs": ("acs",),
    "services": ("services",),
    "runtimes": ("runtimes",),
    "xid": ("xid",),
    "hugepages": ("hugepages",),
    "numa": ("numa",),
    "node": ("node",),
    "files": ("files",),
    "reboot": ("reboot",),
}
MINIMUM = frozenset({"system", "pci", "driver", "nouveau", "kernel"})
ONLY_BY_NAME = frozenset({"initramfs"})
"""Subsets that ``all`` leaves out because they take seconds."""

_NO_DRIVER = "The module nvidia is not loaded"


def select_subsets(requested: t.Sequence[str]) -> set[str]:
    """Return the subsets that ``gather_subset`` requests.

    It means the same as in ``setup``. The code of ``setup`` is not used, because it imports all of its collectors.
    """
    unknown = [name for name in requested if name.lstrip("!") not in (*SUBSETS, "all", "min")]
    if unknown:
        raise GpuOpsError(
            f"There is no subset {', '.join(unknown)}. "
            f"gather_subset accepts all, min, {', '.join(SUBSETS)}, each also with a ! before it."
        )
    every = set(SUBSETS) - ONLY_BY_NAME
    named = set(requested) & set(SUBSETS)
    excluded = {name[1:] for name in requested if name.startswith("!")}
    excluded |= every - MINIMUM if "all" in excluded else set()
    excluded |= MINIMUM if "min" in excluded else set()
    return (named | MINIMUM | (every if "all" in requested else set())) - (excluded - named)


class Gatherer:
    """Gathers each fact once, when it is first needed."""

    def __init__(self, host: Host, subsets: t.Collection[str], timeout_s: float, container_root: str) -> None:
        self._host = host
        self._container_root = container_root.rstrip("/")
        self._subsets = subsets
        self._deadline = time.monotonic() + timeout_s
        # The child must start before the threads, because it is not safe to fork a process that has threads.
        self._child = self._start_nvml()
        self._mig_child = self._start_mig()
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=4)
        self._pending: dict[str, concurrent.futures.Future[t.Any]] = {}
        if {"services", "runtimes"} & set(subsets):
            packages = (
                *nvidia_packages.DRIVER_PACKAGES,
                *driver_origin.OTHER_NAMES,
                *runtimes.RUNTIME_PACKAGES,
            )
            self._pending["packages"] = self._pool.submit(software.package_query, host, packages)
            units = (*services.SERVICE_UNITS, *runtimes.RUNTIME_UNITS)
            self._pending["units"] = self._pool.submit(software.unit_query, host, units)
        if "xid" in subsets:
            self._pending["xid"] = self._pool.submit(kernel_log.kernel_log, host)
        if "gpus" in subsets and self._child is None and self._driver_loaded:
            self._pending["smi"] = self._pool.submit(self._ask_smi)

    def gather(self) -> Json:
        """Return the facts of the subsets, and the source of each fact."""
        names = [name for subset in SUBSETS if subset in self._subsets for name in SUBSETS[subset]]
        facts: Json = {}
        sources: dict[str, t.Any] = {}
        for name in dict.fromkeys(names):
            section: Section = getattr(self, name)
            facts[name] = section.facts
            sources.update({f"{name}.{field}" if field else name: source for field, source in section.sources.items()})
        self._pool.shutdown(wait=False)
        return {**facts, "sources": sources}

    @functools.cached_property
    def _driver_loaded(self) -> bool:
        return driver.is_loaded(self._host)

    @functools.cached_property
    def _driver_root(self) -> str:
        return driver.driver_root(self._host, self._container_root)

    @functools.cached_property
    def _cmdline(self) -> list[str]:
        return boot_entries.split_arguments(self._host.read("/proc/cmdline") or "")

    @functools.cached_property
    def _inventory(self) -> pci.Inventory:
        return pci.scan(self._host)

    def _start_nvml(self) -> nvml.NvmlChild | None:
        if "gpus" not in self._subsets or not nvml.HAS_PYNVML or not self._driver_loaded:
            return None
        return nvml.NvmlChild(self._library)

    def _start_mig(self) -> mig.MigChild | None:
        if "gpus" not in self._subsets or self._child is not None or not self._driver_loaded:
            return None
        return mig.MigChild(self._library)

    @functools.cached_property
    def _library(self) -> str | None:
        """The library of a driver container, which the linker does not find."""
        library = driver.library(self._host, self._driver_root) if self._driver_root else None
        return self._host.path(library) if library else None

    def _ask_smi(self) -> DriverReport:
        return smi.ask(self._host, self._driver_root, max(0.1, self._deadline - time.monotonic()))

    @functools.cached_property
    def _report(self) -> DriverReport:
        if "gpus" not in self._subsets:
            return DriverReport("sysfs", reason="The subset gpus was not gathered")
        if not self._driver_loaded:
            return DriverReport("sysfs", reason=_NO_DRIVER)
        if self._child is None:
            asked = t.cast(DriverReport, self._pending["smi"].result())
            if self._mig_child:
                self._mig_child.complete(asked, self._deadline)
            return asked
        report = self._child.answer(self._deadline)
        # If NVML hangs, nvidia-smi would hang too.
        if report.gpus or report.reason is None or report.timed_out:
            return report
        # NVML's library is missing, or its version differs from the driver's. nvidia-smi may find the right one.
        second = self._ask_smi()
        return second if second.gpus else dataclasses.replace(report, reason=f"{report.reason}; {second.reason}")

    @functools.cached_property
    def system(self) -> Section:
        """The operating system."""
        return systems.system(self._host)

    @functools.cached_property
    def gpus(self) -> Section:
        """GPUs."""
        return merge.gpus(self._inventory, self._report)

    @functools.cached_property
    def nvswitches(self) -> Section:
        """NVSwitches."""
        return pci.nvswitches(self._inventory)

    @functools.cached_property
    def fabric(self) -> Section:
        """The fabric of the GPUs."""
        return fabric.fabric(self.gpus, self.nvswitches)

    @functools.cached_property
    def nics(self) -> Section:
        """Network adapters."""
        return nics.nics(self._host)

    @functools.cached_property
    def driver(self) -> Section:
        """The driver."""
        section = driver.driver(self._host, self._container_root, with_users="gpus" in self._subsets)
        return driver.with_packages(section, self._output("packages"))

    @functools.cached_property
    def nouveau(self) -> Section:
        """The kernel's own drivers of the GPUs."""
        section = other_drivers.nouveau(self._host, self._cmdline)
        if "initramfs" not in self._subsets:
            return section
        version = self.kernel.facts["next_boot"] or self.kernel.facts["running"]
        found, source = other_drivers.in_initramfs(self._host, version)
        return Section(
            {**section.facts, "in_initramfs": found},
            {**section.sources, "in_initramfs": known_if(found, source, source)},
        )

    @functools.cached_property
    def kernel(self) -> Section:
        """The kernel."""
        return kernel.kernel(self._host)

    @functools.cached_property
    def secure_boot(self) -> Section:
        """Secure boot."""
        return kernel.secure_boot(self._host)

    @functools.cached_property
    def iommu(self) -> Section:
        """The IOMMU."""
        return pci.iommu(self._host, self._inventory, self._cmdline)

    @functools.cached_property
    def passthrough(self) -> Section:
        """What handing the GPUs to virtual machines depends on."""
        return passthrough.passthrough(self._host, self._inventory)

    @functools.cached_property
    def acs(self) -> Section:
        """The access control services of PCIe bridges."""
        return acs_facts.acs(self._host)

    @functools.cached_property
    def services(self) -> Section:
        """NVIDIA's services."""
        version = self.driver.facts["version"]
        return services.services(self._host, self._asked("packages"), self._asked("units"), version)

    @functools.cached_property
    def runtimes(self) -> Section:
        """Container runtimes."""
        return runtimes.runtimes(self._host, self._asked("packages"), self._asked("units"))

    @functools.cached_property
    def xid(self) -> Section:
        """Errors in the kernel log."""
        return kernel_log.xid(*self._pending["xid"].result())

    @functools.cached_property
    def hugepages(self) -> Section:
        """Huge pages."""
        return memory.hugepages(self._host)

    @functools.cached_property
    def numa(self) -> Section:
        """NUMA nodes."""
        return memory.numa(self._host)

    @functools.cached_property
    def node(self) -> Section:
        """The host as a node of a cluster."""
        return node.node(self._host)

    @functools.cached_property
    def files(self) -> Section:
        """The files that say how far the roles of this collection have come."""
        return services.files(self._host)

    @functools.cached_property
    def reboot(self) -> Section:
        """Whether the host needs a reboot."""
        return kernel.reboot(self._host, self.kernel.facts, self.nouveau.facts, self.driver.facts)

    def _asked(self, name: str) -> Output:
        return t.cast(Output, self._pending[name].result())

    def _output(self, name: str) -> Output | None:
        return self._asked(name) if name in self._pending else None


def gather(
    host: Host, requested: t.Sequence[str], timeout_s: float, container_root: str = driver.CONTAINER_ROOT
) -> Json:
    """Gather the facts of the subsets that ``gather_subset`` requests."""
    return Gatherer(host, select_subsets(requested), timeout_s, container_root).gather()
