# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster goes from the device plugin to claims and back, with pods that use GPUs, and no GPU is given out twice."""

from __future__ import annotations

import json
import os
import signal
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows, tolerance

from lab.cluster import Lab
from tests.support.ansible import OPERATOR, ROOT, Playbook
from tests.support.waits import sees

pytestmark = [pytest.mark.slow("a stack comes, goes and comes again"), pytest.mark.wide]

TO_DRA, BACK = ROOT / "playbooks" / "to_dra.yml", ROOT / "playbooks" / "to_device_plugin.yml"
POLICY = {"driver": {"nvidiaDriverCRD": {"enabled": True}}}
CLAIMS = {"clusterPolicy": {"deployCR": False}, "gpuCluster": {"deployCR": True}, **POLICY}
YES = {"stack_move_accept_preview": True, "stack_move_allow_disruption": True}


def job(name: str, **container: t.Any) -> dict[str, t.Any]:
    pod = {
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
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def rows(lab: Lab) -> list[dict[str, t.Any]]:
    options = {"namespace": "", "name": "", "allocated": True}
    defaults = {name: option.get("default") for name, option in tolerance.SPEC.options.items()}
    found = node_rows.fleet_info(Cluster({"kubeconfig": str(lab.kubeconfig)}), {**options, **defaults})
    return t.cast("list[dict[str, t.Any]]", found["nodes"])


def drivers(lab: Lab) -> str:
    """Return the driver's pods: a new one would mean that the driver was unloaded."""
    shown = ("get", "pods", "--namespace=gpu-operator", "--selector=app.kubernetes.io/component=nvidia-driver")
    return lab.kubectl(*shown, "--output=jsonpath={.items[*].metadata.uid}")


@pytest.fixture
def released(lab: Lab) -> t.Iterator[None]:
    yield
    lab.kubectl("delete", "deployment,pod", "--all", "--namespace=default", "--grace-period=0")


@pytest.mark.usefixtures("clean", "released")
def test_there_and_back(lab: Lab, ansible: Playbook) -> None:
    first = ansible.run(OPERATOR, operator_values=POLICY)
    assert first.status == 0, first.output
    uses = job("train", resources={"limits": {"nvidia.com/gpu": "1"}})
    lab.kubectl("create", "--filename=-", "--namespace=default", stdin=json.dumps(uses))
    lab.kubectl("rollout", "status", "deployment/train", "--namespace=default", "--timeout=60s")
    loaded = drivers(lab)
    assert loaded

    for missing, told in (
        ({"stack_move_allow_disruption": True}, "technology preview"),
        ({"stack_move_accept_preview": True}, "2 pods use GPUs"),
    ):
        refused = ansible.run(TO_DRA, operator_values=CLAIMS, **missing)
        assert refused.status == 2 and told in refused.message and refused.changed == 0, refused.output
    refused = ansible.run(TO_DRA, operator_values=POLICY, **YES)
    assert refused.status == 2 and "bring no GPUCluster" in refused.message and refused.changed == 0, refused.output

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


def found(lab: Lab, kind: str) -> str:
    return lab.kubectl("get", kind, "--output=name").strip()


@pytest.mark.usefixtures("clean", "released")
def test_a_move_that_was_killed_goes_on(lab: Lab, ansible: Playbook) -> None:
    """It is killed while there is neither of the two stacks, when all nodes are held."""
    first = ansible.run(OPERATOR, operator_values=POLICY)
    assert first.status == 0, first.output
    loaded = drivers(lab)
    process = ansible.start(TO_DRA, operator_values=CLAIMS, **YES)
    sees(lambda: not found(lab, "clusterpolicies"))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert found(lab, "gpuclusters") == ""
    held = rows(lab)
    assert [row["cordoned"] for row in held] == [True] * 4
    moved = ansible.run(TO_DRA, operator_values=CLAIMS, operator_break_lock=True, **YES)
    assert moved.status == 0, moved.output
    assert [(row["claimable"], row["cordoned"]) for row in rows(lab)] == [(True, False)] * 4
    assert drivers(lab) == loaded
