# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Huge pages and NUMA nodes."""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, known_if
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number

_HUGEPAGES = "/sys/kernel/mm/hugepages"
_NODES = "/sys/devices/system/node"


def hugepages(host: Host) -> Section:
    """Return the huge pages of every size, and when the kernel uses transparent huge pages."""
    sizes = []
    for name in host.names(_HUGEPAGES):
        size = re.fullmatch(r"hugepages-(\d{1,20})kB", name)
        if size:
            total = whole_number(host.read(f"{_HUGEPAGES}/{name}/nr_hugepages"))
            free = whole_number(host.read(f"{_HUGEPAGES}/{name}/free_hugepages"))
            sizes.append({"size_kib": int(size[1]), "total": total, "free": free})
    transparent = re.search(r"\[(\w+)\]", host.read("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    return Section(
        {
            "sizes": sorted(sizes, key=lambda entry: entry["size_kib"] or 0),
            "transparent": transparent[1] if transparent else None,
        },
        {
            "sizes": known_from("sysfs"),
            "transparent": known_if(transparent, "sysfs", "This kernel has no transparent huge pages"),
        },
    )


def numa(host: Host) -> Section:
    """Return the NUMA nodes with their CPUs, and whether the kernel moves memory between the nodes."""
    nodes = []
    for name in host.names(_NODES):
        if re.fullmatch(r"node\d{1,20}", name):
            found = re.search(r"MemTotal:\s+(\d+) kB", host.read(f"{_NODES}/{name}/meminfo") or "")
            memory = whole_number(found[1]) if found else None
            nodes.append(
                {
                    "id": int(name[4:]),
                    "cpus": host.read(f"{_NODES}/{name}/cpulist"),
                    "memory_mib": None if memory is None else memory // 1024,
                }
            )
    balancing = host.read("/proc/sys/kernel/numa_balancing")
    return Section(
        {
            "nodes": sorted(nodes, key=lambda node: node["id"]),
            "balancing": None if balancing is None else balancing != "0",
        },
        {"nodes": known_from("sysfs"), "balancing": known_if(balancing, "procfs", "This kernel has no NUMA balancing")},
    )
