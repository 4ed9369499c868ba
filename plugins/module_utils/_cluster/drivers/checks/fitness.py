# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether drivers fit the GPUs, systems and kernels of their nodes, and whether their settings fit each other. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _compatibility
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import Pool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_line import OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Findings = t.Iterator[ClusterFinding]
Version = tuple[int, int]

_FULL = re.compile(r"(\d+)\.\d+(?:\.\d+)?")
_MODULE_TYPES = ("auto", "open", "proprietary")


def findings(found: t.Sequence[Pool], line: Version | None) -> Findings:
    """Yield what is wrong with the pools, one after the other."""
    for source in dict.fromkeys(pool.source for pool in found):
        yield from _versions(source, {pool.system for pool in found if pool.source == source})
        yield from _settings(source)
    for pool in found:
        yield from _gpus(pool)
        yield from _systems(pool, line)
        yield from _kernels(pool)


def branch_of(spec: Json) -> str:
    """Return the driver's branch (``595``), or an empty string if a digest or an operator's default hides it."""
    version = str(spec.get("version") or "")
    found = _FULL.match(version)
    return found[1] if found else version if version.isdecimal() else ""


# ---- versions and settings ----------------------------------------------------------------------------------------


def _versions(source: pools.DriverSource, systems: t.Collection[str]) -> Findings:
    """Find versions that the operator composes into the name of an image that does not exist."""
    version, precompiled = str(source.spec.get("version") or ""), bool(source.spec.get("usePrecompiled"))
    wrong = _of_precompiled(source, version) if precompiled else _of_built(version)
    wrong = _malformed(version, systems) or wrong
    if wrong:
        yield ClusterFinding("version", "failure", f"{source}: version is {version}, {wrong[0]}", wrong[1])
    elif not version:
        message = f"{source} names no version, so the operator's own default is rolled out, which is not known here."
        yield ClusterFinding("version", "warning", message, "Set repository, image and version.")
    elif _TWO_PARTS.fullmatch(version):
        message = f"{source}: version is {version}, and most drivers for Linux have three numbers."
        yield ClusterFinding("version", "warning", message, "Check that it is the whole version.")
    else:
        yield ClusterFinding("version", "ok", f"{source} has driver {version}.")


_Wrong = tuple[str, str]
"""The rest of a message that starts with "version is X,", and the remedy."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TWO_PARTS = re.compile(r"\d+\.\d+")


def _malformed(version: str, systems: t.Collection[str]) -> _Wrong | None:
    """Return what is wrong with a version of any driver, if it is not one."""
    suffix = next((system for system in sorted(systems) if system and version.endswith(f"-{system}")), "")
    if version.startswith("sha256") and not _DIGEST.fullmatch(version):
        return "which is no digest: sha256: and 64 hexadecimal digits.", "Copy the whole digest of the image."
    if suffix:
        return f"and the operator adds -{suffix} itself.", f"Set version: {version.removesuffix(f'-{suffix}')}."
    if version and not re.search(r"\d", version):
        return "which names no driver.", "Set the whole version, for example 595.91.07."
    return None


def _of_precompiled(source: pools.DriverSource, version: str) -> _Wrong | None:
    if version.startswith("sha256:"):
        return (
            "which is a digest, and a precompiled driver needs one image for each kernel.",
            "Set branch, or use_precompiled: false.",
        )
    if _FULL.fullmatch(version):
        remedy = f"Set branch: '{branch_of(source.spec)}', or use_precompiled: false."
        return "and images of precompiled drivers are published for branches.", remedy
    return None


def _of_built(version: str) -> _Wrong | None:
    if version.isdecimal():
        return (
            "which is a branch, and only precompiled drivers have images for one.",
            "Set the whole version, for example 595.91.07, or use_precompiled: true.",
        )
    return None


def _settings(source: pools.DriverSource) -> Findings:
    found = list(_contradictions(source))
    for message, remedy in found:
        yield ClusterFinding("settings", "failure", message, remedy)
    if not found:
        yield ClusterFinding("settings", "ok", f"The settings of {source} fit each other.")


_GDS_NEEDS_OPEN = (2, 17, 5)
"""The first GPUDirect Storage that needs open modules."""


def _contradictions(source: pools.DriverSource) -> t.Iterator[tuple[str, str]]:
    spec, module_type = source.spec, str(source.spec.get("kernelModuleType") or "auto")
    if module_type not in _MODULE_TYPES:
        message = f"{source}: kernelModuleType is {module_type!r}, which is not a valid value."
        yield (
            message,
            "Set kernel_module_type to auto, open or proprietary. For precompiled ones: use_precompiled: true.",
        )
    given = [field for field in ("repository", "image", "version") if spec.get(field)]
    if given not in ([], ["image"]) and len(given) < 3:
        yield (
            f"{source}: repository, image and version go together, and only {' and '.join(given)} are set.",
            "Set all.",
        )
    for field, name in operands.SIBLINGS.items():
        if spec.get("usePrecompiled") and (spec.get(field) or {}).get("enabled"):
            yield f"{source}: {name} has no precompiled modules.", f"Set use_precompiled or {field}.enabled to false."
    gds = spec.get("gds") or {}
    if gds.get("enabled") and _needs_open(str(gds.get("version") or "")) and module_type != "open":
        message = (
            f"{source}: GPUDirect Storage {gds.get('version')} needs kernelModuleType open, and auto is not enough."
        )
        yield message, "Set kernel_module_type: open."


def _needs_open(version: str) -> bool:
    """Return whether a version of GPUDirect Storage needs open modules, as the operator judges it."""
    if version.startswith("sha256"):
        return True
    numbers = version.removeprefix("v").partition("-")[0].split(".")
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= _GDS_NEEDS_OPEN


# ---- GPUs ---------------------------------------------------------------------------------------------------------

_GENERATIONS = {
    # the major and the least minor of the compute capability, from the newest on
    (10, 0): "Blackwell",
    (9, 0): "Hopper",
    (8, 9): "Ada Lovelace",
    (8, 0): "Ampere",
    (7, 5): "Turing",
    (7, 0): "Volta",
    (6, 0): "Pascal",
    (5, 0): "Maxwell",
    (3, 0): "Kepler",
}
"""Source: NVIDIA's page "CUDA GPU Compute Capability"."""


