# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The diagnosis of a fleet whose GPUs pods get by claims: nothing where it is well, and each fault by its name."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.gpu_table import gpu_table
from ansible_collections.gpuops.nvidia.plugins.filter.verification import verification
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.inventory import node_hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import diagnose, picture
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import nodes

from lab.cluster import Lab
from tests.support.ansible import OPERATOR, on
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = [pytest.mark.slow("a stack comes, and each fault has to show"), pytest.mark.wide]

VALUES = {
    "clusterPolicy": {"deployCR": False},
    "gpuCluster": {"deployCR": True},
    "driver": {"nvidiaDriverCRD": {"enabled": True}},
}
PLUGIN = "nvidia-dra-driver-kubelet-plugin"


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Lab]:
    """A lab with a GPUCluster that is ready."""
    with running_lab("claims-diagnosed") as lab:
        run = on(lab).run(OPERATOR, operator_values=VALUES)
        assert run.status == 0, run.output
        yield lab


def found(lab: Lab) -> dict[str, Finding]:
    options = {name: spec["default"] for name, spec in diagnose.SPEC.options.items()}
    evidence, diagnosis = diagnose.examine({**options, "kubeconfig": str(lab.kubeconfig)})
    assert not [gap for gap in evidence.gaps if "hosts of" not in gap.what]
    return {each.code: each for each in diagnosis.findings if each.severity != "ok"}


def create(lab: Lab, kind: str, name: str, spec: Json, version: str = "v1") -> None:
    item = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    lab.kubectl("create", "--filename=-", "--namespace=default", stdin=json.dumps(item))


