# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: pool_parts
short_description: Take declared pools apart into what each module takes
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Takes declared pools apart, into what M(gpuops.nvidia.gpu_pools) takes, and what other modules take.
options:
  _input:
    description: The pools, as in O(gpuops.nvidia.pools#role:main:pools_declared).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Taint the nodes of all pools
  gpuops.nvidia.node_taints:
    taints: "{{ (pools_declared | gpuops.nvidia.pool_parts).taints }}"
"""

RETURN = r"""
_value:
  description: The parts.
  type: dict
  contains:
    pools:
      description: The pools for M(gpuops.nvidia.gpu_pools).
      type: list
      elements: dict
    layouts:
      description: The MIG layouts with their nodes, for M(gpuops.nvidia.mig_config).
      type: list
      elements: dict
    taints:
      description: The taints with their nodes, for M(gpuops.nvidia.node_taints).
      type: list
      elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

Pool = dict[str, t.Any]

_WHERE = ("nodes", "node_selector")
_OTHERS = ("taints",)
"""What other modules than gpu_pools do."""


def pool_parts(pools: t.Any) -> dict[str, list[Pool]]:
    """Return what each part of the collection makes of pools."""
    if not isinstance(pools, list) or not all(isinstance(pool, dict) for pool in pools):
        raise AnsibleFilterError("pools_declared must be a list of pools, each a mapping with a name and its nodes.")
    for pool in pools:
        taints = pool.get("taints") or []
        if not isinstance(taints, list) or not all(isinstance(taint, dict) for taint in taints):
            raise AnsibleFilterError(
                f"Pool {pool.get('name')}: taints must be a list of mappings, each with key, value and effect."
            )
    return {
        "pools": [{key: value for key, value in pool.items() if key not in _OTHERS} for pool in pools],
        "layouts": [{"layout": pool["mig_layout"], **_where(pool)} for pool in pools if pool.get("mig_layout")],
        "taints": [{**taint, **_where(pool)} for pool in pools for taint in pool.get("taints") or []],
    }


def _where(pool: Pool) -> Pool:
    return {key: pool[key] for key in _WHERE if pool.get(key) is not None}


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"pool_parts": pool_parts}
