# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts whose GPUs are for virtual machines: prepared, rebooted and proved by one word, and back to containers."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts write their initramfs and boot menu, and reboot")

GUESTS = {"gpuops_workload_kind": "vm-passthrough", "host_change_allowed": True}
CONTAINERS = {"gpuops_workload_kind": "container", "host_change_allowed": True}


def settings(host: ContainerHost) -> str:
    """Return what the kind sets: modules to load, and arguments of the next boot."""
    loads = host.shell("cat /etc/modules-load.d/*.conf 2>/dev/null || true")
    arguments = host.shell("cat /etc/default/grub.d/*.cfg /boot/loader/entries/*.conf 2>/dev/null || true")
    return f"{loads}\n{arguments}"


def facts(plays: Plays, host: ContainerHost) -> dict[str, t.Any]:
    return plays.facts(host, "iommu", "passthrough", "reboot")


@pytest.mark.wide
@pytest.mark.parametrize("flavours", [("debian",), ("ubuntu", "rhel")], ids=" ".join)
def test_a_host_goes_to_virtual_machines_and_back(tmp_path: Path, flavours: tuple[str, ...]) -> None:
    with running_containers("guests", dict.fromkeys(flavours, 1)) as hosts:
        plays = Plays(hosts, tmp_path)
        first = plays.run("host_prep", "host_change", **CONTAINERS)
        assert first.status == 0, first.output
        before = {host.name: settings(host) for host in plays.hosts}
        for host in plays.hosts:
            assert facts(plays, host)["iommu"]["enabled"] is False

        plays.converge("host_prep", "host_change", **GUESTS)
        for host in plays.hosts:
            found = facts(plays, host)
            assert found["iommu"]["enabled"] and found["iommu"]["mode"] == "translated"
            assert len({row["group"] for row in found["iommu"]["gpu_groups"]}) == 2
            assert found["passthrough"]["modules"]["vfio_pci"] == "loaded"
            assert not found["reboot"]["required"]
            assert {"vfio-pci", "vfio_iommu_type1"} <= set(settings(host).split())

        plays.converge("host_prep", "host_change", **CONTAINERS)
        for host in plays.hosts:
            assert settings(host) == before[host.name]
            assert facts(plays, host)["iommu"]["enabled"] is False


def test_a_host_is_judged_and_prepared_for_its_kind(tmp_path: Path) -> None:
    with running_containers("judged", {"debian": 1}) as hosts:
        plays = Plays(hosts, tmp_path)
        [host] = plays.hosts
        judged = plays.run("preflight/hosts", **GUESTS)
        assert judged.status == 0, judged.output
        for words in ("IOMMU is off", "nouveau is loaded"):
            assert words in judged.output
        for refused, word in ({"host_prep_acs": False}, "ACS"), ({"host_prep_nouveau": True}, "nouveau"):
            run = plays.run("host_prep", **GUESTS, **refused)
            assert (run.status, run.changed) == (2, 0) and word in run.message, run.output
        predicted = plays.run("host_prep", arguments=["--check", "--diff"], **GUESTS)
        assert predicted.status == 0 and predicted.changed > 0, predicted.output
        assert "intel_iommu=on" in predicted.output and "vfio_iommu_type1" in predicted.output, predicted.output

        host.shell("mv /lib/modules/$(uname -r)/kernel/drivers/vfio /srv && depmod")
        stopped = plays.run("preflight/hosts", **GUESTS)
        assert stopped.status == 2, stopped.output
        assert "has no module vfio_pci and no vfio_iommu_type1" in stopped.message
        assert plays.run("preflight/hosts", **CONTAINERS).status == 0
