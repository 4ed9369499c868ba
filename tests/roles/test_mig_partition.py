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
from lab.nvml import A100, H100, Gpu, build, machine, read, state
from tests.support import drivers
from tests.support.ansible import ROOT
from tests.support.hosts import running_containers
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts are divided and reboot")

LIBRARY = f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{drivers.VERSION}"
STATE = "/var/lib/nvml.state"
WITHOUT_NOUVEAU = "modprobe.blacklist=nouveau rd.driver.blacklist=nouveau"
UNIT = "gpuops-mig-partition.service"
# What a boot does to the GPUs, before the unit that restores the layout.
BOOT = f"""
[Unit]
Before={UNIT}
[Service]
Type=oneshot
Environment=PYTHONPATH=/opt
ExecStart=python3 -c 'from pathlib import Path; from lab.nvml.statefile import reboot; reboot(Path("{STATE}"))'
ExecStartPost=touch /run/gpus-booted
[Install]
WantedBy=multi-user.target
"""
HOLDER = "holder.service"
# A program without work on the GPUs that holds them open, as DCGM does, so that the driver cannot reset them.
HOLDS = f"""
[Service]
ExecStartPre=touch /dev/nvidia0 /dev/nvidia1
ExecStartPre=sed --in-place "/^\\[gpu\\]/a mig_reset_required=1" {STATE}
ExecStart=sh -c "exec sleep infinity 3< /dev/nvidia0 4< /dev/nvidia1"
ExecStopPost=sed --in-place "/^mig_reset_required=/d" {STATE}
"""
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
            add_units(host)
        yield plays


def add_units(host: ContainerHost) -> None:
    host.shell("mkdir --parents /opt/lab")
    for path in (ROOT / "lab" / name for name in ("__init__.py", "errors.py", "nvml")):
        copy(host, path, "/opt/lab/")
    for name, text in (("lab-boot.service", BOOT), (HOLDER, HOLDS)):
        host.shell(f"cat > /etc/systemd/system/{name} << 'END'{text}END")
    host.shell("systemctl daemon-reload; systemctl --quiet enable lab-boot.service")


def test_a_layout_is_made_and_survives_a_reboot(plays: Plays, tmp_path: Path) -> None:
    """Check and run change every host, and the rerun none; neither does one after a reboot."""
    plays.converge("mig_partition", mig_partition_layout=LAYOUT)
    made = {host.name: instances(host, tmp_path) for host in plays.hosts}
    assert [[len(gpu) for gpu in gpus] for gpus in made.values()] == [[3, 1], [3, 1]]
    for host in plays.hosts:
        host.reboot()
        assert drivers.unit_state(host, UNIT) == "active"
        host.shell("test -e /run/gpus-booted")
    assert {host.name: instances(host, tmp_path) for host in plays.hosts} == made
    assert plays.run("mig_partition", mig_partition_layout=LAYOUT).changed == 0


@pytest.mark.deep
def test_a_program_on_the_gpus_is_named_and_then_stopped_or_outlived(plays: Plays, tmp_path: Path) -> None:
    """An A100 takes another mode at its next reset, which needs that nobody uses it, or a reboot."""
    host = plays.hosts[0]
    off = plays.run("mig_partition", limit=host.name, mig_partition_layout=[{"mode": "disabled"}])
    assert off.status == 0 and instances(host, tmp_path) == [[], []], off.output
    on: dict[str, t.Any] = {"limit": host.name, "mig_partition_layout": [{"instances": {"3g.40gb": 2}}]}

    host.shell(f"systemctl start {HOLDER}")
    held = plays.run("mig_partition", **on)
    program = host.shell(f"systemctl show --property MainPID --value {HOLDER}").strip()
    assert held.status == 0 and f"{program} (sleep, root)" in held.output, held.output
    assert instances(host, tmp_path) == [[], []]
    boot = host.boot_id
    rebooted = plays.run("mig_partition", mig_partition_reboot=True, **on)
    assert rebooted.status == 0 and host.boot_id != boot, rebooted.output
    assert [len(gpu) for gpu in instances(host, tmp_path)] == [2, 2]

    host.shell(f"systemctl start {HOLDER}")
    options = {**on, "mig_partition_layout": [{"mode": "disabled"}], "mig_partition_stop_services": [HOLDER]}
    predicted = plays.run("mig_partition", arguments=["--check"], **options)
    assert predicted.status == 0 and predicted.changed > 0, predicted.output
    assert [len(gpu) for gpu in instances(host, tmp_path)] == [2, 2]
    done = plays.run("mig_partition", **options)
    assert done.status == 0 and instances(host, tmp_path) == [[], []], done.output
    again = host.shell(f"systemctl show --property MainPID --value {HOLDER}").strip()
    assert again not in (program, "0"), "The service runs again."
    rerun = plays.run("mig_partition", **options)
    assert (rerun.status, rerun.changed) == (0, 0), rerun.output
