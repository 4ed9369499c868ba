# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The input of every check: the cluster as it is, and what the user intends to install."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.gpu_hints import says_gpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import (
    has_nfd_gpu_label,
    has_nfd_labels,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_line import OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import line_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@dataclasses.dataclass(frozen=True)
class Intent:
    """What the user intends to install."""

    namespace: str
    release_name: str
    operator_version: str | None
    values: Json
    preset: str | None = None
    """The preset of the role that the values come from, if it is known."""
    installs: bool = True
    """Whether the values are those of a chart that is to be installed, and not those of what somebody installed."""

    def value(self, path: str, default: t.Any) -> t.Any:
        """Return a Helm value by its dotted path."""
        found: t.Any = self.values
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return default if found is None else found

    @property
    def manages_driver(self) -> bool:
        """Whether the operator should install the driver."""
        return bool(self.value("driver.enabled", True))

    @property
    def per_pool_driver(self) -> bool:
        """Whether NVIDIADriver resources give each pool of nodes its own driver."""
        return bool(self.value("driver.nvidiaDriverCRD.enabled", False))

    @functools.cached_property
    def line(self) -> OperatorLine | None:
        """The data of the operator's release line: the newest line without a version, or None for an unknown line."""
        return line_of(self.operator_version)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state of the cluster, read in one pass of requests."""

    version: str
    nodes: list[Json]
    daemonsets: list[Json]
    operators: list[Json]
    """Deployments of GPU Operators in any namespace."""
    clusterpolicies: list[Json]
    gpuclusters: list[Json]
    namespace: Json | None
    missing_permissions: list[str] = dataclasses.field(default_factory=list)
    ungranted: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """For each RBAC role of the chart, the permissions in it that the user does not have."""
    api_groups: frozenset[str] = frozenset()
    """The groups that the API server has, as far as they are known."""
    unreadable: frozenset[str] = frozenset()
    """Names of the collections that this user may not list. Their fields here are empty."""

    @functools.cached_property
    def nfd_ran(self) -> bool:
        """Whether Node Feature Discovery has labelled any node."""
        return any(has_nfd_labels(node) for node in self.nodes)

    @functools.cached_property
    def gpu_nodes(self) -> list[Json]:
        """The nodes that carry an NVIDIA GPU according to the labels of Node Feature Discovery."""
        return [node for node in self.nodes if has_nfd_gpu_label(node)]

    @functools.cached_property
    def candidates(self) -> list[Json]:
        """The GPU nodes.

        While no node is labelled as a GPU node, those with GPUs by the word of their platform, or else all nodes except
        the control plane.
        """
        hinted = [] if self.gpu_nodes else [node for node in self.nodes if says_gpu(node)]
        return self.gpu_nodes or hinted or [node for node in self.nodes if CONTROL_PLANE not in labels_of(node)]

    @property
    def severity(self) -> Level:
        """The level of a difference between candidates. While the GPU nodes are unknown, some may have no GPU."""
        return "failure" if self.gpu_nodes else "warning"

    @property
    def candidates_name(self) -> str:
        """The name of the candidates in a message."""
        return "GPU nodes" if self.gpu_nodes else "Nodes (which of them carry a GPU is not known yet)"
