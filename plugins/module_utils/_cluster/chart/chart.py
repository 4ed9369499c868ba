# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the GPU Operator's chart is (its files) and what it amounts to (its rendered manifests). No process, no network."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tarfile
import typing as t
import zlib

from ansible.module_utils.common.yaml import HAS_YAML, yaml_load
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import OPERANDS, enabled, image_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

if HAS_YAML:
    from yaml import YAMLError

CLUSTERPOLICY_CRD = "clusterpolicies.nvidia.com"


@dataclasses.dataclass(frozen=True)
class ChartFiles:
    """The parts of a chart that say which values it knows."""

    metadata: Json
    values: Json
    templates: str
    """The text of all the chart's own templates."""

    @property
    def supports_deploy_cr(self) -> bool:
        """Whether the chart can leave the ClusterPolicy to another owner."""
        return "deployCR" in (self.values.get("clusterPolicy") or {})

    @property
    def subcharts(self) -> set[str]:
        """Names under which values are handed to dependencies."""
        return {entry.get("alias") or entry["name"] for entry in self.metadata.get("dependencies") or []}


@dataclasses.dataclass(frozen=True)
class Rendered:
    """What a chart renders to: CRDs as text, the rest as objects."""

    crds: dict[str, str]
    objects: list[Json]

    def of_kind(self, kind: str) -> list[Json]:
        """Return the objects of one kind."""
        return [item for item in self.objects if item.get("kind") == kind]


def read_chart(path: str) -> ChartFiles:
    """Read a chart's folder or archive."""
    try:
        files = _read_folder(path) if os.path.isdir(path) else _read_archive(path)
        metadata, values = (yaml_load(files.get(name, "")) or {} for name in ("Chart.yaml", "values.yaml"))
    except (OSError, EOFError, tarfile.TarError, zlib.error, UnicodeDecodeError, YAMLError) as e:
        raise GpuOpsError(f"Cannot read the chart at {path}: {e}. Fetch it again.", reason="ChartNotFound") from e
    if not metadata:
        raise GpuOpsError(
            f"{path} is not a chart: it has no Chart.yaml. Give the path of a chart's folder or archive.",
            reason="ChartNotFound",
        )
    templates = "\n".join(text for name, text in files.items() if name.startswith("templates/"))
    return ChartFiles(metadata, values, templates)


def _wanted(name: str) -> bool:
    return name in ("Chart.yaml", "values.yaml") or (
        name.startswith("templates/") and name.endswith((".yaml", ".yml", ".tpl"))
    )


def _read_folder(path: str) -> dict[str, str]:
    names = ["Chart.yaml", "values.yaml"]
    for root, dummy, found in os.walk(os.path.join(path, "templates")):
        names += [os.path.relpath(os.path.join(root, name), path) for name in found]
    files = {}
    for name in filter(_wanted, names):
        full = os.path.join(path, name)
        if os.path.exists(full):
            with open(full, encoding="utf-8") as file:
                files[name] = file.read()
    return files


def _read_archive(path: str) -> dict[str, str]:
    files = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            content = archive.extractfile(member) if member.isfile() and _wanted(name) else None
            if content is not None:
                files[name] = content.read().decode()
    return files


_CRD_NAME = re.compile(
    r"^kind:\s*CustomResourceDefinition\s*$.*?^(?:  |metadata:\s*\{)name:\s*[\"']?(?P<name>[^\s\"',}]+)",
    re.MULTILINE | re.DOTALL,
)


def parse_manifests(text: str) -> Rendered:
    """Split what ``helm template`` wrote. CRDs stay text: parsing their schemas costs ten times all the rest."""
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


_KERNEL_MODULES = ("gds", "gdrcopy")
_SANDBOX_OPERANDS = (
    "vgpuManager",
    "vgpuDeviceManager",
    "vfioManager",
    "sandboxDevicePlugin",
    "kataSandboxDevicePlugin",
    "ccManager",
)
"""Operands for virtual machines. They run with sandboxWorkloads only."""


def images(rendered: Rendered) -> list[str]:
    """Return every image that the release pulls: of its own workloads, and of the operands that the custom resources enable."""
    found: set[str] = set()
    for item in rendered.objects:
        if item["kind"] == "ClusterPolicy":
            found.update(_operand_images(item.get("spec") or {}))
        elif item["kind"] in ("NVIDIADriver", "GPUCluster"):
            found.update(filter(None, (image_of(block) for block in _dicts(item.get("spec") or {}))))
        else:
            found.update(_container_images(item))
    return sorted(found)


