# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Keep images in a mirror or in a folder, with the digests of their source."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import image_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images.needed_images import NeededImage
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images.skopeo import Place, Skopeo
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import append_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

State = t.Literal["mirrored", "exported", "imported"]


@dataclasses.dataclass
class _Copy:
    """An image, its two places, and what was done."""

    image: str
    source: Place
    target: Place
    digest: str = ""
    result: t.Literal["present", "copied", "failed"] = "present"
    message: str = ""

    def as_result(self) -> Json:
        """Return the row of the module's result."""
        keys = ("image", "digest", "result", "message")
        place = self.target.folder or self.target.registry
        return {**{key: getattr(self, key) for key in keys}, "target": place}


def keep(skopeo: Skopeo, options: t.Mapping[str, t.Any], check: bool) -> Json:
    """Copy what the target lacks or has with another digest; return the module's result.

    One image that fails does not end the others. Raises `GpuOpsError` with all rows if any has failed.
    """
    if options["state"] != "exported" and not (options["mirror"] or "").strip("/"):
        raise GpuOpsError("mirror is empty. Name the registry and the folder, such as registry.example.com/mirror.")
    rows = [_row(image, options) for image in dict.fromkeys(options["images"])]
    for number, row in enumerate(rows, 1):
        try:
            _keep_one(skopeo, row, check)
        except GpuOpsError as e:
            row.result, row.message = "failed", e.msg
        append_line(options["progress_path"], f"{number} of {len(rows)}: {row.image} {_SAID[row.result]}")
    failed = [row for row in rows if row.result == "failed"]
    result = {
        "changed": any(row.result == "copied" for row in rows),
        "images": [row.as_result() for row in rows],
        "digests": {row.image: row.digest for row in rows if row.digest},
    }
    if failed:
        causes = first_few([f"{row.image}: {row.message}" for row in failed], 3, " ")
        raise GpuOpsError(
            f"{len(failed)} of {len(rows)} images could not be copied. {causes} A further run copies what is missing.",
            reason="ImagesFailed",
            **result,
        )
    return result


_SAID = {"present": "is there", "copied": "copied", "failed": "failed"}


def _keep_one(skopeo: Skopeo, row: _Copy, check: bool) -> None:
    digest = skopeo.digest(row.source)
    if digest is None:
        raise GpuOpsError(f"{row.source} does not exist. Correct the name, or copy it there first.")
    row.digest = digest
    if skopeo.digest(row.target) == digest:
        return
    row.result = "copied"
    if check:
        return
    skopeo.copy(row.source, row.target)
    found = skopeo.digest(row.target)
    if found != digest:
        raise GpuOpsError(f"{row.target} has the digest {found} after the copy, and the source has {digest}.")


def _row(image: str, options: t.Mapping[str, t.Any]) -> _Copy:
    name = image_name.parse(image)
    registry = Place(registry=str(name))
    mirror = Place(registry=NeededImage(image, "").on(options["mirror"])) if options["mirror"] else Place()
    state: State = options["state"]
    if state == "mirrored":
        return _Copy(image, registry, mirror)
    path = [part.replace(":", "_") for part in (name.host, *name.repository.split("/"), name.version)]
    folder = Place(folder=os.path.join(os.path.expanduser(options["folder"]), *path))
    return _Copy(image, registry, folder) if state == "exported" else _Copy(image, folder, mirror)
