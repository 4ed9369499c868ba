# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import (
    kubevirt_checks,
    permitted_devices,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.machine_users import MachineUsers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    PermittedDevice,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.kubevirt import THEIRS, kubevirt

A10 = PermittedDevice("pci", "10DE:2236", "nvidia.com/GA102GL_A10", True)
VGPU = PermittedDevice("mdev", "NVIDIA A10-12Q", "nvidia.com/NVIDIA_A10-12Q", True)
T4 = "nvidia.com/TU104GL_TESLA_T4"
MARK = [list(A10.key)]


def refused(check: t.Callable[..., t.Any], *arguments: t.Any) -> tuple[str | None, str]:
    with pytest.raises(GpuOpsError) as error:
        check(*arguments)
    return error.value.reason, error.value.msg


def test_there_is_exactly_one_kubevirt() -> None:
    one, other = kubevirt(), kubevirt()
    other["metadata"]["namespace"] = "cnv"
    assert kubevirt_checks.the_one([one]) is one
    assert refused(kubevirt_checks.the_one, None) == wording(
        (
            "CRDMissing",
            "This cluster does not serve kubevirt.io/v1. Install KubeVirt v0.59 or newer first, or correct kubeconfig and context.",
        )
    )
    assert refused(kubevirt_checks.the_one, []) == wording(
        (
            "NotFound",
            "This cluster has no object KubeVirt, although it serves the kind. Create one, and wait until its phase is Deployed.",
        )
    )
    assert refused(kubevirt_checks.the_one, [one, other]) == wording(
        (
            "Invalid",
            "There are 2 objects KubeVirt: cnv/kubevirt, kubevirt/kubevirt. KubeVirt works with one for each cluster: remove those that virt-operator does not use.",
        )
    )


def test_a_kubevirt_that_is_managed_elsewhere_is_left_to_its_manager() -> None:
    managed = kubevirt()
    kubevirt_checks.refuse_managed(managed)
    owner = {"kind": "HyperConverged", "name": "kubevirt-hyperconverged", "controller": True}
    managed["metadata"]["ownerReferences"] = [{"kind": "Other", "name": "x"}, owner]
    assert refused(kubevirt_checks.refuse_managed, managed) == wording(
        (
            "OwnedByOthers",
            "HyperConverged kubevirt-hyperconverged manages KubeVirt kubevirt/kubevirt, and would undo any change of it. Permit the devices in its spec.permittedHostDevices (spec.virtualization.permittedHostDevices in hco.kubevirt.io/v1), where pciVendorSelector is called pciDeviceSelector.",
        )
    )
    managed["metadata"]["ownerReferences"] = [{"kind": "Other", "name": "x", "controller": True}]
    assert refused(kubevirt_checks.refuse_managed, managed) == wording(
        (
            "OwnedByOthers",
            "Other x manages KubeVirt kubevirt/kubevirt, and would undo any change of it. Permit the devices there.",
        )
    )


def test_a_kubevirt_that_goes_is_not_deployed_or_is_old_is_refused() -> None:
    kubevirt_checks.refuse_unready(kubevirt())
    kubevirt_checks.refuse_unready(kubevirt(version="v0.59.2"))
    kubevirt_checks.refuse_unready(kubevirt(version="devel"))
    going, starting, new = kubevirt(), kubevirt(), kubevirt()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    starting["status"]["phase"] = "Deploying"
    del new["status"]
    assert refused(kubevirt_checks.refuse_unready, going) == wording(
        ("NotReady", "KubeVirt kubevirt/kubevirt is being deleted. Install KubeVirt again first.")
    )
    assert refused(kubevirt_checks.refuse_unready, starting) == wording(
        (
            "NotReady",
            "KubeVirt kubevirt/kubevirt is not deployed: its phase is Deploying. Wait for it with `kubectl wait kubevirt --all --all-namespaces --for=condition=Available`.",
        )
    )
    assert "not reported yet" in refused(kubevirt_checks.refuse_unready, new)[1]
    assert refused(kubevirt_checks.refuse_unready, kubevirt(version="v0.58.1")) == wording(
        (
            "Unsupported",
            "KubeVirt kubevirt/kubevirt runs v0.58.1, and v0.59 is the oldest that this module knows. Upgrade KubeVirt first.",
        )
    )


