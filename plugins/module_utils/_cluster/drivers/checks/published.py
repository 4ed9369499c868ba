# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether the images of pools exist: which registries are asked, with which credentials, and what that means."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import (
    ask,
    image_name,
    keys,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import Pool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]
Answers = dict[str, ask.Answer]


def answers(cluster: Cluster, namespace: str, pools: t.Sequence[Pool], registry: Options) -> Answers:
    """Ask for each image of the pools once. In offline mode, the registries are not asked."""
    if registry["mode"] == "offline":
        return {image: _unasked(image, registry) for pool in pools for image in pool.images}
    asker = ask.Asker.of(registry, registry["mirrors"])
    secrets = _Secrets(cluster, namespace)
    found: Answers = {}
    for pool in pools:
        credentials = {} if registry["username"] else secrets.keys_of(pool.source.spec)
        wanted = {image: pool.architectures for image in pool.images if image not in found}
        found |= {image: asker.ask(image, credentials, needed) for image, needed in wanted.items()}
    return found


def _unasked(image: str, registry: Options) -> ask.Answer:
    place = image_name.on_mirror(image_name.parse(image), registry["mirrors"])
    return ask.Answer(image, str(place), "unasked")


class _Secrets:
    """Reads pull secrets, each of them once."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._known: dict[str, dict[str, keys.Key]] = {}

    def keys_of(self, spec: Json) -> dict[str, keys.Key]:
        """Return the credentials of the pull secrets that a driver names."""
        blocks = [spec, *(spec.get(field) or {} for field in operands.SIBLINGS)]
        names = dict.fromkeys(str(name) for block in blocks for name in block.get("imagePullSecrets") or [])
        found: dict[str, keys.Key] = {}
        for name in names:
            found = {**self._of_secret(name), **found}
        return found

    def _of_secret(self, name: str) -> dict[str, keys.Key]:
        if name not in self._known:
            try:
                secret = self._cluster.get(namespaced("v1", self._namespace, "secrets", name))
            except GpuOpsError as e:
                if e.reason != "Forbidden":
                    raise
                secret = None
            self._known[name] = keys.of_secret(secret) if secret else {}
        return self._known[name]


# ---- what it means ------------------------------------------------------------------------------------------------


def findings(pools: t.Sequence[Pool], found: t.Mapping[str, ask.Answer], mode: str) -> t.Iterator[ClusterFinding]:
    """Yield a finding for each image of each pool."""
    for pool in pools:
        where = f"{pool.source} ({pool.system}{', kernel ' + pool.kernel if pool.kernel else ''})"
        if pool.image is None:
            message = f"{where}: the operator's own default image is used, which is not known here."
            yield ClusterFinding("image", "warning", message, "Set repository, image and version.", **about(pool.nodes))
        for image in pool.images:
            yield _finding(found[image], where, pool, mode)


_REMEDIES: dict[ask.State, str] = {
    "missing": "Choose a version that is published for this system{kernel}, or push the image to the registry.",
    "refused": "Correct the pull secret (image_pull_secrets), or set registry.username and registry.password.",
    "unreachable": "Try again; or set registry.mirrors if the nodes pull from a mirror, or registry.mode: offline.",
}


def _finding(answer: ask.Answer, where: str, pool: Pool, mode: str) -> ClusterFinding:
    nodes = about(pool.nodes)
    if answer.state == "unasked":
        return ClusterFinding("image", "warning", f"{where}: {answer.asked} was not checked (offline).", "", **nodes)
    if answer.lacks:
        lacks = ", ".join(answer.lacks)
        message = f"{where}: {answer.asked} is not published for {lacks}, which nodes of this pool are."
        return ClusterFinding("image", "failure", message, "Choose a version that is.", **nodes)
    if answer.state == "exists":
        return ClusterFinding("image", "ok", f"{where}: {answer.asked} exists.", "", **nodes)
    remedy = _REMEDIES[answer.state].format(kernel=" and kernel" if pool.kernel else "")
    level: Level = "warning" if mode == "lenient" and answer.state != "missing" else "failure"
    return ClusterFinding("image", level, f"{where}: {answer.message}.", remedy, **nodes)


def as_result(pools: t.Sequence[Pool], found: t.Mapping[str, ask.Answer]) -> list[Json]:
    """Return the pools as a result shows them."""
    return [_row(pool, found) for pool in pools]


def _row(pool: Pool, found: t.Mapping[str, ask.Answer]) -> Json:
    states = {image: found[image] for image in pool.images if image in found}
    return {
        "source": str(pool.source),
        "system": pool.system,
        "kernel": pool.kernel,
        "nodes": len(pool.nodes),
        "examples": [objects.name_of(node) for node in pool.nodes[:5]],
        "image": pool.image or "",
        "images": [{"image": image, "asked": answer.asked, "state": answer.state} for image, answer in states.items()],
    }
