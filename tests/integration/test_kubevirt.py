# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs that a KubeVirt permits to virtual machines, among the entries of others, on a real API server.

The kinds are ours (lab/cluster/kubevirt/crds.yaml), with KubeVirt's names, required fields and atomic lists.
"""

from __future__ import annotations

import json
import typing as t

import pytest

from lab.cluster import Lab, kubevirt
from tests.support.ansible import Playbook

QAT = {"pciVendorSelector": "8086:6F54", "resourceName": "intel.com/qat"}
A10 = {"pciVendorSelector": "10DE:2236", "resourceName": "nvidia.com/GA102GL_A10", "externalResourceProvider": True}
VGPU = {
    "mdevNameSelector": "NVIDIA A10-12Q",
    "resourceName": "nvidia.com/NVIDIA_A10-12Q",
    "externalResourceProvider": True,
}
CONFIGURATION = {
    "mediatedDevicesConfiguration": {"enabled": False},
    "permittedHostDevices": {"pciHostDevices": [QAT]},
}
MODULE = "gpuops.nvidia.kubevirt_gpus"
DEVICES = [{"pci_id": "10DE:2236"}, {"mdev_type": "NVIDIA A10-12Q"}]


@pytest.fixture
def deployed(lab: Lab) -> t.Iterator[None]:
    """KubeVirt with an entry of somebody else's, and two nodes for virtual machines."""
    kubevirt.deploy(lab, CONFIGURATION)
    kubevirt.offer(lab, "gpu-0000", "vm-passthrough", GA102GL_A10=4)
    kubevirt.offer(lab, "gpu-0001", "vm-vgpu", **{"NVIDIA_A10-12Q": 8})
    yield
    kubevirt.remove(lab)


def lists(lab: Lab) -> dict[str, t.Any]:
    found = json.loads(lab.kubectl("get", "kubevirt", "kubevirt", "--namespace=kubevirt", "--output=json"))
    return found["spec"]["configuration"]["permittedHostDevices"]


def call(ansible: Playbook, *arguments: str, **options: t.Any) -> dict[str, t.Any]:
    """Return the result of the module; arguments may be ``--check``."""
    given = ["--args", json.dumps(options)] if options else []
    command = ["ansible", "localhost", "--module-name", MODULE, *given, *arguments]
    output = ansible.finish(ansible.command(command), 60).output
    return json.loads(output[output.index("=> ") + 3 :])


def each_twice(ansible: Playbook, **options: t.Any) -> list[bool]:
    """Return whether a check, a run, another check and another run change something; a check says what a run does."""
    found = [call(ansible, *check, **options) for check in (["--check"], [], ["--check"], [])]
    assert found[0]["devices"] == found[1]["devices"] and found[0]["removed"] == found[1]["removed"]
    return [each["changed"] for each in found]


def machine(lab: Lab, name: str, resource: str) -> None:
    """Make a VirtualMachineInstance that has this device."""
    item = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"domain": {"devices": {"gpus": [{"name": "gpu", "deviceName": resource}]}}},
    }
    lab.kubectl("create", "--filename=-", stdin=json.dumps(item))


def patch(lab: Lab, configuration: dict[str, t.Any]) -> None:
    """Let somebody else change the KubeVirt."""
    text = json.dumps({"spec": {"configuration": configuration}})
    lab.kubectl("patch", "kubevirt", "kubevirt", "--namespace=kubevirt", "--type=merge", f"--patch={text}")


@pytest.mark.usefixtures("deployed")
def test_devices_come_and_go_among_those_of_others(lab: Lab, ansible: Playbook) -> None:
    assert each_twice(ansible, devices=DEVICES) == [True, True, False, False]
    assert lists(lab) == {"pciHostDevices": [QAT, A10], "mediatedDevices": [VGPU]}
    rows = {row["resource_name"]: (row["nodes"], row["allocatable"]) for row in call(ansible)["devices"]}
    assert [rows[each["resourceName"]] for each in (QAT, A10, VGPU)] == [(0, 0), (1, 4), (1, 8)]
    assert not call(ansible, from_nodes=True)["changed"]
    second = {**QAT, "pciVendorSelector": "8086:4940"}
    patch(lab, {"permittedHostDevices": {"pciHostDevices": [QAT, A10, second]}})
    assert call(ansible, devices=DEVICES[:1], purge=True)["changed"]
    assert lists(lab) == {"pciHostDevices": [QAT, A10, second]}
    machine(lab, "windows", A10["resourceName"])
    refused = call(ansible, "--check", state="absent")
    assert refused["reason"] == "InUse" and "VirtualMachineInstance default/windows" in refused["msg"]
    lab.kubectl("delete", "virtualmachineinstances", "--all", "--namespace=default")
    assert call(ansible, state="absent")["changed"]
    assert lists(lab) == {"pciHostDevices": [QAT, second]}


def test_a_cluster_without_kubevirt_is_told_so(ansible: Playbook) -> None:
    assert call(ansible, devices=DEVICES)["reason"] == "CRDMissing"
