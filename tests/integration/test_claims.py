# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs by claims on the lab: what claims.yml offers, the real scheduler allocates from ResourceSlices.

The slices have the attributes that NVIDIA's driver writes. They are written here, so that no stack has to be deployed.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health

from lab.cluster import Lab, Options
from lab.errors import LabError
from tests.support.ansible import OPERATOR, ROOT, Playbook, kill_all, on
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = pytest.mark.slow("the playbook runs again and again, as a check and in earnest")

PLAYBOOK = ROOT / "playbooks" / "claims.yml"
EXAMPLE = yaml.safe_load((ROOT / "examples" / "claims" / "group_vars" / "all.yml").read_text())
WISHES = {name: value for name, value in EXAMPLE.items() if name.startswith("claims_")}
NAMESPACES = ("research", "notebooks")
KEPT = "deviceclasses,resourceclaimtemplates,resourceclaims,resourcequotas"
OURS = "--selector=app.kubernetes.io/name=gpu-claims"


def resource_slice(node: str, generation: int = 1) -> dict[str, t.Any]:
    """Return the ResourceSlice of a node with eight H100 GPUs, four behind each PCIe root."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{number}"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "brand": {"string": "Nvidia"},
                "architecture": {"string": "Hopper"},
                "cudaComputeCapability": {"version": "9.0.0"},
                "driverVersion": {"version": "580.95.5"},
                "cudaDriverVersion": {"version": "13.0.0"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{number:02x}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 4:02x}"},
            },
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for number in range(8)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    # Not by nodeName: a kubelet removes the slices of its node if their driver is away.
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    where = {"nodeSelectorTerms": [term]}
    spec = {"driver": "gpu.nvidia.com", "nodeSelector": where, "pool": pool, "devices": devices}
    metadata = {"name": f"{node}-gpu.nvidia.com"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def of_node(node: str) -> dict[str, t.Any]:
    """Return a ResourceSlice in the form that the driver gives it. The lab's agents leave alone nodes without GPUs."""
    item = resource_slice(node)
    del item["spec"]["nodeSelector"]
    item["spec"]["nodeName"] = node
    return item


def create(lab: Lab, *items: dict[str, t.Any]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    lab.kubectl("apply", "--filename=-", stdin=json.dumps(listed))


@pytest.fixture
def devices(lab: Lab) -> t.Iterator[None]:
    """Give the lab's nodes devices, and remove everything that a test makes around them."""
    nodes = json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
    create(lab, *(resource_slice(node["metadata"]["name"]) for node in nodes))
    create(lab, *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES))
    for name in NAMESPACES:
        # The controller manager makes it soon. Without it, the API server refuses pods.
        lab.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={name}", "--timeout=30s")
    yield
    lab.kubectl("delete", "namespace", *NAMESPACES, "--wait=false")
    for name in NAMESPACES:
        lab.kubectl("delete", "pods,resourceclaims", "--all", f"--namespace={name}", "--grace-period=0", "--force")
    lab.kubectl("delete", "deviceclasses", OURS)
    lab.kubectl("delete", "resourceslices", "--all")
    lab.kubectl("wait", "--for=delete", *(f"namespace/{name}" for name in NAMESPACES), "--timeout=60s")


