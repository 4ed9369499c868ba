# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a lab leaves on disk: its folder, and state.json, from which everything is found again."""

from __future__ import annotations

import fcntl
import json
import os
import typing as t
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.errors import LabError
from lab.process import Component


@dataclass(frozen=True)
class Options:
    """How a lab is to be."""

    nodes: int | None = None
    """How many nodes; for a fleet of several pools, None leaves its own numbers."""
    fleet: str | None = None
    """The name of a fleet under fleets/, or a file."""
    pods: str = "live"
    """`instant`: pods are ready as soon as they may be. `live`: they take their time, as on a real node."""
    operator: str = "standin"
    """`standin`, `external`, or `none`."""
    upgrade_tick: float = 120
    """Seconds between the stand-in's looks at a driver upgrade. NVIDIA's own are two minutes; tests of other things shorten them."""
    operator_command: str | None = None
    operator_crds: tuple[str, ...] = ()
    chart: str | None = None
    """The operator chart for playbooks to install: a folder, archive or reference. The stand-in has its own."""
    port: int | None = None
    """The API server's; a free one by default."""

    def __post_init__(self) -> None:
        if self.operator == "external" and not self.operator_command:
            raise LabError("An external operator needs --operator-command: the command line that runs it.")
        if self.operator != "external" and (self.operator_command or self.operator_crds):
            raise LabError("--operator-command and --operator-crds go with --operator external.")


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
    """`starting` until `up` is through, then `up`."""
    components: dict[str, Component] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write it whole or not at all: others read it at any time."""
        data = {
            **asdict(self),
            "components": {name: component.as_dict() for name, component in self.components.items()},
            # For those who need no more than this: playbooks, tests, and people with jq.
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
        """The state of the lab in this folder; None when there is none."""
        try:
            data = json.loads((folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LabError(
                f"{folder / 'state.json'} is not readable ({error}): end the lab's processes, if any run, and remove {folder}."
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
    """Where the labs of this user live."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gpuops-lab"


@contextmanager
def locked(name: str) -> t.Iterator[None]:
    """Only one `up` or `down` works on a lab at a time; a second one waits."""
    root().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (root() / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
