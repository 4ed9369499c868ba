# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the collection's roles on test hosts with ansible-playbook."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import yaml

from lab.cluster import Lab
from lab.hosts.containers.hosts import ContainerHost, ContainerHosts
from lab.hosts.vm.hosts import VmHost
from tests.support.ansible import SITE, Playbook, Run

CALLBACKS = Path(__file__).parent / "callbacks"
NO_CLUSTER = Path("/nonexistent")


class Plays:
    """Plays on a set of hosts. With a lab, the hosts are nodes of its cluster: the first host is gpu-0000, and so on.

    ``timeout`` is the longest time for one play, in seconds.
    """

    def __init__(
        self, hosts: ContainerHosts | VmHost, folder: Path, lab: Lab | None = None, timeout: float = 600
    ) -> None:
        self.hosts, self.folder, self._timeout = hosts.hosts(), folder, timeout
        self._ansible = Playbook(lab.kubeconfig if lab else NO_CLUSTER, lab.helm if lab else NO_CLUSTER)
        inventory = hosts.inventory()
        nodes = {host.name: self.node(host.name) for host in self.hosts}
        inventory["gpu_hosts"]["vars"] |= {
            "host_change_drain": lab is not None,
            # A container cannot read the kernel log.
            "host_change_proof_skip": ["proof_errors"],
            "nodes": nodes,
            "host_change_node": "{{ nodes[inventory_hostname] }}",
        }
        self._inventory = folder / "inventory.yml"
        self._inventory.write_text(yaml.safe_dump(inventory))

    def host(self, flavour: str) -> ContainerHost:
        """Return the first host of a flavour."""
        return next(host for host in self.hosts if host.flavour == flavour)

    def node(self, host: str) -> str:
        """Return the name of a host's node."""
        return f"gpu-{[each.name for each in self.hosts].index(host):04}"

    def run(self, *roles: str, limit: str = "gpu_hosts", arguments: t.Sequence[str] = (), **variables: t.Any) -> Run:
        """Run one play with these roles. ``role/file`` runs the tasks in that file of the role."""
        return self._run(self._ansible, self._play(roles), limit, arguments, variables)

    def converge(self, *roles: str, limit: str = "gpu_hosts", **variables: t.Any) -> Run:
        """Check, run, and run again: check and run change every host, and the rerun changes none. Return the run."""
        check, run, rerun = (
            self.run(*roles, limit=limit, arguments=arguments, **variables) for arguments in (["--check"], [], [])
        )
        for each in (check, run, rerun):
            assert each.status == 0, each.output
        assert all(check.changed_by_host.values()) and all(run.changed_by_host.values()), run.output
        assert rerun.changed == 0, rerun.output
        return run

    def site(self, **variables: t.Any) -> Run:
        """Run the plays of site.yml for hosts."""
        return self.playbook(SITE, **variables)

    def playbook(
        self, path: Path, limit: str = "gpu_hosts", arguments: t.Sequence[str] = (), **variables: t.Any
    ) -> Run:
        """Run the plays of a playbook for the hosts that ``limit`` selects."""
        return self._run(self._ansible, path, limit, arguments, variables)

    def cut(
        self, role: str, host: ContainerHost | VmHost, after: int | str, within: str | None = None, **variables: t.Any
    ) -> list[str]:
        """Run a role on one host and kill it after this many of its tasks, or after the first task of this name.

        The result is the finished tasks. With ``within``, only the tasks of that role count, which the role includes.
        """
        log = self.folder / f"{host.name}.log"
        log.write_text("")
        ansible = Playbook(self._ansible.environment["K8S_AUTH_KUBECONFIG"], NO_CLUSTER)
        ansible.environment |= {"ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS)}
        ansible.environment |= {
            "POWER_CUT_ROLE": within or role,
            "POWER_CUT_AFTER": str(after),
            "POWER_CUT_LOG": str(log),
        }
        run = self._run(ansible, self._play([role]), host.name, (), variables)
        assert run.status == -9, run.output
        return log.read_text().splitlines()

    def cut_when(self, role: str, host: ContainerHost | VmHost, when: t.Callable[[], bool], **variables: t.Any) -> None:
        """Run a role on one host and kill the run as soon as ``when`` is true. A command on the host continues."""
        options = ["--inventory", str(self._inventory), "--limit", host.name]
        process = self._ansible.start(self._play([role]), *options, **variables)
        while not when():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the plays, which a test may change."""
        return self._ansible.environment

    def start(self, *roles: str, limit: str, **variables: t.Any) -> subprocess.Popen[str]:
        """Start one play with these roles, and return at once. `finish` waits for its end."""
        options = ["--inventory", str(self._inventory), "--limit", limit, "--forks", str(len(self.hosts))]
        return self._ansible.start(self._play(roles), *options, **variables)

    def finish(self, process: subprocess.Popen[str]) -> Run:
        """Wait for the end of a play."""
        return self._ansible.finish(process, self._timeout)

    def facts(self, host: ContainerHost | VmHost, *subsets: str) -> dict[str, t.Any]:
        """Return the facts that gpu_facts reports for a host."""
        found = self.module(host, "gpu_facts", gather_subset=list(subsets) or ["all"])
        return dict(found["ansible_facts"]["gpuops"])

    def module(
        self, host: ContainerHost | VmHost, module: str, check: bool = False, **options: t.Any
    ) -> dict[str, t.Any]:
        """Run a module of the collection on a host, and return its result."""
        command = ["ansible", host.name, "--inventory", str(self._inventory)]
        command += ["--module-name", f"gpuops.nvidia.{module}", "--args", json.dumps(options)]
        command += ["--check"] if check else []
        run = self._ansible.finish(self._ansible.command(command), self._timeout)
        assert run.status == 0, run.output
        return dict(json.loads(run.output.partition("=> ")[2]))

    def _play(self, roles: t.Sequence[str]) -> Path:
        # The filter is here because site.yml has one, too: it makes Ansible load filters once, not in every task.
        hosts = "{{ groups['gpu_hosts'] | default([]) }}"
        tasks = [_include(*role.split("/")) for role in roles]
        play = [{"name": "Play", "hosts": hosts, "gather_facts": False, "tasks": tasks}]
        path = self.folder / f"{'-'.join(roles).replace('/', '_')}.yml"
        path.write_text(yaml.safe_dump(play, sort_keys=False))
        return path

    def _run(
        self, ansible: Playbook, play: Path, limit: str, arguments: t.Sequence[str], variables: t.Mapping[str, t.Any]
    ) -> Run:
        options = ["--inventory", str(self._inventory), "--limit", limit, "--forks", str(len(self.hosts)), *arguments]
        return ansible.run(play, *options, timeout=self._timeout, **variables)


def _include(role: str, file: str | None = None) -> dict[str, t.Any]:
    options = {"name": f"gpuops.nvidia.{role}"} | ({"tasks_from": file} if file else {})
    return {"name": role, "ansible.builtin.include_role": options}
