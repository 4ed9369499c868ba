# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU Feature Discovery: the labels that describe a node's GPUs, MIG devices and their sharing."""

from __future__ import annotations

import re
import time
import typing as t

from lab.cluster.api import Json
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.mig import Layout, layout_of, profiles_of
from lab.cluster.nodes.agents.sharing import Sharing
from lab.cluster.nodes.fleet import MODELS, Model
from lab.nvml.profiles import Profile

PREFIX = "nvidia.com/"
GPU = "nvidia.com/gpu"
_OWN = re.compile(
    r"nvidia\.com/(cuda\.|gfd\.|vgpu\.|mig-|mig\.(capable|strategy)$|mps\.capable$|gpu\.(product|count|replicas|memory|family|"
    r"compute\.|machine|mode|sharing-strategy|multiprocessors|slices\.|engines\.|clique$))"
)
_CUDA = {"580": "13.0", "595": "13.2"}
"""The CUDA version of a driver's branch, for the branches that the operator's charts install."""


class DiscoveryError(Exception):
    """What makes feature discovery exit."""


def cuda_version(driver: str) -> str:
    """Return the version of CUDA that a driver supports."""
    return _CUDA.get(driver.split(".", maxsplit=1)[0], "13.0")


def labels(node: Json, driver: str, strategy: str, sharing: Sharing) -> dict[str, str]:
    """Return the labels of a node, without those of its processor."""
    model, layout = MODELS[note(node, "model")], layout_of(node)
    if sharing.strategy == "mps" and any(gpu is not None for gpu in layout):
        raise DiscoveryError("failed to check MPS-capable: MPS sharing is not supported for mig devices")
    found = {
        **_versions(driver),
        "gpu.machine": note(node, "machine", "Lab-Node"),
        "gpu.mode": "compute",
        "mig.capable": str(model.mig_capable).lower(),
        "mps.capable": str(sharing.strategy == "mps").lower(),
        "vgpu.present": "false",
        "gfd.timestamp": str(int(time.time())),
    }
    # As newImexLabeler in internal/lm/imex.go (v0.20.0): only where a fabric of several machines has come up.
    if clique := note(node, "clique"):
        found["gpu.clique"] = clique
    resources = _gpus(model, layout, sharing)
    if strategy != "none":
        found["mig.strategy"] = strategy
        resources |= _mig(model, layout, strategy, sharing, {item.name: item for item in profiles_of(node)})
    return {**{PREFIX + key: value for key, value in found.items()}, **resources}


def stale(node: Json, wanted: t.Mapping[str, str]) -> set[str]:
    """Return the labels that an earlier layout left behind."""
    present = node["metadata"].get("labels") or {}
    return {key for key in present if _OWN.match(key) and key not in wanted}


def _versions(driver: str) -> dict[str, str]:
    major, minor, *rest = [*driver.split("."), "0"]
    revision = rest[0] if rest[0] != "0" else ""
    cuda = cuda_version(driver)
    return {
        "cuda.driver-version.full": driver,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.runtime-version.full": cuda,
        "cuda.runtime-version.major": cuda.partition(".")[0],
        "cuda.runtime-version.minor": cuda.partition(".")[2],
        "cuda.runtime.major": cuda.partition(".")[0],
        "cuda.runtime.minor": cuda.partition(".")[2],
    }


def _gpus(model: Model, layout: Layout, sharing: Sharing) -> dict[str, str]:
    """Describe the whole GPUs. If MIG is on everywhere, they count as not shared at all, with 0 replicas."""
    all_mig = all(gpu is not None for gpu in layout)
    major, minor = model.compute.split(".")
    return {
        **_resource(GPU, [model.product], len(layout), None if all_mig else sharing),
        f"{GPU}.memory": str(model.memory_mib),
        f"{GPU}.family": model.family,
        f"{GPU}.compute.major": major,
        f"{GPU}.compute.minor": minor,
    }


def _mig(
    model: Model, layout: Layout, strategy: str, sharing: Sharing, profiles: t.Mapping[str, Profile]
) -> dict[str, str]:
    enabled = [gpu for gpu in layout if gpu is not None]
    counts: dict[str, int] = {}
    for gpu in enabled:
        for profile, count in gpu.items():
            counts[profile] = counts.get(profile, 0) + count
    if strategy == "mixed":
        parts = [(f"{PREFIX}mig-{dotted(profile)}", profile, count) for profile, count in counts.items()]
    elif not enabled:
        return {}
    elif not all(enabled) or len(enabled) != len(layout) or len(counts) != 1:
        return _invalid(model)
    else:
        parts = [(GPU, profile, count) for profile, count in counts.items()]
    found: dict[str, str] = {}
    for resource, profile, count in parts:
        found |= _resource(resource, [model.product, "MIG", dotted(profile)], count, sharing)
        found |= _attributes(resource, profile, profiles)
    return found


def _invalid(model: Model) -> dict[str, str]:
    """Describe a node whose layout does not suit the strategy `single`."""
    values = {"product": f"{model.product}-MIG-INVALID", "count": "0", "replicas": "0", "memory": "0"}
    return {f"{GPU}.{key}": value for key, value in {**values, "sharing-strategy": ""}.items()}


def _resource(resource: str, parts: list[str], count: int, sharing: Sharing | None) -> dict[str, str]:
    replicas = 0 if sharing is None else sharing.replicas.get(resource, 1)
    shared = sharing is not None and replicas > 1
    suffix = ["SHARED"] if sharing is not None and shared and not sharing.renamed else []
    values = {
        "product": "-".join([*parts, *suffix]),
        "count": str(count),
        "replicas": str(replicas),
        "sharing-strategy": sharing.strategy if sharing is not None and shared else "none",
    }
    return {f"{resource}.{key}": value for key, value in values.items()}


def _attributes(resource: str, name: str, profiles: t.Mapping[str, Profile]) -> dict[str, str]:
    """Describe a MIG device. One such as 1c.3g.40gb has the memory and engines of its GPU instance."""
    whole = name.partition(".")[2] if is_part(name) else name
    profile = profiles[whole]
    copy, decoder, jpeg, ofa = profile.engines
    compute = int(name.partition("c.")[0]) if whole != name else profile.slices
    values = {
        "memory": profile.memory_mib,
        "multiprocessors": next(item.multiprocessors for item in profiles.values() if item.slices == compute),
        "slices.gi": profile.slices,
        "slices.ci": compute,
        "engines.copy": copy,
        "engines.decoder": decoder,
        "engines.encoder": 0,
        "engines.jpeg": jpeg,
        "engines.ofa": ofa,
    }
    return {f"{resource}.{key}": str(value) for key, value in values.items()}


def dotted(profile: str) -> str:
    """Return a profile's name as it appears in the names of resources."""
    return profile.replace("+", ".")


def is_part(profile: str) -> bool:
    """Return whether a profile such as 1c.3g.40gb is a part of a GPU instance."""
    return profile.partition(".")[0].endswith("c")
