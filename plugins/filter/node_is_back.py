# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_is_back
short_description: Find out whether a node is Ready after the reboot of its host
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A node stays Ready for some time after its host has shut down. If the cluster reported the host's boot ID before
    the reboot, it must therefore report a different boot ID now.
options:
  _input:
    description: List of the host's node, or an empty list if the cluster has no such node.
    type: list
    elements: dict
    required: true
  before:
    description: State before the reboot, with C(boot_id) from the host and C(node_boot_id) from the cluster.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Wait for the node
  kubernetes.core.k8s_info:
    kind: Node
    name: gpu-0001
  register: nodes
  until: nodes.resources | gpuops.nvidia.node_is_back
  retries: 60
  delay: 5
"""

RETURN = r"""
_value:
  description: Whether the node is Ready. Also true if the cluster has no such node.
  type: bool
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import is_ready
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def node_is_back(nodes: list[Json], before: Json | None = None) -> bool:
    """Return whether the node has become Ready since the reboot."""
    return all(is_ready(node) and not _is_from_before_reboot(node, before or {}) for node in nodes)


def _is_from_before_reboot(node: Json, before: Json) -> bool:
    """Return whether boot IDs show that the node's status is from before the reboot."""
    boot_before = before.get("node_boot_id")
    comparable = boot_before and boot_before == before.get("boot_id")
    status = node.get("status") or {}
    return bool(comparable) and (status.get("nodeInfo") or {}).get("bootID") == boot_before


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"node_is_back": node_is_back}
