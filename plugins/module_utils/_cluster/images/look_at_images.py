# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which images a fleet needs, and whether a mirror has them."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import (
    ask,
    image_name,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images import needed_images
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images.needed_images import NeededImage
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NODES = "/api/v1/nodes"
_PASSES = {"strict": ("exists",), "lenient": ("exists", "refused", "unreachable")}
"""The answers of a mirror that are no failure, by the mode in which it is asked."""


def look(options: t.Mapping[str, t.Any]) -> Json:
    """Return the images and what the mirror says of each; the result of the module.

    Raises `GpuOpsError` with all rows if the mirror lacks one.
    """
    systems = [needed_images.given_system(row) for row in options["systems"]]
    if options["from_nodes"]:
        systems += needed_images.systems_of(Cluster(options).list(_NODES) or [])
    release = operands.release(options["chart_version"])
    chart = needed_images.RenderedImages(
        options["images"],
        (options["clusterpolicy"] or {}).get("spec") or {},
        options["nvidiadrivers"],
        release[:2] if release else None,
    )
    found = needed_images.needed(chart, systems, options["more"])
    mirror, registry = options["mirror"], options["registry"]
    if not mirror or registry["mode"] == "offline":
        return {"images": [_row(each, mirror) for each in found], "skopeo_sync": _sync_file(found)}
    rows = _asked(found, options)
    bad = [row for row in rows if row["state"] not in _PASSES[registry["mode"]]]
    if bad:
        causes = first_few([f"{row['mirror_image']}: {row['message']}." for row in bad], 3, " ")
        raise GpuOpsError(
            f"The mirror does not serve {len(bad)} of {len(rows)} images. {causes} Copy them there with "
            "gpuops.nvidia.image_mirror, or correct operator_registry.",
            reason="ImagesMissing",
            images=rows,
            skopeo_sync=_sync_file(found),
        )
    warnings = [f"{row['mirror_image']} could not be checked: {row['message']}." for row in rows if row["message"]]
    return {"images": rows, "skopeo_sync": _sync_file(found), "warnings": warnings}


def _row(needed: NeededImage, mirror: str | None) -> Json:
    return {
        "image": needed.image,
        "purpose": needed.purpose,
        "mirror_image": needed.on(mirror) if mirror else "",
        "state": "unasked",
        "message": "",
    }


def _sync_file(found: t.Sequence[NeededImage]) -> Json:
    """Return the images in the form that ``skopeo sync --src yaml`` reads (skopeo-sync(1))."""
    registries: dict[str, dict[str, list[str]]] = {}
    for name in (image_name.parse(each.image) for each in found):
        registries.setdefault(name.host, {}).setdefault(name.repository, []).append(name.version)
    return {host: {"images": repositories} for host, repositories in registries.items()}


def _asked(found: t.Sequence[NeededImage], options: t.Mapping[str, t.Any]) -> list[Json]:
    asker, digests = ask.Asker.of(options["registry"], {}), options["digests"]
    rows = []
    for each in found:
        row = _row(each, options["mirror"])
        answer = asker.ask(row["mirror_image"], {}, each.architectures)
        rows.append({**row, **_verdict(answer, digests.get(each.image, ""))})
    return rows


def _verdict(answer: ask.Answer, digest: str) -> Json:
    if answer.lacks:
        return {"state": "missing", "message": f"it is not there for {', '.join(answer.lacks)}"}
    if answer.state == "exists" and digest and answer.digest and answer.digest != digest:
        return {"state": "differs", "message": f"its digest is {answer.digest}, and that of the list is {digest}"}
    return {"state": answer.state, "message": answer.message}
