# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mixed fleet goes to what its pools declare, to another declaration, and back to plain, on a real API server."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from lab.cluster import Lab, faults, kubevirt
from tests.integration.test_workload_kind import SPEC
from tests.support.ansible import ROOT, Playbook, Run, kill_all, on
from tests.support.bookings import recorded
from tests.support.labs import running_sharing_fleet
from tests.support.waits import sees

PLAYBOOK = ROOT / "playbooks" / "pools.yml"
PERMITTED: dict[str, t.Any] = {"pools_allow_disruption": True, "pools_drain_timeout": 20, "pools_timeout": 60}
MARKS = "gpuops.nvidia/"
HELD = "gpuops.nvidia/maintenance."


@pytest.fixture(scope="module")
def mixed() -> t.Iterator[Lab]:
    """A100, H100, T4 and L40S, with the operands for virtual machines and KubeVirt's kinds."""
    with running_sharing_fleet("pools") as lab:
        lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", f"--patch={json.dumps({'spec': SPEC})}")
        kubevirt.deploy(lab, {})
        yield lab


@pytest.fixture
def ansible(mixed: Lab) -> t.Iterator[Playbook]:
    """The fleet with plain nodes, before and after."""
    playbook = on(mixed)
    yield playbook
    faults.clear(mixed)
    mixed.kubectl("delete", "pods,deployments", "--all", "--namespace=default", "--grace-period=0")
    if any(marks(each) for each in fleet(mixed).values()):
        works(playbook.run(PLAYBOOK, **PERMITTED, pools_declared=[]))


def works(run: Run) -> Run:
    assert run.status == 0, run.output
    return run


def fleet(lab: Lab) -> dict[str, t.Any]:
    listed = json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
    return {item["metadata"]["name"]: item for item in listed}


def marks(node: dict[str, t.Any]) -> list[str]:
    """Return what a run could leave behind on a node: marks of ours, and the cordon."""
    found = [key for key in node["metadata"].get("annotations", {}) if key.startswith(MARKS)]
    return sorted([*found, *(["cordoned"] if node["spec"].get("unschedulable") else [])])


def offers(node: dict[str, t.Any]) -> dict[str, str]:
    listed = node["status"]["allocatable"]
    return {key: number for key, number in listed.items() if key.startswith("nvidia.com/") and number != "0"}


def holds(events: t.Iterable[dict[str, t.Any]]) -> dict[str, int]:
    """Return how often this collection took each node out of service."""
    found: dict[str, int] = {}
    was: dict[str, bool] = {}
    for event in events:
        metadata = event["object"]["metadata"]
        name, is_out = metadata["name"], any(key.startswith(HELD) for key in metadata.get("annotations", {}))
        found[name] = found.get(name, 0) + (is_out and not was.get(name, False))
        was[name] = is_out
    return found


def changes(run: Run) -> dict[str, t.Any]:
    """Return what a run says that it changed on each node."""
    after = re.search(r"^\+\+\+ after\n(.*?)^changed: ", run.output, re.MULTILINE | re.DOTALL)
    assert after, run.output
    text = "".join(line[1:] for line in after[1].splitlines(keepends=True) if line[:1] in " +")
    return t.cast("dict[str, t.Any]", json.loads(text))


