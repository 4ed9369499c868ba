# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.memory import hugepages, numa
from inline_snapshot import snapshot as wording

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost


def test_huge_pages(tmp_path: Path) -> None:
    for size, total in (("1048576", "4"), ("2048", "1024")):
        write(tmp_path / f"sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages", f"{total}\n")
        write(tmp_path / f"sys/kernel/mm/hugepages/hugepages-{size}kB/free_hugepages", "3\n")
    write(tmp_path / "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    section = hugepages(FakeHost(tmp_path))
    assert section.facts == {
        "sizes": [{"size_kib": 2048, "total": 1024, "free": 3}, {"size_kib": 1048576, "total": 4, "free": 3}],
        "transparent": "madvise",
    }


def test_numa_nodes(tmp_path: Path) -> None:
    for node in (10, 2):
        write(tmp_path / f"sys/devices/system/node/node{node}/cpulist", f"{node}-{node + 1}\n")
        write(tmp_path / f"sys/devices/system/node/node{node}/meminfo", f"Node {node} MemTotal:       2097152 kB\n")
    write(tmp_path / "sys/devices/system/node/online", "2,10\n")
    write(tmp_path / "proc/sys/kernel/numa_balancing", "2\n")
    assert numa(FakeHost(tmp_path)).facts == {
        "nodes": [{"id": 2, "cpus": "2-3", "memory_mib": 2048}, {"id": 10, "cpus": "10-11", "memory_mib": 2048}],
        "balancing": True,
    }


def test_a_kernel_without_either(tmp_path: Path) -> None:
    pages, nodes = hugepages(FakeHost(tmp_path)), numa(FakeHost(tmp_path))
    assert (pages.facts, nodes.facts) == ({"sizes": [], "transparent": None}, {"nodes": [], "balancing": None})
    assert pages.sources["transparent"]["reason"] == wording("This kernel has no transparent huge pages")
    assert nodes.sources["balancing"]["reason"] == wording("This kernel has no NUMA balancing")


def test_a_number_of_thousands_of_digits_is_unknown_and_fails_nothing(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "9" * 6000)
    host.put("/sys/devices/system/node/node0/meminfo", f"Node 0 MemTotal:  {'9' * 6000} kB\n")
    assert hugepages(host).facts["sizes"] == [{"size_kib": 2048, "total": None, "free": None}]
    [node] = numa(host).facts["nodes"]
    assert (node["id"], node["memory_mib"]) == (0, None)
