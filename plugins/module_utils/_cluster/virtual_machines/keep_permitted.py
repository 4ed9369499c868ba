# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Permit NVIDIA's devices to virtual machines: read, check, write for what was read, and say what there is."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.vm_devices import KUBEVIRT_API
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import (
    device_wishes,
    kubevirt_checks,
    machine_users,
    node_offers,
    permitted_devices,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.machine_users import (
    MachineUsers,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.node_offers import NodeOffers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    PermittedChange,
    PermittedDevice,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]
PLUGIN_DAEMONSETS = ("nvidia-sandbox-device-plugin-daemonset", "nvidia-kubevirt-gpu-dp-daemonset")
"""The DaemonSets of NVIDIA's plugin: the operator's, and that of the plugin's own manifest."""


WITHOUT_KUBEVIRT: Json = {
    "changed": False,
    "kubevirt": None,
    "devices": [],
    "removed": [],
    "diff": {"before": {}, "after": {}},
}
"""The result for a cluster without a KubeVirt that is to permit nothing."""


def keep(cluster: Cluster, options: Options) -> tuple[Json, list[str]]:
    """Bring the permitted devices to what is wanted; return the module's result, and warnings.

    In check mode, the write is a dry run. While others write to the KubeVirt, everything is read and checked again.
    """
    device_wishes.refuse_contradictions(options)
    offers, tried = _offers(cluster), list[PermittedChange]()
    return conflicts.settled(lambda: _kept(cluster, options, offers, tried), "KubeVirt's list of permitted devices")


def _kept(
    cluster: Cluster, options: Options, offers: NodeOffers, tried: list[PermittedChange]
) -> tuple[Json, list[str]]:
    # Not from the cache, which may be behind: the write is for the version that is read here.
    kubevirts = cluster.list(namespaced(KUBEVIRT_API, None, "kubevirts"), resourceVersion="")
    if not kubevirts and options["state"] == "absent":
        return WITHOUT_KUBEVIRT, []
    kubevirt = kubevirt_checks.the_one(kubevirts)
    work = PermittingWork(cluster, options, kubevirt, offers, machine_users.read(cluster))
    change, warnings = work.planned()
    if not change.is_due and tried and tried[-1].ours == change.ours:
        # The last try was written, and its answer got lost.
        return work.result(tried[-1]), [*warnings, *work.remarks(change)]
    if change.is_due:
        kubevirt_checks.refuse_unready(kubevirt)
        kubevirt_checks.refuse_managed(kubevirt)
        tried.append(change)
        try:
            _write(cluster, change)
        except GpuOpsError as e:
            if e.reason not in AWAY or len(tried) > 1:
                raise
            # Whether it was written is unknown: a patch for one version must not be sent twice.
            return _kept(cluster, options, offers, tried)
    return work.result(change), [*warnings, *work.remarks(change)]


def _write(cluster: Cluster, change: PermittedChange) -> None:
    metadata = change.kubevirt["metadata"]
    cluster.merge(namespaced(KUBEVIRT_API, metadata["namespace"], "kubevirts", metadata["name"]), change.patch)


@dataclasses.dataclass(frozen=True)
class PermittingWork:
    """One try: what is wanted of the KubeVirt as it is now."""

    cluster: Cluster
    options: Options
    kubevirt: Json
    offers: NodeOffers
    users: MachineUsers

    def planned(self) -> tuple[PermittedChange, list[str]]:
        """Return the change and warnings. Raises for whatever stands in its way."""
        change, warnings = self._forbidden() if self.options["state"] == "absent" else self._permitted()
        return change, [*warnings, *kubevirt_checks.refuse_in_use(change, self.users, self.options["allow_in_use"])]

    def _permitted(self) -> tuple[PermittedChange, list[str]]:
        wanted, warnings = self._wanted()
        if wanted:
            kubevirt_checks.refuse_unready(self.kubevirt)
            kubevirt_checks.refuse_closed_gates(self.kubevirt)
        kubevirt_checks.refuse_two_makers(self.kubevirt, wanted)
        kubevirt_checks.refuse_two_providers(wanted, *self._plugins(wanted))
        change = permitted_devices.permit(self.kubevirt, wanted, self.options["purge"])
        if self.offers.is_known:
            warnings += device_wishes.misnamed(wanted, self.offers.resources)
        return change, warnings

    def _wanted(self) -> tuple[list[PermittedDevice], list[str]]:
        wanted = device_wishes.entries(self.options["devices"] or [])
        if not self.options["from_nodes"]:
            return wanted, []
        if not self.offers.is_known:
            raise GpuOpsError(f"from_nodes needs to list nodes. {self.offers.refusal}", reason="Forbidden")
        found, unknown = self.offers.for_machines()
        named = {entry.resource for entry in (*wanted, *permitted_devices.permitted(self.kubevirt))}
        unknown = [name for name in unknown if name not in named]
        text = (
            f"Nodes for virtual machines offer {first_few(unknown)}, which is no GPU that this module knows. If it is "
            "one, list it in devices with its pci_id."
        )
        return [*wanted, *(entry for entry in found if entry.resource not in named)], [text] if unknown else []

    def _forbidden(self) -> tuple[PermittedChange, list[str]]:
        wishes = self.options["devices"]
        matches = (lambda entry: True) if wishes is None else device_wishes.matcher(wishes)
        change = permitted_devices.forbid(self.kubevirt, matches)
        if wishes is None or not change.left:
            return change, []
        names = first_few([str(entry) for entry in change.left])
        return change, [f"{names} stays permitted, since somebody else has written the entry. Let its owner remove it."]

    def _plugins(self, wanted: list[PermittedDevice]) -> tuple[dict[str, int], str]:
        """Return the DaemonSets of NVIDIA's plugin with the number of their nodes, and why they are unknown."""
        if all(entry.is_external for entry in wanted):
            return {}, ""
        listed = self.cluster.list_readable(namespaced("apps/v1", None, "daemonsets"))
        counts = {
            full_name(item): int((item.get("status") or {}).get("desiredNumberScheduled") or 0)
            for item in listed.items
            if name_of(item) in PLUGIN_DAEMONSETS
        }
        return {name: count for name, count in counts.items() if count}, listed.refusal

    def remarks(self, change: PermittedChange) -> list[str]:
        """Return warnings about what is permitted."""
        entries = [entry for entry in change.entries if entry.key in change.ours]
        idle = [str(entry) for entry in entries if not self.offers.of(entry.resource)]
        warnings = []
        if idle and self.offers.is_known:
            warnings.append(f"{first_few(idle)}: permitted, and no node offers it. A machine that asks for it waits.")
        others = kubevirt_checks.other_declarers(self.kubevirt, FIELD_MANAGER) if entries else []
        if others:
            warnings.append(
                f"{first_few(others)} applies the permitted devices of KubeVirt {full_name(self.kubevirt)} from a "
                "manifest, and takes these entries out with its next write. Put them into that manifest, or leave "
                "permittedHostDevices out of it."
            )
        return warnings

    def result(self, change: PermittedChange) -> Json:
        """Return the module's result."""
        before, after = change.shown()
        return {
            "changed": change.is_due,
            "kubevirt": {
                "name": name_of(self.kubevirt),
                "namespace": self.kubevirt["metadata"]["namespace"],
                "version": kubevirt_checks.version_of(self.kubevirt) or None,
                "fields": kubevirt_checks.fields_for_devices(self.kubevirt),
            },
            "devices": [self._row(entry, change) for entry in change.entries],
            "removed": [str(entry) for entry in change.removed],
            "diff": {"before": before if change.is_due else {}, "after": after if change.is_due else {}},
        }

    def _row(self, entry: PermittedDevice, change: PermittedChange) -> Json:
        found = self.offers.of(entry.resource)
        is_new = entry.key in {each.key for each in (*change.added, *change.changed)}
        return {
            "resource_name": entry.resource,
            "pci_id": entry.selector if entry.kind == "pci" else None,
            "mdev_type": entry.selector if entry.kind == "mdev" else None,
            "external_resource_provider": entry.is_external,
            "ours": entry.key in change.ours,
            "changed": is_new,
            "nodes": len(found) if self.offers.is_known else None,
            "allocatable": sum(found) if self.offers.is_known else None,
            "users": None if self.users.unread else self.users.of(entry.resource),
        }


def _offers(cluster: Cluster) -> NodeOffers:
    try:
        nodes, dummy = cluster.large_list(namespaced("v1", None, "nodes"), node_offers.kept)
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return NodeOffers([], e.msg)
    return NodeOffers(nodes)
