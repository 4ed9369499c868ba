# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_is_back
short_description: Tell whether a node is Ready after the reboot of its host
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A node says Ready for some time after its host went down. So where the cluster knew the host's boot before, it must know another one now.
options:
  _input:
    description: The nodes that the cluster has by the host's name, none or one.
    type: list
    elements: dict
    required: true
  before:
    description: What was there before, with C(boot_id) of the host and C(node_boot_id), the cluster's.
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
  description: Whether the node is Ready, or the cluster has none.
  type: bool
"""

import typing as t


def node_is_back(nodes: list[dict[str, t.Any]], before: dict[str, t.Any] | None = None) -> bool:
    """Return whether the node is Ready, of the boot after the reboot."""
    known = before or {}
    for node in nodes:
        status = node.get("status") or {}
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or [])
        comparable = known.get("node_boot_id") and known["node_boot_id"] == known.get("boot_id")
        if not ready or (comparable and (status.get("nodeInfo") or {}).get("bootID") == known["node_boot_id"]):
            return False
    return True


class FilterModule:
    """The filter that this file brings."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"node_is_back": node_is_back}
