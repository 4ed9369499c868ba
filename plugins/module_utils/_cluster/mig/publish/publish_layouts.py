# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Publish layouts: the ConfigMap, and the ClusterPolicy's reference to it."""

from __future__ import annotations

import io
import json
import typing as t

from ansible.module_utils.common.yaml import yaml_dump
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import configmap_reference
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish import book, unattended, wishes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import (
    LAYOUTS_KEY,
    Catalog,
    text_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_LAYOUTS, MIG_NODE_LAYOUTS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import draw, parted, placement
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import Layouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Model
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_MARK = {"app.kubernetes.io/managed-by": "gpuops.nvidia"}
_OURS = "gpuops.nvidia/mig-layouts"
"""Annotation of the ConfigMap with the names of the layouts that were declared; all others are NVIDIA's."""

Warn = t.Callable[[str], None]
Options = t.Mapping[str, t.Any]


def publish(cluster: Cluster, options: Options, warn: Warn) -> Json:
    """Bring the published layouts into the state that the options ask for; return the module's result."""
    return _Publication(cluster, options, warn).run()


class _Publication:
    """One run: what it has read, and what it makes of that."""

    def __init__(self, cluster: Cluster, options: Options, warn: Warn) -> None:
        self._cluster, self._options, self._warn = cluster, options, warn
        self._policy, self._namespace = configmap_reference.policy_of(
            cluster, options["policy_name"], options["namespace"]
        )
        self._name: str = options["config_map"]
        self._maps = {name_of(item): item for item in cluster.list(self._path("")) or []}
        self._hosts = hosts.hosts(observe.NodeReader(cluster).read())
        self._refuse_foreign()
        texts = {name: text_of(item) for name, item in self._maps.items()}
        self._before = Catalog(texts, configmap_reference.MIG_REFERENCE.of(self._policy).get("name", ""))
        self._own = Catalog(texts)
        self._concerned: list[Host] = []
        """The nodes whose GPUs the MIG managers would divide because of this."""

    def _path(self, name: str) -> str:
        return namespaced("v1", self._namespace, "configmaps", name).rstrip("/")

    def _refuse_foreign(self) -> None:
        existing = self._maps.get(self._name)
        if existing and not labels_of(existing).items() >= _MARK.items():
            raise GpuOpsError(
                f"The ConfigMap {self._namespace}/{self._name} was not made by mig_layout. "
                "Choose another name (config_map), or delete it.",
                reason="AlreadyExists",
            )

    def run(self) -> Json:
        declared = self._declared()
        if self._options["state"] == "absent":
            declared = {} if self._options["layouts"] is None else self._without(declared)
            return self._write(declared, {}) if declared else self._remove()
        report: Json = {}
        given = wishes.wishes(self._options["layouts"])
        kept = {} if self._options["purge"] else declared
        new = {wish.name: self._built(wish, report) for wish in given}
        return self._write({**kept, **new}, report)

    # ---- what is there ----

    def _published(self) -> Layouts:
        """Return all layouts of our ConfigMap."""
        text = self._text()
        return {} if text is None else Catalog({self._name: text}, self._name).of("").layouts

    def _declared(self) -> Layouts:
        """Return the layouts that earlier runs have published beside NVIDIA's."""
        note = annotations_of(self._maps[self._name]).get(_OURS, "[]") if self._name in self._maps else "[]"
        names, published = set(json.loads(note)), self._published()
        return {name: entries for name, entries in published.items() if name in names}

    def _vendors(self) -> Layouts:
        """Return NVIDIA's layouts for this fleet. What was published of them stays, also when its origin is gone."""
        generated = {
            host.name: self._own.of(host.name).layouts
            for host in self._hosts
            if f"{host.name}{MIG_NODE_LAYOUTS}" in self._maps
        }
        declared = self._declared()
        earlier = {name: entries for name, entries in self._published().items() if name not in declared}
        static = self._own.of("").layouts if MIG_LAYOUTS in self._maps else {}
        return book.vendors(self._hosts, generated, {**static, **earlier})

    # ---- what is wanted ----

    def _without(self, declared: Layouts) -> Layouts:
        return {name: entries for name, entries in declared.items() if name not in self._options["layouts"]}

    def _built(self, wish: wishes.Wish, report: Json) -> tuple[parted.LayoutEntry, ...]:
        """Return the entries of a declared layout, checked on the nodes that it is meant for."""
        candidates = hosts.chosen(self._hosts, wish.selector)
        entries = wish.entries(candidates)
        meant = book.meant_for(entries, candidates, wish.selector is not None)
        self._refuse_none(wish, meant)
        wrong, unchecked = book.check(wish.name, entries, meant)
        if wrong:
            raise GpuOpsError(
                f"{first_few(wrong, 3, '; ')}. Change it, or say with node_selector which nodes it is meant for.",
                reason="Invalid",
                problems=wrong,
            )
        self._permit(unchecked)
        report[wish.name] = _described(entries, meant)
        return entries

    def _refuse_none(self, wish: wishes.Wish, meant: list[Host]) -> None:
        if not meant:
            which = f"matches {wish.selector}" if wish.selector is not None else "one of its filters matches"
            problem = f"layouts.{wish.name}: there is no node that MIG can divide and that {which}"
            self._permit([problem])

    def _permit(self, unchecked: list[str]) -> None:
        if unchecked and not self._options["allow_unchecked"]:
            raise GpuOpsError(
                f"{first_few(unchecked, 3, '; ')}. The layout cannot be checked for them; "
                "set allow_unchecked: true to publish it anyway.",
                reason="Invalid",
                unchecked=unchecked,
            )
        for sentence in unchecked:
            self._warn(f"Published without a check: {sentence}.")

    # ---- writing ----

    def _write(self, declared: Layouts, report: Json) -> Json:
        vendors = self._vendors()
        clash = sorted(set(declared) & set(vendors))
        if clash:
            raise GpuOpsError(
                f"{first_few(clash)} is the name of a layout of NVIDIA's: choose another name.", reason="Invalid"
            )
        layouts = {**dict(sorted(vendors.items())), **dict(sorted(declared.items()))}
        book.refuse_broken(self._hosts, self._before.of, lambda host: layouts, "This")
        parted.read(parted.plain(layouts))
        written = io.StringIO()
        yaml_dump(parted.plain(layouts), written, sort_keys=False)
        old, text, note = self._text(), written.getvalue(), json.dumps(sorted(declared))
        changed = old != text or annotations_of(self._maps[self._name]).get(_OURS) != note
        self._look_for_unattended(lambda host: layouts, self._referenced != self._name)
        if changed:
            self._cluster.apply(self._path(self._name), self._body(text, note), force=True)
        change = configmap_reference.point(
            self._cluster, self._policy, configmap_reference.MIG_REFERENCE, {"name": self._name}
        )
        return self._result(changed, change, old, text, report)

    def _body(self, text: str, note: str) -> Json:
        metadata = {"name": self._name, "namespace": self._namespace}
        marks = {"labels": dict(_MARK), "annotations": {_OURS: note}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, **marks}, "data": {LAYOUTS_KEY: text}}

    def _text(self) -> str | None:
        return text_of(self._maps.get(self._name))

    def _remove(self) -> Json:
        """Give the reference back, and delete the ConfigMap once nobody mounts it."""
        static = self._own.of("").layouts if MIG_LAYOUTS in self._maps else {}

        def then(host: Host) -> Layouts:
            return {**static, **(parted.generated([host.model]) if host.model else {}), **self._own_map(host)}

        if self._referenced == self._name:
            book.refuse_broken(self._hosts, self._before.of, then, "The removal")
            self._look_for_unattended(then, restarts=True)
        old, change = (
            self._text(),
            configmap_reference.give_up(self._cluster, self._policy, configmap_reference.MIG_REFERENCE),
        )
        stays = change.after.get("name") == self._name
        if stays:
            owners = " and ".join(change.kept_by) or "somebody else"
            self._warn(f"{owners} still names the ConfigMap {self._name} in the ClusterPolicy, so it stays.")
        elif old is not None:
            self._cluster.delete(self._path(self._name))
        return self._result(old is not None and not stays, change, old, old if stays else None, {})

    @property
    def _referenced(self) -> str:
        """The ConfigMap that the ClusterPolicy names, or an empty string."""
        return str(configmap_reference.MIG_REFERENCE.of(self._policy).get("name", ""))

    def _look_for_unattended(self, after: t.Callable[[Host], Layouts], restarts: bool) -> None:
        """Find the nodes that this would change without a drain. Raises if it must not."""
        self._concerned = unattended.concerned(self._hosts, self._before.of, after, restarts)
        if self._concerned and not self._options["allow_unattended"]:
            unattended.refuse(self._concerned, pods.gpu_pods(self._cluster, self._namespace))

    def _own_map(self, host: Host) -> Layouts:
        return self._own.of(host.name).layouts if f"{host.name}{MIG_NODE_LAYOUTS}" in self._maps else {}

    def _result(
        self, changed: bool, change: configmap_reference.ReferenceChange, old: str | None, new: str | None, report: Json
    ) -> Json:
        def side(text: str | None, block: dict[str, str]) -> str:
            path = configmap_reference.MIG_REFERENCE.path
            return f"{text or ''}# ClusterPolicy {name_of(self._policy)}: {path}: {block}\n"

        return {
            "changed": changed or change.changed,
            "config_map": f"{self._namespace}/{self._name}",
            "layouts": report,
            "content": new or "",
            "unattended": [host.name for host in self._concerned],
            "diff": {"before": side(old, change.before), "after": side(new, change.after)},
        }


def _described(entries: tuple[parted.LayoutEntry, ...], meant: t.Sequence[Host]) -> Json:
    """Return what a layout makes of the GPUs of each model."""
    models: dict[str, list[Json]] = {}
    for group in hosts.alike(meant):
        model = group[0].model
        if model is not None:
            rows = models.setdefault(model.name, [])
            for wanted in parted.resolve(entries, group[0].gpus(entries)).values():
                row = _row(model, wanted)
                rows += [] if row in rows else [row]
    return {"nodes": len(meant), "models": models}


def _row(model: Model, wanted: parted.WantedLayout) -> Json:
    if not wanted.enabled:
        return {"mig_devices": {}, "drawn": "MIG is off", "addable": {}}
    placed = placement.place(model, wanted.counts) or ()
    drawn, addable = draw.text(model, placed), placement.addable(model, placed)
    return {"mig_devices": dict(wanted.counts), "drawn": drawn, "addable": addable}
