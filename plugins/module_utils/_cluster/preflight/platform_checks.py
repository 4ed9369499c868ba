# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Which platform the nodes belong to, which preset fits, and what is known to break there."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import driver_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.gpu_hints import says_gpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.known_platforms import PLATFORM_OF
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.recognition import Recognised, grouped
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import platform_rules
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.platform_rules import (
    COMBINATIONS,
    Combination,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_CHECK = "platform"
_CLOUDS = ("eks", "gke", "aks")
_PLUGINS = ("nvidia-device-plugin", "k8s-device-plugin", "nvidia-gpu-device-plugin")


def check_platform(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Say what the nodes are and which preset fits, and find values that are known to break there."""
    groups = grouped(snapshot.candidates, snapshot.api_groups)
    if not groups:
        yield ClusterFinding(_CHECK, "ok", "There are no nodes yet whose platform could be recognised.")
    for recognised, members in groups.items():
        yield from _recognised(recognised, members, intent)
    if snapshot.gpu_nodes:
        yield from _several(groups)
    for combination in COMBINATIONS:
        yield from _broken(combination, groups, snapshot, intent)
    yield from _own_plugins(snapshot, intent)
    yield from _no_installer(snapshot, intent)


# ---- what the nodes are -------------------------------------------------------------------------------------------


def _counted(members: t.Sequence[Json]) -> str:
    return "1 node" if len(members) == 1 else f"{len(members)} nodes"


def _recognised(recognised: Recognised, members: list[Json], intent: Intent) -> t.Iterator[ClusterFinding]:
    fitting, given = recognised.presets, intent.preset
    who, listed = f"{_counted(members)} with {recognised.title}", " or ".join(fitting)
    if recognised.is_ambiguous:
        message = f"On {_counted(members)} are signs of platforms that exclude each other ({recognised.title})."
        remedy = "Choose the preset by what their image contains, and remove labels that other platforms set."
        yield ClusterFinding(_CHECK, "warning", message, remedy, **about(members))
    elif not recognised.is_known:
        message = f"On {_counted(members)} is no sign of a platform that this collection knows"
        message += f", so whether the preset {given} fits is not known." if given else "."
        yield ClusterFinding(_CHECK, "ok", message, **about(members))
    elif fitting and given and given not in fitting:
        message = f"The preset is {given}, and for {who} the preset {listed} fits."
        remedy = f"Set operator_preset to {fitting[0]}, unless operator_values set what that preset does."
        yield ClusterFinding(_CHECK, "warning", message, remedy, **about(members))
    else:
        fit = f"the preset {listed} fits" if fitting else "no preset fits"
        yield ClusterFinding(_CHECK, "ok", f"For {who} {fit}.", **about(members))


def _several(groups: t.Mapping[Recognised, list[Json]]) -> t.Iterator[ClusterFinding]:
    """Find GPU nodes of platforms that have no preset in common. A release has one set of values."""
    known = {group: members for group, members in groups.items() if group.is_known}
    shared = set.intersection(*(set(group.presets) for group in known)) if known else set()
    if len(known) > 1 and not shared:
        titles = " and ".join(sorted(group.title for group in known))
        message = f"The GPU nodes belong to {titles}, and no preset fits all of them."
        remedy = "Use nodes of one platform, or exclude the others with the label nvidia.com/gpu.deploy.operands=false."
        yield ClusterFinding(_CHECK, "warning", message, remedy)


# ---- what breaks --------------------------------------------------------------------------------------------------


def _broken(
    combination: Combination, groups: t.Mapping[Recognised, list[Json]], snapshot: Snapshot, intent: Intent
) -> t.Iterator[ClusterFinding]:
    if not combination.values(intent) or (combination.only_installs and not intent.installs):
        return
    for name in combination.platforms:
        members = [
            node
            for recognised, items in groups.items()
            if name in recognised.names and not recognised.is_ambiguous
            for node in items
            if combination.node(node) and not nodes.is_switched_off(node)
        ]
        if members:
            platform = PLATFORM_OF[name]
            who = f"{_counted(members)} with {platform.title}"
            remedy = combination.remedy.format(preset=platform.presets[0] if platform.presets else "")
            level = _level(combination.level, name, members, snapshot)
            yield ClusterFinding(_CHECK, level, combination.message.format(nodes=who), remedy, **about(members))


_POOLED = ("amazon_linux", "cos", "gke", "aks", "eks_auto")
"""Platforms whose nodes without GPUs are often of another kind than those with GPUs, which may be scaled to zero."""


def _level(level: Level, platform: str, members: list[Json], snapshot: Snapshot) -> Level:
    """Return the level.

    While Node Feature Discovery has not named the GPU nodes, what concerns some of the nodes may concern none of them,
    unless their platform says that they have GPUs.
    """
    are_all = len(members) == len(snapshot.candidates) and platform not in _POOLED
    return level if snapshot.gpu_nodes or are_all or all(map(says_gpu, members)) else "warning"


def _own_plugins(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find nodes that offer GPUs although nothing in the cluster offers them: a device plugin of the image does."""
    stacks = snapshot.clusterpolicies or snapshot.gpuclusters or {"daemonsets", "clusterpolicies"} & snapshot.unreadable
    plugins = [item for item in snapshot.daemonsets if driver_chart.mentions(item, _PLUGINS)]
    if stacks or any(map(driver_chart.is_active, plugins)) or not platform_rules.has_plugin(intent):
        return
    members = [node for node in snapshot.nodes if nodes.has_allocatable_gpus(node) and not nodes.is_switched_off(node)]
    if members:
        message = (
            f"There are GPUs for pods on {_counted(members)} although no device plugin runs in the cluster: "
            "the image has one."
        )
        remedy = (
            "Turn it off (Bottlerocket: settings.kubelet-device-plugins.nvidia.enabled=false), or set "
            "devicePlugin.enabled to false."
        )
        yield ClusterFinding(_CHECK, "failure", message, remedy, **about(members))


def _no_installer(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find GPU nodes of GKE whose driver nobody installs: neither GKE, nor Google's DaemonSet, nor the operator."""
    installers = [item for item in snapshot.daemonsets if driver_chart.mentions(item, platform_rules.GKE_INSTALLERS)]
    if intent.manages_driver or any(map(driver_chart.is_active, installers)) or "daemonsets" in snapshot.unreadable:
        return
    members = [node for node in snapshot.nodes if platform_rules.waits_for_google_driver(node)]
    if members:
        message = f"Neither GKE nor a driver installer of Google's installs the driver of {_counted(members)} with GKE."
        remedy = (
            "Apply Google's nvidia-driver-installer for their image, or with Ubuntu use the preset bare_metal. Keep "
            "preflight_tolerate: [platform] if the driver comes another way."
        )
        yield ClusterFinding(_CHECK, "failure", message, remedy, **about(members))


# ---- facts --------------------------------------------------------------------------------------------------------


def platform_facts(snapshot: Snapshot) -> Json:
    """Return the facts about platforms: the names with the number of nodes, the preset that fits all, the cloud."""
    groups = grouped(snapshot.candidates, snapshot.api_groups)
    counts: dict[str, int] = {}
    for recognised, members in groups.items():
        for name in recognised.names or ("unknown",):
            counts[name] = counts.get(name, 0) + len(members)
    presets = [group.presets if group.is_known else () for group in groups]
    shared = [name for name in presets[0] if all(name in each for each in presets)] if presets else []
    clouds = [name for group in grouped(snapshot.nodes, ()) for name in group.names if name in _CLOUDS]
    return {
        "platforms": counts,
        "preset": shared[0] if shared else None,
        "cloud": clouds[0] if clouds else None,
    }
