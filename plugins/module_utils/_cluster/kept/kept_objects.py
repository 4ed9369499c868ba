# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Objects that a module keeps in a cluster as complete lists: their mark, and what a call does with each of them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class KeptKind:
    """A kind of object that a module looks after. ``owner`` stands in the labels of what the module has made.

    ``fixed`` are the fields that cannot be changed. If the API server fills in defaults in them, only its own answer
    can be compared with what is there: ``is_immutable`` says that it refuses any change of the object's content.
    """

    name: str
    api_version: str
    plural: str
    owner: str
    fields: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    is_immutable: bool = False

    @property
    def labels(self) -> dict[str, str]:
        """The labels of every object that the module has made. It changes and removes no other object."""
        return {"app.kubernetes.io/name": self.owner, "app.kubernetes.io/managed-by": "gpuops.nvidia"}

    def path(self, namespace: str | None, name: str = "") -> str:
        """Return the path of an object, or of all of them."""
        return namespaced(self.api_version, namespace, self.plural, name)

    def content(self, item: Json) -> Json:
        """Return the fields of an object that matter."""
        return {key: item[key] for key in self.fields if item.get(key) is not None}

    def manifest(self, name: str, namespace: str | None = None, **fields: t.Any) -> Json:
        """Return an object of this kind with the module's mark."""
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": self.labels}
        return {"apiVersion": self.api_version, "kind": self.name, "metadata": metadata, **fields}

    def is_ours(self, item: Json) -> bool:
        """Return whether the module has made this object."""
        return labels_of(item).items() >= self.labels.items()

    @property
    def selector(self) -> str:
        """The label selector of all objects that the module has made."""
        return ",".join(f"{key}={value}" for key, value in self.labels.items())


@dataclasses.dataclass(frozen=True)
class KeptStep:
    """What a call does with one object: apply ``wanted``, or remove ``existing``; after its removal if it is fixed."""

    kind: KeptKind
    existing: Json | None
    wanted: Json | None
    made_again: Json | None = None
    """What the API server makes of the object that is wanted, if it refuses to change the one that is there."""

    @property
    def item(self) -> Json:
        """The object, as it is wanted or as it is."""
        return self.wanted or self.existing or {}

    @property
    def path(self) -> str:
        """The path of the object."""
        metadata = self.item["metadata"]
        return self.kind.path(metadata.get("namespace"), metadata["name"])

    @property
    def title(self) -> str:
        """The kind and the name of the object."""
        return f"{self.kind.name} {full_name(self.item)}"

    @property
    def is_replaced(self) -> bool:
        """Whether the object has to be removed and made again, because a field that cannot be changed differs."""
        if not (self.existing and self.wanted):
            return False
        differs = any(self.existing.get(field) != self.wanted[field] for field in self.kind.fixed)
        return differs or self.made_again is not None

    @property
    def uid(self) -> str | None:
        """The identity of the object that is there. A removal takes no other."""
        return self.existing["metadata"].get("uid") if self.existing else None

    @property
    def version(self) -> str | None:
        """The only version of the object that a removal takes. The status of an immutable one says who uses it."""
        return self.existing["metadata"].get("resourceVersion") if self.existing and self.kind.is_immutable else None


def steps(kind: KeptKind, wanted: list[Json] | None, existing: list[Json]) -> list[KeptStep]:
    """Return what to do with each object. Without a list of wishes, every object stays as it is."""
    if wanted is None:
        return []
    present = {full_name(item): item for item in existing}
    _refuse_foreign(kind, wanted, present)
    kept = set(map(full_name, wanted))
    gone = [item for name, item in sorted(present.items()) if name not in kept and kind.is_ours(item)]
    applied = [KeptStep(kind, present.get(full_name(item)), item) for item in wanted]
    return [*applied, *(KeptStep(kind, item, None) for item in gone)]


def _refuse_foreign(kind: KeptKind, wanted: list[Json], present: t.Mapping[str, Json]) -> None:
    for name in map(full_name, wanted):
        if name in present and not kind.is_ours(present[name]):
            raise GpuOpsError(
                f"{kind.name} {name} exists, and somebody else has made it. Choose another name, or remove it.",
                reason="Conflict",
            )


def unique(option: str, made: list[Json]) -> list[Json]:
    """Return the objects of an option. Raises if two have one name."""
    named = [full_name(item) for item in made]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise GpuOpsError(
            f"{option} has {twice[0]} twice. Merge the entries, or name one differently.", reason="Invalid"
        )
    return made
