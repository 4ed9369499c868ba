# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import FakeApi, fault, refusal
from tests.unit.fakes.kubevirt import (
    ALL,
    DAEMONSETS,
    INSTANCES,
    KUBEVIRTS,
    MACHINES,
    THEIRS,
    KubeVirtApi,
    instance,
    kubevirt,
    machine,
    node,
)

A10 = {"pciVendorSelector": "10DE:2236", "resourceName": "nvidia.com/GA102GL_A10", "externalResourceProvider": True}
OURS = [["pci", "10de:2236", "nvidia.com/GA102GL_A10"]]
WISH = {"devices": [{"pci_id": "10DE:2236"}]}
GONE: dict[str, t.Any] = {"state": "absent"}


@pytest.fixture
def cluster(api: FakeApi) -> KubeVirtApi:
    return KubeVirtApi(api)


@pytest.fixture
def keep(run_module: t.Callable, cluster: KubeVirtApi) -> t.Callable:
    return functools.partial(run_module, "kubevirt_gpus", **cluster.api.connection)


def writes(cluster: KubeVirtApi) -> list[tuple[str, str]]:
    return [(method, query.get("dryRun", "real")) for method, dummy, query in cluster.api.log if method != "GET"]


def test_a_device_comes_stays_and_goes(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.kubevirt = kubevirt(THEIRS)
    dry = keep(**WISH, _ansible_check_mode=True).result
    assert dry["changed"] and writes(cluster) == [("PATCH", "All")] and cluster.lists == {"pciHostDevices": [THEIRS]}
    done = keep(**WISH).result
    assert cluster.lists == {"pciHostDevices": [THEIRS, A10]} and cluster.mark == OURS
    assert {**done, "invocation": 0} == {**dry, "invocation": 0}
    assert done["devices"] == [
        {
            "resource_name": "intel.com/qat",
            "pci_id": "8086:6F54",
            "mdev_type": None,
            "external_resource_provider": False,
            "ours": False,
            "changed": False,
            "nodes": 0,
            "allocatable": 0,
            "users": [],
        },
        {
            "resource_name": "nvidia.com/GA102GL_A10",
            "pci_id": "10DE:2236",
            "mdev_type": None,
            "external_resource_provider": True,
            "ours": True,
            "changed": True,
            "nodes": 2,
            "allocatable": 8,
            "users": [],
        },
    ]
    assert done["kubevirt"] == {"name": "kubevirt", "namespace": "kubevirt", "version": "v1.9.0", "fields": ["gpus"]}
    again = keep(**WISH).result
    assert not again["changed"] and again["diff"] == {"before": {}, "after": {}} and len(writes(cluster)) == 2
    dry = keep(**GONE, _ansible_check_mode=True).result
    gone = keep(**GONE).result
    assert gone["removed"] == dry["removed"] == ["nvidia.com/GA102GL_A10 (10DE:2236)"] and gone["diff"] == dry["diff"]
    assert cluster.lists == {"pciHostDevices": [THEIRS]} and cluster.mark == []
    assert not keep(**GONE).result["changed"]


def test_a_call_without_wishes_only_says_what_there_is(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.kubevirt = kubevirt(A10, ours=OURS)
    cluster.api.lists[INSTANCES] = [instance("windows", "nvidia.com/GA102GL_A10")]
    result = keep().result
    assert not result["changed"] and writes(cluster) == []
    assert result["devices"][0]["users"] == ["VirtualMachineInstance research/windows"]


def test_the_nodes_say_what_there_is_to_permit(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.kubevirt = kubevirt(mediatedDevicesConfiguration={"enabled": False})
    cluster.api.lists["/api/v1/nodes"] = [
        node("vm-0", GA102GL_A10="4", TU102_HIGH_DEFINITION_AUDIO_CONTROLLER="4"),
        node("vm-1", "vm-vgpu", **{"NVIDIA_A10-12Q": "8"}),
    ]
    run = keep(from_nodes=True)
    assert [row["resource_name"] for row in run.result["devices"]] == [
        "nvidia.com/GA102GL_A10",
        "nvidia.com/NVIDIA_A10-12Q",
    ]
    assert run.warnings == wording(
        [
            "Nodes for virtual machines offer nvidia.com/TU102_HIGH_DEFINITION_AUDIO_CONTROLLER, which is no GPU that this module knows. If it is one, list it in devices with its pci_id."
        ]
    )
    own = {"devices": [{"pci_id": "10DE:10F7", "resource_name": "nvidia.com/TU102_HIGH_DEFINITION_AUDIO_CONTROLLER"}]}
    assert len(keep(from_nodes=True, **own).result["devices"]) == 3


def test_a_device_that_no_node_offers_is_said(cluster: KubeVirtApi, keep: t.Callable) -> None:
    run = keep(devices=[{"pci_id": "10DE:1EB8"}, {"pci_id": "10DE:2235", "resource_name": "nvidia.com/A40"}])
    assert [row["nodes"] for row in run.result["devices"]] == [0, 0]
    assert run.warnings == wording(
        [
            "10DE:2235 is permitted as nvidia.com/A40, which no node offers. NVIDIA's plugin calls it nvidia.com/GA102GL_A40: correct resource_name, or leave it out.",
            "nvidia.com/TU104GL_TESLA_T4 (10DE:1EB8), nvidia.com/A40 (10DE:2235): permitted, and no node offers it. A machine that asks for it waits.",
        ]
    )


def test_while_others_write_the_entries_are_merged_again(cluster: KubeVirtApi, keep: t.Callable) -> None:
    def once() -> None:
        cluster.before_write = lambda: None
        cluster.kubevirt = {**kubevirt(THEIRS), "metadata": {**kubevirt()["metadata"], "resourceVersion": "8"}}

    cluster.before_write = once
    assert keep(**WISH).result["changed"] and cluster.lists == {"pciHostDevices": [THEIRS, A10]}


def test_a_kubevirt_that_always_changes_is_given_up(cluster: KubeVirtApi, keep: t.Callable) -> None:
    def always() -> None:
        version = str(int(cluster.kubevirt["metadata"]["resourceVersion"]) + 1)
        cluster.kubevirt = {**kubevirt(), "metadata": {**kubevirt()["metadata"], "resourceVersion": version}}

    cluster.before_write = always
    assert keep(**WISH).result["reason"] == "Conflict" and cluster.lists is None


@pytest.mark.parametrize("kind", ["refused", "down"])
def test_a_call_that_breaks_off_is_completed_by_the_next(cluster: KubeVirtApi, keep: t.Callable, kind: str) -> None:
    with fault(cluster.api, kind, 1) as hit:
        first = keep(**WISH).result
    assert hit and first["failed"]
    keep(**WISH)
    assert cluster.lists == {"pciHostDevices": [A10]} and not keep(**WISH).result["changed"]


def test_a_write_whose_answer_got_lost_is_a_change(cluster: KubeVirtApi, keep: t.Callable) -> None:
    with fault(cluster.api, "lost", 1) as hit:
        result = keep(**WISH).result
    assert hit and result["changed"] and result["diff"]["before"] != result["diff"]["after"]
    assert len(writes(cluster)) == 1 and cluster.lists == {"pciHostDevices": [A10]}


def test_entries_of_others_are_respected(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.kubevirt = kubevirt(A10)
    assert not keep(**WISH).result["changed"]
    assert not keep(devices=[], purge=True).result["changed"]
    stays = keep(**WISH, **GONE)
    assert not stays.result["changed"] and stays.warnings == wording(
        [
            "nvidia.com/GA102GL_A10 (10DE:2236) stays permitted, since somebody else has written the entry. Let its owner remove it."
        ]
    )
    assert not keep(**GONE).result["changed"] and writes(cluster) == []
    cluster.kubevirt = kubevirt({**A10, "externalResourceProvider": False})
    assert keep(**WISH).result["reason"] == "OwnedByOthers" and writes(cluster) == []


def test_what_machines_need_is_removed_only_with_permission(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.kubevirt = kubevirt(THEIRS, A10, ours=OURS)
    cluster.api.lists[INSTANCES] = [instance("windows", "nvidia.com/GA102GL_A10")]
    cluster.api.lists[MACHINES] = [machine("stopped", "nvidia.com/GA102GL_A10")]
    for check in (True, False):
        failed = keep(**GONE, _ansible_check_mode=check).result
        assert failed["reason"] == "InUse" and failed["users"] == {
            "nvidia.com/GA102GL_A10": ["VirtualMachine research/stopped", "VirtualMachineInstance research/windows"]
        }
    assert writes(cluster) == []
    done = keep(**GONE, allow_in_use=True)
    assert cluster.lists == {"pciHostDevices": [THEIRS]} and done.warnings == wording(
        [
            "nvidia.com/GA102GL_A10 is asked for by VirtualMachine research/stopped, VirtualMachineInstance research/windows. Running machines keep their devices, and cannot start again or move."
        ]
    )


def test_the_first_entry_locks_no_machine_out_without_permission(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.api.lists[MACHINES] = [machine("stopped", "nvidia.com/TU104GL_TESLA_T4")]
    others = {"not_listed": ["VirtualMachine research/stopped (nvidia.com/TU104GL_TESLA_T4)"]}
    assert keep(**WISH).result["users"] == others and writes(cluster) == []
    assert keep(**WISH, allow_in_use=True).result["changed"]


def test_the_last_entry_leaves_an_empty_object(cluster: KubeVirtApi, keep: t.Callable) -> None:
    keep(**WISH)
    keep(devices=[], purge=True)
    assert cluster.lists == {}


def test_what_may_not_be_read_is_unknown(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.forbidden = {"/api/v1/nodes", INSTANCES}
    cluster.kubevirt = kubevirt(A10, ours=OURS)
    row = keep(**WISH).result["devices"][0]
    assert (row["nodes"], row["allocatable"], row["users"]) == (None, None, None)
    assert keep(**GONE).result["reason"] == "Forbidden"
    assert keep(from_nodes=True).result["reason"] == "Forbidden"
    cluster.forbidden = {ALL}
    assert keep(**WISH).result["reason"] == "Forbidden"


@pytest.mark.parametrize("path", ["/api/v1/nodes", INSTANCES])
def test_an_api_server_that_fails_is_no_empty_cluster(cluster: KubeVirtApi, keep: t.Callable, path: str) -> None:
    real = cluster.api.answer
    cluster.api.answer = lambda method, asked: refusal(500, "etcd") if asked == path else real(method, asked)
    assert keep(**WISH).result["reason"] == "ServerError" and writes(cluster) == []


def test_two_providers_are_refused(cluster: KubeVirtApi, keep: t.Callable) -> None:
    plugin = {"metadata": {"name": "nvidia-sandbox-device-plugin-daemonset", "namespace": "gpu-operator"}}
    cluster.api.lists[DAEMONSETS] = [
        {**plugin, "status": {"desiredNumberScheduled": 2}},
        {"metadata": {"name": "other", "namespace": "x"}, "status": {"desiredNumberScheduled": 9}},
    ]
    wish = {"devices": [{"pci_id": "10DE:2236", "external_resource_provider": False}]}
    assert keep(**wish).result["reason"] == "InUse"
    cluster.api.lists[DAEMONSETS] = [{**plugin, "status": {"desiredNumberScheduled": 0}}]
    assert keep(**wish).result["changed"]
    cluster.forbidden = {DAEMONSETS}
    assert keep(**wish).result["reason"] == "Forbidden"


def test_whoever_applies_the_lists_from_a_manifest_is_named(cluster: KubeVirtApi, keep: t.Callable) -> None:
    fields = {"f:spec": {"f:configuration": {"f:permittedHostDevices": {"f:pciHostDevices": {}}}}}
    cluster.kubevirt["metadata"]["managedFields"] = [{"manager": "argocd", "operation": "Apply", "fieldsV1": fields}]
    assert keep(**WISH).warnings == wording(
        [
            "argocd applies the permitted devices of KubeVirt kubevirt/kubevirt from a manifest, and takes these entries out with its next write. Put them into that manifest, or leave permittedHostDevices out of it."
        ]
    )


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"devices": [{"pci_id": "2236"}]}, "Invalid"),
        ({"purge": True}, "Invalid"),
        ({"devices": [{"mdev_type": "NVIDIA A10-12Q"}]}, "Unsupported"),
    ],
)
def test_what_cannot_work_is_refused_before_the_write(
    cluster: KubeVirtApi, keep: t.Callable, options: dict[str, t.Any], found: str
) -> None:
    assert keep(**options).result["reason"] == found and writes(cluster) == []


def test_a_cluster_without_a_kubevirt_that_suits_is_refused(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.kubevirt = kubevirt(version="v1.3.0")
    assert keep(**WISH).result["reason"] == "Unsupported"
    cluster.kubevirt["status"]["phase"] = "Deploying"
    assert keep(**WISH).result["reason"] == "NotReady"
    cluster.api.lists[KUBEVIRTS] = []
    assert keep(**WISH).result["reason"] == "NotFound"
    del cluster.api.lists[KUBEVIRTS]
    assert keep(**WISH).result["reason"] == "CRDMissing"
    gone = keep(**GONE).result
    assert not gone["changed"] and gone["kubevirt"] is None


def test_a_kubevirt_of_a_hyperconverged_is_read_and_left_alone(cluster: KubeVirtApi, keep: t.Callable) -> None:
    cluster.kubevirt = kubevirt(A10)
    cluster.kubevirt["metadata"]["ownerReferences"] = [{"kind": "HyperConverged", "name": "hco", "controller": True}]
    assert not keep(**WISH).result["changed"] and len(keep().result["devices"]) == 1
    assert keep(devices=[{"pci_id": "10DE:1EB8"}]).result["reason"] == "OwnedByOthers" and writes(cluster) == []


def test_what_the_nodes_offer_changes_no_entry_that_there_is(cluster: KubeVirtApi, keep: t.Callable) -> None:
    by_kubevirt = {"pciVendorSelector": "10DE:2236", "resourceName": "nvidia.com/GA102GL_A10"}
    cluster.kubevirt = kubevirt(by_kubevirt, ours=OURS)
    assert not keep(from_nodes=True).result["changed"] and cluster.lists == {"pciHostDevices": [by_kubevirt]}
