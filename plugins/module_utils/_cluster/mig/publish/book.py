# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The published layouts: NVIDIA's own, which nodes keep using, and those that were declared. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import hosts, unapplied
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Source
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted, table
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry, Layouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Model
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

Sources = t.Callable[[str], Source]


def vendors(all_hosts: t.Sequence[Host], generated: t.Mapping[str, Layouts], static: Layouts) -> Layouts:
    """Return NVIDIA's layouts for a fleet.

    ``generated`` has the layouts of each node with a ConfigMap of its own, and ``static`` those that were written for
    all models. Entries of ``static`` stay as they are where they mean the same to every model of the fleet.
    """
    by_model = {model.name: _for_model(model, static) for model in hosts.models(all_hosts)}
    for host in all_hosts:
        if host.model and host.name in generated:
            by_model[host.model.name] = {**by_model[host.model.name], **generated[host.name]}
    made: Layouts = {}
    for name in dict.fromkeys(name for layouts in by_model.values() for name in layouts):
        found = {model: layouts[name] for model, layouts in by_model.items() if name in layouts}
        made[name] = _merged(found, static.get(name, ()))
    unknown = [generated[host.name] for host in all_hosts if host.model is None and host.name in generated]
    for others in (*unknown, static):
        made = {**others, **made}
    return made


def _for_model(model: Model, static: Layouts) -> Layouts:
    """Return what the table and then the static layouts say for one model, without filters."""
    gpu, made = parted.NodeGpu(0, model), parted.generated([model])
    for name, entries in static.items():
        matching = tuple(
            LayoutEntry(each.devices, each.enabled, each.counts) for each in entries if parted.matches(each, gpu)
        )
        if matching:
            made[name] = matching
    return made


def _merged(found: t.Mapping[str, tuple[LayoutEntry, ...]], static: tuple[LayoutEntry, ...]) -> tuple[LayoutEntry, ...]:
    """Return the entries of one layout for all models: with filters only where the models differ."""
    gpus = {name: [parted.NodeGpu(0, table.named(name))] for name in found}
    meanings = {name: parted.resolve(entries, gpus[name]) for name, entries in found.items()}
    if all(parted.resolve(static, gpus[name]) == meaning for name, meaning in meanings.items()):
        return static
    first, *others = meanings.values()
    if all(other == first for other in others):
        return next(iter(found.values()))
    return tuple(
        LayoutEntry(entry.devices, entry.enabled, entry.counts, parted.filter_of(table.named(name)))
        for name, entries in found.items()
        for entry in entries
    )


def check(name: str, entries: tuple[LayoutEntry, ...], meant: t.Sequence[Host]) -> tuple[list[str], list[str]]:
    """Return what is wrong with a layout on the nodes that it is meant for, and what could not be checked there."""
    wrong, unchecked = [], []
    for one, *others in hosts.alike(meant):
        names = first_few([host.name for host in (one, *others)], 3)
        if one.model is None:
            unchecked.append(f"{name} on {names}: the profiles of {one.product or 'their GPUs'} are unknown")
            continue
        if one.count is None and any(entry.devices is not None for entry in entries):
            unchecked.append(f"{name} on {names}: no label tells how many GPUs there are")
        for problem in parted.check(f"layouts.{name}", entries, one.gpus(entries)):
            wrong.append(f"{problem[:-1]} (nodes {names})")
    return list(dict.fromkeys(wrong)), unchecked


def meant_for(entries: tuple[LayoutEntry, ...], candidates: t.Sequence[Host], has_selector: bool) -> list[Host]:
    """Return the nodes that a layout is meant for: those of its selector, else those that its filters match."""
    if has_selector:
        return list(candidates)
    return [
        host
        for host in candidates
        if any(not entry.filters for entry in entries)
        or any(parted.matches(entry, gpu) for entry in entries for gpu in host.gpus(entries))
    ]


def refuse_broken(all_hosts: t.Sequence[Host], before: Sources, after: t.Callable[[Host], Layouts], what: str) -> None:
    """Refuse a change by which the layout that a node's label names would be gone, or would mean something else."""
    gone, other = [], []
    for host in all_hosts:
        now = before(host.name).layouts.get(host.layout)
        if host.layout and now is not None:
            then = after(host).get(host.layout)
            if then is None:
                gone.append(f"{host.name} ({host.layout})")
            elif not unapplied.is_same(host, now, then):
                other.append(f"{host.name} ({host.layout})")
    if gone or other:
        verb, names = ("would take away", gone) if gone else ("would change", other)
        raise GpuOpsError(
            f"{what} {verb} the layout in use on {first_few(names)}. "
            "Give these nodes another layout first (mig_config), or choose another name.",
            reason="NodesBusy",
            nodes=sorted(entry.partition(" ")[0] for entry in (*gone, *other)),
        )
