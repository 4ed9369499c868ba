# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes of a cluster as the only inventory of a playbook."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab
from tests.support.ansible import ROOT, Playbook

PLAYBOOKS = ROOT / "playbooks"
SHARED = {"name": "four", "strategy": "time-slicing", "replicas": 4, "nodes": ["gpu-0001"]}

FLEET = {
    "plugin": "gpuops.nvidia.gpu_nodes",
    "keyed_groups": [{"prefix": "model", "key": "gpu_node.product"}, {"prefix": "state", "key": "gpu_node.state"}],
    "groups": {"idle": "gpu_node.free.values() | sum == 8"},
    "free": True,
    "strict": True,
}


@pytest.fixture
def fleet(lab: Lab, ansible: Playbook, tmp_path: Path) -> Path:
    """The file of an inventory of the shared lab, whose stack is ready."""
    ansible.set_up("stack")
    path = tmp_path / "fleet.gpu_nodes.yml"
    path.write_text(yaml.safe_dump({**FLEET, "kubeconfig": str(lab.kubeconfig)}))
    return path


def test_the_nodes_are_the_inventory(lab: Lab, ansible: Playbook, fleet: Path) -> None:
    listed = ansible.finish(ansible.command(["ansible-inventory", "--inventory", str(fleet), "--list"]), 60)
    assert listed.status == 0, listed.output
    groups = json.loads(listed.output[listed.output.index("{") :])
    nodes = sorted(
        json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"], key=lambda each: each["metadata"]["name"]
    )
    names = [each["metadata"]["name"] for each in nodes]
    assert sorted(groups["_meta"]["hostvars"]) == groups["gpu_hosts"]["hosts"] == names
    assert groups["state_ready"]["hosts"] == groups["idle"]["hosts"] == names
    address = {each["type"]: each["address"] for each in nodes[0]["status"]["addresses"]}["InternalIP"]
    shown = groups["_meta"]["hostvars"][names[0]]["ansible_host"]
    assert (shown["__ansible_unsafe"] if isinstance(shown, dict) else shown) == address
    assert groups["model_NVIDIA_H100_80GB_HBM3"]["hosts"] == names
    check = ansible.run(ROOT / "playbooks" / "verify.yml", "--inventory", str(fleet), "--limit", "localhost,gpu_hosts")
    assert check.status == 0, check.output


@pytest.mark.wide
@pytest.mark.slow("five playbooks run against all nodes, whose hosts do not answer")
@pytest.mark.parametrize(
    ("playbook", "options", "shown"),
    [
        ("report", {"report_path": "{folder}/fleet.html"}, "gpu-0000"),
        ("diagnose", {}, "gpu-0000"),
        ("mig", {"mig_layouts": [{"layout": "all-1g.10gb", "nodes": ["gpu-0000"]}]}, "gpu-0000"),
        ("sharing", {"sharing_configs": [SHARED]}, "four"),
        (
            "upgrade_driver",
            {"driver_container_version": "595.99.02", "driver_container_skip": ["image"]},
            "595.99.02-ubuntu24.04",
        ),
    ],
)
def test_day_2_needs_no_other_inventory(
    ansible: Playbook, fleet: Path, tmp_path: Path, playbook: str, options: dict[str, t.Any], shown: str
) -> None:
    """The hosts of the lab's nodes do not answer: what they would say is missing, and the rest is complete."""
    chosen = json.loads(json.dumps(options).replace("{folder}", str(tmp_path)))
    arguments = ("--inventory", str(fleet), "--check", "--diff", "-v", "--ssh-extra-args=-o ConnectTimeout=2")
    run = ansible.run(PLAYBOOKS / f"{playbook}.yml", *arguments, **chosen)
    assert run.status == 0, run.output
    assert shown in run.output
