# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_change: permission, the node of a host, interrupted runs, and proofs that fail.

A simulated cluster has the hosts as nodes.
"""

from __future__ import annotations

import base64
import json
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab, Options
from lab.hosts.containers.hosts import ContainerHost
from tests.support.changes import DRAINED, HELD, IN_SERVICE, node, record_of, taints
from tests.support.hosts import running_containers
from tests.support.labs import running_lab
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts are drained, rebooted and proved, in runs that are killed")

STAGE = "Note Create Write"
TASKS = (
    f"Gather Note Find Decide Group Gather Note Begin {STAGE} Drain Find {STAGE} Reboot {STAGE} Gather Prove Wait Put "
    "Delete Note"
).split()
"""The verbs with which the tasks of the role begin, on a host that needs a reboot."""


def cuts_after(*verbs: str) -> list[int]:
    """Return after how many tasks those are done whose names begin so."""
    return [number + 1 for number, verb in enumerate(TASKS) if verb in verbs]


# Tasks that only read are left out: they change nothing.
CUTS, LATE_CUTS, MORE_CUTS = cuts_after("Drain", "Reboot"), cuts_after("Put", "Delete"), cuts_after("Write")
"""After how many tasks a run is killed: before the host is proved, after that, and while only the record changes."""

EVERYDAY, ODD = ("due", "stray", "left", "unproved", "twice"), ("due", "found", "quoted", "broken")
"""What each host of the second test shows, in the everyday suite and in the wide tier."""


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[Lab]:
    """A cluster with empty nodes."""
    with running_lab("changes", Options(nodes=len(EVERYDAY), operator="none", pods="instant")) as lab:
        yield lab


def require_a_reboot(host: ContainerHost) -> None:
    host.shell("echo blacklist nouveau > /etc/modprobe.d/test.conf; modprobe nouveau")


def boots(hosts: t.Iterable[ContainerHost]) -> list[str]:
    """Return the boot id of each host."""
    return [host.boot_id for host in hosts]


def left_by(finished: list[str]) -> tuple[bool, tuple[bool, list[str]]]:
    """Return whether a run that is killed after these tasks leaves a record, and the state of its node."""
    record = "Write" in finished and "Delete" not in finished
    drained = "Drain" in finished and "Put" not in finished
    return record, DRAINED if drained else IN_SERVICE


@pytest.mark.wide
@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(CUTS, id="in the change"),
        pytest.param(LATE_CUTS, id="at its end"),
        pytest.param(MORE_CUTS, id="while the record is written", marks=pytest.mark.deep),
    ],
)
def test_a_run_that_is_killed_between_any_two_tasks_is_completed_by_the_next(
    cluster: Lab, tmp_path: Path, numbers: list[int]
) -> None:
    """Each task that changes something has a host, whose run is killed after it. One more run completes all hosts."""
    with running_containers("cut", {"debian": len(numbers)}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        cuts = dict(zip(numbers, plays.hosts))
        for host in plays.hosts:
            require_a_reboot(host)
        before = boots(plays.hosts)

        def run_until(after: int) -> list[str]:
            finished = plays.cut("host_change", cuts[after], after, host_change_allowed=True)
            return [name.partition(" ")[0] for name in finished]

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(run_until, cuts)) == [TASKS[:after] for after in cuts]
        between = boots(plays.hosts)
        rebooted = [one != other for one, other in zip(before, between)]
        assert rebooted == ["Reboot" in TASKS[:after] for after in cuts]
        for after, host in cuts.items():
            assert (bool(record_of(host)), node(cluster, plays.node(host.name))) == left_by(TASKS[:after]), after

        resumed = plays.run("host_change", host_change_allowed=True)

        assert resumed.status == 0, resumed.output
        assert [one != other for one, other in zip(between, boots(plays.hosts))] == [not each for each in rebooted]
        for after, host in cuts.items():
            assert (record_of(host), node(cluster, plays.node(host.name))) == ({}, IN_SERVICE), after
        again = plays.run("host_change/plan", "host_change")
        assert (again.status, again.changed) == (0, 0), again.output


class Cases:
    """Hosts that each have a case of their own, so that few runs show all of them."""

    def __init__(self, plays: Plays, lab: Lab, names: t.Sequence[str]) -> None:
        self.plays, self.lab = plays, lab
        self.hosts = dict(zip(names, plays.hosts))
        without_a_name = {host.name: "" for host in self.those("stray", "found").values()}
        self.variables = {
            "named": {host.name: plays.node(host.name) for host in plays.hosts} | without_a_name,
            "host_change_node": "{{ named[inventory_hostname] }}",
            "seconds": {host.name: 10 for host in self.those("broken").values()},
            "host_change_timeout": "{{ seconds[inventory_hostname] | default(120) }}",
        }

    def those(self, *names: str) -> dict[str, ContainerHost]:
        """Return the hosts with these names that take part."""
        return {name: host for name, host in self.hosts.items() if name in names}

    def but(self, *names: str) -> dict[str, ContainerHost]:
        """Return the other hosts."""
        return {name: host for name, host in self.hosts.items() if name not in names}

    def prepare(self) -> None:
        for name, host in self.hosts.items():
            require_a_reboot(host)
            if name == "stray":
                host.shell("mkdir --parents /var/lib/kubelet/pki; rm --force /etc/machine-id")
            if name == "found":
                identity = host.shell("echo 0123456789abcdef0123456789abcdef | tee /etc/machine-id").upper()
                self.report(self.node("found"), {"machineID": identity})
            if name == "quoted":
                packages = 'a";touch${IFS}/srv/x;"'
                host.shell(f"touch /run/reboot-required; echo '{packages}' > /run/reboot-required.pkgs")
            if name == "broken":
                host.shell("for image in /boot/initrd.img-*; do cp -p $image /srv && truncate -s 0 $image; done")

    def repair(self) -> None:
        for broken in self.those("broken").values():
            broken.shell("cp -p /srv/initrd.img-* /boot")
            broken.podman("restart", "--time=0", broken.name)
            broken.run("/usr/local/lib/stand-ins/login", "true")

    def node(self, name: str) -> str:
        return self.plays.node(self.hosts[name].name)

    def report(self, name: str, info: dict[str, str]) -> None:
        """Let the kubelet of a node report something about its machine."""
        patch = json.dumps({"status": {"nodeInfo": info}})
        self.lab.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "--patch", patch)

    def nodes(self) -> dict[str, tuple[bool, list[str]]]:
        return {name: node(self.lab, self.node(name)) for name in self.hosts}

    def boots(self) -> dict[str, str]:
        return dict(zip(self.hosts, boots(self.hosts.values())))

    def connect_without_a_kubeconfig(self, folder: Path) -> None:
        """Let the plays reach the cluster by K8S_AUTH_* variables alone, as AWX does."""
        config = yaml.safe_load(self.lab.kubeconfig.read_text())
        login = {**config["clusters"][0]["cluster"], **config["users"][0]["user"]}
        environment = self.plays.environment
        environment["K8S_AUTH_HOST"] = login["server"]
        for name, key in {
            "SSL_CA_CERT": "certificate-authority-data",
            "CERT_FILE": "client-certificate-data",
            "KEY_FILE": "client-key-data",
        }.items():
            path = folder / name
            path.write_bytes(base64.b64decode(login[key]))
            environment[f"K8S_AUTH_{name}"] = str(path)
        del environment["K8S_AUTH_KUBECONFIG"]


def deploy_pinned(lab: Lab, name: str) -> None:
    """Run a pod on one node, and only there."""
    labels = {"app": "web"}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": name},
        "containers": [{"name": "web", "image": "registry.example.com/web:1"}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    lab.kubectl("create", "--filename=-", stdin=json.dumps(body))
    for dummy in range(100):
        if lab.kubectl("get", "pods", f"--field-selector=spec.nodeName={name}", "--output=name").strip():
            return
        time.sleep(0.1)
    raise AssertionError(lab.kubectl("get", "pods", "--output=wide"))


@pytest.mark.parametrize("names", [EVERYDAY, pytest.param(ODD, marks=pytest.mark.wide)], ids=["everyday", "odd"])
def test_each_host_gets_what_its_case_needs(cluster: Lab, tmp_path: Path, names: tuple[str, ...]) -> None:
    """Check mode, permissions, nodes found by identity or not at all, an API that is away, and proofs that fail."""
    with running_containers("cases", {"debian": len(names)}) as hosts:
        cases = Cases(Plays(hosts, tmp_path, cluster), cluster, names)
        cases.prepare()
        if "stray" in names:
            check_what_is_predicted(cases)
            check_two_runs_at_once(cases)
        cases.connect_without_a_kubeconfig(tmp_path)
        check_the_change(cases, tmp_path)
        check_the_second_run(cases)


def check_what_is_predicted(cases: Cases) -> None:
    """Check mode names reasons, nodes and pods. Then a run on one host is killed after its drain."""
    deploy_pinned(cases.lab, cases.node("due"))
    before = cases.boots()
    predicted = cases.plays.run(
        "host_change/plan", "host_change", arguments=["--check"], host_change_allowed=True, **cases.variables
    )
    assert (cases.boots(), set(map(str, cases.nodes().values()))) == (before, {str(IN_SERVICE)})
    words = f"{cases.hosts['due'].name}: nouveau is loaded"
    assert words in predicted.output, predicted.output
    assert f"leave the node {cases.node('due')}: default/web-" in predicted.output
    stray = f"{cases.hosts['stray'].name} has a kubelet (/var/lib/kubelet/pki)"
    assert predicted.message.startswith(stray), predicted.output
    assert "host_change_drain: false" in predicted.message

    left = cases.hosts["left"]
    assert cases.plays.cut("host_change", left, TASKS.index("Drain") + 1, host_change_allowed=True)
    refused = cases.plays.run("host_change/plan", limit=left.name)
    for word in ("drained", cases.node("left"), "host_change_allowed"):
        assert word in refused.message, refused.output


def check_two_runs_at_once(cases: Cases) -> None:
    """One of two runs that start together changes the host. The other one is refused, and leaves the record alone."""
    twice, before = cases.hosts["twice"], cases.boots()
    options = {"limit": twice.name, "host_change_allowed": True, **cases.variables}
    processes = [cases.plays.start("host_change", **options) for _ in range(2)]
    runs = sorted((cases.plays.finish(process) for process in processes), key=lambda run: run.status)
    assert runs[0].status == 0 and runs[1].status != 0, [run.output for run in runs]
    assert "Another run " in runs[1].message and "Wait until " in runs[1].message, runs[1].output
    assert [name for name, boot in cases.boots().items() if boot != before[name]] == ["twice"]
    assert record_of(twice) == {} and node(cases.lab, cases.node("twice")) == IN_SERVICE


def check_a_run_in_mid_change_is_left_alone(cases: Cases) -> None:
    """Neither a host's preflight nor a no, which would only finish what is left, disturbs the run at work."""
    due = cases.hosts["due"]
    for roles, options in (
        (("preflight/hosts",), {}),
        (("host_change/plan", "host_change"), {"host_change_allowed": False}),
    ):
        run = cases.plays.run(*roles, limit=due.name, **options)
        assert run.message.startswith(f"Another run changes {due.name}: process "), run.output
        assert "host_change_take_over" in run.message and run.changed == 0


