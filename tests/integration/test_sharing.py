# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mixed fleet is divided and shared as examples/sharing says, and becomes plain again: one run each way."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import fleet, tolerance

from lab.cluster import Lab, Options
from tests.support.ansible import OPERATOR, ROOT, Run, on
from tests.support.labs import running_lab

EXAMPLE: dict[str, t.Any] = yaml.safe_load((ROOT / "examples" / "sharing" / "group_vars" / "all.yml").read_text())
VALUES = EXAMPLE["operator_values"]
WISHES = {name: EXAMPLE[name] for name in ("mig_layouts", "mig_allow_disruption", "sharing_configs")}
PLAYBOOKS = ROOT / "playbooks"

PLAIN = {name: {"nvidia.com/gpu": 8} for name in ("a100-0000", "h100-0000")} | {
    name: {"nvidia.com/gpu": 4} for name in ("l40s-0000", "t4-0000")
}
DIVIDED = {
    "a100-0000": {"nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-2g.20gb": 8, "nvidia.com/mig-3g.40gb": 8},
    "h100-0000": {"nvidia.com/mig-1g.10gb": 56},
    "l40s-0000": {"nvidia.com/gpu": 4},
    "t4-0000": {"nvidia.com/gpu.shared": 16},
}
WORKLOAD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "training", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "training"}},
        "template": {
            "metadata": {"labels": {"app": "training"}},
            "spec": {
                "nodeSelector": {"pool": "a100"},
                "containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            },
        },
    },
}


@pytest.fixture(scope="module")
def mixed() -> t.Iterator[Lab]:
    """A lab with four kinds of GPUs whose nodes have the labels of the example, and the operator."""
    options = Options(fleet="sharing", pods="instant", upgrade_tick=3, mig_seconds=0.5, mig_patience=6)
    with running_lab("sharing", options) as lab:
        for name in PLAIN:
            lab.kubectl("label", "node", name, f"pool={name.partition('-')[0]}")
        run = on(lab).run(OPERATOR, operator_values=VALUES)
        assert run.status == 0, run.output
        yield lab


def stack(lab: Lab) -> dict[str, t.Any]:
    """Return what gpu_stack_info returns."""
    defaults = {name: option.get("default") for name, option in tolerance.OPTIONS.items()}
    options = {"namespace": "", "name": "", "allocated": True, **defaults}
    return fleet.fleet_info(Cluster({"kubeconfig": str(lab.kubeconfig)}), options)


def offered(found: dict[str, t.Any]) -> dict[str, dict[str, int]]:
    """Return the resources that pods can get, by node."""
    rows = {row["name"]: row["allocatable"] for row in found["nodes"]}
    return {node: {name: number for name, number in listed.items() if number} for node, listed in rows.items()}


def traces(lab: Lab) -> dict[str, t.Any]:
    """Return what a run could leave behind: marks of ours, layouts and configurations, paused operands, and cordons."""
    words = ("gpuops.nvidia/", "mig.config", "device-plugin.config", "gpu.deploy")
    return {
        node["metadata"]["name"]: {
            "marks": {
                key: value
                for key, value in {**node["metadata"]["labels"], **node["metadata"]["annotations"]}.items()
                if any(word in key for word in words) and not key.startswith("lab.")
            },
            "cordoned": node["spec"].get("unschedulable", False),
        }
        for node in json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
    }


def share(lab: Lab, *arguments: str, **changes: str) -> Run:
    """Run mig.yml and sharing.yml with the wishes of the example, as one command."""
    return on(lab).run(PLAYBOOKS / "mig.yml", str(PLAYBOOKS / "sharing.yml"), *arguments, **{**WISHES, **changes})


def test_a_mixed_fleet_is_divided_shared_and_made_plain_again(mixed: Lab) -> None:
    before, plain = traces(mixed), stack(mixed)
    assert offered(plain) == PLAIN and plain["verdict"]["state"] == "ready"
    mixed.kubectl("apply", "--filename=-", stdin=json.dumps(WORKLOAD))
    mixed.kubectl("wait", "deployment/training", "--for=condition=Available", "--timeout=30s")

    ahead = share(mixed, "--check", "--diff")
    assert ahead.status == 0 and "default/training-" in ahead.output, ahead.output
    assert offered(stack(mixed)) == PLAIN
    there = share(mixed)
    assert there.status == 0, there.output
    found = stack(mixed)
    assert offered(found) == DIVIDED
    assert found["verdict"]["state"] == "ready", found["verdict"]
    assert found["summary"]["slices"] == {
        "1g.10gb": {"expected": 72, "allocatable": 72, "allocated": 0},
        "2g.20gb": {"expected": 8, "allocatable": 8, "allocated": 0},
        "3g.40gb": {"expected": 8, "allocatable": 8, "allocated": 0},
    }
    assert [row["sharing"]["strategy"] for row in found["nodes"] if row["name"] == "t4-0000"] == ["time-slicing"]
    assert not any(row["cordoned"] for row in found["nodes"])
    again = share(mixed)
    assert (again.status, again.changed) == (0, 0), again.output

    mixed.kubectl("delete", "deployment/training")
    back = share(mixed, mig_state="absent", sharing_state="absent")
    assert back.status == 0, back.output
    assert offered(stack(mixed)) == PLAIN and stack(mixed)["verdict"]["state"] == "ready"
    assert traces(mixed) == before
    configured = json.loads(mixed.kubectl("get", "clusterpolicy/cluster-policy", "--output=json"))["spec"]
    assert not (configured["devicePlugin"].get("config") or {}).get("name")
