# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes give their GPUs to virtual machines and back, on a real API server with a real scheduler.

KubeVirt's kinds are ours, and nothing runs machines: a VirtualMachineInstance owns its pod, as KubeVirt lets it.
"""

from __future__ import annotations

import json
import typing as t

import pytest

from lab.cluster import Lab, Options, faults, kubevirt
from tests.support.ansible import ROOT, Playbook, Run, kill_all, on
from tests.support.labs import running_lab
from tests.support.waits import sees

PLAYBOOK = ROOT / "playbooks" / "workloads.yml"
KIND, MARK = "nvidia.com/gpu.workload.config", "gpuops.nvidia/workload-kind"
FIRST, SECOND = "gpu-0000", "gpu-0001"
H100 = "nvidia.com/GH100_H100_SXM5_80GB"
SPEC: dict[str, t.Any] = {
    "sandboxWorkloads": {"enabled": True, "defaultWorkload": "container"},
    "vfioManager": {"enabled": True},
    "sandboxDevicePlugin": {"enabled": True},
    "vgpuDeviceManager": {"enabled": True},
    "vgpuManager": {"enabled": True, "repository": "registry.example", "image": "vgpu-manager", "version": "580.1"},
}
WISHES: dict[str, t.Any] = {
    "workloads_kinds": [
        {"kind": "vm-passthrough", "nodes": [FIRST]},
        {"kind": "container", "nodes": [SECOND]},
    ],
    "workloads_timeout": 60,
    "workloads_drain_timeout": 20,
}
BACK: dict[str, t.Any] = {**WISHES, "workloads_kinds": [], "workloads_state": "absent"}
PERMITTED = {"workloads_allow_disruption": True}


@pytest.fixture(scope="module")
def pair() -> t.Iterator[Lab]:
    """Two nodes with H100s, with the operands for virtual machines and KubeVirt's kinds."""
    with running_lab("kinds", Options(nodes=2, upgrade_tick=3)) as lab:
        lab.deploy()
        lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", f"--patch={json.dumps({'spec': SPEC})}")
        kubevirt.deploy(lab, {})
        yield lab


@pytest.fixture
def ansible(pair: Lab) -> t.Iterator[Playbook]:
    """Two container nodes, before and after."""
    playbook = on(pair)
    yield playbook
    faults.clear(pair)
    pair.kubectl(
        "delete", "virtualmachineinstances,pods,deployments", "--all", "--namespace=default", "--grace-period=0"
    )
    if any(map(traces, (pair, pair), (FIRST, SECOND))):
        works(playbook.run(PLAYBOOK, **BACK, **PERMITTED, workloads_stop_machines=True))


def works(run: Run) -> Run:
    assert run.status == 0, run.output
    return run


def node(lab: Lab, name: str = FIRST) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads(lab.kubectl("get", "node", name, "--output=json")))


def kind(lab: Lab, name: str = FIRST) -> str | None:
    return t.cast("str | None", node(lab, name)["metadata"]["labels"].get(KIND))


def offered(lab: Lab, name: str = FIRST) -> dict[str, str]:
    listed = node(lab, name)["status"]["allocatable"]
    return {key: number for key, number in listed.items() if key.startswith("nvidia.com/") and number != "0"}


def traces(lab: Lab, name: str = FIRST) -> list[str]:
    """Return what a run could leave behind on a node: marks of ours, and the cordon."""
    found = node(lab, name)
    marks = [key for key in found["metadata"].get("annotations", {}) if key.startswith("gpuops.nvidia/")]
    return sorted([*marks, *(["cordoned"] if found["spec"].get("unschedulable") else [])])


