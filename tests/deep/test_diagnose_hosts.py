# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""diagnose.yml over GPU hosts that are nodes of a cluster: what only a host can tell is named by its node.

One host of five is well at all times, so that a finding on it is a false positive. A container cannot read the kernel
log, and its clock is not synchronized: the first is a file of rsyslog here, and the second is known beforehand.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, Options
from lab.hosts import Machine
from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers
from tests.support.ansible import ROOT
from tests.support.hosts import running_containers
from tests.support.labs import running_lab
from tests.support.plays import Plays

pytestmark = pytest.mark.deep

PLAYBOOK = ROOT / "playbooks" / "diagnose.yml"
KNOWN = {"HostPreflightHostClock"}
OTHER_VERSION = "580.105.08"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"

LOST = (
    "NVRM: Xid (PCI:{address}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: GPU {address}.0: GPU has fallen off the bus.",
)
"""What a driver says, from https://github.com/leptonai/gpud/blob/main/components/accelerator/nvidia/sxid/README.md."""

FAULTS = {
    0: "NouveauHoldsGPU",
    1: "FabricManagerMismatch",
    2: "XidOffTheBus",
    3: "DriverLibraryMismatch",
}
"""What is found on the node of this number. The node after them is well."""


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """Five machines with NVSwitches, the driver and its fabric manager, each of which is a node of a ready stack."""
    with (
        running_lab("diagnosehosts", Options(nodes=len(FAULTS) + 1)) as lab,
        running_containers("diagnose", {"debian": len(FAULTS) + 1}, Machine(nvswitches=2)) as hosts,
    ):
        plays = Plays(hosts, tmp_path_factory.mktemp("plays"), lab)
        for host in plays.hosts:
            drivers.install_with_apt(host)
            host.shell(f"apt-get --quiet --yes install nvidia-fabricmanager={drivers.VERSION}-1")
            host.shell("systemctl enable --now nvidia-fabricmanager")
            _become_node(lab, host, plays.node(host.name))
        lab.deploy(f"--set=driver.version={drivers.VERSION}")
        yield plays


def _become_node(lab: Lab, host: ContainerHost, node: str) -> None:
    """Let a node report the machine ID of a host, as a kubelet on it would."""
    patch = {"status": {"nodeInfo": {"machineID": host.read("/etc/machine-id").strip()}}}
    lab.kubectl("patch", "node", node, "--subresource=status", "--type=merge", f"--patch={json.dumps(patch)}")


def diagnosed(plays: Plays, folder: Path) -> tuple[dict[str, t.Any], str]:
    """Run the playbook. Return its result, and what it shows."""
    state = folder / "state.json"
    run = plays.playbook(PLAYBOOK, limit="gpu_hosts,localhost", diagnose_state_path=str(state))
    assert run.status == 0, run.output
    return json.loads(state.read_text()), run.output


def codes(result: dict[str, t.Any]) -> dict[str, list[str]]:
    """Return the nodes of each finding by its code, without what is known of every container."""
    return {each["code"]: each["nodes"] for each in result["findings"] if each["code"] not in KNOWN}


def test_hosts_that_are_well_have_no_finding(plays: Plays, tmp_path: Path) -> None:
    result, output = diagnosed(plays, tmp_path)
    assert (codes(result), result["gaps"]) == ({}, []), output


def test_faults_of_hosts_are_found_on_their_nodes_and_nothing_else(plays: Plays, tmp_path: Path) -> None:
    nouveau, manager, lost, mixed, well = plays.hosts
    nouveau.shell("systemctl stop nvidia-fabricmanager nvidia-persistenced; rmmod nvidia && modprobe nouveau")
    manager.shell(f"apt-get --quiet --yes install nvidia-fabricmanager={OTHER_VERSION}-1")
    manager.shell("systemctl restart nvidia-fabricmanager || true")
    address = lost.shell("ls /sys/bus/pci/drivers/nvidia | grep --max-count=1 :").strip().partition(".")[0]
    now = lost.shell("date --iso-8601=seconds").strip()
    lines = [f"{now} gpu kernel: [  387.2] {line.format(address=address)}\n" for line in LOST]
    lost.shell(f"cat > /var/log/kern.log <<'END'\n{''.join(lines)}END")
    for library in ("libnvidia-ml.so", "libcuda.so"):
        mixed.shell(f"cd {LIBRARIES} && mv {library}.{drivers.VERSION} {library}.{OTHER_VERSION}")
        mixed.shell(f"ln --symbolic --force {library}.{OTHER_VERSION} {LIBRARIES}/{library}.1")

    result, output = diagnosed(plays, tmp_path)

    found = codes(result)
    expected = {code: [plays.node(plays.hosts[number].name)] for number, code in FAULTS.items()}
    lacking = [code for code, nodes in expected.items() if found.get(code) != nodes]
    more = sorted(found.keys() - expected.keys())
    print(f"{len(FAULTS)} faults of hosts: {len(lacking)} missed {lacking}, {len(more)} false positives {more}")
    assert (lacking, more) == ([], []), output
    assert plays.node(well.name) not in {node for nodes in found.values() for node in nodes}
    for each in result["findings"]:
        assert each["title"] in output and each["remedy"], each


def test_a_host_that_is_gone_is_a_gap_and_the_others_are_examined(plays: Plays, tmp_path: Path) -> None:
    gone = plays.hosts[-1]
    gone.podman("stop", "--time", "0", gone.name)
    result, output = diagnosed(plays, tmp_path)
    assert set(codes(result)) >= set(FAULTS.values()), output
    assert {gap["what"] for gap in result["gaps"]} >= {f"the host {gone.name}"}, result["gaps"]