def train(lab: Lab, node: str, end_s: int = 0) -> None:
    """Let a pod of a ReplicaSet use a GPU of a node. It takes its time to end."""
    container = {"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    labels = {"app": f"train-{node}"}
    template = {
        "metadata": {"labels": labels, "annotations": {"lab.gpuops.nvidia/end-delay": f"{end_s}s"} if end_s else {}},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"train-{node}", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    lab.kubectl("create", "--filename=-", stdin=json.dumps(deployment))
    lab.kubectl("rollout", "status", f"deployment/train-{node}", "--namespace=default", "--timeout=60s")


SLICES = [{"name": "nvidia.com/mig-1g.10gb", "replicas": 2}]
FIRST: list[dict[str, t.Any]] = [
    {
        "name": "notebooks",
        "nodes": ["a100-0000"],
        "mig_layout": "all-1g.10gb",
        "sharing": {"strategy": "time-slicing", "resources": SLICES},
        "taints": [{"key": "nvidia.com/gpu", "value": "notebooks"}],
    },
    {"name": "desktops", "nodes": ["l40s-0000"], "kind": "vm-passthrough"},
    {"name": "web", "nodes": ["t4-0000"], "sharing": {"strategy": "time-slicing", "replicas": 4}},
]
SECOND: list[dict[str, t.Any]] = [
    {"name": "machines", "nodes": ["a100-0000"], "kind": "vm-passthrough"},
    {"name": "desktops", "nodes": ["l40s-0000"], "sharing": {"strategy": "time-slicing", "replicas": 2}},
    {"name": "notebooks", "nodes": ["h100-0000"], "mig_layout": "all-1g.10gb"},
]


@pytest.mark.slow("a node is divided and shared")
def test_a_node_is_drained_once_for_all_of_its_changes(mixed: Lab, ansible: Playbook) -> None:
    train(mixed, "a100-0000")
    pools = FIRST[:1]
    refused = ansible.run(PLAYBOOK, pools_declared=pools)
    assert refused.status != 0 and "default/train-a100-0000" in refused.message
    assert not any(marks(each) for each in fleet(mixed).values())
    ahead = works(ansible.run(PLAYBOOK, "--check", "--diff", **PERMITTED, pools_declared=pools))
    assert not any(marks(each) for each in fleet(mixed).values())
    with recorded(mixed, "nodes") as events:
        run = works(ansible.run(PLAYBOOK, "--diff", **PERMITTED, pools_declared=pools))
        assert holds(events()) == {"a100-0000": 1, "h100-0000": 0, "l40s-0000": 0, "t4-0000": 0}
    assert changes(run) == changes(ahead) == {"a100-0000": {"mig": "all-1g.10gb", "pods": [], "sharing": "notebooks"}}
    node = fleet(mixed)["a100-0000"]
    assert (offers(node), "cordoned" in marks(node)) == ({"nvidia.com/mig-1g.10gb": "112"}, False)
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["nvidia.com/gpu"]
    assert works(ansible.run(PLAYBOOK, **PERMITTED, pools_declared=pools)).changed == 0


# ---- every case -----------------------------------------------------------------------------------------------------


wide = pytest.mark.wide


@wide
@pytest.mark.slow("a fleet goes to two declarations and back")
def test_a_mixed_fleet_goes_to_another_declaration_and_back(mixed: Lab, ansible: Playbook) -> None:
    seen = []
    for pools in (FIRST, SECOND, []):
        ahead = works(ansible.run(PLAYBOOK, "--check", "--diff", **PERMITTED, pools_declared=pools))
        with recorded(mixed, "nodes") as events:
            run = works(ansible.run(PLAYBOOK, "--diff", **PERMITTED, pools_declared=pools))
            assert max(holds(events()).values()) == 1
        assert changes(run) == changes(ahead)
        assert works(ansible.run(PLAYBOOK, **PERMITTED, pools_declared=pools)).changed == 0
        seen.append({name: offers(node) for name, node in fleet(mixed).items()})
    plain = {
        "a100-0000": {"nvidia.com/gpu": "8"},
        "h100-0000": {"nvidia.com/gpu": "8"},
        "l40s-0000": {"nvidia.com/gpu": "4"},
        "t4-0000": {"nvidia.com/gpu": "4"},
    }
    assert seen == [
        {
            **plain,
            "a100-0000": {"nvidia.com/mig-1g.10gb": "112"},
            "l40s-0000": {"nvidia.com/AD102GL_L40S": "4"},
            "t4-0000": {"nvidia.com/gpu": "16"},
        },
        {
            **plain,
            "a100-0000": {"nvidia.com/GA100_A100_SXM4_80GB": "8"},
            "h100-0000": {"nvidia.com/mig-1g.10gb": "56"},
            "l40s-0000": {"nvidia.com/gpu": "8"},
        },
        plain,
    ]
    assert [marks(node) for node in fleet(mixed).values()] == [[]] * 4
    assert "gpuops-sharing" not in mixed.kubectl("get", "configmaps", "--namespace=gpu-operator", "--output=name")


MOMENTS: dict[str, t.Callable[[dict[str, t.Any]], bool]] = {
    "drain": lambda node: "cordoned" in marks(node),
    "layout": lambda node: "gpuops.nvidia/mig" in marks(node),
    "sharing": lambda node: "gpuops.nvidia/sharing" in marks(node),
}


@wide
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.slow("a run is killed, and the next one goes on")
def test_a_run_that_was_killed_is_continued(mixed: Lab, ansible: Playbook, moment: str) -> None:
    train(mixed, "a100-0000", end_s=6 if moment == "drain" else 0)
    pools = FIRST[:1]
    process = ansible.plain.start(PLAYBOOK, **PERMITTED, pools_declared=pools)
    sees(lambda: MOMENTS[moment](fleet(mixed)["a100-0000"]))
    kill_all(process)
    assert "cordoned" in marks(fleet(mixed)["a100-0000"])
    ahead = works(ansible.run(PLAYBOOK, "--check", **PERMITTED, pools_declared=pools))
    assert ahead.changed >= 1 and "earlier run" in ahead.output and "cordoned" in marks(fleet(mixed)["a100-0000"])
    works(ansible.run(PLAYBOOK, **PERMITTED, pools_declared=pools))
    node = fleet(mixed)["a100-0000"]
    assert (offers(node), "cordoned" in marks(node)) == ({"nvidia.com/mig-1g.10gb": "112"}, False)
    assert works(ansible.run(PLAYBOOK, **PERMITTED, pools_declared=pools)).changed == 0


@wide
@pytest.mark.slow("a node fails its proof, and then passes it")
def test_a_node_that_fails_stays_held_and_the_others_go_on(mixed: Lab, ansible: Playbook) -> None:
    faults.unbound(mixed, "l40s-0000", 1)
    short = {**PERMITTED, "pools_timeout": 20, "pools_max_failed": "1"}
    run = works(ansible.run(PLAYBOOK, **short, pools_declared=FIRST))
    assert "vfio-pci-validation" in run.output
    nodes = fleet(mixed)
    assert "gpuops.nvidia/failed.pool" in marks(nodes["l40s-0000"]) and "cordoned" in marks(nodes["l40s-0000"])
    assert (offers(nodes["a100-0000"]), offers(nodes["t4-0000"])) == (
        {"nvidia.com/mig-1g.10gb": "112"},
        {"nvidia.com/gpu": "16"},
    )
    faults.clear(mixed)
    works(ansible.run(PLAYBOOK, **PERMITTED, pools_declared=FIRST))
    node = fleet(mixed)["l40s-0000"]
    assert (offers(node), "cordoned" in marks(node)) == ({"nvidia.com/AD102GL_L40S": "4"}, False)


@wide
@pytest.mark.slow("a declaration that cannot work")
def test_a_declaration_that_cannot_work_is_refused_as_a_whole(mixed: Lab, ansible: Playbook) -> None:
    wrong = [
        *FIRST,
        {"name": "inference", "nodes": ["h100-0000"], "mig_layout": "all-1g.5gb"},
    ]
    for arguments in (("--check",), ()):
        run = ansible.run(PLAYBOOK, *arguments, **PERMITTED, pools_declared=wrong)
        assert run.status != 0 and "h100-0000" in run.message and "all-1g.5gb" in run.message
        assert not any(marks(each) for each in fleet(mixed).values())
