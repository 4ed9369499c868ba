# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The exact images of a driver's pods, as the operator composes them. Pure.

Source: ``internal/state/nodepool.go`` (getOSTag), ``controllers/state_manager.go`` (getGPUNodeOSInfo) and
``api/nvidia/v1alpha1/nvidiadriver_types.go`` (GetImagePath) of the GPU Operator v25.10.1, v26.3.3 and v26.7.0.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Version = tuple[int, int]

IMAGE_FIELDS = ("repository", "image", "version", "usePrecompiled")
"""The fields of a driver that determine its image. Its Helm values have the same names."""


def os_tag(system: str, version: str, line: Version | None) -> str:
    """Return the end of an image's tag for a system: ``ubuntu24.04``, ``rhel9``. Without a line, the newest counts."""
    alone = operator_lines.has_major_tag(system, version, line)
    return f"{system}{version.partition('.')[0] if alone else version}"


def driver_image(spec: Json, tag: str, kernel: str) -> str | None:
    """Return the image of a driver for a system and, if it is precompiled, for a kernel. None is the operator's own."""
    base = operands.image_of(spec)
    if base is None:
        return None
    parts = (base, kernel if spec.get("usePrecompiled") else "", tag)
    return base if "sha256:" in base else "-".join(part for part in parts if part)


def other_images(spec: Json, tag: str) -> dict[str, str]:
    """Return the images of the modules beside the driver, by their field."""
    found = {}
    for field in operands.SIBLINGS:
        block = spec.get(field) or {}
        base = operands.image_of(block) if block.get("enabled") else None
        if base:
            found[field] = base if "sha256:" in base else f"{base}-{tag}"
    return found
