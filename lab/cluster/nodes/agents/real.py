# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of a vendor that run in the place of the lab's own agents: one process per node, on the node's own NVML.

A command runs while the operand's pod of its node is ready. It finds KUBECONFIG, NODE_NAME, POD_NAME, POD_NAMESPACE and
NODE_FOLDER in its environment, and LD_LIBRARY_PATH and FAKE_NVML_STATE for the simulated library. The folder holds the
library, its state, the node's sysfs (`root`), and what feature discovery writes (`features.d/gfd`).
"""

from __future__ import annotations

import collections
import os
import shlex
import subprocess
import typing as t
from pathlib import Path

from lab import nvml
from lab.cluster.api import Json
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.mig import Layout
from lab.cluster.nodes.agents.pods import is_ready, with_app
from lab.nvml.models import MODELS

APPS = {"mig-manager": "nvidia-mig-manager", "gpu-feature-discovery": "gpu-feature-discovery"}
"""The agents that a vendor's program can replace, with the label `app` of their pods."""
INTERVAL = 1.0
"""Seconds between looks at what the programs have written."""


class RealAgents:
    """The vendor's programs on all nodes."""

    def __init__(self, commands: t.Mapping[str, str], folder: Path, kubeconfig: str) -> None:
        self._commands, self._folder, self._kubeconfig = commands, folder, kubeconfig
        self._running: dict[tuple[str, str], tuple[str, subprocess.Popen[bytes]]] = {}

    def replaces(self, agent: str) -> bool:
        """Return whether a vendor's program takes the place of an agent."""
        return agent in self._commands

    def play(self, node: Json, pods: list[Json]) -> bool:
        """Start and stop the programs of a node with their pods. Return whether there are any."""
        for agent, command in self._commands.items():
            key = node["metadata"]["name"], agent
            pod = next(filter(is_ready, with_app(pods, APPS[agent])), None)
            uid = "" if pod is None else pod["metadata"]["uid"]
            known, process = self._running.get(key, ("", None))
            if process is not None and (known != uid or process.poll() is not None):
                process.terminate()
                del self._running[key]
            if pod is not None and key not in self._running:
                self._running[key] = uid, self._start(agent, command, node, pod)
        return bool(self._commands)

    def layout(self, node: Json) -> Layout:
        """Return the layout that the node's NVML has."""
        found: Layout = []
        for gpu in nvml.read(self._place(node) / "nvml.state"):
            names = [name for instance in gpu.instances for name in _devices(instance)]
            found.append(dict(collections.Counter(names)) if str(gpu.keys.get("mig", 0)) == "1" else None)
        return found

    def labels(self, node: Json) -> dict[str, str]:
        """Return the labels that feature discovery has written."""
        file = self._place(node) / "features.d" / "gfd"
        lines = file.read_text().splitlines() if file.exists() else []
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def _start(self, agent: str, command: str, node: Json, pod: Json) -> subprocess.Popen[bytes]:
        place = self._place(node)
        env = {
            "KUBECONFIG": self._kubeconfig,
            "NODE_NAME": node["metadata"]["name"],
            "NODE_FOLDER": str(place),
            "POD_NAME": pod["metadata"]["name"],
            "POD_NAMESPACE": pod["metadata"]["namespace"],
            "LD_LIBRARY_PATH": str(place),
            "FAKE_NVML_STATE": str(place / "nvml.state"),
        }
        with (place / f"{agent}.log").open("ab") as log:
            return subprocess.Popen(
                shlex.split(command), cwd=place, env={**os.environ, **env}, stdout=log, stderr=subprocess.STDOUT
            )

    def _place(self, node: Json) -> Path:
        """Return the folder of a node, with its library and its GPUs."""
        place = self._folder / str(node["metadata"]["name"])
        if not (place / "nvml.state").exists():
            (place / "features.d").mkdir(parents=True, exist_ok=True)
            model, count = MODELS[note(node, "model").lower()], int(note(node, "gpus"))
            nvml.build(place)
            nvml.plant(place / "root", model, count)
            nvml.state(place / "nvml.state", nvml.machine(model, count))
        return place


def _devices(instance: nvml.Instance) -> t.Iterator[str]:
    """Yield the names of an instance's MIG devices: its own name, or those of its compute instances."""
    if instance.compute is None:
        yield instance.profile
        return
    whole = f"{instance.profile.split('g.')[0]}c"
    for part in instance.compute:
        yield instance.profile if part == whole else f"{part}.{instance.profile}"