def generation_of(node: Json) -> str:
    """Return the generation of a node's GPUs by the labels of GPU Feature Discovery, or an empty string."""
    labels = objects.labels_of(node)
    major, minor = (whole_number(labels.get(key)) for key in names.COMPUTE_CAPABILITY)
    if major is not None:
        return next((name for least, name in _GENERATIONS.items() if (major, minor or 0) >= least), "")
    family = labels.get(names.GPU_FAMILY, "")
    return next((name for name in _GENERATIONS.values() if name.lower().startswith(family)), "") if family else ""


def _gpus(pool: Pool) -> Findings:
    unknown = [node for node in pool.nodes if not generation_of(node)]
    found = [*_generations(pool), *_oldest_drivers(pool)]
    for message, remedy, concerned in found:
        yield ClusterFinding("gpus", "failure", f"{pool.source}: {message}", remedy, **about(concerned))
    if unknown:
        message = "The GPUs of these nodes are not known yet, so it is not known whether the driver supports them."
        yield ClusterFinding(
            "gpus", "warning", message, "GPU Feature Discovery labels them once a driver runs.", **about(unknown)
        )
    elif not found:
        yield ClusterFinding("gpus", "ok", f"The driver of {pool.source} supports the GPUs of its nodes.")


Problem = tuple[str, str, list[Json]]


def _generations(pool: Pool) -> t.Iterator[Problem]:
    """Yield the generations that the driver's branch or the type of its kernel modules does not support."""
    module_type, branch = (
        str(pool.source.spec.get("kernelModuleType") or "auto"),
        whole_number(branch_of(pool.source.spec)),
    )
    old = [node for node in pool.nodes if generation_of(node) in _compatibility.ONLY_PROPRIETARY_MODULES]
    new = [node for node in pool.nodes if _needs_open_modules(node)]
    blackwell = [node for node in pool.nodes if generation_of(node) == "Blackwell"]
    last, first = _compatibility.LAST_FOR_OLD_GPUS, _compatibility.FIRST_FOR_BLACKWELL
    if branch and branch > last and old:
        yield f"branch {branch} does not support {_products(old)}.", f"Use {last}, the last branch that does.", old
    if branch and branch < first and blackwell:
        yield f"branch {branch} does not support {_products(blackwell)}.", f"Use {first} or a newer branch.", blackwell
    if module_type == "open" and old:
        yield f"the open modules do not support {_products(old)}.", "Set kernel_module_type: proprietary or auto.", old
    if module_type == "proprietary" and new:
        yield f"the proprietary modules do not support {_products(new)}.", "Set kernel_module_type: open or auto.", new


