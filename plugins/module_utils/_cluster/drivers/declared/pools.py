# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which object determines the driver of which node, and the pools of nodes that need the same image. Pure.

Source: ``internal/nvidiadriver/nvidiadriver.go`` (owners), ``internal/state/nodepool.go`` and ``getGPUNodeOSInfo`` (a
ClusterPolicy has one image for all nodes, by the system of the first one) of the GPU Operator v26.7.0.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import images
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DRIVER,
    POLICY,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Version = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class DriverSource:
    """The object that has a driver's settings. ``spec`` is always in the words of an NVIDIADriver."""

    kind: str
    name: str
    spec: Json = dataclasses.field(compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclasses.dataclass(frozen=True)
class Pool:
    """Nodes of one source that need the same image. ``system`` is the end of the image's tag."""

    source: DriverSource
    system: str
    kernel: str
    """The kernel if the driver is precompiled, else an empty string."""
    nodes: tuple[Json, ...] = dataclasses.field(compare=False)

    @property
    def image(self) -> str | None:
        """The driver's image, or None if it is the operator's own."""
        return images.driver_image(self.source.spec, self.system, self.kernel)

    @property
    def images(self) -> list[str]:
        """The images that the pool's nodes have to pull: the driver's, and those of the modules beside it."""
        own = [self.image] if self.image else []
        return [*own, *images.other_images(self.source.spec, self.system).values()]

    @property
    def architectures(self) -> set[str]:
        """The architectures of the pool's nodes, as images name them."""
        return {found for node in self.nodes if (found := nodes.node_info(node, "architecture"))}


@dataclasses.dataclass(frozen=True)
class Owners:
    """The NVIDIADriver of each GPU node, and what keeps the operator from assigning them."""

    of: t.Mapping[str, str]
    uncovered: tuple[Json, ...] = ()
    overlaps: t.Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    """The drivers that select the same nodes, by the name of one such node."""
    defaults: tuple[str, ...] = ()
    """The defaults, if there are several."""
    reserved: tuple[str, ...] = ()
    """The drivers whose selector uses the label that the operator reserves."""


def has_driver_container(node: Json) -> bool:
    """Return whether a driver container runs on this GPU node, or would if nothing paused it."""
    labels = objects.labels_of(node)
    deployed = labels.get(operands.DRIVER.deploy_label, "true")
    return (
        nodes.is_gpu_node(node)
        and not operands.are_switched_off(node)
        and deployed not in ("false", names.PRE_INSTALLED)
    )


def owners(drivers: t.Sequence[Json], gpu_nodes: t.Sequence[Json]) -> Owners:
    """Return which NVIDIADriver has which node: the only one that selects it, or else the default."""
    defaults = sorted(objects.name_of(item) for item in drivers if item["spec"].get("default"))
    selecting = [item for item in drivers if not item["spec"].get("default")]
    found: dict[str, str] = {}
    overlaps: dict[str, list[str]] = {}
    uncovered = []
    for node in gpu_nodes:
        matching = sorted(objects.name_of(item) for item in selecting if _selects(item, node))
        if len(matching) > 1 and matching not in overlaps.values():
            overlaps[objects.name_of(node)] = matching
        if matching or defaults:
            found[objects.name_of(node)] = (matching or defaults)[0]
        else:
            uncovered.append(node)
    reserved = [
        objects.name_of(item) for item in drivers if names.DRIVER_OWNER in (item["spec"].get("nodeSelector") or {})
    ]
    several = tuple(defaults) if len(defaults) > 1 else ()
    return Owners(found, tuple(uncovered), overlaps, several, tuple(reserved))


def _selects(driver: Json, node: Json) -> bool:
    """Return whether a driver's own selector matches a GPU node. Without a selector, it matches every one."""
    return nodes.matches(driver["spec"].get("nodeSelector"), node)


def of_drivers(drivers: t.Sequence[Json], gpu_nodes: t.Sequence[Json], line: Version | None) -> list[Pool]:
    """Return the pools of NVIDIADrivers: each has one for every system and, precompiled, for every kernel."""
    sources = {objects.name_of(item): DriverSource(DRIVER, objects.name_of(item), item["spec"]) for item in drivers}
    owned = owners(drivers, gpu_nodes).of
    grouped: dict[tuple[str, str, str], list[Json]] = collections.defaultdict(list)
    for node in gpu_nodes:
        name = owned.get(objects.name_of(node))
        if name is not None:
            grouped[name, _tag(node, line), _kernel(node, sources[name].spec)].append(node)
    return [Pool(sources[name], tag, kernel, tuple(each)) for (name, tag, kernel), each in sorted(grouped.items())]


def of_policy(name: str, spec: Json, gpu_nodes: t.Sequence[Json], line: Version | None) -> list[Pool]:
    """Return the pools of a ClusterPolicy. All have the system of the first GPU node, whatever they run."""
    if not gpu_nodes:
        return []
    source = DriverSource(POLICY, name, spec)
    first = _tag(min(gpu_nodes, key=objects.name_of), line)
    grouped: dict[str, list[Json]] = collections.defaultdict(list)
    for node in gpu_nodes:
        grouped[_kernel(node, spec)].append(node)
    return [Pool(source, first, kernel, tuple(each)) for kernel, each in sorted(grouped.items())]


def misfits(pool: Pool, line: Version | None) -> list[Json]:
    """Return the nodes of a pool whose system its image is not for. A digest has no system in its name."""
    if "sha256:" in (pool.image or ""):
        return []
    return [node for node in pool.nodes if _tag(node, line) != pool.system]


def unlabelled(gpu_nodes: t.Sequence[Json]) -> list[Json]:
    """Return the nodes without the labels of Node Feature Discovery by which the operator chooses an image."""
    return [node for node in gpu_nodes if not {names.OS_ID, names.OS_VERSION} <= objects.labels_of(node).keys()]


def _tag(node: Json, line: Version | None) -> str:
    return images.os_tag(*nodes.os_of(node), line)


def _kernel(node: Json, spec: Json) -> str:
    if not spec.get("usePrecompiled"):
        return ""
    return objects.labels_of(node).get(names.KERNEL) or nodes.kernel_of(node)
