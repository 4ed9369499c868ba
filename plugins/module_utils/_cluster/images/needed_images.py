# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The container images that a configuration of the operator needs on nodes with these systems. Pure.

Source: ``resolveDriverTag`` in ``controllers/object_controls.go`` of the GPU Operator v26.7.0: the operator completes
the tags of four images by the system of the node, and a precompiled driver's by its kernel as well.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import image_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import images
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_SYSTEM = re.compile(r"(?P<name>[a-z][a-z_-]*)(?P<version>\d+(\.\d+)*)")


@dataclasses.dataclass(frozen=True)
class NodeSystem:
    """What some nodes run: a system (``ubuntu``, ``24.04``), and the kernels that precompiled drivers are for."""

    name: str
    version: str
    kernels: tuple[str, ...] = ()
    architectures: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name}{self.version}"


@dataclasses.dataclass(frozen=True)
class NeededImage:
    """An image that nodes pull, and what for."""

    image: str
    purpose: str
    architectures: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)

    def on(self, mirror: str) -> str:
        """Return the image's name on a mirror that has each image under its own path, unless it is there already."""
        name = image_name.parse(self.image)
        is_there = f"{name.host}/{name.repository}".startswith(f"{mirror}/")
        return str(name if is_there else image_name.on_mirror(name, {name.host: mirror}))


@dataclasses.dataclass(frozen=True)
class RenderedImages:
    """What a rendered chart says of images: the images, the custom resources, and the operator's line."""

    images: t.Sequence[str]
    clusterpolicy: Json
    nvidiadrivers: t.Sequence[Json]
    line: tuple[int, int] | None


def given_system(row: Json) -> NodeSystem:
    """Return a system that is given as data: its ``system`` (``ubuntu24.04``) and its ``kernels``."""
    found = _SYSTEM.fullmatch(row["system"])
    if not found:
        raise GpuOpsError(
            f"systems: {row['system']!r} is no system. Write its ID and its version as /etc/os-release has them, "
            "without a space: ubuntu24.04 or rhel9.6."
        )
    return NodeSystem(found["name"], found["version"], tuple(row["kernels"]), frozenset(row["architectures"]))


def systems_of(fleet: t.Sequence[Json]) -> list[NodeSystem]:
    """Return what the GPU nodes of a cluster run. Before Node Feature Discovery runs, every node may have GPUs."""
    known = [node for node in fleet if nodes.is_gpu_node(node)] or fleet
    kernels: dict[tuple[str, str], set[str]] = {}
    architectures: dict[tuple[str, str], set[str]] = {}
    for node in known:
        system = nodes.os_of(node)
        kernels.setdefault(system, set()).add(nodes.kernel_of(node))
        architectures.setdefault(system, set()).add(nodes.node_info(node, "architecture") or "")
    return [
        NodeSystem(*system, tuple(sorted(found)), frozenset(architectures[system] - {""}))
        for system, found in sorted(kernels.items())
    ]


def needed(chart: RenderedImages, systems: t.Sequence[NodeSystem], more: t.Sequence[str]) -> list[NeededImage]:
    """Return the images of a chart with complete names, and ``more``. Raises `GpuOpsError` if a system is missing."""
    parts = list(_completed_parts(chart))
    bases = {base for part in parts for base in part.bases if "sha256:" not in base}
    # With NVIDIADrivers, the ClusterPolicy's own settings of the modules beside the driver are without effect.
    siblings = {field: chart.clusterpolicy.get(field) for field in operands.SIBLINGS}
    left_out = bases.union(_CompletedDriver("", siblings).bases)
    if bases and not systems:
        raise GpuOpsError(
            f"The operator completes the name of {', '.join(sorted(bases))} by the system of the nodes. Name the "
            "systems in systems, or set from_nodes."
        )
    architectures = frozenset().union(*(system.architectures for system in systems))
    found = [NeededImage(image, "chart", architectures) for image in chart.images if image not in left_out]
    for part in parts:
        for system in systems:
            found += part.on(system, images.os_tag(system.name, system.version, chart.line))
    found += [NeededImage(image, "more", architectures) for image in more]
    # An image that serves several purposes is listed once.
    return sorted({each.image: each for each in reversed(found)}.values(), key=lambda each: each.image)


@dataclasses.dataclass(frozen=True)
class _CompletedDriver:
    """Settings of a driver, in the words of an NVIDIADriver, and what they are called."""

    what: str
    spec: Json

    @property
    def bases(self) -> list[str]:
        """The images without the ends of their tags."""
        blocks: list[Json] = [self.spec.get(field) or {} for field in operands.SIBLINGS]
        running = [self.spec, *(block for block in blocks if block.get("enabled"))]
        return [base for base in map(operands.image_of, running) if base]

    def on(self, system: NodeSystem, tag: str) -> list[NeededImage]:
        """Return the images for the nodes with a system."""
        return [NeededImage(image, what, system.architectures) for image, what in self._on(system, tag)]

    def _on(self, system: NodeSystem, tag: str) -> t.Iterator[tuple[str, str]]:
        precompiled = self.spec.get("usePrecompiled")
        if precompiled and not system.kernels:
            raise GpuOpsError(
                f"systems: a precompiled driver has an image for each kernel, and {system} has no kernels. Name them "
                "in kernels, as uname -r prints them."
            )
        for kernel in system.kernels if precompiled else ("",):
            image = images.driver_image(self.spec, tag, kernel)
            if image:
                yield image, f"{self.what} on {system}{f' with the kernel {kernel}' if kernel else ''}"
        for field, image in images.other_images(self.spec, tag).items():
            yield image, f"{operands.SIBLINGS[field]} on {system}"


def _completed_parts(chart: RenderedImages) -> t.Iterator[_CompletedDriver]:
    """Yield the drivers of a chart. Any of them may serve a node of any system."""
    policy = chart.clusterpolicy
    siblings = {field: policy.get(field) for field in operands.SIBLINGS}
    if operands.enabled(operands.DRIVER, policy) and not disruption.delegates(policy):
        yield _CompletedDriver("driver", {**(policy.get("driver") or {}), **siblings})
    vgpu_manager = policy.get("vgpuManager") or {}
    if (policy.get("sandboxWorkloads") or {}).get("enabled") and vgpu_manager.get("enabled"):
        yield _CompletedDriver("vGPU manager", vgpu_manager)
    for driver in chart.nvidiadrivers:
        yield _CompletedDriver("driver", driver.get("spec") or {})
