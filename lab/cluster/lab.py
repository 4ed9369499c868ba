# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Python API of a lab: start it, inspect it, disturb it, remove it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import typing as t
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab import ports
from lab.cluster.api import Api
from lab.cluster.controlplane import components as controlplane
from lab.cluster.controlplane import pki, toolchain
from lab.cluster.nodes import podlogs
from lab.cluster.nodes.fleet import PLATFORMS, Fleet, create, load
from lab.cluster.operator import CHART
from lab.cluster.state import Options, State, locked, root
from lab.errors import LabError
from lab.process import Component

__all__ = ["Lab", "LabError", "Options", "Status"]

_SUMMARIES = {
    "absent": "does not exist",
    "up": "up",
    "starting": "an `up` is still running or was killed; `up` starts from scratch, `down` removes it",
    "degraded": "some components died; `up` starts them again, `down` removes it",
    "stale": "its processes are gone (did the machine restart?); `up` starts from scratch, `down` removes it",
}
_STAGES = Path(__file__).parent / "nodes" / "kwok"


@dataclass(frozen=True)
class Status:
    """The status of a lab. The phases are the keys of `_SUMMARIES`, which explains them."""

    name: str
    phase: str
    running: tuple[str, ...] = ()
    died: tuple[str, ...] = ()


