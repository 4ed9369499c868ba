# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml over hosts that are unreachable, unfit, broken and sound, as nodes of a cluster.

tests/integration/test_rollout.py has more hosts, with small roles in place of the collection's.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab, Options
from lab.hosts.containers.hosts import ContainerHost
from tests.support.ansible import Run
from tests.support.drivers import DRIVER
from tests.support.hosts import become_opensuse, running_containers
from tests.support.labs import running_lab
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("site.yml installs a driver and reboots hosts, with the real roles")

NO_MODULE = "/etc/modprobe.d/broken.conf"
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[Lab]:
    """A cluster with empty nodes."""
    with running_lab("site", Options(nodes=4, operator="none", pods="instant")) as lab:
        yield lab


def held(lab: Lab, node: str) -> tuple[bool, list[str]]:
    """Return whether a node is cordoned, and the keys of its taints."""
    spec = json.loads(lab.kubectl("get", "node", node, "--output=json"))["spec"]
    return bool(spec.get("unschedulable")), [taint["key"] for taint in spec.get("taints", [])]


def report(run: Run) -> list[str]:
    """Return the report that a run shows, with the first words of each reason."""
    shown = re.findall(
        r"TASK \[Show how far the hosts are\][^\n]*\nok: [^\n]*\n    \"msg\": (\[.*?\n    \])", run.output, re.S
    )
    return [" ".join(line.split()[:6]) for line in json.loads(shown[-1])]


def has_driver(host: ContainerHost) -> bool:
    return bool(re.search(r"^nvidia ", host.run("lsmod"), re.M))


@pytest.mark.parametrize("sound_hosts", [1, pytest.param(2, marks=pytest.mark.wide)])
def test_a_fleet_gets_its_driver_except_for_the_hosts_that_cannot(
    cluster: Lab, tmp_path: Path, sound_hosts: int
) -> None:
    """Two hosts are unreachable, one fails the preflight, and the driver of one cannot be loaded."""
    with running_containers("site", {"ubuntu": 2 + sound_hosts}) as hosts:
        plays = Plays(hosts, tmp_path, cluster, timeout=900)
        unfit, broken, sound, *others = plays.hosts
        become_opensuse(unfit)
        broken.shell(f"echo 'install nvidia /bin/false' > {NO_MODULE}")
        inventory = yaml.safe_load((tmp_path / "inventory.yml").read_text())
        inventory["gpu_hosts"]["hosts"] = {"gone-1": GONE, "gone-2": GONE}
        (tmp_path / "inventory.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
        file = tmp_path / "rollout.yml"
        settings = {
            **DRIVER,
            "host_change_allowed": True,
            "host_change_timeout": 60,
            "gpuops_canary": [sound.name],
            "gpuops_serial": "100%",
            "gpuops_max_failed": 4,
            "gpuops_rollout_file": str(file),
        }

        run = plays.site(**settings)

        assert run.status != 0 and "Traceback" not in run.output, run.output
        assert [has_driver(host) for host in plays.hosts] == [False, False, *[True] * sound_hosts], run.output
        assert {name: entry["state"] for name, entry in yaml.safe_load(file.read_text())["hosts"].items()} == {
            unfit.name: "left out",
            broken.name: "failed",
            **{host.name: "done" for host in (sound, *others)},
            "gone-1": "left out",
            "gone-2": "left out",
        }, run.output
        assert report(run)[-1] == f"{4 + sound_hosts} hosts: {sound_hosts} changed, 1 failed,"
        assert [host for host in plays.hosts if held(cluster, plays.node(host.name))[0]] == [broken]
        for name in (unfit.name, broken.name, "gone-1", "gone-2"):
            assert re.search(rf"^fatal: \[{name}\]: FAILED! => .*{name} (failed|was left out): ", run.output, re.M), (
                name
            )