def _operand_images(spec: Json) -> t.Iterator[str]:
    keys = [operand.key for operand in OPERANDS if enabled(operand, spec)]
    optional = (*_KERNEL_MODULES, *(_SANDBOX_OPERANDS if (spec.get("sandboxWorkloads") or {}).get("enabled") else ()))
    keys += [key for key in optional if (spec.get(key) or {}).get("enabled")]
    for key in keys:
        block: Json = spec.get(key) or {}
        yield from filter(
            None, (image_of(part) for part in (block, block.get("manager") or {}, block.get("driverManager") or {}))
        )


def _dicts(value: t.Any) -> t.Iterator[Json]:
    """Yield every mapping inside ``value``, itself included."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _dicts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _dicts(inner)


def _container_images(item: Json) -> t.Iterator[str]:
    """Yield the images that a workload's containers run, or hand on in ``*_IMAGE`` variables."""
    for block in _dicts(item):
        if isinstance(block.get("image"), str) and "name" in block:
            yield block["image"]
        elif str(block.get("name")).endswith("_IMAGE") and block.get("value"):
            yield str(block["value"])


# Values that the web recommends and that do nothing, or not what is meant, each with the right field.
_WRONG_VALUES = {
    "driver.useOpenKernelModules": "It does nothing. Set driver.kernelModuleType to open, proprietary or auto.",
    "driver.useNvidiaDriverCRD": "In Helm values it is called driver.nvidiaDriverCRD.enabled.",
    "driver.upgradePolicy.podDeletion": "In Helm values it is called driver.upgradePolicy.gpuPodDeletion.",
    "operator.defaultRuntime": "It does nothing since v26.3: the operator detects the container runtime of each node.",
    "cdi.default": "It does nothing in this chart: CDI is the default way to give GPUs to containers.",
    "mig.config": "MIG is configured by the node label nvidia.com/mig.config and by migManager.config.",
    "migManager.config.strategy": "It is called mig.strategy.",
}


def check_values(values: Json, chart: ChartFiles) -> list[tuple[str, str]]:
    """Return (path, sentence) for each value that the chart does not know. Helm ignores those silently.

    Raises for a value that the chart would take but that cannot work.
    """
    kernel_module_type = (
        (values.get("driver") or {}).get("kernelModuleType") if isinstance(values.get("driver"), dict) else None
    )
    if kernel_module_type not in (None, "auto", "open", "proprietary"):
        raise GpuOpsError(
            f"driver.kernelModuleType cannot be {kernel_module_type!r}: it is auto, open or proprietary. "
            "Precompiled drivers are asked for by driver.usePrecompiled.",
            reason="ValuesRefused",
        )
    known = _known_values(chart)
    return [
        (path, _WRONG_VALUES.get(path) or _suggestion(path, siblings)) for path, siblings in _unknown(values, known, "")
    ]


def _suggestion(path: str, siblings: list[str]) -> str:
    parent, dummy, name = path.rpartition(".")
    close = difflib.get_close_matches(name, siblings, n=1, cutoff=0.6)
    return (
        f"Did you mean {parent + '.' if parent else ''}{close[0]}?"
        if close
        else "Helm ignores it. Remove it or correct its name."
    )


Known = dict[str, t.Any]
"""A tree of value names. None means that anything may lie below."""

_PATH = re.compile(
    r"(?P<free>(?:toYaml|with|range|toJson|tpl)\s+\(?)?(?:\$\.|\.|\$root\.)Values(?P<path>(?:\.[A-Za-z_]\w*)+)"
)


def _known_values(chart: ChartFiles) -> Known:
    """Return the names that the chart's ``values.yaml`` or a template mentions; templates know more than ``values.yaml``."""
    known = _tree(chart.values)
    for use in _PATH.finditer(chart.templates):
        _learn(known, use["path"].strip(".").split("."), free=bool(use["free"]))
    for name in {"global", *chart.subcharts}:
        known[name] = None
    return known


def _tree(values: Json) -> Known:
    return {name: _tree(value) if isinstance(value, dict) and value else None for name, value in values.items()}


def _learn(known: Known, path: list[str], free: bool) -> None:
    for name in path[:-1]:
        inner = known.setdefault(name, {})
        if inner is None:
            return
        known = inner
    if free:
        known[path[-1]] = None
    else:
        known.setdefault(path[-1], None)


def _unknown(values: Json, known: Known, prefix: str) -> t.Iterator[tuple[str, list[str]]]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        if name not in known:
            yield path, sorted(known)
        elif isinstance(value, dict) and known[name] is not None:
            yield from _unknown(value, known[name], f"{path}.")