def _needs_open_modules(node: Json) -> bool:
    product = objects.labels_of(node).get(names.GPU_PRODUCT, "")
    is_new = generation_of(node) in _compatibility.ONLY_OPEN_MODULES
    return is_new or product.startswith(_compatibility.PRODUCTS_WITH_ONLY_OPEN_MODULES)


def _oldest_drivers(pool: Pool) -> t.Iterator[Problem]:
    """Yield the products that need a newer driver. Of a branch alone, only its number is compared."""
    version = str(pool.source.spec.get("version") or "")
    if not branch_of(pool.source.spec):
        return
    for product, oldest in _compatibility.MINIMUM_DRIVERS.items():
        found = [node for node in pool.nodes if objects.labels_of(node).get(names.GPU_PRODUCT, "").startswith(product)]
        numbers = _numbers(version)
        if found and numbers < _numbers(oldest)[: len(numbers)]:
            yield f"{product} needs driver {oldest} or newer, and version is {version}.", "Use a newer driver.", found


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _products(concerned: t.Sequence[Json]) -> str:
    labels = map(objects.labels_of, concerned)
    return first_few(sorted({item.get(names.GPU_PRODUCT) or "these GPUs" for item in labels}))


# ---- systems and kernels ------------------------------------------------------------------------------------------


def _systems(pool: Pool, line: Version | None) -> Findings:
    """Find images for another system than that of their nodes, and systems that NVIDIA has not validated."""
    misfits = pools.misfits(pool, line)
    unlabelled = pools.unlabelled(pool.nodes)
    if misfits:
        systems = sorted({"".join(nodes.os_of(node)) for node in misfits})
        message = f"{pool.source} has one image for {pool.system}, and these nodes run {first_few(systems)}."
        remedy = "Give each system its own pool: set pools (NVIDIADriver objects), with one of them as default."
        yield ClusterFinding("operating_system", "failure", message, remedy, **about(misfits))
    if unlabelled:
        message = (
            "Node Feature Discovery has not labelled these nodes with their system, so no image is chosen for them."
        )
        yield ClusterFinding("operating_system", "failure", message, "Check its workers on them.", **about(unlabelled))
    data = operator_lines.LINES.get(".".join(map(str, line))) if line else None
    strange = [node for node in pool.nodes if data and not _is_validated(node, data)]
    if strange and data:
        systems = sorted({" ".join(nodes.os_of(node)) for node in strange})
        message = f"NVIDIA did not validate GPU Operator {data.name} on {first_few(systems)}."
        remedy = "Check that there is an image for it; or install the driver on the hosts (driver.enabled: false)."
        yield ClusterFinding("operating_system", "warning", message, remedy, **about(strange))
    if not (misfits or unlabelled or strange):
        yield ClusterFinding(
            "operating_system", "ok", f"{pool.source} has an image for {pool.system}, which its nodes run."
        )


def _is_validated(node: Json, line: OperatorLine) -> bool:
    system, version = nodes.os_of(node)
    versions = line.operating_systems.get(system)
    return versions is not None and (not versions or version in versions)


def _kernels(pool: Pool) -> Findings:
    """Find kernels for which NVIDIA publishes no precompiled driver."""
    if not pool.kernel:
        return
    system = "".join(nodes.os_of(pool.nodes[0]))
    listed = _compatibility.PRECOMPILED_KERNELS.get(system)
    branches = _compatibility.PRECOMPILED_BRANCHES
    branch = branch_of(pool.source.spec)
    if listed is None or not pool.kernel.startswith(tuple(f"{kernel}." for kernel in listed)):
        message = f"NVIDIA lists no precompiled drivers for {system} with kernel {pool.kernel}."
        remedy = "Check that the image exists, or set use_precompiled: false."
        yield ClusterFinding("kernel", "warning", message, remedy, **about(pool.nodes))
    elif branch and branch not in branches:
        message = f"NVIDIA lists precompiled drivers of branches {', '.join(branches)}, and branch is {branch}."
        yield ClusterFinding("kernel", "warning", message, "Check that the image exists, or use a listed branch.")
    else:
        yield ClusterFinding(
            "kernel", "ok", f"NVIDIA lists precompiled drivers for {system} with kernel {pool.kernel}."
        )
