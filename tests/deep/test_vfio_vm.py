# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine gives its GPUs to virtual machines and takes them back: a real IOMMU, a real boot and the real vfio-pci."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.proof import prove

from lab.hosts import VmHost
from tests.support.plays import Plays

SUBSETS = ("pci", "driver", "kernel", "nouveau", "iommu", "passthrough", "acs", "xid", "reboot")
# The disk is too small for a driver container.
WANTED: dict[str, t.Any] = {
    "host_change_allowed": True,
    "host_change_timeout": 900,
    "preflight_tolerate": ["host_disk"],
}


def proof(facts: dict[str, t.Any], bound: bool) -> dict[str, t.Any]:
    """Return the outcome of the checks that a host of virtual machines has for itself."""
    given = {"facts": facts, "driver": "none", "before": {}, "skip": [], "workload_kind": "vm-passthrough"}
    found = prove({**given, "expected": {"bound": bound}})["findings"]
    own = ("proof_iommu", "proof_iommu_groups", "proof_binding")
    return {finding["check"]: finding["result"] for finding in found if finding["check"] in own}


def held_by(facts: dict[str, t.Any]) -> list[str | None]:
    return [row["bound_driver"] for row in facts["passthrough"]["devices"] if row["kind"] == "gpu"]


def test_gpus_go_to_vfio_and_come_back(vm_host: VmHost, tmp_path: Path) -> None:
    plays = Plays(vm_host, tmp_path, timeout=1800)
    guests, containers = ({**WANTED, "gpuops_workload_kind": kind} for kind in ("vm-passthrough", "container"))

    before = plays.facts(vm_host, *SUBSETS)
    assert (before["iommu"]["enabled"], before["iommu"]["firmware_tables"]) == (False, ["DMAR"])
    assert before["passthrough"]["guest"] is True
    assert before["passthrough"]["modules"]["vfio_pci"] == "available"
    assert before["nouveau"]["loaded"] and "intel_iommu=off" in before["kernel"]["cmdline"]
    # nouveau refuses the test devices of qemu, so that they have no driver.
    assert held_by(before) == [None, None]
    assert proof(before, bound=False) == {
        "proof_iommu": "failed",
        "proof_iommu_groups": "unknown",
        "proof_binding": "passed",
    }

    changed = plays.site(**guests)
    assert changed.status == 0, changed.output
    assert vm_host.boots == 2
    facts = plays.facts(vm_host, *SUBSETS)
    groups = [row["group"] for row in facts["iommu"]["gpu_groups"]]
    assert len(set(groups)) == 2 and None not in groups
    assert facts["iommu"]["mode"] == "translated"
    assert facts["passthrough"]["modules"]["vfio_pci"] == "loaded"
    assert held_by(facts) == [None, None]
    assert proof(facts, bound=False) == dict.fromkeys(proof(facts, bound=False), "passed")
    assert proof(facts, bound=True)["proof_binding"] == "failed"

    # As NVIDIA's vfio manager does it.
    for gpu in (row["gpu"] for row in facts["iommu"]["gpu_groups"]):
        folder = f"/sys/bus/pci/devices/{gpu}"
        vm_host.shell(f"echo vfio-pci > {folder}/driver_override && echo {gpu} > /sys/bus/pci/drivers/vfio-pci/bind")
    bound = plays.facts(vm_host, *SUBSETS)
    assert held_by(bound) == ["vfio-pci", "vfio-pci"]
    assert {row["driver_override"] for row in bound["passthrough"]["devices"] if row["kind"] == "gpu"} == {"vfio-pci"}
    assert proof(bound, bound=True) == dict.fromkeys(proof(bound, bound=True), "passed")
    assert vm_host.shell("ls /dev/vfio").split() == [*sorted(map(str, groups)), "vfio"]

    back = plays.site(**containers)
    assert back.status == 0, back.output
    assert vm_host.boots == 3
    after = plays.facts(vm_host, *SUBSETS)
    assert after["iommu"]["enabled"] is False and after["kernel"]["cmdline"] == before["kernel"]["cmdline"]
    assert held_by(after) == [None, None]
    assert after["passthrough"]["modules"]["vfio_pci"] == "available"
    again = plays.site(**containers)
    assert (again.status, again.changed) == (0, 0), again.output
