# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run ansible-playbook as a user would, and read its output."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import typing as t
from dataclasses import dataclass
from pathlib import Path

from lab import bytecode, interpreter
from lab.cluster import Lab

ROOT = Path(__file__).parents[2]
SITE = ROOT / "playbooks" / "site.yml"
INTEGRATION = ROOT / "tests" / "integration"
OPERATOR = INTEGRATION / "operator.yml"
_RECAP = re.compile(
    r"^(?P<host>\S+)\s+: ok=\d+\s+changed=(?P<changed>\d+)\s+unreachable=\d+\s+failed=\d+", re.MULTILINE
)


@functools.cache
def _payloads() -> tempfile.TemporaryDirectory[str]:
    """Return the folder with the zip files of modules, which the runs of this process share."""
    return tempfile.TemporaryDirectory(prefix="gpuops-payloads-")


PLUGINS = ROOT / "plugins"


@functools.cache
def _imported_by_modules() -> tuple[str, ...]:
    """Return what modules for the cluster import: Ansible's own code, this collection's, and the Kubernetes client."""
    ours = (path.relative_to(PLUGINS).with_suffix("").parts for path in sorted(PLUGINS.glob("module_utils/**/*.py")))
    theirs = ("ansible.module_utils.basic", "ansible.module_utils.urls", "kubernetes.client", "kubernetes.dynamic")
    helm = ("ansible_collections.kubernetes.core.plugins.module_utils.helm",)
    return (*theirs, *helm, *(".".join(("ansible_collections.gpuops.nvidia.plugins", *parts)) for parts in ours))


def interpreter_of_modules() -> str:
    """Return the Python for modules on this machine. The run with the oldest dependencies takes the plain one."""
    if os.environ.get("GPUOPS_DEPENDENCIES") == "oldest":
        return sys.executable
    return str(interpreter.start(Path(sys.prefix) / "share", *_imported_by_modules()))


def quicker() -> dict[str, str]:
    """Return the variables that spare ansible-playbook work: users have few runs, and tests have hundreds."""
    shared = {"ANSIBLE_VARS_PLUGINS": str(Path(__file__).parent / "vars_plugins"), "GPUOPS_PAYLOADS": _payloads().name}
    return bytecode.environment() | shared | {"GPUOPS_INTERPRETER": interpreter_of_modules()}


@dataclass(frozen=True)
class Run:
    """The exit status and the output of one run."""

    status: int
    output: str

    @property
    def changed(self) -> int:
        """How many tasks changed something, on all hosts together."""
        return sum(self.changed_by_host.values())

    @property
    def changed_by_host(self) -> dict[str, int]:
        """How many tasks changed something on each host, from the recap."""
        recap = {row["host"]: int(row["changed"]) for row in _RECAP.finditer(self.output)}
        assert recap, self.output
        return recap

    @property
    def message(self) -> str:
        """The message of the last task that failed."""
        results = re.split(r"(?:FAILED!|^failed: .*) => (?=\{)", self.output, flags=re.MULTILINE)[1:]
        return str(json.JSONDecoder().raw_decode(results[-1])[0]["msg"]) if results else ""


class Playbook:
    """ansible-playbook against one cluster."""

    def __init__(self, kubeconfig: Path | str, helm: Path, extra_vars: t.Mapping[str, t.Any] | None = None) -> None:
        self.extra_vars = dict(extra_vars or {})
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "K8S_AUTH_", "KUBE"))
        }
        own = {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(Path(sys.prefix) / "share"),
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_ROLES_PATH": str(INTEGRATION / "targets"),
            "K8S_AUTH_KUBECONFIG": str(kubeconfig),
            # One setting more than a plain kubeconfig makes each task load the Kubernetes client. The run with the
            # oldest dependencies is there to test it.
            **({"K8S_AUTH_VERIFY_SSL": "true"} if os.environ.get("GPUOPS_DEPENDENCIES") == "oldest" else {}),
            # The environment with the oldest dependencies has a helm of its own.
            "PATH": f"{Path(sys.executable).parent}:{helm.parent}:{os.environ['PATH']}",
        }
        self.environment = inherited | quicker() | own

    @property
    def plain(self) -> Playbook:
        """The same, with the plain Python for modules on this machine: their processes are Ansible's own."""
        other = copy.copy(self)
        other.environment = {name: value for name, value in self.environment.items() if name != "GPUOPS_INTERPRETER"}
        return other

    def set_up(self, state: str) -> None:
        """Run the target setup_<state>, which brings the cluster to a state."""
        run = self.run(INTEGRATION / "run_target.yml", timeout=600, target=f"setup_{state}", operator_wait_timeout=300)
        assert run.status == 0, run.output

    def module(self, module: str, **options: t.Any) -> Run:
        """Run one module."""
        command = ["ansible", "localhost", "--module-name", module, "--args", json.dumps(options)]
        return self.finish(self.command(command), 120)

    def run(self, playbook: Path, *arguments: str, timeout: float = 300, **extra_vars: t.Any) -> Run:
        """Run a playbook and wait for its end."""
        return self.finish(self.start(playbook, *arguments, **extra_vars), timeout)

    def start(self, playbook: Path, *arguments: str, **extra_vars: t.Any) -> subprocess.Popen[str]:
        """Start a playbook."""
        return self.command(
            ["ansible-playbook", str(playbook), *arguments, "--extra-vars", json.dumps(self.extra_vars | extra_vars)]
        )

    def command(self, command: list[str]) -> subprocess.Popen[str]:
        """Start a command in its own process group, as a terminal does, so that a test can press Ctrl-C."""
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    @staticmethod
    def finish(process: subprocess.Popen[str], timeout: float) -> Run:
        """Wait for the end of a process. After ``timeout`` seconds, kill it and its descendants."""
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            _kill(descendants(process))
            raise AssertionError(f"Still running after {timeout} s:\n{_rest(process)}") from None
        # Ansible shows a diff of anything but texts and mappings as this warning, and nothing else.
        assert "Callback dispatch" not in output, output
        return Run(process.returncode, output)


def on(lab: Lab) -> Playbook:
    """Return a Playbook with the settings that a lab needs."""
    return Playbook(lab.kubeconfig, lab.helm, {"operator_chart_ref": lab.chart, "operator_wait_timeout": 120})


def kill_all(process: subprocess.Popen[str], *, in_module: bool = True) -> None:
    """Kill a run and all its descendants, at once: Ansible's workers have their own sessions.

    It must be a run of `Playbook.plain`, whose modules are descendants. It is killed in a module, unless ``in_module``
    is False: then it may be between two tasks.
    """
    doomed = descendants(process)
    assert len(doomed) > 2 or not in_module, "The module should run in a separate process."
    _kill(doomed)
    _rest(process)


def descendants(process: subprocess.Popen[str]) -> list[int]:
    """Return the process and what it has started, directly or not, as process IDs."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                parents[int(pid)] = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [process.pid]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def _kill(pids: t.Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _rest(process: subprocess.Popen[str]) -> str:
    """Return the output of a process that was killed. What has its output open, too, may go on for ever."""
    try:
        return process.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired as error:
        output = error.output or b""
        return output.decode(errors="replace") if isinstance(output, bytes) else output
