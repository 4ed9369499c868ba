# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml over a fleet: who is left out, in which order the others change, what is reported, and how a run goes on.

The subject is site.yml itself, with Ansible's own rules for hosts that fail. The hosts are this machine under 16 names,
and small roles take the place of the collection's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.progress import LOST

from tests.support.ansible import ROOT, quicker

pytestmark = pytest.mark.slow("site.yml changes a fleet of sixteen hosts in batches")

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
NAMES = [f"gpu-{number:02}" for number in range(1, 17)]
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_ssh_retries": 0}
DO = "{{ inventory_hostname }} {{ 'check' if ansible_check_mode else 'run' }}"
UNFIT = "is not ready for GPUs. It has no GPU"
ROLES: dict[str, dict[str, list[dict[str, t.Any]]]] = {
    "preflight": {
        "main": [{"ansible.builtin.debug": {"msg": "cluster"}}],
        "hosts": [
            {
                "ansible.builtin.fail": {"msg": f"{{{{ inventory_hostname }}}} {UNFIT}."},
                "when": "unfit | default(false)",
            }
        ],
    },
    "host_prep": {"main": [{"ansible.builtin.command": "true", "changed_when": False}]},
    "host_driver": {"main": [{"ansible.builtin.command": "true", "changed_when": False}]},
    "host_change": {
        "plan": [
            {
                "ansible.builtin.stat": {"path": "{{ state }}/{{ inventory_hostname }}"},
                "register": "changed_before",
            },
            {
                "ansible.builtin.set_fact": {
                    "host_change_result": {
                        "state": "{{ 'none' if changed_before.stat.exists else 'due' }}",
                        "stage": "",
                        "node": "node-{{ inventory_hostname }}",
                    }
                }
            },
            {
                "ansible.builtin.group_by": {"key": "host_change_due"},
                "changed_when": False,
                "when": "not changed_before.stat.exists",
            },
        ],
        "main": [
            {
                "ansible.builtin.shell": "echo {{ inventory_hostname }} >> {{ state }}/begun && sleep {{ pause }}",
                "vars": {"pause": "{{ 60 if slow | default(false) else 0 }}"},
                "changed_when": False,
            },
            {"ansible.builtin.set_fact": GONE, "when": "dies | default(false)"},
            {"ansible.builtin.command": "true", "changed_when": False},
            {
                "ansible.builtin.fail": {"msg": "{{ inventory_hostname }}: the driver 580 did not come up."},
                "when": "broken | default(false)",
            },
            {
                "ansible.builtin.file": {
                    "path": "{{ state }}/{{ inventory_hostname }}",
                    "state": "touch",
                    "mode": "0644",
                },
            },
        ],
    },
    "operator": {
        "main": [{"ansible.builtin.debug": {"msg": "not waited for: {{ operator_exclude_nodes | default([]) }}"}}]
    },
    "verify": {"main": [{"ansible.builtin.debug": {"msg": "verified"}}]},
}
"""The roles' tasks. A host is changed once its file exists. What is wrong with a host: unfit, broken, dies, slow."""


@dataclass
class Fleet:
    """A fleet of 16 hosts, with what is wrong with each of them."""

    folder: Path
    wrong: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    variables: dict[str, t.Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "state").mkdir()
        for name in ("tasks", "parts"):
            (self.folder / "playbooks" / name).mkdir(parents=True)
        (self.folder / "playbooks" / "meta").symlink_to(ROOT / "playbooks" / "meta")
        # site.yml reads the specs of these roles here.
        (self.folder / "roles").symlink_to(ROOT / "roles")
        for path in [ROOT / "playbooks" / "site.yml", *(ROOT / "playbooks").glob("*s/*.yml")]:
            text = re.sub(r"(name|role): gpuops\.nvidia\.", r"\1: ", path.read_text())
            (self.folder / path.relative_to(ROOT)).write_text(text)
        for role, files in ROLES.items():
            tasks = self.folder / "playbooks" / "roles" / role / "tasks"
            tasks.mkdir(parents=True)
            for name, content in files.items():
                named = [{"name": f"{role} {name} {number}"} | task for number, task in enumerate(content)]
                (tasks / f"{name}.yml").write_text(yaml.safe_dump(named, sort_keys=False))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start site.yml."""
        hosts = {name: {"rack": "ab"[number % 2], **self.wrong.get(name, {})} for number, name in enumerate(NAMES)}
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        variables = {**here, "gpuops_driver": "host", "state": str(self.folder / "state"), **self.variables}
        (self.folder / "inventory.yml").write_text(
            yaml.safe_dump(
                {"gpu_hosts": {"hosts": hosts, "vars": variables}, "ungrouped": {"hosts": {"localhost": here}}}
            )
        )
        command = [ANSIBLE, "-i", self.folder / "inventory.yml", self.folder / "playbooks" / "site.yml", *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
            | quicker()
            | {
                "ANSIBLE_COLLECTIONS_PATH": str(Path(sys.prefix) / "share"),
                "ANSIBLE_ROLES_PATH": str(self.folder / "playbooks" / "roles"),
                "ANSIBLE_FORKS": "16",
                "ANSIBLE_NOCOLOR": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run site.yml and return its exit status and output."""
        process = self.start(*arguments)
        output = process.communicate(timeout=300)[0]
        assert "Traceback" not in output and "WARNING" not in output, output
        return process.returncode, output

    @property
    def begun(self) -> list[str]:
        """The hosts whose change has begun, in order, since the last look."""
        path = self.folder / "state" / "begun"
        names = path.read_text().split() if path.exists() else []
        path.write_text("")
        return names

    def written(self) -> dict[str, t.Any]:
        """Return the rollout file."""
        return t.cast("dict[str, t.Any]", yaml.safe_load((self.folder / "rollout.yml").read_text()))


