# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""All facts of a GPU host: which subsets there are, what each needs, and gathering them in one pass.

Whatever waits for another process runs beside the rest: NVML in a child, commands in threads. Nothing here fails because a source does.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver as _driver
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import kernel as _kernel
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import memory
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import runtimes as _runtimes
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import services as _services
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import xid as _xid
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import merge, nvml, pci, smi
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.readings import Readings
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import Section, either
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# Each subset and the top-level facts that it returns.
SUBSETS: dict[str, tuple[str, ...]] = {
    "pci": ("gpus", "nvswitches"),
    "gpus": ("gpus", "nvswitches"),
    "driver": ("driver",),
    "nouveau": ("nouveau",),
    "initramfs": ("nouveau",),
    "kernel": ("kernel",),
    "secure_boot": ("secure_boot",),
    "iommu": ("iommu",),
    "services": ("services",),
    "runtimes": ("runtimes",),
    "xid": ("xid",),
    "hugepages": ("hugepages",),
    "numa": ("numa",),
    "reboot": ("reboot",),
}
MINIMUM = frozenset({"pci", "driver", "nouveau", "kernel"})
ONLY_BY_NAME = frozenset({"initramfs"})
"""Subsets that ``all`` leaves out because they take seconds."""


def chosen(asked: t.Sequence[str]) -> set[str]:
    """Return the subsets that ``gather_subset`` asks for. It reads as in ``setup``, whose own code would bring all of its collectors along."""
    unknown = [name for name in asked if name.lstrip("!") not in (*SUBSETS, "all", "min")]
    if unknown:
        raise GpuOpsError(
            f"There is no subset {', '.join(unknown)}. gather_subset knows all, min, {', '.join(SUBSETS)}, each also with a ! before it."
        )
    groups = {"all": set(SUBSETS) - ONLY_BY_NAME, "min": set(MINIMUM)}
    named = {name for name in asked if name in SUBSETS}
    wanted = named | groups["min"] | (groups["all"] if "all" in asked else set())
    refused = {name[1:] for name in asked if name.startswith("!")}
    refused |= (groups["all"] - groups["min"] if "all" in refused else set()) | (
        groups["min"] if "min" in refused else set()
    )
    return wanted - (refused - named)


_NO_DRIVER = "The module nvidia is not loaded"


class Gatherer:
    """Gathers facts once each, when first asked for."""

    def __init__(self, host: Host, subsets: t.Collection[str], timeout_s: float) -> None:
        self._host = host
        self._subsets = subsets
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        # The child first: forking a process with threads is a gamble.
        self._child = self._start_nvml()
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=4)
        self._pending: dict[str, concurrent.futures.Future[t.Any]] = {}
        if {"services", "runtimes"} & set(subsets):
            self._pending["packages"] = self._pool.submit(_services.package_query, host)
            self._pending["units"] = self._pool.submit(_services.unit_query, host)
        if "xid" in subsets:
            self._pending["xid"] = self._pool.submit(_xid.kernel_log, host)
        if "gpus" in subsets and self._child is None and self._driver_loaded:
            self._pending["smi"] = self._pool.submit(self._ask_smi)

    def gather(self) -> Json:
        """Return the facts of the chosen subsets, and where each came from."""
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
        return _driver.is_loaded(self._host)

    @functools.cached_property
    def _root(self) -> str:
        return _driver.driver_root(self._host)

    @functools.cached_property
    def _cmdline(self) -> list[str]:
        return _kernel.split_arguments(self._host.read("/proc/cmdline") or "")

    @functools.cached_property
    def _inventory(self) -> pci.Inventory:
        return pci.scan(self._host)

    def _start_nvml(self) -> nvml.Child | None:
        if "gpus" not in self._subsets or not nvml.HAS_PYNVML or not self._driver_loaded:
            return None
        library = _driver.library(self._host, self._root) if self._root else None
        return nvml.Child(self._host.path(library) if library else None)

    def _ask_smi(self) -> Readings:
        return smi.read(self._host, self._root, max(0.1, self._deadline - time.monotonic()))

    @functools.cached_property
    def _readings(self) -> Readings:
        if "gpus" not in self._subsets:
            return Readings("sysfs", reason="The subset gpus was not gathered")
        if not self._driver_loaded:
            return Readings("sysfs", reason=_NO_DRIVER)
        if self._child is None:
            return t.cast(Readings, self._pending["smi"].result())
        readings = self._child.answer(self._deadline)
        # A library of its own version, or none: nvidia-smi may lie elsewhere. One that hangs would hang nvidia-smi too.
        if readings.gpus or readings.reason is None or readings.timed_out:
            return readings
        others = self._ask_smi()
        return others if others.gpus else dataclasses.replace(readings, reason=f"{readings.reason}; {others.reason}")

    @functools.cached_property
    def gpus(self) -> Section:
        """GPUs."""
        return merge.merge(self._inventory, self._readings)

    @functools.cached_property
    def nvswitches(self) -> Section:
        """NVSwitches."""
        return pci.nvswitches(self._inventory)

    @functools.cached_property
    def driver(self) -> Section:
        """The driver."""
        return _driver.driver(self._host)

    @functools.cached_property
    def nouveau(self) -> Section:
        """The driver nouveau."""
        section = _driver.nouveau(self._host, self._cmdline)
        if "initramfs" not in self._subsets:
            return section
        kernel = self.kernel.facts["next_boot"] or self.kernel.facts["running"]
        found, source = _driver.nouveau_in_initramfs(self._host, kernel)
        return Section(
            {**section.facts, "in_initramfs": found}, {**section.sources, "in_initramfs": either(found, source, source)}
        )

    @functools.cached_property
    def kernel(self) -> Section:
        """The kernel."""
        return _kernel.kernel(self._host)

    @functools.cached_property
    def secure_boot(self) -> Section:
        """Secure boot."""
        return _kernel.secure_boot(self._host)

    @functools.cached_property
    def iommu(self) -> Section:
        """The IOMMU."""
        return pci.iommu(self._host, self._inventory, self._cmdline)

    @functools.cached_property
    def services(self) -> Section:
        """NVIDIA's services."""
        return _services.services(
            self._host, self._output("packages"), self._output("units"), self.driver.facts["version"]
        )

    @functools.cached_property
    def runtimes(self) -> Section:
        """Container runtimes."""
        return _runtimes.runtimes(self._host, self._output("packages"), self._output("units"))

    @functools.cached_property
    def xid(self) -> Section:
        """Errors in the kernel log."""
        return _xid.xid(*self._pending["xid"].result())

    @functools.cached_property
    def hugepages(self) -> Section:
        """Huge pages."""
        return memory.hugepages(self._host)

    @functools.cached_property
    def numa(self) -> Section:
        """NUMA nodes."""
        return memory.numa(self._host)

    @functools.cached_property
    def reboot(self) -> Section:
        """Whether a reboot is due."""
        return _kernel.reboot(self._host, self.kernel.facts, self.nouveau.facts, self.driver.facts)

    def _output(self, name: str) -> Output:
        return t.cast(Output, self._pending[name].result())


def gather(host: Host, subsets: t.Collection[str], timeout_s: float) -> Json:
    """Gather the facts of the chosen subsets."""
    return Gatherer(host, subsets, timeout_s).gather()
