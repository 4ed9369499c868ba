# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The files of the GPU Operator's chart. Reading them needs no Helm and no network."""

from __future__ import annotations

import dataclasses
import os
import tarfile
import zlib

from ansible.module_utils.common.yaml import HAS_YAML, yaml_load
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

if HAS_YAML:
    from yaml import YAMLError

ARCHIVE_BYTES = 64 * 1024**2
"""How much text an archive may hold, so that a small archive cannot fill the memory. NVIDIA's charts hold 1 MB."""


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
        """Names under which dependencies receive their values."""
        return {entry.get("alias") or entry["name"] for entry in self.metadata.get("dependencies") or []}


def read_chart(path: str) -> ChartFiles:
    """Read a chart's folder or archive."""
    try:
        files = _read_folder(path) if os.path.isdir(path) else _read_archive(path)
        metadata, values = (yaml_load(files.get(name, "")) or {} for name in ("Chart.yaml", "values.yaml"))
    except (OSError, EOFError, tarfile.TarError, zlib.error, UnicodeDecodeError, YAMLError) as e:
        raise GpuOpsError(f"Cannot read the chart at {path}: {e}. Fetch it again.", reason="ChartNotFound") from e
    if not metadata:
        message = f"{path} is not a chart: it has no Chart.yaml. Give the path of a chart's folder or archive."
        raise GpuOpsError(message, reason="ChartNotFound")
    templates = "\n".join(text for name, text in files.items() if name.startswith("templates/"))
    return ChartFiles(metadata, values, templates)


def _is_relevant(name: str) -> bool:
    return name in ("Chart.yaml", "values.yaml") or (
        name.startswith("templates/") and name.endswith((".yaml", ".yml", ".tpl"))
    )


def _read_folder(path: str) -> dict[str, str]:
    names = ["Chart.yaml", "values.yaml"]
    for root, dummy, found in os.walk(os.path.join(path, "templates")):
        names += [os.path.relpath(os.path.join(root, name), path) for name in found]
    files = {}
    for name in filter(_is_relevant, names):
        full = os.path.join(path, name)
        if os.path.exists(full):
            with open(full, encoding="utf-8") as file:
                files[name] = file.read()
    return files


def _read_archive(path: str) -> dict[str, str]:
    files = {}
    left = ARCHIVE_BYTES
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            content = archive.extractfile(member) if member.isfile() and _is_relevant(name) else None
            if content is not None:
                files[name] = content.read(left + 1).decode()
                left -= len(files[name])
                if left < 0:
                    raise tarfile.ReadError(f"its text is longer than {ARCHIVE_BYTES // 1024**2} MiB")
    return files
