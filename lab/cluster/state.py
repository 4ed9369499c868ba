# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a lab: its folder, and state.json, in which every command finds the lab's processes and paths."""

from __future__ import annotations

import fcntl
import json
import os
import typing as t
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.cluster.nodes.agents.dra.kubelet import WIPE_S
from lab.cluster.nodes.agents.mounts import MAP_DELAY_S
from lab.cluster.nodes.agents.real import APPS
from lab.errors import LabError
from lab.process import Component


@dataclass(frozen=True)
class Options:
    """The options of a lab."""

    nodes: int | None = None
    """The number of nodes; None leaves the numbers to the fleet."""
    fleet: str | None = None
    """The name of a fleet in nodes/fleets/, or a file."""
    pods: str = "live"
    """`instant`: pods become ready at once. `live`: with the delays of a real node."""
    operator: str = "standin"
    """`standin`, `external`, or `none`."""
    upgrade_tick: float = 120
    """Seconds between the stand-in's checks for driver upgrades: two minutes, like NVIDIA's; less in most tests."""
    validation_seconds: float = 600
    """Seconds after which the stand-in gives up on a validator that is not ready after an upgrade, as NVIDIA's does."""
    manager_patience: float = 300
    """Seconds for which a driver manager waits for the pods of one operand, as NVIDIA's does."""
    mig_seconds: float = 20
    """Seconds that a MIG manager works on a change, once the operands' pods are gone.

    The change of an A100's mode alone took 12 seconds in the log of https://github.com/NVIDIA/gpu-operator/issues/1606.
    """
    mig_patience: float = 300
    """Seconds for which a MIG manager waits for the pods of one operand, as NVIDIA's does."""
    reboot_seconds: float = 60
    """Seconds of a node's reboot, which a MIG manager may start."""
    map_delay: float = MAP_DELAY_S
    """Seconds until a pod that runs shows an edited ConfigMap: a kubelet's sync period."""
    wipe_delay: float = WIPE_S
    """Seconds until a kubelet removes the ResourceSlices of a DRA driver that is away."""
    agents: t.Mapping[str, str] = field(default_factory=dict)
    """Command lines of a vendor's programs, by the name of the agent that each replaces."""
    operator_command: str | None = None
    operator_crds: tuple[str, ...] = ()
    chart: str | None = None
    """The chart that playbooks install: a folder, archive or reference. The default is the stand-in's chart."""
    port: int | None = None
    """The port of the API server; a free port by default."""
    feature_gates: str = ""
    """Kubernetes' feature gates, for every component: `DRAResourcePoolStatus=true,...`."""
    runtime_config: str = ""
    """The APIs that the API server serves besides its own choice, or not: `resource.k8s.io/v1beta1=true,...`."""
    audit: bool = False
    """Whether the API server logs who asked for what, and what it refused."""

    @property
    def served(self) -> tuple[str, str]:
        """The feature gates and the APIs of the control plane, where they differ from Kubernetes' own."""
        return self.feature_gates, self.runtime_config

    def __post_init__(self) -> None:
        unknown = self.agents.keys() - APPS
        if unknown:
            raise LabError(f"There is no agent {min(unknown)!r} to replace: choose from {', '.join(APPS)}.")
        if self.operator == "external" and not self.operator_command:
            raise LabError("An external operator needs --operator-command: the command line that runs it.")
        if self.operator != "external" and (self.operator_command or self.operator_crds):
            raise LabError("--operator-command and --operator-crds need --operator external.")


@dataclass
class State:
    """The content of state.json."""

    name: str
    kubeconfig: str
    options: Options
    ports: dict[str, int]
    tools: dict[str, str]
    chart: str
    phase: str = "starting"
    """`starting` until `up` has finished, then `up`."""
    components: dict[str, Component] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the file in one step, because other processes may read it at any time."""
        data = {
            **asdict(self),
            "components": {name: component.as_dict() for name, component in self.components.items()},
            # Short paths to the values that playbooks, tests and users of jq need.
            "kubectl": self.tools["kubectl"],
            "helm": self.tools["helm"],
            "operator": self.options.operator,
            "fleet": self.options.fleet,
            "pids": {name: component.pid for name, component in self.components.items()},
        }
        scratch = folder / ".state.json"
        scratch.write_text(json.dumps(data, indent=2) + "\n")
        scratch.rename(folder / "state.json")

    @classmethod
    def load(cls, folder: Path) -> State | None:
        """Return the state of the lab in a folder; None if there is no lab."""
        try:
            data = json.loads((folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LabError(
                f"{folder / 'state.json'} is not valid JSON ({error}): "
                f"stop the lab's processes if any still run, and remove {folder}."
            ) from None
        options = Options(**{**data["options"], "operator_crds": tuple(data["options"]["operator_crds"])})
        components = {name: Component.from_dict(entry) for name, entry in data["components"].items()}
        return cls(
            data["name"],
            data["kubeconfig"],
            options,
            data["ports"],
            data["tools"],
            data["chart"],
            data["phase"],
            components,
        )


def root() -> Path:
    """Return the folder of this user's labs."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gpuops-lab"


@contextmanager
def locked(name: str) -> t.Iterator[None]:
    """Let only one `up` or `down` at a time work on a lab; others wait."""
    root().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (root() / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
