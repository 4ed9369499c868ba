# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The manifests of a rendered chart, and the images in them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import (
    OPERANDS,
    enabled,
    image_of,
    is_operator,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_CRD_NAME = re.compile(
    r"^kind:\s*CustomResourceDefinition\s*$.*?^(?:  |metadata:\s*\{)name:\s*[\"']?(?P<name>[^\s\"',}]+)",
    re.MULTILINE | re.DOTALL,
)
_SANDBOX_OPERANDS = (
    "vgpuManager",
    "vgpuDeviceManager",
    "vfioManager",
    "sandboxDevicePlugin",
    "kataSandboxDevicePlugin",
    "ccManager",
)
"""Operands for virtual machines. They run only with sandboxWorkloads."""


@dataclasses.dataclass(frozen=True)
class Rendered:
    """The manifests of a chart: CRDs as text, the rest as objects."""

    crds: dict[str, str]
    objects: list[Json]

    def of_kind(self, kind: str) -> list[Json]:
        """Return the objects of one kind."""
        return [item for item in self.objects if item.get("kind") == kind]


def parse_manifests(text: str) -> Rendered:
    """Split the output of ``helm template``. CRDs stay text: parsing their schemas takes ten times as long."""
    crds: dict[str, str] = {}
    objects: list[Json] = []
    for document in re.split(r"^---.*$", text, flags=re.MULTILINE):
        crd = _CRD_NAME.search(document)
        if crd:
            crds[crd["name"]] = document
            continue
        item = yaml_load(document)
        if not isinstance(item, dict) or not item.get("kind"):
            continue
        if item["kind"] == "CustomResourceDefinition":
            crds[item["metadata"]["name"]] = document
        else:
            objects.append(item)
    return Rendered(crds, objects)


def images(rendered: Rendered) -> list[str]:
    """Return the images of the release's own workloads, and of the operands that its custom resources enable."""
    found: set[str] = set()
    for item in rendered.objects:
        if item["kind"] == "ClusterPolicy":
            found.update(_operand_images(item.get("spec") or {}))
        elif item["kind"] in ("NVIDIADriver", "GPUCluster"):
            found.update(filter(None, (image_of(block) for block in _dicts(item.get("spec") or {}))))
        else:
            found.update(container_images(item))
    return sorted(found)


def operator_image(rendered: Rendered) -> str | None:
    """Return the image of the operator that the release runs, or None if it runs none."""
    deployments = (item for item in rendered.of_kind("Deployment") if is_operator(item))
    return next((image for item in deployments for image in container_images(item)), None)


def _operand_images(spec: Json) -> t.Iterator[str]:
    for key in _enabled_blocks(spec):
        block: Json = spec.get(key) or {}
        for part in (block, block.get("manager") or {}, block.get("driverManager") or {}):
            image = image_of(part)
            if image:
                yield image


def _enabled_blocks(spec: Json) -> list[str]:
    """Return the fields of a ClusterPolicy's spec whose components run."""
    sandbox = (spec.get("sandboxWorkloads") or {}).get("enabled")
    optional = (*operands.SIBLINGS, *_SANDBOX_OPERANDS) if sandbox else operands.SIBLINGS
    return [
        *(operand.key for operand in OPERANDS if enabled(operand, spec)),
        *(key for key in optional if (spec.get(key) or {}).get("enabled")),
    ]


def _dicts(value: t.Any) -> t.Iterator[Json]:
    """Yield every mapping inside ``value``, itself included."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _dicts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _dicts(inner)


def container_images(item: Json) -> t.Iterator[str]:
    """Yield the images that a workload's containers run, or that they pass on in ``*_IMAGE`` variables."""
    for block in _dicts(item):
        if isinstance(block.get("image"), str) and "name" in block:
            yield block["image"]
        elif str(block.get("name")).endswith("_IMAGE") and block.get("value"):
            yield str(block["value"])
