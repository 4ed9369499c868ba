# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which virtual machines ask for which devices. Pure but for the reading."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.vm_devices import (
    ENDED,
    INSTANCES,
    KUBEVIRT_API,
    devices_of,
    named,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_TYPES_API = "instancetype.kubevirt.io/v1beta1"

MACHINE_KINDS = {
    "VirtualMachineInstance": (KUBEVIRT_API, INSTANCES),
    "VirtualMachine": (KUBEVIRT_API, "virtualmachines"),
    "VirtualMachineInstancetype": (_TYPES_API, "virtualmachineinstancetypes"),
    "VirtualMachineClusterInstancetype": (_TYPES_API, "virtualmachineclusterinstancetypes"),
}
"""What can ask for a device. A VirtualMachine that takes its devices from an instance type does not name them itself.

Source: KubeVirt v1.9.0, ``api/core/v1`` and ``api/instancetype/v1beta1``.
"""

User = tuple[str, frozenset[str]]
"""The kind and name of an object, with its node while it runs, and the resources that it asks for."""


def user_of(kind: str, item: Json) -> User:
    """Return what an object of one of these kinds asks for. A machine that has ended asks for nothing."""
    spec = item.get("spec") or {}
    if kind == "VirtualMachine":
        spec = (spec.get("template") or {}).get("spec") or {}
    if kind == "VirtualMachineInstance" and (item.get("status") or {}).get("phase") in ENDED:
        spec = {}
    is_type = kind.endswith("Instancetype")
    of_type = [*(spec.get("gpus") or []), *(spec.get("hostDevices") or [])]
    names = frozenset(named(of_type) if is_type else devices_of(spec))
    node = (item.get("status") or {}).get("nodeName")
    return f"{kind} {full_name(item)}" + (f" on {node}" if node else ""), names


@dataclasses.dataclass(frozen=True)
class MachineUsers:
    """Who asks for devices, as far as this user may read it."""

    users: list[User]
    unread: list[str]
    """The kinds that this user may not list."""

    def of(self, resource: str) -> list[str]:
        """Return who asks for a resource."""
        return sorted(name for name, asked in self.users if resource in asked)

    def of_others(self, resources: t.Container[str]) -> list[str]:
        """Return who asks for anything but these resources, with what that is."""
        return sorted(
            f"{name} ({resource})"
            for name, asked in self.users
            for resource in sorted(asked)
            if resource not in resources
        )


def read(cluster: Cluster) -> MachineUsers:
    """Read all kinds, not from the cache, which may be behind. A kind that the cluster does not serve is left out."""
    users: list[User] = []
    unread: list[str] = []
    for kind, (group_version, plural) in MACHINE_KINDS.items():
        try:
            found, dummy = cluster.large_list(
                namespaced(group_version, None, plural), functools.partial(user_of, kind), resourceVersion=""
            )
        except GpuOpsError as e:
            if e.reason == "Forbidden":
                unread.append(kind)
            elif e.reason != "NotFound":
                raise
            continue
        users += [user for user in found if user[1]]
    return MachineUsers(users, unread)