def pod(name: str, namespace: str, **spec: t.Any) -> dict[str, t.Any]:
    container = {"name": "c", "image": "busybox", "resources": spec.pop("resources")}
    made = {"containers": [container], "tolerations": [{"operator": "Exists"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": made}


def claiming(name: str, namespace: str, **source: str) -> dict[str, t.Any]:
    """Return a pod with a claim, for example ``resourceClaimTemplateName="one-gpu"``."""
    return pod(name, namespace, resources={"claims": [{"name": "gpus"}]}, resourceClaims=[{"name": "gpus", **source}])


def placed(lab: Lab, namespace: str, *names: str) -> None:
    """Wait until the scheduler has given pods their devices and a node. A driver would then prepare the devices."""
    named = [f"pod/{name}" for name in names]
    lab.kubectl("wait", "--for=condition=PodScheduled", *named, f"--namespace={namespace}", "--timeout=60s")


def allocated(lab: Lab, namespace: str) -> list[list[dict[str, t.Any]]]:
    """Return the devices of each claim of a namespace."""
    found = json.loads(lab.kubectl("get", "resourceclaims", f"--namespace={namespace}", "--output=json"))["items"]
    return [(item.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", []) for item in found]


def reserved(lab: Lab, name: str) -> bool:
    """Return whether a pod uses a claim of the namespace research."""
    found = json.loads(lab.kubectl("get", "resourceclaim", name, "--namespace=research", "--output=json"))
    return bool((found.get("status") or {}).get("reservedFor"))


def kept(lab: Lab) -> list[str]:
    return lab.kubectl("get", KEPT, "--all-namespaces", OURS, "--output=name").split()


def refused(lab: Lab, item: dict[str, t.Any]) -> str:
    """Return why the API server refuses an object."""
    with pytest.raises(LabError) as error:
        lab.kubectl("create", "--filename=-", stdin=json.dumps(item))
    return str(error.value)


OWN_NODES, OWN, SMALL = ("claims-0000", "claims-0001"), {"claims": "own"}, "small"
SMALL_WISHES = {
    "claims_classes": [{"name": "small", "product": "NVIDIA H100 80GB HBM3", "extended_resource": "example.com/gpu"}],
    "claims_templates": [{"name": "two-gpus", "namespaces": [SMALL], "device_class": "small", "count": 2}],
}


@pytest.fixture
def own_nodes(lab: Lab) -> t.Iterator[None]:
    """Add nodes of this test alone, and a namespace. What other tests have left on the lab's nodes has no effect."""
    room = {"capacity": {"cpu": "8", "memory": "64Gi", "pods": "110"}}
    room |= {"allocatable": room["capacity"]}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": OWN}, "status": room}
        for name in OWN_NODES
    ]
    create(lab, *nodes, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SMALL}})
    create(lab, *map(of_node, OWN_NODES))
    lab.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={SMALL}", "--timeout=30s")
    yield
    lab.kubectl("delete", "pods,resourceclaims", "--all", f"--namespace={SMALL}", "--grace-period=0", "--force")
    lab.kubectl("delete", "namespace", SMALL, "--wait=false")
    lab.kubectl("delete", "deviceclasses", OURS)
    lab.kubectl("delete", "resourceslices", *(f"{name}-gpu.nvidia.com" for name in OWN_NODES))
    lab.kubectl("delete", "nodes", *OWN_NODES)


def said_of(lab: Lab, name: str, resource: str, device: str) -> None:
    """Write into a pod's status, as a kubelet does, that a device is sick."""
    health = [{"name": resource, "resources": [{"resourceID": device, "health": "Unhealthy", "message": "Xid 79"}]}]
    container = {"name": "c", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0}
    status = {"status": {"containerStatuses": [{**container, "allocatedResourcesStatus": health}]}}
    patch = ["--subresource=status", "--type=merge", f"--patch={json.dumps(status)}"]
    lab.kubectl("patch", "pod", name, f"--namespace={SMALL}", *patch)


@pytest.mark.usefixtures("own_nodes")
def test_pods_get_gpus_by_claims_and_everybody_sees_who_has_which(lab: Lab, ansible: Playbook, tmp_path: Path) -> None:
    """The forms of names and IDs of sick devices: ``pkg/kubelet/cm/dra/manager.go`` of Kubernetes 1.36.3."""
    done = [ansible.run(PLAYBOOK, *check, **SMALL_WISHES) for check in (["--check"], [])]
    assert [(run.status, run.changed) for run in done] == [(0, 1), (0, 1)], done[1].output
    two = claiming("train", SMALL, resourceClaimTemplateName="two-gpus")
    old = pod("old", SMALL, resources={"limits": {"example.com/gpu": "1"}})
    for item in (two, old):
        item["spec"]["nodeSelector"] = OWN
    create(lab, two, old)
    placed(lab, SMALL, "train", "old")
    results = allocated(lab, SMALL)
    assert sorted(map(len, results)) == [1, 2] and {each["pool"] for found in results for each in found} <= {*OWN_NODES}

    seen = on_inventory(ansible, lab, tmp_path)
    assert sum(row["free"]["gpu.nvidia.com"] for row in seen) == 13 and all(row["claimable"] for row in seen)
    assert sorted(sum(bool(device["claims"]) for device in row["devices"]) for row in seen) in ([0, 3], [1, 2])

    said_of(lab, "train", "claim:gpus", "k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-0")
    with pytest.raises(LabError, match="must match one of the container's resource claims"):
        said_of(lab, "train", "claim:other", "gpu.nvidia.com/claims-0000/gpu-0")
    held = [found for item in pods_of(lab) for found in device_health.doubted(item)]
    assert [(each.resource, each.health, each.message) for each in held] == [("claim:gpus", "Unhealthy", "Xid 79")]
    gone = ansible.run(PLAYBOOK, claims_allow_in_use=True)
    assert gone.status == 0, gone.output


def pods_of(lab: Lab) -> list[dict[str, t.Any]]:
    found = json.loads(lab.kubectl("get", "pods", f"--namespace={SMALL}", "--output=json"))
    return t.cast("list[dict[str, t.Any]]", found["items"])


def on_inventory(ansible: Playbook, lab: Lab, folder: Path) -> list[dict[str, t.Any]]:
    """Return what the inventory says of the nodes of this test."""
    path = folder / "own.gpu_nodes.yml"
    chosen = {"plugin": "gpuops.nvidia.gpu_nodes", "node_selector": OWN, "all_nodes": True, "free": True}
    path.write_text(yaml.safe_dump({**chosen, "kubeconfig": str(lab.kubeconfig)}))
    listed = ansible.finish(ansible.command(["ansible-inventory", "--inventory", str(path), "--list"]), 60)
    assert listed.status == 0, listed.output
    hosts = json.loads(listed.output[listed.output.index("{") :])["_meta"]["hostvars"]
    assert sorted(hosts) == list(OWN_NODES)
    return [host["gpu_node"] for host in hosts.values()]


@pytest.mark.wide
@pytest.mark.usefixtures("devices")
def test_the_example_gives_pods_their_gpus(lab: Lab, ansible: Playbook) -> None:
    done = [ansible.run(PLAYBOOK, *check, **WISHES) for check in (["--check"], [], [])]
    assert [(run.status, run.changed) for run in done] == [(0, 1), (0, 1), (0, 0)], done[1].output
    assert len(kept(lab)) == 8
    four = claiming("train", "research", resourceClaimTemplateName="four-gpus")
    shared = [claiming(f"notebook-{n}", "notebooks", resourceClaimName="shared-gpu") for n in (1, 2)]
    old = pod("old", "research", resources={"limits": {"nvidia.com/gpu": "2"}})
    create(lab, four, *shared, old)
    placed(lab, "research", "train", "old")
    placed(lab, "notebooks", "notebook-1", "notebook-2")
    assert sorted(map(len, allocated(lab, "research"))) == [2, 4]
    together = next(results for results in allocated(lab, "research") if len(results) == 4)
    assert len({(each["pool"], int(each["device"][4:]) // 4) for each in together}) == 1
    assert [len(results) for results in allocated(lab, "notebooks")] == [1]
    gone = ansible.run(PLAYBOOK)
    assert gone.status == 2 and "research/train" in gone.message, gone.output
    assert len(kept(lab)) == 8
    gone = ansible.run(PLAYBOOK, claims_allow_in_use=True)
    assert gone.status == 0 and [name for name in kept(lab) if "resourceclaim.resource" not in name] == [], gone.output


def each_twice(ansible: Playbook, **wishes: t.Any) -> list[int]:
    """Return how many tasks changed something in a check, a run, another check and another run."""
    found = [ansible.run(PLAYBOOK, *check, **wishes) for check in (["--check"], [], ["--check"], [])]
    assert [run.status for run in found] == [0] * 4, "\n".join(run.output for run in found)
    return [run.changed for run in found]


@pytest.mark.wide
@pytest.mark.usefixtures("devices")
def test_what_check_mode_says_is_what_a_run_does_and_the_next_run_does_nothing(lab: Lab, ansible: Playbook) -> None:
    template = {**WISHES["claims_templates"][1], "count": 2}
    other_class = {**WISHES["claims_classes"][0], "memory_min": "79Gi"}
    changed = {
        "claims_classes": [other_class, WISHES["claims_classes"][1]],
        "claims_templates": [WISHES["claims_templates"][0], template],
        "claims_shared": [{**WISHES["claims_shared"][0], "cel": ["true"]}],
        "claims_quotas": [{"namespace": "research", "devices": {"h100": 12}}],
    }
    for wishes in (WISHES, changed, {}):
        assert each_twice(ansible, **wishes) == [1, 1, 0, 0]
    assert kept(lab) == []


@pytest.mark.wide
@pytest.mark.usefixtures("devices")
def test_what_kubernetes_or_the_driver_would_refuse_is_refused_with_nothing_written(
    lab: Lab, ansible: Playbook
) -> None:
    h100 = WISHES["claims_classes"][0]
    template = {"name": "one", "namespaces": ["research"], "device_class": "h100"}
    cases: list[tuple[str, dict[str, t.Any]]] = [
        ("Correct cel[1]", {"claims_classes": [{**h100, "cel": ["true", "device.driver == 5"]}]}),
        ("Correct cel[0]", {"claims_classes": [h100], "claims_templates": [{**template, "cel": ["device."]}]}),
        ("selects 0 of 32 devices", {"claims_classes": [{**h100, "memory_min": "80Gi"}]}),
        ("lacks the label", {"claims_classes": [h100], "claims_templates": [{**template, "admin_access": True}]}),
        (
            "no namespace nowhere",
            {"claims_classes": [h100], "claims_templates": [{**template, "namespaces": ["nowhere"]}]},
        ),
        (
            "matchAttribute",
            {"claims_classes": [h100], "claims_templates": [{**template, "match_attributes": ["pcieRoot"]}]},
        ),
        ("extendedResourceName", {"claims_classes": [{**h100, "extended_resource": "cpu"}]}),
    ]
    for words, wishes in cases:
        for check in (["--check"], []):
            run = ansible.run(PLAYBOOK, *check, **wishes)
            assert (run.status, run.changed) == (2, 0), (words, run.output)
            assert words in run.message, run.output
    assert kept(lab) == []


@pytest.mark.wide
@pytest.mark.usefixtures("devices")
def test_a_quota_is_enforced_for_claims_however_a_pod_asks(lab: Lab, ansible: Playbook) -> None:
    limits = {"namespace": "research", "devices": {"h100": 1, "whole-gpu": 1}, "claims": 3}
    run = ansible.run(PLAYBOOK, **{**WISHES, "claims_quotas": [limits]})
    assert run.status == 0, run.output
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "h100", "count": 2}}]}}
    metadata = {"name": "two", "namespace": "research"}
    two = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    assert "exceeded quota: gpu-claims" in refused(lab, two)
    everything = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "h100", "allocationMode": "All"}}]}
    told = refused(lab, {**two, "spec": {"devices": everything}})
    assert "requested: h100.deviceclass.resource.k8s.io/devices=32" in told, told
    create(lab, pod("old", "research", resources={"limits": {"nvidia.com/gpu": "1"}}))
    placed(lab, "research", "old")
    used = json.loads(lab.kubectl("get", "resourcequota", "gpu-claims", "--namespace=research", "--output=json"))
    assert used["status"]["used"]["whole-gpu.deviceclass.resource.k8s.io/devices"] == "1"


