# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mixed fleet gets its MIG layouts on the lab, also where the MIG manager gets stuck and runs are killed."""

from __future__ import annotations

import json
import os
import signal
import time
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, Options, faults
from tests.support.ansible import ROOT, Playbook, on
from tests.support.labs import running_lab

MODULE = "gpuops.nvidia.mig_config"
PLAYBOOK = ROOT / "playbooks" / "mig.yml"
A100, H100 = "a100-0000", "h100-0000"
LAYOUTS = [{"layout": "all-balanced", "nodes": [A100]}, {"layout": "all-1g.10gb", "nodes": [H100]}]
BACK = [{"nodes": [A100, H100]}]


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Lab]:
    """A100, H100, T4 and L40S with a ready stack, whose MIG manager is quick."""
    with running_lab("mig", Options(fleet="sharing", mig_seconds=0.5, mig_patience=6, reboot_seconds=3)) as lab:
        lab.deploy()
        lab.kubectl(
            "patch", "clusterpolicy", "cluster-policy", "--type=merge", '--patch={"spec":{"mig":{"strategy":"mixed"}}}'
        )
        run = on(lab).module("gpuops.nvidia.clusterpolicy_info", wait=True, wait_timeout=120)
        assert run.status == 0, run.output
        yield lab


def node(lab: Lab, name: str) -> dict[str, t.Any]:
    return dict(json.loads(lab.kubectl("get", "node", name, "--output=json")))


def offered(lab: Lab, name: str) -> dict[str, str]:
    """Return the GPU resources of a node, without those of which there are none."""
    found = node(lab, name)["status"]["allocatable"].items()
    return {key: value for key, value in found if key.startswith("nvidia.com/") and value != "0"}


def is_in_service(lab: Lab, name: str) -> bool:
    """Return whether a node takes pods, and nothing on it is held or paused."""
    found = node(lab, name)
    notes = [key for key in found["metadata"].get("annotations", {}) if key.startswith("gpuops.nvidia/maintenance")]
    paused = [key for key, value in found["metadata"]["labels"].items() if "paused-for-mig-change" in value]
    return not found["spec"].get("unschedulable") and not notes and not paused


def test_a_mixed_fleet_gets_its_layouts_and_back_by_two_runs(fleet: Lab) -> None:
    ansible, plain = on(fleet), {name: offered(fleet, name) for name in (A100, H100, "t4-0000", "l40s-0000")}
    predicted = ansible.run(PLAYBOOK, "--check", "--diff", mig_layouts=LAYOUTS)
    assert predicted.status == 0 and predicted.changed == 1, predicted.output
    assert {name: offered(fleet, name) for name in plain} == plain
    run = ansible.run(PLAYBOOK, mig_layouts=LAYOUTS, mig_max_unavailable="2")
    assert run.status == 0 and run.changed == 1, run.output
    assert offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}
    assert all(key.startswith("nvidia.com/mig-") for key in offered(fleet, A100)), offered(fleet, A100)
    assert {name: offered(fleet, name) for name in ("t4-0000", "l40s-0000")} == {
        name: plain[name] for name in ("t4-0000", "l40s-0000")
    }
    again = ansible.run(PLAYBOOK, mig_layouts=LAYOUTS)
    assert again.status == 0 and again.changed == 0, again.output
    back = ansible.run(PLAYBOOK, mig_layouts=BACK, mig_state="absent", mig_max_unavailable="2")
    assert back.status == 0, back.output
    assert {name: offered(fleet, name) for name in plain} == plain and is_in_service(fleet, A100)
    assert ansible.run(PLAYBOOK, mig_layouts=BACK, mig_state="absent").changed == 0


@pytest.fixture
def divided(fleet: Lab) -> t.Iterator[Playbook]:
    """An H100 in another layout before the test, and whole afterwards."""
    ansible = on(fleet)
    run = ansible.module(MODULE, layout="all-disabled", nodes=[H100], timeout=30)
    assert run.status == 0, run.output
    yield ansible
    faults.clear(fleet)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("pods-stay", "the MIG manager was started again, because its run had stopped (state pending)"),
        ("validator", "the MIG manager was started again, because its run had stopped (state pending)"),
        ("hangs", "the MIG manager was started again, because its run had stopped (state pending)"),
    ],
)
def test_a_change_that_is_stuck_heals(fleet: Lab, divided: Playbook, trouble: str, said: str) -> None:
    faults.mig(fleet, H100, trouble)
    run = divided.module(MODULE, layout="all-3g.40gb", nodes=[H100], timeout=15)
    assert run.status == 0 and said in run.output, run.output
    assert offered(fleet, H100) == {"nvidia.com/mig-3g.40gb": "16"} and is_in_service(fleet, H100)


def test_operands_that_a_failed_change_left_paused_come_back(fleet: Lab, divided: Playbook) -> None:
    faults.mig(fleet, H100, "left-paused")
    run = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100], timeout=30)
    assert run.status == 2 and "operands that were left paused" in run.output, run.output
    assert is_in_service(fleet, H100)
    healed = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100], timeout=30)
    assert healed.status == 0 and offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}, healed.output


def test_a_run_that_is_killed_in_the_middle_is_resumed(fleet: Lab, divided: Playbook) -> None:
    options = json.dumps({"layout": "all-1g.10gb", "nodes": [H100]})
    process = divided.command(["ansible", "localhost", "--module-name", MODULE, "--args", options])
    deadline = time.monotonic() + 60
    while node(fleet, H100)["metadata"]["labels"].get("nvidia.com/mig.config") != "all-1g.10gb":
        assert time.monotonic() < deadline, "the change did not begin"
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    run = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100], timeout=30)
    assert run.status == 0 and is_in_service(fleet, H100), run.output
    assert offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}


def test_a_pod_on_a_gpu_leaves_only_with_permission(fleet: Lab, divided: Playbook, tmp_path: Path) -> None:
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": H100},
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    template = {"metadata": {"labels": {"app": "train"}}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "train"}}, "template": template}
    metadata = {"name": "train", "namespace": "default"}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    fleet.kubectl("create", "--filename=-", stdin=json.dumps(body))
    try:
        fleet.kubectl("rollout", "status", "deployment/train", "--timeout=60s")
        refused = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100])
        assert refused.status == 2 and "would be evicted (allow_disruption permits it)" in refused.output
        run = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100], allow_disruption=True, timeout=30)
        assert run.status == 0 and "default/train-" in run.output, run.output
    finally:
        fleet.kubectl("delete", "deployment", "train", "--cascade=foreground", "--timeout=60s")