def check_the_change(cases: Cases, folder: Path) -> None:
    """All hosts but the one that was killed are changed at once. The API is away while their nodes come back."""
    before, log = cases.boots(), folder / "ansible.log"
    cases.plays.environment["ANSIBLE_LOG_PATH"] = str(log)
    expected = {host.name: {"gpus": 99} for host in cases.those("unproved").values()}
    due = [host.name for host in cases.but("left", "stray", "twice").values()]
    process = cases.plays.start(
        "host_change",
        limit=",".join(due),
        host_change_allowed=True,
        expected=expected,
        host_change_expected="{{ expected[inventory_hostname] | default({}) }}",
        **cases.variables,
    )
    api = cases.lab.component("kube-apiserver")
    wait_for_task(log, "Prove the host", process)
    api.kill()
    wait_for_task(log, "Wait until the node is Ready", process)
    check_a_run_in_mid_change_is_left_alone(cases)
    api.restart()
    run = cases.plays.finish(process)

    assert run.status != 0, run.output
    after, nodes = cases.boots(), cases.nodes()
    rebooted = {name for name in after if after[name] != before[name]}
    assert rebooted == set(cases.but("left", "stray", "twice", "broken")), run.output
    held = dict.fromkeys(cases.those("unproved", "broken"), HELD)
    expected_nodes = dict.fromkeys(cases.hosts, IN_SERVICE) | dict.fromkeys(cases.those("left"), DRAINED) | held
    assert nodes == expected_nodes, run.output
    for quoted in cases.those("quoted").values():
        assert "x" not in quoted.run("ls", "/srv").split()
    for unproved in cases.those("unproved").values():
        its_node = cases.node("unproved")
        tainted = taints(cases.lab, its_node)["gpuops.nvidia/failed.change"]
        assert tainted.startswith("The-PCI-bus-has-2-GPUs-and-99-are-expected"), tainted
        assert f"{unproved.name} is not fit" in run.output
        assert f"Its node {its_node} stays drained and has the taint gpuops.nvidia/failed.change." in run.output
        assert record_of(unproved)["stage"] == "failed"
    assert ("did not come back" in run.output) == ("broken" in cases.hosts), run.output


def wait_for_task(log: Path, name: str, process: t.Any) -> None:
    while not log.exists() or f"host_change : {name}]" not in log.read_text():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.2)


def check_the_second_run(cases: Cases) -> None:
    """Repaired hosts are proved and go back, without a permission. One that was drained is not rebooted after a no."""
    cases.repair()
    before = cases.boots()
    run = cases.plays.run("host_change/plan", "host_change", host_change_allowed=False, **cases.variables)
    assert run.status == 0, run.output
    assert cases.boots() == before and set(map(str, cases.nodes().values())) == {str(IN_SERVICE)}, run.output
    assert not any(taints(cases.lab, cases.node(name)) for name in cases.hosts)
    assert not any(record_of(host) for host in cases.hosts.values())
    assert "left" not in cases.hosts or "because host_change_allowed is false" in run.output, run.output

    del cases.plays.environment["K8S_AUTH_HOST"]
    cases.plays.environment["HOME"] = "/nonexistent"
    for stray in cases.those("stray").values():
        alone = cases.plays.run("host_change/plan", limit=stray.name, host_change_allowed=True)
        for word in (stray.name, "/var/lib/kubelet/pki", "gpuops_kubeconfig", "host_change_drain: false"):
            assert word in alone.message, alone.output