def machine(lab: Lab, name: str, strategy: str, resource: str = H100) -> None:
    """Make a VirtualMachineInstance with a GPU, and the pod in which KubeVirt would run it."""
    devices = {"gpus": [{"name": "gpu", "deviceName": resource}]}
    instance = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"evictionStrategy": strategy, "domain": {"devices": devices}},
    }
    lab.kubectl("create", "--filename=-", stdin=json.dumps(instance))
    where = ["virtualmachineinstance", name, "--namespace=default"]
    uid = json.loads(lab.kubectl("get", *where, "--output=json"))["metadata"]["uid"]
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name, "uid": uid}
    container = {"name": "compute", "image": "virt-launcher", "resources": {"limits": {resource: "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"virt-launcher-{name}",
            "namespace": "default",
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {"kubevirt.io/domain": name},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"containers": [container], "volumes": [{"name": "private", "emptyDir": {}}]},
    }
    lab.kubectl("create", "--filename=-", stdin=json.dumps(pod))
    lab.kubectl("wait", f"pod/virt-launcher-{name}", "--for=condition=Ready", "--timeout=30s")


@pytest.mark.slow("a node changes its operands")
def test_a_node_is_given_to_virtual_machines(pair: Lab, ansible: Playbook) -> None:
    ahead = works(ansible.run(PLAYBOOK, "--check", **WISHES))
    assert ahead.changed == 1 and kind(pair) is None
    assert works(ansible.run(PLAYBOOK, **WISHES)).changed == 1
    assert (kind(pair), kind(pair, SECOND)) == ("vm-passthrough", "container")
    assert (offered(pair), offered(pair, SECOND)) == ({H100: "8"}, {"nvidia.com/gpu": "8"})
    assert traces(pair) == traces(pair, SECOND) == [MARK]
    assert works(ansible.run(PLAYBOOK, **WISHES)).changed == 0


# ---- every case -----------------------------------------------------------------------------------------------------


wide = pytest.mark.wide


def to_machines(lab: Lab, ansible: Playbook, *machines: tuple[str, str]) -> None:
    """Give the first node to virtual machines, and let some run there."""
    works(ansible.run(PLAYBOOK, **WISHES))
    for name, strategy in machines:
        machine(lab, name, strategy)


def instances(lab: Lab) -> list[str]:
    return lab.kubectl("get", "virtualmachineinstances", "--namespace=default", "--output=name").split()


def containers(*names: str) -> dict[str, t.Any]:
    return {**WISHES, "workloads_kinds": [{"kind": "container", "nodes": list(names)}]}


def train(lab: Lab, end_s: int = 0) -> None:
    """Let a pod use a GPU of the first node. It takes its time to end."""
    notes = {"lab.gpuops.nvidia/end-delay": f"{end_s}s"} if end_s else {}
    spec = {
        "nodeName": FIRST,
        "containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "default", "annotations": notes},
        "spec": spec,
    }
    lab.kubectl("create", "--filename=-", stdin=json.dumps(pod))
    lab.kubectl("wait", "pod/train", "--for=condition=Ready", "--timeout=30s")


@wide
@pytest.mark.slow("a node changes twice")
def test_a_node_comes_back_by_the_default(pair: Lab, ansible: Playbook) -> None:
    to_machines(pair, ansible)
    assert works(ansible.run(PLAYBOOK, "--check", **BACK)).changed == 1 and kind(pair) == "vm-passthrough"
    assert works(ansible.run(PLAYBOOK, **BACK)).changed == 1
    assert (kind(pair), offered(pair), traces(pair)) == (None, {"nvidia.com/gpu": "8"}, [])
    assert works(ansible.run(PLAYBOOK, **BACK)).changed == 0


@wide
@pytest.mark.slow("a node changes twice, with machines on it")
def test_a_machine_in_the_way_is_named_and_stopped_only_with_permission(pair: Lab, ansible: Playbook) -> None:
    to_machines(pair, ansible, ("windows", "LiveMigrate"), ("linux", "None"))
    back = containers(FIRST, SECOND)
    for arguments in (("--check",), ()):
        run = ansible.run(PLAYBOOK, *arguments, **back, **PERMITTED)
        assert run.status != 0 and "default/windows on gpu-0000" in run.message
        assert len(instances(pair)) == 2 and offered(pair) == {H100: "8"} and traces(pair) == [MARK]
    permitted = {**back, **PERMITTED, "workloads_stop_machines": True}
    ahead = works(ansible.run(PLAYBOOK, "--check", **permitted))
    assert "default/windows" in ahead.output and "default/linux" in ahead.output and len(instances(pair)) == 2
    works(ansible.run(PLAYBOOK, **permitted))
    assert instances(pair) == ["virtualmachineinstance.kubevirt.io/linux"]  # KubeVirt would end it with its pod
    assert (kind(pair), offered(pair)) == ("container", {"nvidia.com/gpu": "8"})


@wide
@pytest.mark.slow("a node fails its proof, and then passes it")
def test_a_ready_vfio_manager_proves_nothing(pair: Lab, ansible: Playbook) -> None:
    faults.unbound(pair, FIRST, 3)
    run = ansible.run(PLAYBOOK, **{**WISHES, "workloads_timeout": 15})
    assert run.status != 0 and "vfio-pci-validation" in run.message, run.output
    vfio = pair.kubectl("get", "pods", "--namespace=gpu-operator", "--selector=name=nvidia-vfio-manager")
    assert "1/1" in vfio and "Running" in vfio
    assert "cordoned" in traces(pair) and "gpuops.nvidia/failed.workload-kind" in traces(pair)
    faults.clear(pair)
    ahead = works(ansible.run(PLAYBOOK, "--check", **WISHES))
    assert "earlier run" in ahead.output and "cordoned" in traces(pair)
    works(ansible.run(PLAYBOOK, **WISHES))
    assert (offered(pair), traces(pair)) == ({H100: "8"}, [MARK])


@wide
@pytest.mark.slow("a node has vGPUs, and an operand that a killed manager has left paused")
def test_vgpus_are_proved_by_what_the_node_offers(pair: Lab, ansible: Playbook) -> None:
    vgpus = {
        **WISHES,
        "workloads_kinds": [{"kind": "vm-vgpu", "nodes": [FIRST]}, *containers(SECOND)["workloads_kinds"]],
    }
    faults.failed_vgpus(pair, FIRST)
    run = ansible.run(PLAYBOOK, **{**vgpus, "workloads_timeout": 15})
    assert run.status != 0 and "cordoned" in traces(pair), run.output
    faults.clear(pair)
    works(ansible.run(PLAYBOOK, **vgpus))
    assert offered(pair) == {"nvidia.com/NVIDIA_H100-39Q": "16"}
    label = "nvidia.com/gpu.deploy.sandbox-device-plugin"
    works(ansible.run(PLAYBOOK, **WISHES))
    pair.kubectl("label", "node", FIRST, f"{label}=paused-for-vgpu-change", "--overwrite")
    sees(lambda: not offered(pair))
    assert works(ansible.run(PLAYBOOK, "--check", **WISHES)).changed == 1
    assert works(ansible.run(PLAYBOOK, **WISHES)).changed == 1
    assert (offered(pair), node(pair)["metadata"]["labels"][label]) == ({H100: "8"}, "true")


MOMENTS: dict[str, t.Callable[[Lab], bool]] = {
    "drain": lambda lab: "cordoned" in traces(lab),
    "label": lambda lab: kind(lab) == "vm-passthrough",
}


@wide
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.slow("a run is killed, and the next one goes on")
def test_a_run_that_was_killed_is_continued(pair: Lab, ansible: Playbook, moment: str) -> None:
    train(pair, end_s=6 if moment == "drain" else 0)
    permitted = {**WISHES, **PERMITTED, "workloads_force": True}
    plain = ansible.plain
    process = plain.start(PLAYBOOK, **permitted)
    sees(lambda: MOMENTS[moment](pair))
    kill_all(process)
    assert "cordoned" in traces(pair)
    ahead = works(ansible.run(PLAYBOOK, "--check", **permitted))
    assert ahead.changed == 1 and "cordoned" in traces(pair)
    works(ansible.run(PLAYBOOK, **permitted))
    assert (offered(pair), traces(pair)) == ({H100: "8"}, [MARK])
    assert works(ansible.run(PLAYBOOK, **permitted)).changed == 0


@wide
@pytest.mark.slow("a pod that does not leave")
def test_a_node_whose_pod_does_not_leave_is_put_back(pair: Lab, ansible: Playbook) -> None:
    train(pair, end_s=40)
    refused = ansible.run(PLAYBOOK, **WISHES)
    assert refused.status != 0 and "default/train on gpu-0000 would be evicted" in refused.message
    run = ansible.run(PLAYBOOK, **{**WISHES, **PERMITTED, "workloads_force": True, "workloads_drain_timeout": 5})
    assert run.status != 0 and "default/train" in run.message
    assert (kind(pair), traces(pair), offered(pair)) == (None, [], {"nvidia.com/gpu": "8"})