@pytest.mark.parametrize(
    ("version", "gates", "fields"),
    [
        ("v1.9.0", (), ["gpus"]),
        ("v1.4.0", ("HostDevices",), ["gpus", "hostDevices"]),
        ("v1.3.1", ("GPU",), ["gpus"]),
        ("v1.3.1", ("HostDevices",), ["hostDevices"]),
        ("v1.3.1", (), []),
        ("devel", (), []),
        ("devel", ("GPU",), ["gpus"]),
    ],
)
def test_how_machines_ask_for_devices_depends_on_version_and_gates(
    version: str, gates: tuple[str, ...], fields: list[str]
) -> None:
    found = kubevirt(version=version, gates=gates)
    assert kubevirt_checks.fields_for_devices(found) == fields
    if fields:
        kubevirt_checks.refuse_closed_gates(found)
    else:
        reason, message = refused(kubevirt_checks.refuse_closed_gates, found)
        assert reason == "Unsupported" and "Add GPU to spec.configuration.developerConfiguration" in message


def test_the_refusal_of_a_closed_gate_names_version_and_field() -> None:
    assert refused(kubevirt_checks.refuse_closed_gates, kubevirt(version="v1.3.1")) == wording(
        (
            "Unsupported",
            "KubeVirt kubevirt/kubevirt runs v1.3.1, which refuses virtual machines with GPUs without the feature gate GPU (it is always on from v1.4). Add GPU to spec.configuration.developerConfiguration.featureGates of the KubeVirt.",
        )
    )
    assert "an unknown version" in refused(kubevirt_checks.refuse_closed_gates, kubevirt(version=""))[1]


@pytest.mark.parametrize(
    ("version", "gates", "enabled", "makes"),
    [
        ("v1.9.0", (), None, True),
        ("v1.9.0", (), False, False),
        ("v1.8.0", (), False, False),
        ("v1.9.0", ("DisableMDEVConfiguration",), None, False),
        ("v1.9.0", ("DisableMDEVConfiguration",), True, True),
        ("v1.7.4", (), False, True),  # this release does not know the field
        ("v1.7.4", ("DisableMDEVConfiguration",), True, False),
        ("devel", (), False, False),
    ],
)
def test_who_makes_mediated_devices(version: str, gates: tuple[str, ...], enabled: bool | None, makes: bool) -> None:
    setting = {} if enabled is None else {"mediatedDevicesConfiguration": {"enabled": enabled}}
    assert kubevirt_checks.makes_mediated_devices(kubevirt(version=version, gates=gates, **setting)) == makes


def test_two_makers_of_mediated_devices_are_refused() -> None:
    by_kubevirt = PermittedDevice("mdev", "NVIDIA A10-12Q", "nvidia.com/NVIDIA_A10-12Q", False)
    kubevirt_checks.refuse_two_makers(kubevirt(), [A10, by_kubevirt])
    kubevirt_checks.refuse_two_makers(kubevirt(gates=("DisableMDEVConfiguration",)), [VGPU])
    assert refused(kubevirt_checks.refuse_two_makers, kubevirt(), [VGPU]) == wording(
        (
            "Unsupported",
            "NVIDIA's operator makes the mediated devices of nvidia.com/NVIDIA_A10-12Q (NVIDIA A10-12Q), and KubeVirt kubevirt/kubevirt makes and removes such devices, too. Set spec.configuration.mediatedDevicesConfiguration.enabled of the KubeVirt to false.",
        )
    )
    assert (
        "enabled of the KubeVirt" in refused(kubevirt_checks.refuse_two_makers, kubevirt(version="v1.8.0"), [VGPU])[1]
    )
    assert refused(kubevirt_checks.refuse_two_makers, kubevirt(version="v1.7.4"), [VGPU]) == wording(
        (
            "Unsupported",
            "NVIDIA's operator makes the mediated devices of nvidia.com/NVIDIA_A10-12Q (NVIDIA A10-12Q), and KubeVirt kubevirt/kubevirt makes and removes such devices, too. Add DisableMDEVConfiguration to spec.configuration.developerConfiguration.featureGates of the KubeVirt.",
        )
    )


def test_two_providers_of_a_device_are_refused() -> None:
    by_kubevirt = PermittedDevice("pci", "10DE:2236", "example.com/a10", False)
    plugins = {"gpu-operator/nvidia-sandbox-device-plugin-daemonset": 3}
    kubevirt_checks.refuse_two_providers([A10], plugins, "")
    kubevirt_checks.refuse_two_providers([by_kubevirt], {}, "")
    assert refused(kubevirt_checks.refuse_two_providers, [by_kubevirt], plugins, "") == wording(
        (
            "InUse",
            "NVIDIA's device plugin (gpu-operator/nvidia-sandbox-device-plugin-daemonset on 3 nodes) gives out every NVIDIA device that vfio-pci has, and with external_resource_provider: false KubeVirt would give out example.com/a10 (10DE:2236), too. Set it to true, or turn the plugin off (sandboxDevicePlugin.enabled: false in the ClusterPolicy).",
        )
    )
    assert refused(kubevirt_checks.refuse_two_providers, [by_kubevirt], {}, "no") == wording(
        (
            "Forbidden",
            "Whether NVIDIA's device plugin gives out example.com/a10 (10DE:2236) is unknown, since this user may not list DaemonSets in all namespaces. Permit that, or set external_resource_provider: true.",
        )
    )


