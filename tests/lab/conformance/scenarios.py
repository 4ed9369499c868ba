# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recorded scenarios, to be done to a lab one after the other."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
from dataclasses import dataclass

from ..api import Api
from ..lab import Lab
from ..recorder import Recorder
from .facts import facts

Json = dict[str, t.Any]

_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
    "feature.node.kubernetes.io/kernel-version.full": "6.8.0-31-generic",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/mig.capable": "true",
}
_VALUES = (
    "--set=nfd.enabled=false",
    "--set=driver.upgradePolicy.maxParallelUpgrades=2",
    "--set-string=driver.upgradePolicy.maxUnavailable=50%",
    "--set=daemonsets.tolerations[0].operator=Exists",
    # NVIDIA's operator was recorded running outside of the cluster, where no taint could drive it away.
    "--set=operator.tolerations[0].operator=Exists",
)


@dataclass(frozen=True)
class Scenario:
    """What is done, and which of the facts do not depend on the speed of the machine that it was recorded on."""

    name: str
    act: t.Callable[[Lab], object]
    compared: tuple[str, ...]
    moments: tuple[str, ...] = ()
    """Misleading moments that must be seen."""


def prepare(lab: Lab) -> None:
    """The nodes as they were when the recordings were made."""
    pairs = [f"{key}={value}" for key, value in _LABELS.items()]
    lab.kubectl("label", "node", "--all", "--overwrite", *pairs)


def install(lab: Lab) -> None:
    """Install the chart."""
    command = [
        str(lab.helm),
        "install",
        "gpu-operator",
        str(lab.chart),
        "--namespace=gpu-operator",
        "--create-namespace",
        f"--kubeconfig={lab.kubeconfig}",
        *_VALUES,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _patch(spec: Json) -> t.Callable[[Lab], str]:
    return lambda lab: lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", "--patch", json.dumps({"spec": spec}))


def _second_policy(lab: Lab) -> None:
    policy = json.loads(lab.kubectl("get", "clusterpolicy", "cluster-policy", "--output=json"))
    another = {**policy, "metadata": {"name": "another"}}
    another.pop("status")
    lab.kubectl("create", "--filename=-", stdin=json.dumps(another))


def _taint(lab: Lab) -> None:
    _patch({"daemonsets": {"tolerations": None}})(lab)
    lab.kubectl("taint", "node", "--all", "conformance=yes:NoExecute")


SCENARIOS = (
    Scenario("install", install, ("policies", "daemonsets", "nodes")),
    Scenario(
        "upgrade",
        _patch({"driver": {"version": "595.99.01"}}),
        ("policies", "journeys", "daemonsets"),
        ("ready before the change was looked at", "ready while a node is cordoned"),
    ),
    Scenario("second-clusterpolicy", _second_policy, ("policies", "nodes")),
    Scenario(
        "toggle",
        _patch({"dcgmExporter": {"enabled": False}, "nodeStatusExporter": {"enabled": True}}),
        ("policies", "daemonsets", "nodes"),
        ("ready before the change was looked at", "ready with a DaemonSet that nobody has looked at"),
    ),
    Scenario("tainted", _taint, ("policies", "daemonsets", "nodes"), ("ready before the change was looked at", "ready without any pod")),
)


def perform(lab: Lab, scenario: Scenario, quiet: float, limit: float = 120) -> Json:
    """Do it, record until nothing has changed for some seconds, and reduce what was recorded."""
    recorder = Recorder(Api(str(lab.kubeconfig)))
    # Far enough from the recorder's start for `facts` to tell apart what was there already.
    time.sleep(2)
    scenario.act(lab)
    deadline = time.monotonic() + limit
    seen, since = -1, time.monotonic()
    while time.monotonic() < min(deadline, since + quiet):
        time.sleep(0.2)
        if len(recorder.lines) != seen:
            seen, since = len(recorder.lines), time.monotonic()
    return facts(recorder.stop())
