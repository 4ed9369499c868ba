# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From the devices of the options, or of the nodes, to entries of KubeVirt's lists. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_gpu_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import plugin_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    PermittedDevice,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PCI_ID = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}")
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
OF_KATA = frozenset({"nvidia.com/pgpu", "nvidia.com/nvswitch"})
"""What NVIDIA's device plugin for Kata containers offers. Source: NVIDIA/sandbox-device-plugin v0.0.5."""


def refuse_contradictions(options: t.Mapping[str, t.Any]) -> None:
    """Raise for options that would remove more than somebody means."""
    if options["from_nodes"] and (options["purge"] or options["state"] == "absent"):
        raise _wrong(
            "from_nodes only adds entries, since a node offers nothing while its device plugin restarts. Use purge and "
            "state: absent with a list of devices."
        )
    if options["purge"] and options["devices"] is None:
        raise _wrong("purge needs devices, the list of what stays. With devices: [], nothing of this collection does.")


def checked(wishes: t.Iterable[Json]) -> list[Json]:
    """Return wishes whose values can be right, with PCI ids in capitals. Raises for the others."""
    return [{**wish, "pci_id": _checked(wish)} for wish in wishes]


def _checked(wish: Json) -> str | None:
    pci_id, mdev, resource = wish.get("pci_id"), wish.get("mdev_type"), wish.get("resource_name")
    if pci_id is not None and not _PCI_ID.fullmatch(pci_id):
        raise _wrong(
            f"pci_id {pci_id!r} is not VENDOR:DEVICE. Write both as four hexadecimal digits, such as 10DE:2236; "
            "`lspci -nn -d 10de:` shows them on the host."
        )
    if pci_id is not None and not pci_id.upper().startswith(f"{plugin_names.VENDOR}:"):
        raise _wrong(f"pci_id {pci_id} is a device of another vendor than NVIDIA (10DE). Let its owner permit it.")
    if mdev is not None and not mdev.strip():
        raise _wrong("mdev_type is empty. Give the name of a mediated device type, such as NVIDIA A10-12Q.")
    if resource is not None and not _RESOURCE.fullmatch(resource):
        raise _wrong(
            f"resource_name {resource!r} is no name of a resource. Write it as `kubectl describe node` shows it below "
            "Allocatable, such as nvidia.com/GA102GL_A10."
        )
    if resource is not None and (is_gpu_resource(resource) or resource in OF_KATA):
        plugin = "NVIDIA's plugin for Kata containers" if resource in OF_KATA else "NVIDIA's plugin for containers"
        raise _wrong(
            f"resource_name {resource} is what {plugin} offers, and a virtual machine gets no device by it. Give the "
            "resource of the plugin for KubeVirt, such as nvidia.com/GA102GL_A10."
        )
    return pci_id.upper() if pci_id else None


def _wrong(message: str) -> GpuOpsError:
    return GpuOpsError(message, reason="Invalid")


def entries(wishes: t.Iterable[Json]) -> list[PermittedDevice]:
    """Return the entries for wishes, with what they leave out. Raises for a name that nobody can tell, or two alike."""
    found = [entry for wish in checked(wishes) for entry in _entries(wish)]
    keys = [entry.key for entry in found]
    twice = next((entry for entry in found if keys.count(entry.key) > 1), None)
    if twice:
        raise _wrong(f"devices has {twice} twice. Merge the entries.")
    return found


def _entries(wish: Json) -> list[PermittedDevice]:
    resource, is_external = wish.get("resource_name"), wish.get("external_resource_provider", True)
    if wish["pci_id"]:
        name = resource or plugin_names.resource_of_gpu(wish["pci_id"])
        if name is None:
            raise _wrong(
                f"The name that NVIDIA's plugin gives to {wish['pci_id']} is unknown. Give resource_name, too, as "
                "`kubectl describe node` shows it below Allocatable."
            )
        return [PermittedDevice("pci", wish["pci_id"], name, is_external)]
    if wish.get("mdev_type"):
        name = resource or plugin_names.resource_of_vgpu(wish["mdev_type"])
        return [PermittedDevice("mdev", wish["mdev_type"].strip(), name, is_external)]
    found = entries_of_resource(resource or "", is_external)
    if not found:
        raise _wrong(
            f"The device behind {resource} is unknown. Give pci_id or mdev_type, too; `lspci -nn -d 10de:` on a node "
            "that offers it shows the PCI id."
        )
    return found


def entries_of_resource(resource: str, is_external: bool = True) -> list[PermittedDevice]:
    """Return the entries for a resource of NVIDIA's plugin: one for each GPU of that name. An unknown name has none."""
    vgpu = plugin_names.vgpu_of_resource(resource)
    if vgpu:
        return [PermittedDevice("mdev", vgpu, resource, is_external)]
    return [PermittedDevice("pci", each, resource, is_external) for each in plugin_names.gpus_of_resource(resource)]


def matcher(wishes: t.Iterable[Json]) -> t.Callable[[PermittedDevice], bool]:
    """Return what tells whether an entry is one of the wishes: it has each value that the wish gives."""
    listed = checked(wishes)
    return lambda entry: any(_matches(wish, entry) for wish in listed)


def _matches(wish: Json, entry: PermittedDevice) -> bool:
    asked = {
        ("pci", wish["pci_id"]): entry.selector.upper(),
        ("mdev", wish.get("mdev_type")): entry.selector,
    }
    selectors = [(kind, value, found) for (kind, value), found in asked.items() if value]
    return all(kind == entry.kind and value == found for kind, value, found in selectors) and wish.get(
        "resource_name"
    ) in (None, entry.resource)


def misnamed(entries_wanted: t.Iterable[PermittedDevice], offered: t.Container[str]) -> list[str]:
    """Return a warning for each GPU that NVIDIA's plugin offers under another name than the entry's, as far as known.

    A name that nodes offer is right, whatever the table says.
    """
    return [
        f"{entry.selector} is permitted as {entry.resource}, which no node offers. NVIDIA's plugin calls it {name}: "
        "correct resource_name, or leave it out."
        for entry in entries_wanted
        if entry.kind == "pci" and entry.is_external and entry.resource not in offered
        for name in [plugin_names.resource_of_gpu(entry.selector)]
        if name not in (None, entry.resource)
    ]