def test_what_machines_ask_for_goes_only_with_permission() -> None:
    change = permitted_devices.forbid(kubevirt(THEIRS, A10.content, ours=MARK), lambda entry: True)
    users = MachineUsers([("VirtualMachineInstance research/a", frozenset({A10.resource}))], [])
    assert kubevirt_checks.refuse_in_use(change, MachineUsers([], []), False) == []
    assert refused(kubevirt_checks.refuse_in_use, change, users, False) == wording(
        (
            "InUse",
            "nvidia.com/GA102GL_A10 is asked for by VirtualMachineInstance research/a. Running machines keep their devices, and cannot start again or move. Change these machines, permit their devices, too, or accept it with allow_in_use: true.",
        )
    )
    assert kubevirt_checks.refuse_in_use(change, users, True) == wording(
        [
            "nvidia.com/GA102GL_A10 is asked for by VirtualMachineInstance research/a. Running machines keep their devices, and cannot start again or move."
        ]
    )
    unread = MachineUsers([], ["VirtualMachine"])
    assert refused(kubevirt_checks.refuse_in_use, change, unread, False) == wording(
        (
            "Forbidden",
            "Whether virtual machines need nvidia.com/GA102GL_A10 is unknown, since this user may not list VirtualMachine. Permit that, or accept it with allow_in_use: true.",
        )
    )
    assert kubevirt_checks.refuse_in_use(change, unread, True) == []


def test_a_resource_that_another_entry_permits_is_not_lost() -> None:
    second = PermittedDevice("pci", "10DE:2237", A10.resource, True)
    item = kubevirt(A10.content, second.content, ours=MARK)
    change = permitted_devices.forbid(item, lambda entry: entry == A10)
    users = MachineUsers([("VirtualMachine research/a", frozenset({A10.resource}))], [])
    assert kubevirt_checks.refuse_in_use(change, users, False) == []


def test_the_first_list_must_not_lock_machines_out() -> None:
    users = MachineUsers([("VirtualMachine research/a", frozenset({A10.resource, T4}))], [])
    first = permitted_devices.permit(kubevirt(), [A10], purge=False)
    reason, message = refused(kubevirt_checks.refuse_in_use, first, users, False)
    assert reason == "InUse" and message == wording(
        "KubeVirt permits every device until its first list of permitted devices, which leaves out those of VirtualMachine research/a (nvidia.com/TU104GL_TESLA_T4). Running machines keep their devices, and cannot start again or move. Change these machines, permit their devices, too, or accept it with allow_in_use: true."
    )
    later = permitted_devices.permit(kubevirt(THEIRS), [A10], purge=False)
    assert kubevirt_checks.refuse_in_use(later, users, False) == []
    both = MachineUsers([("VirtualMachine research/a", frozenset({A10.resource}))], [])
    assert kubevirt_checks.refuse_in_use(first, both, False) == []
    unread = MachineUsers([], ["VirtualMachine"])
    assert refused(kubevirt_checks.refuse_in_use, first, unread, False) == wording(
        (
            "Forbidden",
            "Whether virtual machines need devices that would no longer be permitted is unknown, since this user may not list VirtualMachine. Permit that, or accept it with allow_in_use: true.",
        )
    )


def test_who_else_writes_the_lists_from_a_manifest() -> None:
    item = kubevirt(A10.content)
    fields = {"f:spec": {"f:configuration": {"f:permittedHostDevices": {"f:pciHostDevices": {}}}}}
    item["metadata"]["managedFields"] = [
        {"manager": "argocd", "operation": "Apply", "fieldsV1": fields},
        {"manager": "gpuops.nvidia", "operation": "Apply", "fieldsV1": fields},
        {"manager": "person", "operation": "Update", "fieldsV1": fields},
        {"manager": "other", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
    ]
    assert kubevirt_checks.other_declarers(item, "gpuops.nvidia") == ["argocd"]
    last = "kubectl.kubernetes.io/last-applied-configuration"
    item["metadata"]["managedFields"] = []
    item["metadata"]["annotations"] = {last: json.dumps({"spec": item["spec"]})}
    assert kubevirt_checks.other_declarers(item, "gpuops.nvidia") == ["kubectl apply"]
    for text in ("{", "7", "{}"):
        item["metadata"]["annotations"] = {last: text}
        assert kubevirt_checks.other_declarers(item, "gpuops.nvidia") == []
