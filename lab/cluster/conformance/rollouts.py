# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recorded scenarios of NVIDIADrivers with several pools, and of driver upgrades that are disturbed.

They go on where those of `scenarios` end: the nodes belong to the NVIDIADriver `default`. NVIDIA's operator was
recorded with five seconds between its checks for upgrades instead of two minutes, and was unchanged otherwise. The
stand-in has not been held against these recordings yet; `node-fails` has not been recorded.
"""

from __future__ import annotations

import json
import time
import typing as t

from lab.cluster import faults
from lab.cluster.conformance.scenarios import Scenario, quick_drivers, slow_drivers
from lab.cluster.lab import Lab

Json = dict[str, t.Any]

_STATE = "nvidia.com/gpu-driver-upgrade-state"
_OS = "feature.node.kubernetes.io/system-os_release."
_SLOW = 12
"""Seconds that a driver needs while a node is taken down, so that each becomes ready later."""
_RHEL = (f"{_OS}ID=rhel", f"{_OS}VERSION_ID=9.4", f"{_OS}VERSION_ID.major=9")
_JAMMY = (f"{_OS}ID=ubuntu", f"{_OS}VERSION_ID=22.04")


def _driver(lab: Lab, name: str, **fields: t.Any) -> None:
    """Create an NVIDIADriver like the default one, with other fields."""
    body = json.loads(lab.kubectl("get", "nvidiadriver", "default", "--output=json"))
    spec = {**body["spec"], "default": False, **fields}
    made = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {"name": name}, "spec": spec}
    lab.kubectl("create", "--filename=-", stdin=json.dumps(made))


def _change(lab: Lab, **fields: t.Any) -> None:
    """Change fields of the default NVIDIADriver."""
    lab.kubectl("patch", "nvidiadriver", "default", "--type=merge", "--patch", json.dumps({"spec": fields}))


def _first_to_restart(lab: Lab) -> str:
    """Return the first node that waits for its new driver pod."""
    query = ("get", "nodes", f"--selector={_STATE}=pod-restart-required", "--output=name")
    deadline = time.monotonic() + 90
    while not (found := lab.kubectl(*query).split()):
        if time.monotonic() > deadline:
            raise TimeoutError("No node has come to pod-restart-required.")
        time.sleep(0.1)
    return found[0].removeprefix("node/")


def _pool(lab: Lab) -> None:
    """Give a node to another NVIDIADriver with another version."""
    lab.kubectl("label", "node", "gpu-0002", "conformance/pool=b")
    _driver(lab, "pool-b", nodeSelector={"conformance/pool": "b"}, version="595.99.03")


def _overlap(lab: Lab) -> None:
    """Let two NVIDIADrivers select the same node."""
    _driver(lab, "overlap", nodeSelector={"kubernetes.io/hostname": "gpu-0002"})


def _second_default(lab: Lab) -> None:
    _driver(lab, "other-default", default=True)


def _mixed_systems(lab: Lab) -> None:
    """Let the nodes have three operating systems, as Node Feature Discovery reports them."""
    lab.kubectl("label", "node", "gpu-0001", "--overwrite", *_RHEL)
    lab.kubectl("label", "node", "gpu-0003", "--overwrite", *_JAMMY)


def _without(name: str) -> t.Callable[[Lab], object]:
    return lambda lab: lab.kubectl("delete", "nvidiadriver", name)


def _operator_restarts(lab: Lab) -> None:
    """Upgrade slow drivers, and restart the operator once the first node waits for its new driver pod."""
    slow_drivers(lab)
    _change(lab, version="595.99.04")
    _first_to_restart(lab)
    lab.component("operator").restart()


def _restart_only(lab: Lab) -> None:
    """Change a part of the pods that does not concern the driver."""
    _change(lab, labels={"team": "conformance"})


def _node_fails(lab: Lab) -> None:
    """Upgrade, and let a node go down once it waits for its new driver pod."""
    slow_drivers(lab, f"{_SLOW}s")
    _change(lab, version="595.99.05")
    faults.node(lab, _first_to_restart(lab), "down")


def _node_is_back(lab: Lab) -> None:
    faults.clear(lab)
    quick_drivers(lab)


ROLLOUTS = (
    Scenario("pool", _pool, ("policies", "drivers", "daemonsets", "nodes", "hand-overs")),
    Scenario("overlap", _overlap, ("policies", "drivers", "nodes"), undo=_without("overlap")),
    Scenario("two-defaults", _second_default, ("policies", "drivers", "nodes"), undo=_without("other-default")),
    Scenario("mixed-systems", _mixed_systems, ("policies", "drivers", "daemonsets", "nodes", "hand-overs")),
    Scenario("restart-only", _restart_only, ("drivers", "journeys", "daemonsets")),
    Scenario("operator-restarts", _operator_restarts, ("drivers", "journeys"), undo=quick_drivers),
    Scenario("node-fails", _node_fails, ("drivers", "journeys"), undo=_node_is_back, pause=_SLOW),
)