def report(output: str) -> list[str]:
    """Return the lines of the last report that a run shows, with single spaces."""
    shown = re.findall(
        r"TASK \[Show how far the hosts are\][^\n]*\nok: [^\n]*\n    \"msg\": (\[.*?\n    \])", output, re.S
    )
    return [" ".join(line.split()) for line in json.loads(shown[-1])]


IN_BATCHES = {"gpuops_max_failed": "25%", "gpuops_serial": [2, "50%"], "gpuops_canary": 1, "gpuops_batch_by": "rack"}


def batches(output: str) -> list[str]:
    return re.findall(r"\(item=batch (\d+: .*?)\)", output)


REFUSED = "cannot be reached: Failed to connect to the host via ssh: ssh: connect to host 127.0.0.1 port 9: "


def test_a_host_that_is_out_is_reported_and_the_next_run_takes_it_along(tmp_path: Path) -> None:
    file = str(tmp_path / "rollout.yml")
    fleet = Fleet(tmp_path, {"gpu-03": GONE}, {**IN_BATCHES, "gpuops_rollout_file": file})
    four = ("--limit", "gpu-01,gpu-02,gpu-03,gpu-04,localhost")

    status, output = fleet.run("--check", *four)
    assert (status, fleet.begun, Path(file).exists()) == (2, [], False), output
    planned = batches(output)
    assert planned == ["1: gpu-01", "2: gpu-02, gpu-04"]

    status, output = fleet.run(*four)
    assert (status, batches(output)) == (2, planned), output
    begun = fleet.begun
    assert (begun[0], sorted(begun)) == ("gpu-01", ["gpu-01", "gpu-02", "gpu-04"])
    assert report(output)[1:] == [
        f"gpu-03 left out - {REFUSED}Connection refused",
        "4 hosts: 3 changed, 1 left out",
    ]

    fleet.wrong = {}
    status, output = fleet.run(*four)
    assert (status, batches(output)) == (0, ["1: gpu-03"]), output
    assert {entry["state"] for entry in fleet.written()["hosts"].values()} == {"done"}


@pytest.mark.wide
def test_a_fleet_changes_without_the_hosts_that_are_out_and_the_next_run_takes_them_along(tmp_path: Path) -> None:
    """Two hosts cannot be reached, one fails the preflight, and the driver of one does not come up."""
    wrong = {"gpu-03": GONE, "gpu-08": GONE, "gpu-05": {"unfit": True}, "gpu-10": {"broken": True}}
    file = str(tmp_path / "rollout.yml")
    fleet = Fleet(tmp_path, wrong, {**IN_BATCHES, "gpuops_rollout_file": file})

    status, output = fleet.run("--check", "--limit", "gpu-01,gpu-02,gpu-03,gpu-04,localhost")
    assert (status, fleet.begun, Path(file).exists()) == (2, [], False), output
    assert "1 of 4 hosts are out, and gpuops_max_failed allows 1" not in output
    assert batches(output) == ["1: gpu-01", "2: gpu-02, gpu-04"]
    assert report(output)[-1] == "4 hosts: 3 to be changed, 1 left out"

    status, output = fleet.run()
    planned = ["gpu-01", "gpu-07, gpu-09", "gpu-11, gpu-13, gpu-15", "gpu-02, gpu-04, gpu-06"]
    planned += ["gpu-10, gpu-12, gpu-14", "gpu-16"]
    assert status == 2, output
    assert batches(output) == [f"{number}: {hosts}" for number, hosts in enumerate(planned, 1)], output
    begun = fleet.begun
    for hosts in planned:
        together = hosts.split(", ")
        assert sorted(begun[: len(together)]) == together
        begun = begun[len(together) :]
    assert report(output) == [
        "NAME STATE BATCH REASON",
        f"gpu-03 left out - {REFUSED}Connection refused",
        f"gpu-05 left out - gpu-05 {UNFIT}",
        f"gpu-08 left out - {REFUSED}Connection refused",
        "gpu-10 failed 5 gpu-10: the driver 580 did not come up",
        "16 hosts: 12 changed, 1 failed, 3 left out",
    ]
    assert "not waited for: ['gpu-03', 'gpu-05', 'gpu-08', 'node-gpu-10']" in output and "verified" in output
    assert sorted(
        re.findall(r"fatal: \[localhost\]|FAILED! => .*?msg\": \"(gpu-\d+) (?:was left out|failed):", output)
    ) == sorted(wrong)
    written = fleet.written()
    assert (written["format"], written["canary"]) == (1, ["gpu-01"])
    assert written["counts"] == {"done": 12, "failed": 1, "left out": 3}
    assert written["hosts"]["gpu-01"] == {"state": "done", "batch": 1}
    assert written["hosts"]["gpu-10"] == {
        "state": "failed",
        "batch": 5,
        "reason": "gpu-10: the driver 580 did not come up",
    }

    fleet.wrong = {}
    status, output = fleet.run("--limit", "gpu-01,gpu-03,gpu-05,gpu-08,gpu-10")
    assert status == 0, output
    assert batches(output) == ["1: gpu-03, gpu-05", "2: gpu-08", "3: gpu-10"], "The failed host comes last."
    assert report(output) == ["5 hosts: 5 changed"]
    assert {entry["state"] for entry in fleet.written()["hosts"].values()} == {"done"}
    assert list(fleet.written()["hosts"]) == NAMES


