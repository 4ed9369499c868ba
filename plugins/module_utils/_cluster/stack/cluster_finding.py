# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A finding of a check of the cluster."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _findings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import EXAMPLES
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class ClusterFinding(_findings.CheckFinding):
    """The outcome of one check, with the nodes that it is about."""

    nodes: tuple[str, ...] = ()
    count: int = 0


def about(nodes: t.Sequence[Json]) -> dict[str, t.Any]:
    """Return the fields of a finding that name its nodes: the first few names, and how many nodes there are."""
    return {"nodes": tuple(name_of(node) for node in nodes[:EXAMPLES]), "count": len(nodes)}
