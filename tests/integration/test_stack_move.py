# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster goes from the device plugin to claims and back, with pods that use GPUs, and no GPU is given out twice."""

from __future__ import annotations

import functools
import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows, tolerance

from lab.cluster import Lab, faults
from lab.cluster.faults import operands
from tests.support.ansible import OPERATOR, ROOT, Playbook, kill_all
from tests.support.waits import sees

pytestmark = pytest.mark.slow("a stack comes, goes and comes again")

TO_DRA, BACK = ROOT / "playbooks" / "to_dra.yml", ROOT / "playbooks" / "to_device_plugin.yml"
POLICY = {"driver": {"nvidiaDriverCRD": {"enabled": True}}}
CLAIMS = {"clusterPolicy": {"deployCR": False}, "gpuCluster": {"deployCR": True}, **POLICY}
YES = {"stack_move_accept_preview": True, "stack_move_allow_disruption": True}


def job(name: str, replicas: int = 2, **container: t.Any) -> dict[str, t.Any]:
    pod: dict[str, t.Any] = {
        "containers": [{"name": "c", "image": "busybox", **container}],
        # A pod that tolerates everything comes back to a cordoned node.
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def claiming(gpus: int = 1, replicas: int = 2) -> list[dict[str, t.Any]]:
    """Return a job whose pods have claims, and the template of these claims."""
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": gpus}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    made = job("claiming", replicas, resources={"claims": [{"name": "gpus"}]})
    made["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    return [template, made]


def create(lab: Lab, *items: dict[str, t.Any]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    lab.kubectl("create", "--filename=-", "--namespace=default", stdin=json.dumps(listed))


def ready(lab: Lab, name: str) -> int:
    shown = ("--namespace=default", "--output=jsonpath={.status.readyReplicas}")
    return int(lab.kubectl("get", f"deployment/{name}", *shown) or 0)


def rows(lab: Lab) -> list[dict[str, t.Any]]:
    options = {"namespace": "", "name": "", "allocated": True}
    defaults = {name: option.get("default") for name, option in tolerance.SPEC.options.items()}
    found = node_rows.fleet_info(Cluster({"kubeconfig": str(lab.kubeconfig)}), {**options, **defaults})
    return t.cast("list[dict[str, t.Any]]", found["nodes"])


def drivers(lab: Lab) -> str:
    """Return the driver's pods: a new one would mean that the driver was unloaded."""
    shown = ("get", "pods", "--namespace=gpu-operator", "--selector=app.kubernetes.io/component=nvidia-driver")
    return lab.kubectl(*shown, "--output=jsonpath={.items[*].metadata.uid}")


def with_train(lab: Lab, ansible: Playbook) -> str:
    """Bring up the stack with the device plugin and a job that uses GPUs. Returns the driver's pods."""
    first = ansible.run(OPERATOR, operator_values=POLICY)
    assert first.status == 0, first.output
    create(lab, job("train", resources={"limits": {"nvidia.com/gpu": "1"}}))
    lab.kubectl("rollout", "status", "deployment/train", "--namespace=default", "--timeout=60s")
    loaded = drivers(lab)
    assert loaded
    return loaded


@pytest.fixture
def released(lab: Lab, ansible: Playbook) -> t.Iterator[None]:
    """Remove the pods in the end, and the stack: no other test expects a GPUCluster on the shared lab."""
    yield
    kinds = "deployment,resourceclaimtemplate,pod"
    lab.kubectl("delete", kinds, "--all", "--namespace=default", "--grace-period=0")
    ansible.set_up("clean")


@pytest.mark.usefixtures("clean", "released")
def test_a_cluster_goes_to_claims_as_its_check_says(lab: Lab, ansible: Playbook) -> None:
    loaded = with_train(lab, ansible)
    refused = ansible.run(TO_DRA, operator_values=CLAIMS, stack_move_accept_preview=True)
    assert refused.status == 2 and "2 pods use GPUs" in refused.message and refused.changed == 0, refused.output

    check = ansible.run(TO_DRA, "--check", operator_values=CLAIMS, **YES)
    assert check.status == 0, check.output
    assert "Remove the ClusterPolicy" in check.output and "default ReplicaSet/train" in check.output
    assert [row["allocatable"]["nvidia.com/gpu"] for row in rows(lab)] == [8] * 4, "a check changes nothing"

    moved = ansible.run(TO_DRA, operator_values=CLAIMS, **YES)
    assert moved.status == 0, moved.output
    seen = rows(lab)
    assert [(row["claimable"], len(row["devices"]), row["cordoned"]) for row in seen] == [(True, 8, False)] * 4
    assert not any(any(row["allocatable"].values()) for row in seen), "no device plugin is left"
    assert [[part["resource"] for part in row["slices"]] for row in seen] == [["gpu.nvidia.com"]] * 4
    assert drivers(lab) == loaded
    assert lab.kubectl("get", "pods", "--namespace=default", "--field-selector=status.phase=Running", "-oname") == ""


@pytest.mark.wide
@pytest.mark.usefixtures("clean", "released")
def test_there_and_back(lab: Lab, ansible: Playbook) -> None:
    loaded = with_train(lab, ansible)
    moved = ansible.run(TO_DRA, operator_values=CLAIMS, **YES)
    assert moved.status == 0, moved.output
    again = ansible.run(TO_DRA, operator_values=CLAIMS, **YES)
    assert (again.status, again.changed) == (0, 0), again.output

    back = ansible.run(BACK, operator_values=POLICY, **YES)
    assert back.status == 0, back.output
    lab.kubectl("rollout", "status", "deployment/train", "--namespace=default", "--timeout=60s")
    seen = rows(lab)
    assert [(row["claimable"], row["allocatable"], row["cordoned"]) for row in seen] == [
        (False, {"nvidia.com/gpu": 8}, False)
    ] * 4
    assert drivers(lab) == loaded
    again = ansible.run(BACK, operator_values=POLICY, **YES)
    assert (again.status, again.changed) == (0, 0), again.output


@pytest.mark.wide
@pytest.mark.usefixtures("clean", "released")
def test_what_stands_in_the_way_is_said_before_anything_changes(lab: Lab, ansible: Playbook) -> None:
    with_train(lab, ansible)
    for values, given, told in (
        (CLAIMS, {"stack_move_allow_disruption": True}, "technology preview"),
        (POLICY, YES, "bring no GPUCluster"),
    ):
        refused = ansible.run(TO_DRA, operator_values=values, **given)
        assert refused.status == 2 and told in refused.message and refused.changed == 0, refused.output

    agent = job("agent", resources={"limits": {"nvidia.com/gpu": "1"}})
    del agent["spec"]["replicas"]
    create(lab, {**agent, "kind": "DaemonSet"})
    lab.kubectl("rollout", "status", "daemonset/agent", "--namespace=default", "--timeout=60s")
    refused = ansible.run(TO_DRA, operator_values=CLAIMS, **YES)
    assert refused.status == 2 and "a drain leaves them: default/agent-" in refused.message, refused.output
    assert refused.changed == 0
    lab.kubectl("delete", "daemonset/agent", "--namespace=default", "--cascade=foreground", "--timeout=60s")


def found(lab: Lab, kind: str) -> str:
    return lab.kubectl("get", kind, "--output=name").strip()


def cordoned(lab: Lab) -> int:
    shown = lab.kubectl("get", "nodes", "--output=jsonpath={.items[*].spec.unschedulable}")
    return shown.count("true")


MOMENTS: dict[str, t.Callable[[Lab], bool]] = {
    "the drain has begun": lambda lab: cordoned(lab) > 0,
    "there is neither of the two stacks": lambda lab: not found(lab, "clusterpolicies"),
    "the new stack is there": lambda lab: bool(found(lab, "gpuclusters")),
    "the first nodes are back": lambda lab: cordoned(lab) < 4,
}


@pytest.mark.wide
@pytest.mark.usefixtures("clean", "released")
def test_a_move_that_is_killed_at_any_step_is_finished_by_the_next_run(lab: Lab, ansible: Playbook) -> None:
    first = ansible.run(OPERATOR, operator_values=POLICY)
    assert first.status == 0, first.output
    loaded = drivers(lab)
    for moment, has_come in MOMENTS.items():
        options = {"operator_values": CLAIMS, "operator_break_lock": True, **YES}
        process = ansible.plain.start(TO_DRA, **options)
        sees(functools.partial(has_come, lab))
        kill_all(process, in_module=False)
        check = ansible.run(TO_DRA, "--check", **options)
        assert check.status == 0, (moment, check.output)
    moved = ansible.run(TO_DRA, **options)
    assert moved.status == 0, moved.output
    assert [(row["claimable"], row["cordoned"]) for row in rows(lab)] == [(True, False)] * 4
    assert drivers(lab) == loaded
    again = ansible.run(TO_DRA, operator_values=CLAIMS, **YES)
    assert (again.status, again.changed) == (0, 0), again.output


@pytest.mark.wide
@pytest.mark.usefixtures("clean", "released")
def test_a_node_that_is_not_proved_stays_out_of_service_until_the_next_run_proves_it(
    lab: Lab, ansible: Playbook
) -> None:
    first = ansible.run(OPERATOR, operator_values=POLICY)
    assert first.status == 0, first.output
    operands.annotate_new_pods(lab, "nvidia-dra-driver-kubelet-plugin", "image-pull-backoff", "gpu-0002")
    try:
        partly = ansible.run(TO_DRA, operator_values=CLAIMS, stack_move_wait_timeout=20, **YES)
    finally:
        faults.clear(lab)
    assert partly.status == 2 and "1 of 4 nodes were not proved" in partly.message, partly.output
    assert "gpu-0002: " in partly.message
    assert [row["name"] for row in rows(lab) if row["cordoned"]] == ["gpu-0002"]
    create(lab, *claiming())
    lab.kubectl("rollout", "status", "deployment/claiming", "--namespace=default", "--timeout=60s")
    sees(lambda: all(row["claimable"] for row in rows(lab)))

    check = ansible.run(TO_DRA, "--check", operator_values=CLAIMS, **YES)
    assert check.status == 0, check.output
    rest = ansible.run(TO_DRA, operator_values=CLAIMS, stack_move_accept_preview=True)
    assert rest.status == 0, rest.output
    assert not any(row["cordoned"] for row in rows(lab))
    assert ready(lab, "claiming") == 2, "the nodes in service keep their pods"
