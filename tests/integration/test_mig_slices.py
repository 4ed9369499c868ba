# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Static MIG on nodes that give out their GPUs by claims, on the lab.

The lab's driver looks at the GPUs when it starts, as NVIDIA's does (cmd/gpu-kubelet-plugin/driver.go of
kubernetes-sigs/dra-driver-nvidia-gpu, 95932046). The role's tasks on the cluster run as they are; what its module would
divide on the host is written into the lab's node.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab
from lab.cluster.nodes.agents.dra import devices, kubelet
from tests.integration.test_claims_diagnosed import VALUES, create, slice_of
from tests.support.ansible import OPERATOR, Run, on
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = [pytest.mark.slow("a stack comes, and its driver starts again"), pytest.mark.wide]

Json = dict[str, t.Any]
NODE = "gpu-0000"


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Lab]:
    """A lab with a GPUCluster that is ready."""
    with running_lab("mig-slices") as lab:
        run = on(lab).run(OPERATOR, operator_values=VALUES)
        assert run.status == 0, run.output
        yield lab


def node(lab: Lab) -> Json:
    return t.cast(Json, json.loads(lab.kubectl("get", "node", NODE, "--output=json")))


def is_cordoned(lab: Lab) -> bool:
    return bool(node(lab)["spec"].get("unschedulable"))


def gpus(lab: Lab) -> list[Json]:
    """Return what the node's host has now, in the form of the role's module."""
    found: dict[str, Json] = {}
    for device in devices.gpu_slices(node(lab), "580.95.05", ())[0]["devices"]:
        said = {key: next(iter(value.values())) for key, value in device["attributes"].items()}
        is_part = said["type"] == "mig"
        gpu = {"uuid": said["parentUUID" if is_part else "uuid"], "mig": {"mode": is_part, "instances": []}}
        kept = found.setdefault(gpu["uuid"], gpu)
        if is_part:
            kept["mig"]["instances"].append({"uuid": said["uuid"], "profile": said["profile"]})
    return list(found.values())


def plan(lab: Lab) -> list[Json]:
    """Return what the host would have with its first GPU in two halves, which have no UUIDs yet."""
    first, *others = gpus(lab)
    return [{**first, "mig": {"mode": True, "instances": [{"profile": "3g.40gb", "uuid": None}] * 2}}, *others]


def divide(lab: Lab) -> None:
    """Divide the first GPU of the host. The driver does not notice."""
    layout = json.dumps([{"3g.40gb": 2}, *[None] * (len(gpus(lab)) - 1)])
    lab.kubectl("annotate", "node", NODE, f"{kubelet.LAYOUT}={layout}", "--overwrite")


def use_gpu(lab: Lab, name: str) -> None:
    """Start a pod with a claim on the node, and wait for it."""
    wanted = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    create(lab, "ResourceClaim", name, wanted, "resource.k8s.io/v1")
    container = {"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": name}]
    where = {"nodeSelector": {"kubernetes.io/hostname": NODE}, "tolerations": [{"operator": "Exists"}]}
    create(lab, "Pod", name, {"resourceClaims": claims, "containers": [container], **where})
    lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--namespace=default", "--timeout=60s")


def uids(lab: Lab) -> dict[str, str]:
    """Return the UIDs of the stack's pods on the node that have GPUs by a claim, or give them out, by app."""
    where = f"--field-selector=spec.nodeName={NODE}"
    listed = json.loads(lab.kubectl("get", "pods", "--namespace=gpu-operator", where, "--output=json"))["items"]
    return {
        str(pod["metadata"]["labels"].get("app")): pod["metadata"]["uid"]
        for pod in listed
        if not pod["metadata"].get("deletionTimestamp")
    }


class Role:
    """The role's tasks on the cluster. ``steps`` is what the host would do."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.path = lab, folder / "play.yml"
        tasks = [
            {"include_role": {"name": "gpuops.nvidia.mig_partition", "tasks_from": each}, "when": f"{each} | bool"}
            for each in ("node", "take", "give_back")
        ]
        plays = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
        self.path.write_text(yaml.safe_dump(plays))

    def __call__(
        self, gpus: list[Json], steps: t.Sequence[str] = (), check: bool = False, gives_back: bool = True, **more: t.Any
    ) -> Run:
        known = {
            "mig_partition_node": NODE,
            "__mig_partition_predicted": {"gpus": gpus, "steps": list(steps)},
            "__mig_partition_result": {"gpus": gpus},
        }
        options = ["--check"] if check else []
        return on(self.lab).run(self.path, *options, node=True, take=True, give_back=gives_back, **{**known, **more})


STEPS = ["GPU 0: turn MIG on"]
ALLOWED = {"mig_partition_allow_disruption": True, "mig_partition_force": True}


def test_a_node_is_divided_with_a_drain_and_the_new_slices_are_proved(fleet: Lab, tmp_path: Path) -> None:
    role = Role(fleet, tmp_path)
    use_gpu(fleet, "train")
    unknown = role(gpus(fleet), mig_partition_node="")
    assert unknown.status == 2 and "mig_partition_node" in unknown.message, unknown.output
    same = role(gpus(fleet))
    assert (same.status, same.changed) == (0, 0), same.output

    alone = role(plan(fleet), STEPS)
    assert alone.status == 2 and "default/train on gpu-0000 has no controller" in alone.message, alone.output
    refused = role(plan(fleet), STEPS, mig_partition_force=True)
    assert refused.status == 2 and "default/train" in refused.message, refused.output
    assert "mig_partition_allow_disruption" in refused.message and not is_cordoned(fleet)

    before = uids(fleet)
    checked = role(plan(fleet), STEPS, check=True, **ALLOWED)
    assert (checked.status, checked.changed) == (0, 2), checked.output
    assert uids(fleet) == before and not is_cordoned(fleet)

    # The run is killed once the host is divided.
    taken = role(plan(fleet), STEPS, gives_back=False, **ALLOWED)
    assert (taken.status, taken.changed) == (0, 1) and is_cordoned(fleet), taken.output
    divide(fleet)
    checked = role(gpus(fleet), check=True, **ALLOWED)
    assert (checked.status, checked.changed) == (0, 2) and uids(fleet) == before, checked.output
    assert re.search(r"Find the pods .*\nok", checked.output), "the slices alone are a reason"
    done = role(gpus(fleet), **ALLOWED)
    assert (done.status, done.changed) == (0, 2) and not is_cordoned(fleet), done.output
    kinds = [each["attributes"]["type"]["string"] for each in slice_of(fleet, NODE)["spec"]["devices"]]
    assert kinds.count("mig") == 2 and kinds.count("gpu") == len(kinds) - 2
    assert uids(fleet)[kubelet.PLUGIN] != before[kubelet.PLUGIN]

    sees(lambda: uids(fleet).keys() == before.keys(), 60)
    second = role(gpus(fleet), **ALLOWED)
    assert (second.status, second.changed) == (0, 0), second.output