@pytest.mark.wide
@pytest.mark.usefixtures("devices")
def test_pods_keep_the_claims_of_a_template_that_changes(lab: Lab, ansible: Playbook) -> None:
    assert ansible.run(PLAYBOOK, **WISHES).status == 0
    create(lab, claiming("train", "research", resourceClaimTemplateName="four-gpus"))
    placed(lab, "research", "train")
    fewer = [WISHES["claims_templates"][0], {**WISHES["claims_templates"][1], "count": 2}]
    run = ansible.run(PLAYBOOK, **{**WISHES, "claims_templates": fewer})
    assert run.status == 0 and "research/train" in run.output, run.output
    create(lab, claiming("next", "research", resourceClaimTemplateName="four-gpus"))
    placed(lab, "research", "train", "next")
    assert sorted(map(len, allocated(lab, "research"))) == [2, 4]


@pytest.mark.wide
@pytest.mark.usefixtures("devices")
def test_a_run_that_is_killed_is_completed_by_the_next(lab: Lab, ansible: Playbook) -> None:
    many = [{"name": f"t{n}", "namespaces": ["research"], "device_class": "h100"} for n in range(150)]
    wishes = {**WISHES, "claims_templates": many}
    process = ansible.plain.start(PLAYBOOK, **wishes)
    while "t0" not in " ".join(kept(lab)):
        assert process.poll() is None, process.communicate()[0]
    kill_all(process)
    begun = len(kept(lab))
    assert begun < len(many)
    done = [ansible.run(PLAYBOOK, **wishes) for dummy in range(2)]
    assert [(run.status, run.changed) for run in done] == [(0, 1), (0, 0)], done[0].output
    assert len(kept(lab)) == len(many) + 5


