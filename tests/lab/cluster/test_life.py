# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The life of a lab, mostly through its command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.cluster import Lab, LabError, Options
from lab.cluster.controlplane import toolchain
from lab.process import identity
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("pods and nodes live their lives")

REPOSITORY = Path(__file__).parents[3]
BARE = Options(nodes=1, operator="none")


@dataclass
class Shell:
    """The command line, with a separate state folder."""

    home: Path
    name: str = "default"
    env: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home / "gpuops-lab" / self.name

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lab", "cluster", *arguments, "--name", self.name]
        env = {**os.environ, "XDG_STATE_HOME": str(self.home), **self.env}
        return subprocess.Popen(
            command, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=300)
        return process.returncode, output, errors

    def pids(self) -> list[int]:
        try:
            return list(json.loads((self.folder / "state.json").read_text())["pids"].values())
        except FileNotFoundError:
            return []


@pytest.fixture
def shell(tmp_path: Path) -> t.Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell("down")


@pytest.fixture(autouse=True)
def ctrl_c_works() -> t.Iterator[None]:
    """A background process of a shell ignores Ctrl-C, and so would every process that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def gone(pids: t.Iterable[int]) -> bool:
    return not any(identity(pid) for pid in pids)


def test_up_status_kubeconfig_down(shell: Shell) -> None:
    assert shell("status")[:2] == (3, "Lab default: does not exist\n")
    code, output, errors = shell("up", "--operator", "none", "--nodes", "2")
    assert (code, errors) == (0, "")
    assert "is up" in output and f"KUBECONFIG={shell.folder / 'kubeconfig'}" in output

    code, output, errors = shell("status", "--json")
    report = json.loads(output)
    assert (code, report["phase"]) == (0, "up")
    assert {entry["state"] for entry in report["components"].values()} == {"running"}

    code, output, errors = shell("kubeconfig")
    kubectl = json.loads((shell.folder / "state.json").read_text())["kubectl"]
    nodes = subprocess.run(
        [kubectl, "--kubeconfig", output.strip(), "get", "nodes"], capture_output=True, text=True, check=True
    ).stdout
    assert nodes.count(" Ready ") == 2

    assert "is up already" in shell("up")[1]
    assert shell("up", "--nodes", "2")[0] == 0
    code, output, errors = shell("up", "--nodes", "3")
    assert code == 1 and "already with another value of --nodes" in errors

    pids = shell.pids()
    assert len(pids) >= 5
    assert shell("down")[:2] == (0, "Lab default is gone.\n")
    assert gone(pids)
    assert [path.name for path in shell.folder.parent.iterdir() if not path.name.endswith(".lock")] == []
    assert shell("down")[:2] == (0, "There was no lab default.\n")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.wide)]
)
def test_an_interrupted_up_removes_everything(shell: Shell, number: signal.Signals, code: int) -> None:
    up = shell.start("up", "--operator", "none")
    while len(shell.pids()) < 2:
        assert up.poll() is None
        time.sleep(0.01)
    pids = shell.pids()
    up.send_signal(number)
    assert up.wait(timeout=30) == code
    assert "Traceback" not in up.communicate()[1]
    assert gone(pids)
    assert not shell.folder.exists()


@pytest.mark.wide
def test_a_killed_up_is_found_and_replaced(shell: Shell) -> None:
    up = shell.start("up", "--operator", "none")
    while len(shell.pids()) < 2:
        assert up.poll() is None
        time.sleep(0.01)
    up.kill()
    up.communicate()
    pids = shell.pids()
    assert shell("status")[0] == 1
    assert shell("up", "--operator", "none", "--nodes", "1")[0] == 0
    assert gone(pids)


@pytest.mark.wide
def test_after_a_reboot_the_lab_is_stale(shell: Shell) -> None:
    assert shell("up", "--operator", "none", "--nodes", "1")[0] == 0
    for pid in shell.pids():
        os.kill(pid, signal.SIGKILL)
    while not gone(shell.pids()):
        time.sleep(0.02)
    # In the meantime, another process has taken the pids: this test's own.
    state = json.loads((shell.folder / "state.json").read_text())
    for component in state["components"].values():
        component["pid"] = os.getpid()
    (shell.folder / "state.json").write_text(json.dumps(state))
    code, output = shell("status")[:2]
    assert code == 1 and "its processes are gone" in output
    assert shell("up", "--operator", "none", "--nodes", "1")[0] == 0
    assert shell("status")[0] == 0


@pytest.mark.wide
def test_two_labs_side_by_side() -> None:
    with running_lab("one", BARE) as one, running_lab("two", BARE) as two:
        assert not set(one.state.ports.values()) & set(two.state.ports.values())
        one.kubectl("create", "namespace", "only-here")
        with pytest.raises(LabError, match="NotFound"):
            two.kubectl("get", "namespace", "only-here")
        one.down()
        assert one.status().phase == "absent"
        assert two.status().phase == "up"
        assert two.kubectl("get", "nodes", "--output=name").count("node/") == 1


def test_a_component_that_dies_is_reported_and_started_again(shell: Shell) -> None:
    assert shell("up", "--operator", "none", "--nodes", "1")[0] == 0
    pid = json.loads((shell.folder / "state.json").read_text())["pids"]["kube-scheduler"]
    os.kill(pid, signal.SIGKILL)
    while not gone([pid]):
        time.sleep(0.02)
    code, output = shell("status")[:2]
    assert code == 1
    assert "kube-scheduler           died" in output
    assert "The end of kube-scheduler's log" in output and "Starting Kubernetes Scheduler" in output
    assert "kube-scheduler had died" in shell("up")[1]
    assert shell("status")[0] == 0


@pytest.mark.wide
def test_a_component_that_dies_during_up_fails_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "kwok"
    broken.write_text("#!/bin/sh\necho 'kwok: no such stage' >&2\nexit 1\n")
    broken.chmod(0o755)
    tools = toolchain.provide(print)
    monkeypatch.setattr(toolchain, "provide", lambda say: {**tools, "kwok": broken})
    lab = Lab(f"test-broken-{os.getpid()}")
    with pytest.raises(LabError, match=r"(?s)^kwok died\. The end of its log .*no such stage"):
        lab.up(BARE)
    assert lab.status().phase == "absent"
    assert not lab.folder.exists()


def test_a_program_that_does_not_exist() -> None:
    lab = Lab(f"test-broken-{os.getpid()}")
    with pytest.raises(LabError, match="operator cannot be started: there is no program /no/such/operator"):
        lab.up(Options(nodes=1, operator="external", operator_command="/no/such/operator"))
    assert not lab.folder.exists()


def test_an_operator_that_rejects_its_arguments() -> None:
    lab = Lab(f"test-broken-{os.getpid()}")
    with pytest.raises(LabError, match=r"(?s)^operator died\. The end of its log .*unknown flag: --verbos"):
        lab.up(Options(nodes=1, operator="external", operator_command="sh -c 'echo unknown flag: --verbos; exit 2'"))
    assert not lab.folder.exists()


def test_a_taken_port_is_reported_in_one_sentence(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, errors = shell("up", "--port", str(port))[::2]
    assert code == 1
    assert errors == (
        f"lab: Port {port} on 127.0.0.1 is taken by another program: "
        "choose another --port, or leave it out for a free one.\n"
    )
    assert not shell.folder.exists()


def test_a_port_that_is_taken_in_the_meantime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.ports.is_free", lambda port: True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = f"^kube-apiserver could not listen on port {port} of 127.0.0.1, which .*: run `up` again"
        with pytest.raises(LabError, match=message):
            Lab(f"test-port-{os.getpid()}").up(Options(nodes=1, operator="none", port=port))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"operator": "external"}, "needs --operator-command"),
        ({"operator_command": "x"}, "need --operator external"),
        ({"operator_crds": ("x",)}, "need --operator external"),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, t.Any], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        Options(**options)


@pytest.mark.parametrize("name", ["", "../x", "a b", "a/b"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(LabError, match="not a valid name"):
        Lab(name)


@pytest.mark.wide
def test_an_external_operator(tmp_path: Path) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    (tmp_path / "crd.json").write_text(json.dumps(crd))
    command = "sh -c 'echo $OPERATOR_NAMESPACE; test -r $KUBECONFIG && echo readable; exec sleep 1000'"
    options = Options(nodes=1, operator="external", operator_command=command, operator_crds=(str(tmp_path),))
    with running_lab("external", options) as lab:
        operator = lab.component("operator")
        assert lab.kubectl("get", "things.example.com") == ""
        assert operator.process.log_end() == "gpu-operator\nreadable"
        operator.kill()
        assert lab.status().died == ("operator",)
        operator.restart()
        assert lab.status().phase == "up"
        pid = operator.process.pid
    assert gone([pid])