@pytest.mark.wide
def test_a_run_that_is_killed_goes_on_with_the_hosts_in_the_middle_of_their_change(tmp_path: Path) -> None:
    variables = {"gpuops_serial": 2, "gpuops_canary": 1, "gpuops_rollout_file": str(tmp_path / "rollout.json")}
    fleet = Fleet(tmp_path, {"gpu-04": {"slow": True}}, variables)
    limit = ["--limit", "gpu-01,gpu-02,gpu-03,gpu-04,gpu-05,gpu-06"]
    process = fleet.start(*limit)
    deadline = time.monotonic() + 120
    begun = tmp_path / "state" / "begun"
    while not begun.exists() or len(begun.read_text().split()) < 5:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    written = json.loads((tmp_path / "rollout.json").read_text())
    states = ["done", "done", "done", "changing", "changing", "waiting"]
    assert [entry["state"] for entry in written["hosts"].values()] == states
    assert sorted(fleet.begun) == NAMES[:5]

    (tmp_path / "state" / "gpu-02").unlink()
    fleet.wrong = {}
    status, output = fleet.run(*limit)
    assert status == 0, output
    assert batches(output) == ["1: gpu-04, gpu-05", "2: gpu-02, gpu-06"], (
        "The canary passed before: it is not repeated."
    )
    assert report(output) == ["6 hosts: 6 changed"]
    written = json.loads((tmp_path / "rollout.json").read_text())
    assert (written["counts"], written["canary"]) == ({"done": 6}, ["gpu-01"])


@pytest.mark.wide
def test_a_batch_that_becomes_unreachable_as_a_whole_ends_the_rollout_only_beyond_the_limit(tmp_path: Path) -> None:
    """Ansible itself ends a run as soon as all hosts of a batch of ``serial`` are unreachable."""
    fleet = Fleet(tmp_path, {"gpu-02": {"dies": True}}, {"gpuops_max_failed": 1})
    limit = ["--limit", "gpu-01,gpu-02,gpu-03"]
    status, output = fleet.run(*limit)
    assert (status & 4, fleet.begun) == (4, ["gpu-01", "gpu-02", "gpu-03"]), output
    assert report(output)[1:] == [
        f"gpu-02 failed 2 {LOST}",
        "3 hosts: 2 changed, 1 failed",
    ]

    fleet.variables = {}
    status, output = fleet.run("--limit", "gpu-02,gpu-04,gpu-05")
    assert (status, fleet.begun) == (4, ["gpu-02"]), output
    assert "1 of 3 hosts" in output and "gpuops_max_failed allows 0" in output and f"gpu-02: {LOST}." in output, output
    assert "3 hosts: 2 not yet changed, 1 failed" in report(output)


@pytest.mark.wide
def test_without_a_limit_one_unfit_host_stops_the_run_before_anything_changes(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"gpu-02": {"unfit": True}})
    status, output = fleet.run("--limit", "gpu-01,gpu-02,localhost")
    assert (status, fleet.begun) == (2, []), output
    assert "PLAY [Check the GPU hosts]" in output and "PLAY [Check the cluster]" not in output
    assert "gpuops_max_failed allows 0" in output and f"gpu-02: gpu-02 {UNFIT}." in output


@pytest.mark.wide
def test_a_canary_that_fails_stops_the_rollout_whatever_the_limit(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"gpu-02": {"broken": True}}, {"gpuops_max_failed": "100%", "gpuops_canary": ["gpu-02"]})
    status, output = fleet.run("--limit", "gpu-01,gpu-02")
    assert (status, fleet.begun) == (2, ["gpu-02"]), output
    assert "The canary gpu-02 did not pass." in output