@pytest.mark.wide
def test_an_older_api_takes_its_own_shape_and_a_gate_that_is_off_is_named() -> None:
    """Kubernetes 1.36 needs v1 for itself, so the older versions are served beside it."""
    older = ("v1beta2", "v1beta1")
    served = ",".join(f"resource.k8s.io/{version}=true" for version in older)
    options = Options(nodes=1, operator="none", feature_gates="DRAExtendedResource=false", runtime_config=served)
    wish = {"count": 4, "all": False, "admin_access": False, "cel": ["true"], **WISHES["claims_templates"][1]}
    with running_lab("old-claims", options) as lab:
        create(lab, *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES))
        run = on(lab).run(PLAYBOOK, claims_unmatched="warn", **WISHES)
        assert run.status == 2 and "DRAExtendedResource" in run.message, run.output
        for version in older:
            kinds = claim_objects.ClaimKinds(version)
            made = [
                *claim_objects.classes(kinds, [{"type": "gpu", **WISHES["claims_classes"][0]}]),
                *claim_objects.templates(kinds, [{**wish, "config": {"sharing": None}}], {"h100": "gpu"}),
                *claim_objects.claims(kinds, [wish], {}),
            ]
            for item in made:
                strict = ["--dry-run=server", "--validate=strict", "--filename=-"]
                lab.kubectl("create", *strict, stdin=json.dumps(item))


