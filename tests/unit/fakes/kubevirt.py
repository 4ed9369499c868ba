# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A KubeVirt, and machines and instance types around it. The fields are those of KubeVirt v1.9.0's API types."""

from __future__ import annotations

import json
import typing as t

from tests.unit.fakes.api import FakeApi, Reply, refusal

Json = dict[str, t.Any]

ROOT = "/apis/kubevirt.io/v1"
ALL = f"{ROOT}/kubevirts"
KUBEVIRTS = f"{ROOT}/namespaces/kubevirt/kubevirts"
MACHINES = f"{ROOT}/virtualmachines"
INSTANCES = f"{ROOT}/virtualmachineinstances"
CLUSTER_TYPES = "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes"
DAEMONSETS = "/apis/apps/v1/daemonsets"

THEIRS: Json = {"pciVendorSelector": "8086:6F54", "resourceName": "intel.com/qat"}


def kubevirt(
    *pci: Json,
    mdev: t.Sequence[Json] = (),
    version: str = "v1.9.0",
    gates: t.Sequence[str] = (),
    ours: t.Sequence[t.Sequence[str]] | None = None,
    **configuration: t.Any,
) -> Json:
    """Return a KubeVirt that permits these devices. ``ours`` is what the mark says."""
    lists = {"pciHostDevices": list(pci), "mediatedDevices": list(mdev)}
    found = {name: items for name, items in lists.items() if items}
    notes = {} if ours is None else {"gpuops.nvidia/permitted-gpus": json.dumps(ours)}
    return {
        "metadata": {"name": "kubevirt", "namespace": "kubevirt", "resourceVersion": "7", "annotations": notes},
        "spec": {
            "configuration": {
                "developerConfiguration": {"featureGates": list(gates)},
                **({"permittedHostDevices": found} if found else {}),
                **configuration,
            }
        },
        "status": {"phase": "Deployed", "observedKubeVirtVersion": version},
    }


def instance(name: str, *resources: str, phase: str = "Running", field: str = "gpus") -> Json:
    """Return a VirtualMachineInstance with these devices."""
    devices = [{"name": f"gpu{number}", "deviceName": resource} for number, resource in enumerate(resources)]
    spec = {"domain": {"devices": {field: devices}}}
    return {"metadata": {"name": name, "namespace": "research"}, "spec": spec, "status": {"phase": phase}}


def machine(name: str, *resources: str) -> Json:
    """Return a VirtualMachine that makes such instances, and is stopped."""
    made = instance(name, *resources)
    return {"metadata": made["metadata"], "spec": {"runStrategy": "Halted", "template": {"spec": made["spec"]}}}


def instance_type(name: str, *resources: str) -> Json:
    """Return a VirtualMachineClusterInstancetype with these devices."""
    gpus = [{"name": f"gpu{number}", "deviceName": resource} for number, resource in enumerate(resources)]
    return {"metadata": {"name": name}, "spec": {"gpus": gpus}}


def node(name: str, kind: str = "vm-passthrough", **resources: str) -> Json:
    """Return a node that offers resources of nvidia.com: ``GA102GL_A10="4"``."""
    offered = {f"nvidia.com/{each}": number for each, number in resources.items()}
    labels = {"nvidia.com/gpu.workload.config": kind} if kind else {}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "500m", **offered}}}


class KubeVirtApi:
    """Makes a fake API server one of a cluster with a KubeVirt."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.forbidden: set[str] = set()
        """The paths of lists that this user may not read."""
        self.before_write: t.Callable[[], None] = lambda: None
        """What happens just before a write arrives."""
        api.lists |= {KUBEVIRTS: [kubevirt()], MACHINES: [], INSTANCES: [], CLUSTER_TYPES: [], DAEMONSETS: []}
        api.lists["/api/v1/nodes"] = [node("vm-0", GA102GL_A10="4"), node("vm-1", GA102GL_A10="4", GA100_A40="0")]
        api.answer = self.answer

    @property
    def kubevirt(self) -> Json:
        """The KubeVirt as it is now."""
        return self.api.lists[KUBEVIRTS][0]

    @kubevirt.setter
    def kubevirt(self, item: Json) -> None:
        self.api.lists[KUBEVIRTS] = [item]

    @property
    def lists(self) -> Json:
        """The lists of permitted devices."""
        return self.kubevirt["spec"]["configuration"].get("permittedHostDevices")

    @property
    def mark(self) -> list[list[str]]:
        """The entries that are ours."""
        return json.loads(self.kubevirt["metadata"]["annotations"].get("gpuops.nvidia/permitted-gpus", "[]"))

    def answer(self, method: str, path: str) -> Reply | None:
        """Answer what the lists do not."""
        if method == "GET" and path in self.forbidden:
            return refusal(403, f"cannot list {path}", "Forbidden")
        if path == ALL and KUBEVIRTS in self.api.lists:
            return 200, {"items": self.api.lists[KUBEVIRTS], "metadata": {}}
        if method == "PATCH":
            self.before_write()
        return None
