# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml divides, shares and assigns a mixed fleet as examples/sharing says, and it becomes plain again."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows, tolerance

from lab.cluster import Lab, Options, faults
from tests.support.ansible import OPERATOR, ROOT, SITE, Run, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("nodes are drained, shared and made plain again")

EXAMPLE: dict[str, t.Any] = yaml.safe_load((ROOT / "examples" / "sharing" / "group_vars" / "all.yml").read_text())
VALUES = EXAMPLE["operator_values"]
WISHES = {name: EXAMPLE[name] for name in ("mig_layouts", "mig_allow_disruption", "sharing_configs")}
LIMITS = {name: value for name, value in EXAMPLE.items() if name.startswith("scheduling_")}
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
SCHEDULED = {
    "namespaces": ["notebooks", "research"],
    "resourcequotas": ["gpus", "gpus"],
    "priorityclasses": ["gpu-inference", "gpu-training"],
    "nodes": sorted(PLAIN),
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
    defaults = {name: option.get("default") for name, option in tolerance.SPEC.options.items()}
    options = {"namespace": "", "name": "", "allocated": True, **defaults}
    return node_rows.fleet_info(Cluster({"kubeconfig": str(lab.kubeconfig)}), options)


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
    """Run mig.yml, sharing.yml and scheduling.yml with the wishes of the example, as one command."""
    others = [str(PLAYBOOKS / f"{name}.yml") for name in ("sharing", "scheduling")]
    return on(lab).run(PLAYBOOKS / "mig.yml", *others, *arguments, **{**WISHES, **changes})


def site(lab: Lab, *arguments: str) -> Run:
    """Run site.yml with the example. test_site.py shows its proof."""
    wishes = {**WISHES, **LIMITS, "operator_values": VALUES, "verify_workload": False, "verify_metrics": False}
    return on(lab).run(SITE, *arguments, **wishes)


def made_for_scheduling(lab: Lab) -> dict[str, list[str]]:
    """Return the names of what the role scheduling has made, by kind, and of the nodes with its taint."""
    selector = "--selector=app.kubernetes.io/name=gpu-access"
    found = {
        kind: lab.kubectl(
            "get", kind, "--all-namespaces", selector, "--output=jsonpath={.items[*].metadata.name}"
        ).split()
        for kind in ("namespaces", "resourcequotas", "priorityclasses")
    }
    nodes = json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
    tainted = [node for node in nodes if "nvidia.com/gpu" in [each["key"] for each in node["spec"].get("taints", [])]]
    found["nodes"] = [node["metadata"]["name"] for node in tainted]
    return {kind: sorted(listed) for kind, listed in found.items() if listed}


def test_a_mixed_fleet_is_divided_shared_and_made_plain_again(mixed: Lab) -> None:
    before, plain = traces(mixed), stack(mixed)
    assert offered(plain) == PLAIN and plain["verdict"]["state"] == "ready"
    mixed.kubectl("apply", "--filename=-", stdin=json.dumps(WORKLOAD))
    mixed.kubectl("wait", "deployment/training", "--for=condition=Available", "--timeout=30s")

    ahead = site(mixed, "--check", "--diff")
    assert ahead.status == 0 and "default/training-" in ahead.output, ahead.output
    assert offered(stack(mixed)) == PLAIN
    there = site(mixed)
    assert there.status == 0, there.output
    assert ahead.changed == there.changed == 4, there.output
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
    assert made_for_scheduling(mixed) == SCHEDULED
    again = site(mixed)
    assert (again.status, again.changed) == (0, 0), again.output

    mixed.kubectl("delete", "deployment/training")
    back = share(mixed, mig_state="absent", sharing_state="absent")
    assert back.status == 0, back.output
    assert offered(stack(mixed)) == PLAIN and stack(mixed)["verdict"]["state"] == "ready"
    assert traces(mixed) == before
    assert made_for_scheduling(mixed) == {"namespaces": SCHEDULED["namespaces"]}
    configured = json.loads(mixed.kubectl("get", "clusterpolicy/cluster-policy", "--output=json"))["spec"]
    assert not (configured["devicePlugin"].get("config") or {}).get("name")


@pytest.mark.wide
def test_permission_for_mig_and_sharing_is_asked_before_anything_is_changed(mixed: Lab) -> None:
    mixed.kubectl("apply", "--filename=-", stdin=json.dumps(WORKLOAD))
    mixed.kubectl("wait", "deployment/training", "--for=condition=Available", "--timeout=30s")
    before, other = traces(mixed), {**VALUES, "dcgmExporter": {"enabled": False}}
    pool = {"name": "a100", "node_selector": {"pool": "a100"}}
    named = {**pool, "strategy": "time-slicing", "replicas": 2, "rename_by_default": True}
    try:
        for wishes, said in (
            ({"mig_layouts": WISHES["mig_layouts"]}, "allow_disruption permits it"),
            (
                {"sharing_configs": [{"name": "a100", "node_selector": {"pool": "a100"}, **named}]},
                "interrupts 1 GPU pod (default/training-",
            ),
        ):
            refused = on(mixed).run(SITE, operator_values=other, **wishes)
            assert refused.status == 2 and said in refused.message, refused.output
            policy = json.loads(mixed.kubectl("get", "clusterpolicy/cluster-policy", "--output=json"))["spec"]
            assert refused.changed == 0 and policy["dcgmExporter"]["enabled"] is not False, refused.output
            assert traces(mixed) == before
    finally:
        mixed.kubectl("delete", "deployment/training")


@pytest.mark.wide
def test_a_degraded_node_stops_nobody_and_the_label_of_another_team_stays(mixed: Lab) -> None:
    mark, module = "gpuops.nvidia/sharing", "gpuops.nvidia.gpu_sharing"
    mixed.kubectl("label", "node", "h100-0000", f"{LABEL}=t4-20240115")
    ended = on(mixed).module(module, state="absent", timeout=60)
    theirs = label_of(mixed, "h100-0000")
    mixed.kubectl("label", "node", "h100-0000", f"{LABEL}-")
    assert (ended.status, theirs) == (0, "t4-20240115"), ended.output
    four = {"name": "four", "strategy": "time-slicing", "replicas": 4}
    try:
        run = on(mixed).module(module, configs=[{**four, "nodes": ["t4-0000"]}], timeout=60)
        assert run.status == 0, run.output
        faults.unhealthy(mixed, "t4-0000", 1)
        old = f"{mark}={label_of(mixed, 't4-0000')} 2026-01-01T00:00:00Z"
        mixed.kubectl("annotate", "node", "t4-0000", "--overwrite", old)
        both = {**four, "nodes": ["t4-0000", "l40s-0000"]}
        run = on(mixed).module(module, configs=[both], canary=1, timeout=60)
        assert run.status == 0 and "t4-0000" in run.output and "degraded" in run.output, run.output
        assert offered(stack(mixed))["l40s-0000"] == {"nvidia.com/gpu": 4 * PLAIN["l40s-0000"]["nvidia.com/gpu"]}
    finally:
        faults.clear(mixed)
        gone = on(mixed).module(module, state="absent", timeout=60)
    assert gone.status == 0 and offered(stack(mixed)) == PLAIN, gone.output


LABEL = "nvidia.com/device-plugin.config"


def label_of(lab: Lab, name: str) -> str:
    """Return the configuration that a node's label names."""
    return str(json.loads(lab.kubectl("get", "node", name, "--output=json"))["metadata"]["labels"][LABEL])