class Lab:
    """A lab with a given name. Its state is read from state.json each time, so any process can use it."""

    def __init__(self, name: str = "default", say: t.Callable[[str], None] = lambda line: None) -> None:
        if not name.replace("-", "").isalnum():
            raise LabError(f"{name!r} is not a valid name for a lab: use letters, digits and dashes.")
        self.name = name
        self.folder = root() / name
        self._say = say

    # ---- status -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state that `up` recorded."""
        state = State.load(self.folder)
        if state is None:
            option = "" if self.name == "default" else f" --name {self.name}"
            raise LabError(f"There is no lab {self.name!r}: start it with `python -m lab cluster up{option}`.")
        return state

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return Path(self.state.kubeconfig)

    @property
    def chart(self) -> str:
        """The chart of the operator to install in this lab."""
        return self.state.chart

    @property
    def helm(self) -> Path:
        """The lab's helm."""
        return Path(self.state.tools["helm"])

    @property
    def authority(self) -> pki.Authority:
        """The lab's certificate authority."""
        return pki.Authority(self.folder / "pki")

    def status(self) -> Status:
        """Return which components run and which died."""
        state = State.load(self.folder)
        if state is None:
            return Status(self.name, "absent")
        running = tuple(name for name, component in state.components.items() if component.alive)
        died = tuple(name for name in state.components if name not in running)
        phase = state.phase
        if not running:
            phase = "stale"
        elif phase == "up" and died:
            phase = "degraded"
        return Status(self.name, phase, running, died)

    def report(self) -> dict[str, t.Any]:
        """Return the status with paths, options and the logs of components that died."""
        status = self.status()
        report: dict[str, t.Any] = {"name": self.name, "phase": status.phase, "summary": _SUMMARIES[status.phase]}
        if status.phase == "absent":
            return report
        state = self.state
        report |= {
            "folder": str(self.folder),
            "kubeconfig": state.kubeconfig,
            "tools": state.tools,
            "chart": state.chart,
            "options": asdict(state.options),
            "components": {},
        }
        for name, component in state.components.items():
            entry = {
                "state": "running" if name in status.running else "died",
                "pid": component.pid,
                "log": str(component.log),
            }
            if name in status.died:
                entry["log_end"] = component.log_end()
            report["components"][name] = entry
        return report

    # ---- start and stop ---------------------------------------------------------------------------------------------

    def up(self, options: Options | None = None) -> None:
        """Start the lab and wait until every node is Ready. After an error or Ctrl-C, remove everything again."""
        with locked(self.name):
            if self.status().phase == "up":
                return
            self._remove()
            try:
                self._start(options or Options())
            except BaseException:
                self._remove()
                raise

    def repair(self) -> None:
        """Restart the components that died, in the order of the first start."""
        with locked(self.name):
            for name in self.status().died:
                self._say(f"{name} had died: restarting it")
                self.component(name).restart()

    def down(self) -> None:
        """Stop every process of the lab, wait until it is gone, and remove the lab's folder."""
        with locked(self.name):
            self._remove()

    def _remove(self) -> None:
        state = State.load(self.folder)
        for component in reversed(list(state.components.values()) if state else []):
            component.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, options: Options) -> None:
        fleet = load(options.fleet, options.nodes)
        site = self._prepare(options, fleet)
        self._start_control_plane(site, options)
        self._start_kwok(site, options)
        self._populate(site, fleet, options)
        self._start_operator(site, options)
        self._settle()
        state = self.state
        state.phase = "up"
        state.save(self.folder)

    def _start_control_plane(self, site: controlplane.Site, options: Options) -> None:
        self._launch(controlplane.etcd(site))
        self._wait("etcd", lambda: self._serves("etcd"))
        self._launch(controlplane.kube_apiserver(site, audit=options.audit))
        self._wait("kube-apiserver", lambda: self._serves("kube-apiserver"))
        self._launch(controlplane.kube_controller_manager(site))
        self._launch(controlplane.kube_scheduler(site))

    def _start_kwok(self, site: controlplane.Site, options: Options) -> None:
        self.kubectl("create", "-f", _STAGES / "crds")
        self.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", _STAGES / "crds")
        stages = [*sorted(_STAGES.glob("*.yaml")), *sorted((_STAGES / options.pods).glob("*.yaml"))]
        self._launch(controlplane.kwok(site, [*stages, podlogs.write(self.folder / "podlogs")]))
        self._wait("kwok", lambda: self._serves("kwok"))
        # No pod is admitted until the controller-manager has created this service account.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait("the default service account", lambda: self._get(account) is not None)

    def _prepare(self, options: Options, fleet: Fleet) -> controlplane.Site:
        """Create the folder, the certificates and the state file, and choose the ports."""
        tools = toolchain.provide(self._say)
        names = ["kube-apiserver", "etcd", "etcd-peer", "kwok"]
        numbers = ports.free(len(names))
        if options.port:
            if not ports.is_free(options.port):
                raise LabError(
                    f"Port {options.port} on 127.0.0.1 is taken by another program: "
                    "choose another --port, or leave it out for a free one."
                )
            numbers[0] = options.port
        self.folder.mkdir(mode=0o700, parents=True)
        (self.folder / "logs").mkdir()
        authority = self.authority
        authority.create()
        site = controlplane.Site(self.folder, tools, dict(zip(names, numbers)), authority, fleet.size, *options.served)
        admin = authority.client("admin", ["system:masters"])
        kubeconfig = pki.kubeconfig(
            self.folder / "kubeconfig", server=site.server, ca=authority.ca.cert, user="admin", client=admin
        )
        programs = {name: str(path) for name, path in tools.items()}
        options = replace(options, nodes=fleet.size)
        State(self.name, str(kubeconfig), options, dict(site.ports), programs, options.chart or str(CHART)).save(
            self.folder
        )
        return site

    def _populate(self, site: controlplane.Site, fleet: Fleet, options: Options) -> None:
        """Create the nodes and start the agents that simulate the programs on them."""
        names = ("mig_seconds", "mig_patience", "reboot_seconds", "manager_patience", "map_delay", "wipe_delay")
        timing = {name: getattr(options, name) for name in names}
        given = [f"--{name.replace('_', '-')}={seconds}" for name, seconds in timing.items()]
        given += [f"--agent={name}={command}" for name, command in options.agents.items()]
        given += [f"--folder={self.folder / 'nodes'}", f"--logs={self.folder / 'podlogs'}"]
        self._launch(controlplane.python_component(site, "agents", "lab.cluster.nodes.agents", *given))
        if fleet.objects:
            self.kubectl("apply", "--server-side", "-f", PLATFORMS / f"{fleet.objects}.yaml")
        create(Api(str(self.kubeconfig)), fleet, toolchain.kubernetes_version())
        self._wait("the nodes to become Ready", lambda: self._nodes_are_ready(fleet.size), timeout=60 + fleet.size / 2)

    def _nodes_are_ready(self, expected: int) -> bool:
        nodes = json.loads(self._get("/api/v1/nodes?resourceVersion=0") or b'{"items": []}')["items"]
        conditions = [condition for node in nodes for condition in node["status"].get("conditions", [])]
        ready = [item for item in conditions if item["type"] == "Ready" and item["status"] == "True"]
        return len(ready) >= expected

    def _start_operator(self, site: controlplane.Site, options: Options) -> None:
        if options.operator == "external":
            for folder in options.operator_crds:
                self.kubectl("apply", "--server-side", "--recursive", "-f", folder)
                self.kubectl("wait", "--for=condition=Established", "--timeout=30s", "--recursive", "-f", folder)
            self._launch(controlplane.external_operator(site, options.operator_command or ""))
        elif options.operator == "standin":
            timing = ("--upgrade-tick", options.upgrade_tick, "--validation-seconds", options.validation_seconds)
            standin = controlplane.python_component(site, "operator", "lab.cluster.operator.standin", *timing)
            self._launch(standin)

    # ---- components -------------------------------------------------------------------------------------------------

    def component(self, name: str) -> ComponentHandle:
        """Return a component, which a test may kill or restart."""
        if name not in self.state.components:
            raise LabError(f"There is no component {name!r}. These exist: {', '.join(self.state.components)}.")
        return ComponentHandle(self, name)

    @property
    def site(self) -> controlplane.Site:
        """The paths, ports and certificates of this lab, for the command line of another component."""
        state = self.state
        tools = {name: Path(path) for name, path in state.tools.items()}
        chosen = state.options
        return controlplane.Site(self.folder, tools, state.ports, self.authority, chosen.nodes or 0, *chosen.served)

    def add_component(self, component: Component) -> None:
        """Start another component, in place of one with the same name."""
        self.remove_component(component.name)
        self._launch(component)

    def remove_component(self, name: str) -> None:
        """Stop a component that `add_component` started, and forget it. Nothing happens if there is none."""
        state = self.state
        if name in state.components:
            state.components.pop(name).stop()
            state.save(self.folder)

    def _launch(self, component: Component) -> None:
        """Start a component and record it at once, so that `down` finds it even if `up` is killed."""
        state = self.state
        try:
            component.start()
            state.components[component.name] = component
            state.save(self.folder)
        except FileNotFoundError:
            raise LabError(f"{component.name} cannot be started: there is no program {component.argv[0]}.") from None
        except BaseException:
            component.stop()
            raise

    def _wait(self, what: str, condition: t.Callable[[], bool], timeout: float = 60) -> None:
        """Wait for a condition; fail after a timeout, or as soon as a component dies."""
        deadline = time.monotonic() + timeout
        while not condition():
            self._check_alive()
            if time.monotonic() > deadline:
                ends = "\n".join(
                    f"--- {component.name}:\n{component.log_end(5)}" for component in self.state.components.values()
                )
                raise LabError(f"Gave up waiting for {what} after {timeout:.0f} s. The ends of the logs:\n{ends}")
            time.sleep(0.05)

    def _settle(self, seconds: float = 1.0) -> None:
        """Wait until a component that rejects its arguments has had time to exit."""
        until = time.monotonic() + seconds
        self._wait("the components to settle", lambda: time.monotonic() > until)
        self._check_alive()

    def _check_alive(self) -> None:
        for component in self.state.components.values():
            if not component.alive:
                raise LabError(self._cause_of_death(component))

    def _serves(self, component: str) -> bool:
        return controlplane.serves(component, self.state.ports, self.authority)

    def _cause_of_death(self, component: Component) -> str:
        log = component.log_end()
        if "address already in use" in log:
            port = self.state.ports.get(component.name)
            return (
                f"{component.name} could not listen on port {port or ''} of 127.0.0.1, which another program uses: "
                "run `up` again to get other ports."
            )
        return f"{component.name} died. The end of its log ({component.log}):\n{log}"

    # ---- access -----------------------------------------------------------------------------------------------------

    def kubectl(self, *args: object, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl as administrator and return its standard output."""
        state = self.state
        command = [state.tools["kubectl"], f"--kubeconfig={state.kubeconfig}", *(str(arg) for arg in args)]
        answer = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        if answer.returncode:
            raise LabError(f"kubectl {' '.join(str(arg) for arg in args)}: {answer.stderr.strip()}")
        return answer.stdout

    def deploy(self, *helm_args: str, of: str = "clusterpolicy/cluster-policy", timeout: float = 120) -> None:
        """Install the lab's chart as its documentation says, and wait until the state of its resource is ready."""
        state = self.state
        install = [state.tools["helm"], "upgrade", "--install", "gpu-operator", state.chart]
        access = ["--namespace=gpu-operator", "--create-namespace", f"--kubeconfig={state.kubeconfig}"]
        command = [*install, *access, *helm_args]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if answer.returncode:
            raise LabError(f"helm could not install {state.chart}: {answer.stderr.strip()}")
        ready = ("--for=jsonpath={.status.state}=ready", f"--timeout={timeout}s")
        self.kubectl("wait", of, *ready, timeout=timeout + 10)

    def kubeconfig_for(self, user: str, *groups: str, expired: bool = False) -> Path:
        """Write a kubeconfig for a user without permissions, whose certificate may have expired; return its path."""
        return self._kubeconfig(user, client=self.authority.client(user, groups, expired=expired))

    def audited(self) -> list[dict[str, t.Any]]:
        """Return the requests of users and service accounts so far, as events of the API server's audit log."""
        log = controlplane.audit_log(self.folder)
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def kubeconfig_with_token(self, token: str) -> Path:
        """Write a kubeconfig with a bearer token, valid or not; return its path."""
        return self._kubeconfig("token", token=token)

    def token(self, service_account: str = "default", namespace: str = "default", *, lifetime: int = 3600) -> str:
        """Return a service account's token, as the API server issues it. A negative lifetime makes an expired one."""
        query = ("serviceaccount", service_account, f"--namespace={namespace}", "--output=jsonpath={.metadata.uid}")
        uid = self.kubectl("get", *query)
        return self.authority.token(namespace, service_account, uid, lifetime=lifetime)

    def _kubeconfig(self, user: str, **credentials: t.Any) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="user-", dir=self.folder))
        server = f"https://127.0.0.1:{self.state.ports['kube-apiserver']}"
        return pki.kubeconfig(folder / "kubeconfig", server=server, ca=self.authority.ca.cert, user=user, **credentials)

    def _get(self, path: str) -> bytes | None:
        return controlplane.get(self.state.ports["kube-apiserver"], path, self.authority)


@dataclass(frozen=True)
class ComponentHandle:
    """One component of a running lab."""

    lab: Lab
    name: str

    @property
    def process(self) -> Component:
        """The component's process, as last recorded."""
        return self.lab.state.components[self.name]

    def kill(self) -> None:
        """Make the component crash."""
        self.process.kill()

    def restart(self) -> None:
        """Stop the component if it still runs, start it again, and wait until it serves requests."""
        process = self.process
        process.stop()
        self.lab._launch(process)
        self.lab._wait(self.name, lambda: self.lab._serves(self.name))
