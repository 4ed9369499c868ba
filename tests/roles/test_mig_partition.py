# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role mig_partition on hosts with the simulated NVML in place of the driver's library, and a real systemd."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

import lab.nvml.smi
from lab.hosts import Machine
from lab.hosts.containers.hosts import ContainerHost
from lab.nvml import A100, H100, Gpu, build, machine, read, reboot, state
from tests.support import drivers
from tests.support.hosts import running_containers
from tests.support.plays import Plays

LIBRARY = f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{drivers.VERSION}"
STATE = "/var/lib/nvml.state"
WITHOUT_NOUVEAU = "modprobe.blacklist=nouveau rd.driver.blacklist=nouveau"
UNIT = "gpuops-mig-partition.service"
LAYOUT = [
    {"gpus": ["0"], "instances": {"1g.10gb": 2, "1c.3g.40gb": 3}},
    {"gpus": ["1"], "placements": [{"profile": "1g.10gb", "start": 6}]},
]


def addressed(host: ContainerHost, gpus: list[Gpu]) -> list[Gpu]:
    """Put the simulated GPUs where the host's PCI bus has them."""
    found = host.shell("cd /sys/bus/pci/devices && grep --files-with-matches 0x030200 */class").split()
    for gpu, path in zip(gpus, found, strict=True):
        gpu.keys["pci"] = f"0000{path.partition('/')[0]}"
    return gpus


def copy(host: ContainerHost, source: Path, target: str) -> None:
    host.podman("cp", str(source), f"{host.name}:{target}")


def instances(host: ContainerHost, folder: Path) -> list[list[tuple[str, int, int]]]:
    """Return profile, start and number of compute instances of each GPU instance, as the simulated driver has them."""
    host.podman("cp", f"{host.name}:{STATE}", str(folder / host.name))
    return [
        sorted((each.profile, each.start, 1 if each.compute is None else len(each.compute)) for each in gpu.instances)
        for gpu in read(folder / host.name)
    ]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """A host with two A100, which keep their mode over a reboot, and one with two H100, which do not."""
    folder = tmp_path_factory.mktemp("mig")
    library = build(folder)
    with running_containers("mig", {}) as hosts:
        hosts.up({"debian": 1}, Machine(model="a100-sxm"))
        hosts.up({"debian": 2}, Machine())
        plays = Plays(hosts, folder)
        for host, model in zip(plays.hosts, (A100, H100), strict=True):
            drivers.install_with_apt(host)
            host.shell(f"sed --in-place 's/^[[:space:]]*linux[[:space:]].*/& {WITHOUT_NOUVEAU}/' /boot/grub/grub.cfg")
            copy(host, library, LIBRARY)
            copy(host, Path(lab.nvml.smi.__file__), "/usr/local/bin/nvidia-smi")
            host.shell("chmod 755 /usr/local/bin/nvidia-smi")
            copy(host, state(folder / "new.state", addressed(host, machine(model, 2))), STATE)
        yield plays


def test_a_layout_is_made_and_survives_a_reboot(plays: Plays, tmp_path: Path) -> None:
    """Check and run change every host, and the rerun none; neither does one after a reboot."""
    plays.converge("mig_partition", mig_partition_layout=LAYOUT)
    made = {host.name: instances(host, tmp_path) for host in plays.hosts}
    assert [[len(gpu) for gpu in gpus] for gpus in made.values()] == [[3, 1], [3, 1]]
    for host in plays.hosts:
        host.podman("cp", f"{host.name}:{STATE}", str(tmp_path / "state"))
        reboot(tmp_path / "state")
        assert [gpu.instances for gpu in read(tmp_path / "state")] == [[], []]
        copy(host, tmp_path / "state", STATE)
        host.reboot()
        assert drivers.unit_state(host, UNIT) == "active"
    assert {host.name: instances(host, tmp_path) for host in plays.hosts} == made
    assert plays.run("mig_partition", mig_partition_layout=LAYOUT).changed == 0