def use_claim(lab: Lab, name: str, device_class: str = "gpu.nvidia.com") -> None:
    """Create a claim and a pod that uses it."""
    wanted = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class}}]}}
    create(lab, "ResourceClaim", name, wanted, "resource.k8s.io/v1")
    container = {"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": name}]
    create(
        lab, "Pod", name, {"resourceClaims": claims, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    )


def slice_of(lab: Lab, node: str) -> Json:
    listed = json.loads(lab.kubectl("get", "resourceslices", "--output=json"))["items"]
    specs = {"driver": "gpu.nvidia.com", "nodeName": node}
    return next(item for item in listed if specs.items() <= item["spec"].items())


def change_devices(lab: Lab, node: str, change: t.Callable[[list[Json]], list[Json]]) -> None:
    """Publish other devices of a node, as its plugin would: in a new generation of its pool."""
    item = slice_of(lab, node)
    pool = {**item["spec"]["pool"], "generation": item["spec"]["pool"]["generation"] + 1}
    spec = {"pool": pool, "devices": change(item["spec"]["devices"])}
    lab.kubectl(
        "patch", "resourceslice", item["metadata"]["name"], "--type=merge", f"--patch={json.dumps({'spec': spec})}"
    )


def seen_elsewhere(lab: Lab, name: str) -> list[bool]:
    """Return whether the table, the checks of verify, the page and the inventory call a GPU of the node unhealthy."""
    options = {option: spec.get("default") for option, spec in picture.SPEC.options.items()}
    data = picture.picture({**options, "kubeconfig": str(lab.kubeconfig)})
    rows = data["stack"]["nodes"]
    (failure,) = [each["failure"] for each in verification(data["stack"]) if each["name"] == name]
    (node,) = [each for each in nodes.nodes_of(data) if each.name == name]
    hosts = node_hosts.hosts(Cluster({"kubeconfig": str(lab.kubeconfig)}), {}, True, True, [], print)
    (state,) = [each["variables"]["gpu_node"]["state"] for each in hosts if each["name"] == name]
    states = state, node.state.key
    assert states in (("degraded", "bad"), ("ready", "ok"))
    return [
        "1 unhealthy GPU" in gpu_table(rows),
        "Pods hold 1 unhealthy GPU" in failure,
        "Unhealthy" in dict(node.notes),
        state == "degraded",
    ]


def test_a_fleet_of_claims_that_is_well_has_no_finding(fleet: Lab) -> None:
    use_claim(fleet, "well")
    fleet.kubectl("wait", "--for=condition=Ready", "pod/well", "--namespace=default", "--timeout=60s")
    assert found(fleet) == {}


def test_a_sick_gpu_is_named_with_the_pod_that_holds_it(fleet: Lab) -> None:
    """The status is as a kubelet of 1.36.3 writes it for NVIDIA's driver: the device by its name in CDI."""
    pod = json.loads(fleet.kubectl("get", "pod", "well", "--namespace=default", "--output=json"))
    (claim,) = (each["resourceClaimName"] for each in pod["spec"]["resourceClaims"])
    device = f"k8s.gpu.nvidia.com/claim={claim}-gpu-0"
    health = {"resourceID": device, "health": "Unhealthy", "message": "critical XID 79 reported by NVML"}
    (container,) = pod["status"]["containerStatuses"]
    for said in ([{"name": "claim:gpu", "resources": [health]}], None):
        status = {"containerStatuses": [{**container, **({"allocatedResourcesStatus": said} if said else {})}]}
        patch = f"--patch={json.dumps({'status': status})}"
        fleet.kubectl("patch", "pod", "well", "--namespace=default", "--subresource=status", "--type=merge", patch)
        findings = list(found(fleet).values())
        assert [each.code for each in findings] == (["HeldGPUUnhealthy"] if said else [])
        assert seen_elsewhere(fleet, pod["spec"]["nodeName"]) == [bool(said)] * 4
        for each in findings:
            assert (each.nodes, each.objects) == ((pod["spec"]["nodeName"],), ("pod default/well",))
            assert device in each.cause and "critical XID 79" in each.cause


def test_a_taint_with_an_xid_is_the_finding_of_that_xid(fleet: Lab) -> None:
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
    change_devices(fleet, "gpu-0001", lambda devices: [{**devices[0], "taints": [taint]}, *devices[1:]])
    seen = found(fleet)
    assert seen["XidOffTheBus"].nodes == ("gpu-0001",) and "DevicesTainted" not in seen
    change_devices(fleet, "gpu-0001", lambda devices: [{**devices[0], "taints": []}, *devices[1:]])


def test_gpus_that_are_missing_from_the_slices_are_named_by_node(fleet: Lab) -> None:
    fleet.kubectl("label", "node", "gpu-0001", "nvidia.com/gpu.count=8")
    change_devices(fleet, "gpu-0001", lambda devices: devices[1:])
    assert {code: each.nodes for code, each in found(fleet).items()} == {"GPUsNotOffered": ("gpu-0001",)}


def test_a_node_without_devices_says_that_its_plugin_runs(fleet: Lab) -> None:
    change_devices(fleet, "gpu-0001", lambda devices: [])
    seen = found(fleet)
    assert seen["NodeOffersNoDevices"].nodes == ("gpu-0001",) and "NoDevices" not in seen


def test_a_claim_that_waits_for_a_class_that_nobody_made(fleet: Lab) -> None:
    use_claim(fleet, "waits", "gpus.example.com")
    sees(lambda: "DeviceClassMissing" in found(fleet))
    assert "gpus.example.com" in found(fleet)["DeviceClassMissing"].cause


def test_claims_of_a_node_that_lost_its_plugin(fleet: Lab) -> None:
    node = fleet.kubectl("get", "pod", "well", "--namespace=default", "--output=jsonpath={.spec.nodeName}")
    fleet.kubectl("patch", "daemonset", PLUGIN, "--namespace=gpu-operator", "--type=merge", _away(node))
    sees(lambda: "ClaimsWithoutPlugin" in found(fleet))
    finding = found(fleet)["ClaimsWithoutPlugin"]
    assert (finding.nodes, finding.severity) == ((node,), "failure")
    assert "default/well" in finding.quotes[0].text


def _away(node: str) -> str:
    """Return the patch that keeps the plugin's pods from a node."""
    rule = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [rule]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return "--patch=" + json.dumps({"spec": {"template": {"spec": {"affinity": affinity}}}})