GPUCLUSTER = {
    "clusterPolicy": {"deployCR": False},
    "gpuCluster": {"deployCR": True},
    "driver": {"nvidiaDriverCRD": {"enabled": True}},
}


@pytest.mark.wide
@pytest.mark.usefixtures("clean", "devices")
def test_parameters_need_the_gates_of_the_gpucluster(lab: Lab, ansible: Playbook) -> None:
    lab.kubectl("delete", "resourceslices", "--all")  # the stack writes its own
    assert ansible.run(OPERATOR, operator_values=GPUCLUSTER).status == 0
    slices = {"sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}}
    shared = [{"name": "shared", "namespaces": ["research"], "device_class": "gpu.nvidia.com", "config": slices}]
    run = ansible.run(PLAYBOOK, claims_shared=shared)
    assert run.status == 2 and "TimeSlicingSettings: true in spec.draDriver.featureGates of GPUCluster" in run.message
    gates = {"spec": {"draDriver": {"featureGates": {"TimeSlicingSettings": True}}}}
    lab.kubectl("patch", "gpucluster", "gpu-cluster", "--type=merge", f"--patch={json.dumps(gates)}")
    assert ansible.run(PLAYBOOK, claims_shared=shared).status == 0
    create(lab, *(claiming(f"notebook-{n}", "research", resourceClaimName="shared") for n in (1, 2)))
    ready = ["--for=condition=Ready", "pod/notebook-1", "pod/notebook-2"]
    lab.kubectl("wait", *ready, "--namespace=research", "--timeout=60s")
    assert [len(results) for results in allocated(lab, "research")] == [1]
    gone = ansible.run(PLAYBOOK)
    assert gone.status == 2 and "research/notebook-1, research/notebook-2" in gone.message, gone.output
    lab.kubectl("delete", "pods", "--all", "--namespace=research", "--grace-period=0", "--force")
    sees(lambda: not reserved(lab, "shared"), 30)
    assert ansible.run(PLAYBOOK).status == 0 and kept(lab) == []
