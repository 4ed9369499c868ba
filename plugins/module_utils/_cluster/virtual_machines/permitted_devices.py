# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The devices that a KubeVirt permits to virtual machines, which of them are ours, and what a call changes. Pure.

Each list has many authors and is atomic: server-side apply has one owner for the whole of it. So a call reads it,
changes its own entries, and writes it for the version that it has read. An annotation of the KubeVirt lists what we
have written; every other entry is somebody else's and stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PERMITTED_MARK = "gpuops.nvidia/permitted-gpus"
"""The annotation of a KubeVirt with the entries that we have written: a JSON list of kind, selector and resource."""

DEVICE_LISTS = {"pci": "pciHostDevices", "mdev": "mediatedDevices"}
"""The list of each kind of device. Source: KubeVirt v1.9.0, ``PermittedHostDevices`` in ``api/core/v1/types.go``."""
SELECTORS = {"pci": "pciVendorSelector", "mdev": "mdevNameSelector"}
_USB = "usb"

Key = tuple[str, str, str]
"""What tells an entry from all others: its kind, its selector as KubeVirt compares it, and its resource."""


@dataclasses.dataclass(frozen=True)
class PermittedDevice:
    """One entry of a list."""

    kind: str
    selector: str
    resource: str
    is_external: bool
    """Whether a device plugin other than KubeVirt's own offers the resource."""

    @property
    def key(self) -> Key:
        """What tells this entry from all others. Source: KubeVirt, ``pkg/virt-handler/device-manager``."""
        same = self.selector.lower() if self.kind == "pci" else self.selector.strip().replace(" ", "_")
        return self.kind, same, self.resource

    @property
    def content(self) -> Json:
        """The entry as KubeVirt's list has it."""
        given = {"externalResourceProvider": True} if self.is_external else {}
        return {SELECTORS[self.kind]: self.selector, "resourceName": self.resource, **given}

    def __str__(self) -> str:
        return f"{self.resource} ({self.selector})"


def entry_of(kind: str, item: Json) -> PermittedDevice:
    """Return an item of a list of this kind as an entry."""
    selector = str(item.get(SELECTORS[kind]) or "")
    return PermittedDevice(
        kind, selector, str(item.get("resourceName") or ""), bool(item.get("externalResourceProvider"))
    )


def configuration_of(kubevirt: Json) -> Json:
    """Return what a KubeVirt configures."""
    return (kubevirt.get("spec") or {}).get("configuration") or {}


def lists_of(kubevirt: Json) -> Json:
    """Return the lists of permitted devices."""
    return configuration_of(kubevirt).get("permittedHostDevices") or {}


def restricts(kubevirt: Json) -> bool:
    """Return whether a KubeVirt refuses devices that it does not list. Without any list it asks nobody.

    Source: KubeVirt, ``validatePermittedHostDevices`` in ``pkg/virt-controller/services/renderresources.go``.
    """
    return configuration_of(kubevirt).get("permittedHostDevices") is not None


def permitted(kubevirt: Json) -> list[PermittedDevice]:
    """Return the PCI and mediated devices that a KubeVirt permits."""
    lists = lists_of(kubevirt)
    return [entry_of(kind, item) for kind, name in DEVICE_LISTS.items() for item in lists.get(name) or []]


def resources_of(lists: Json) -> set[str]:
    """Return the names of all resources that lists permit, of USB devices, too."""
    return {str(item.get("resourceName")) for name in (*DEVICE_LISTS.values(), _USB) for item in lists.get(name) or []}


def recorded(kubevirt: Json) -> frozenset[Key]:
    """Return the keys of the entries that we have written. Another text in our annotation means none."""
    try:
        listed = json.loads(annotations_of(kubevirt).get(PERMITTED_MARK, "[]"))
    except ValueError:
        return frozenset()
    rows = listed if isinstance(listed, list) else []
    return frozenset(
        (row[0], row[1], row[2]) for row in rows if isinstance(row, list) and len(row) == 3 and _texts(row)
    )


def _texts(row: list[t.Any]) -> bool:
    return all(isinstance(part, str) for part in row)


@dataclasses.dataclass(frozen=True)
class PermittedChange:
    """What a call changes on a KubeVirt."""

    kubevirt: Json
    lists: Json
    """The lists of both kinds as they should be."""
    ours: frozenset[Key]
    """The keys of our entries afterwards."""
    added: tuple[PermittedDevice, ...] = ()
    changed: tuple[PermittedDevice, ...] = ()
    removed: tuple[PermittedDevice, ...] = ()
    left: tuple[PermittedDevice, ...] = ()
    """Entries of somebody else's that were to go, and stay."""

    @property
    def is_due(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.added or self.changed or self.removed) or self.ours != recorded(self.kubevirt)

    @property
    def entries(self) -> list[PermittedDevice]:
        """All entries afterwards."""
        return [entry_of(kind, item) for kind, name in DEVICE_LISTS.items() for item in self.lists[name]]

    @property
    def patch(self) -> Json:
        """The merge patch for the version of the KubeVirt that was read.

        A list that becomes empty goes, and `permittedHostDevices` stays: without it, KubeVirt would permit everything.
        """
        before = lists_of(self.kubevirt)
        lists = {name: items or None for name, items in self.lists.items() if items != (before.get(name) or [])}
        mark = json.dumps(sorted(self.ours)) if self.ours else None
        metadata = {
            "annotations": {PERMITTED_MARK: mark},
            "resourceVersion": self.kubevirt["metadata"].get("resourceVersion"),
        }
        spec = {"spec": {"configuration": {"permittedHostDevices": lists}}} if lists else {}
        return {"metadata": metadata, **spec}

    def shown(self) -> tuple[Json, Json]:
        """Return the fields that the call looks after, before and after it."""
        before = lists_of(self.kubevirt)
        return (
            _side({name: before.get(name) or [] for name in DEVICE_LISTS.values()}, recorded(self.kubevirt)),
            _side(self.lists, self.ours),
        )


