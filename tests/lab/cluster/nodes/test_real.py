# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A vendor's program runs in the place of an agent, for as long as the operand's pod is ready."""

from __future__ import annotations

import shutil
import time
import typing as t
from pathlib import Path

import pytest

from lab import nvml
from lab.cluster import LabError, Options
from lab.cluster.nodes.agents.real import RealAgents

Json = dict[str, t.Any]
WRITES = "sh -c 'echo nvidia.com/gpu.count=2 > features.d/gfd; echo $NODE_NAME $POD_NAMESPACE/$POD_NAME; sleep 60'"
NODE: Json = {
    "metadata": {
        "name": "gpu-0000",
        "annotations": {"lab.gpuops.nvidia/model": "H100", "lab.gpuops.nvidia/gpus": "2"},
    }
}


def pod(uid: str) -> Json:
    metadata = {"name": "gfd-1", "namespace": "ns", "uid": uid, "labels": {"app": "gpu-feature-discovery"}}
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def until(condition: t.Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not shutil.which("cc"), reason="the simulated NVML needs a C compiler")
def test_a_program_starts_and_ends_with_its_pod(tmp_path: Path) -> None:
    agents, place = RealAgents({"gpu-feature-discovery": WRITES}, tmp_path, "/kubeconfig"), tmp_path / "gpu-0000"
    assert agents.replaces("gpu-feature-discovery") and not agents.replaces("mig-manager")
    assert agents.play(NODE, [pod("first")])
    until(lambda: agents.labels(NODE) == {"nvidia.com/gpu.count": "2"})
    assert (place / "gpu-feature-discovery.log").read_text() == "gpu-0000 ns/gfd-1\n"
    (running,) = agents._running.values()
    agents.play(NODE, [pod("second")])
    running[1].wait(20)
    (other,) = agents._running.values()
    agents.play(NODE, [])
    other[1].wait(20)
    assert agents._running == {}

    assert agents.layout(NODE) == [None, None]
    gpus = nvml.read(place / "nvml.state")
    gpus[1].keys["mig"] = 1
    gpus[1].instances = [nvml.Instance("1g.10gb", 0), nvml.Instance("3g.40gb", 4, ("1c", "2c"))]
    nvml.state(place / "nvml.state", gpus)
    assert agents.layout(NODE) == [None, {"1g.10gb": 1, "1c.3g.40gb": 1, "2c.3g.40gb": 1}]


def test_an_agent_that_nothing_can_replace() -> None:
    with pytest.raises(LabError, match="no agent 'toolkit' to replace: choose from mig-manager, gpu-feature-discovery"):
        Options(agents={"toolkit": "x"})