def _side(lists: Json, ours: t.Collection[Key]) -> Json:
    return {"permittedHostDevices": lists, PERMITTED_MARK: [list(key) for key in sorted(ours)]}


def permit(kubevirt: Json, wanted: t.Sequence[PermittedDevice], purge: bool) -> PermittedChange:
    """Return what makes a KubeVirt permit these devices. With ``purge``, our other entries go.

    Raises if somebody else has an entry in the way.
    """
    present = permitted(kubevirt)
    ours = recorded(kubevirt) & {entry.key for entry in present}
    foreign = [entry for entry in present if entry.key not in ours]
    for entry in wanted:
        _refuse_foreign(entry, foreign, {other.key[1] for other in wanted if other.resource == entry.resource})
    keys = {entry.key for entry in present}
    added = tuple(entry for entry in wanted if entry.key not in keys)
    by_key = {entry.key: entry for entry in wanted if entry.key in ours}
    changed = tuple(
        by_key[entry.key]
        for entry in present
        if entry.key in by_key and entry.is_external != by_key[entry.key].is_external
    )
    kept = {entry.key for entry in wanted}
    removed = tuple(entry for entry in present if purge and entry.key in ours and entry.key not in kept)
    return _change(kubevirt, ours, added=added, changed=changed, removed=removed)


def forbid(kubevirt: Json, matches: t.Callable[[PermittedDevice], bool]) -> PermittedChange:
    """Return what makes a KubeVirt permit none of our entries that match. Those of others stay."""
    present = permitted(kubevirt)
    ours = recorded(kubevirt) & {entry.key for entry in present}
    going = [entry for entry in present if matches(entry)]
    removed = tuple(entry for entry in going if entry.key in ours)
    left = tuple(entry for entry in going if entry.key not in ours)
    return _change(kubevirt, ours, removed=removed, left=left)


def _change(
    kubevirt: Json,
    ours: frozenset[Key],
    added: tuple[PermittedDevice, ...] = (),
    changed: tuple[PermittedDevice, ...] = (),
    removed: tuple[PermittedDevice, ...] = (),
    left: tuple[PermittedDevice, ...] = (),
) -> PermittedChange:
    lists = {
        name: [*_kept(kind, lists_of(kubevirt).get(name) or [], changed, removed), *_contents(kind, added)]
        for kind, name in DEVICE_LISTS.items()
    }
    keys = ours - {entry.key for entry in removed} | {entry.key for entry in added}
    return PermittedChange(kubevirt, lists, keys, added, changed, removed, left)


def _contents(kind: str, entries: t.Iterable[PermittedDevice]) -> list[Json]:
    return [entry.content for entry in entries if entry.kind == kind]


def _kept(
    kind: str, items: list[Json], changed: t.Iterable[PermittedDevice], removed: t.Iterable[PermittedDevice]
) -> t.Iterator[Json]:
    """Yield the items that stay, each as it was but for the provider of those that change.

    Of two items with one key, the first one is ours.
    """
    gone, values = {entry.key for entry in removed}, {entry.key: entry.is_external for entry in changed}
    for item in items:
        key = entry_of(kind, item).key
        if key in gone:
            gone.discard(key)
        elif key in values:
            rest = {name: value for name, value in item.items() if name != "externalResourceProvider"}
            yield {**rest, **({"externalResourceProvider": True} if values.pop(key) else {})}
        else:
            yield item


def _refuse_foreign(entry: PermittedDevice, foreign: t.Iterable[PermittedDevice], selectors: t.Collection[str]) -> None:
    """Raise if somebody else has the same resource with other values, or lets another plugin give out the same device.

    ``selectors`` are all that are wanted for the resource.
    """
    for other in foreign:
        is_alike = (other.kind, other.is_external) == (entry.kind, entry.is_external)
        if other.resource == entry.resource and not (is_alike and other.key[1] in selectors):
            raise _in_the_way(entry, other, f"KubeVirt permits {entry.resource} already")
        if other.key[:2] == entry.key[:2] and not is_alike:
            raise _in_the_way(entry, other, f"Two device plugins would give out {entry.selector}")


def _in_the_way(entry: PermittedDevice, other: PermittedDevice, what: str) -> GpuOpsError:
    return GpuOpsError(
        f"{what}: somebody else has written {json.dumps(other.content)}, and {json.dumps(entry.content)} is wanted. "
        "Want the same values, or let its owner change or remove that entry.",
        reason="OwnedByOthers",
    )
