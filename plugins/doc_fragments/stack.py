# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options that name a GPU stack. An empty one is found in the cluster (_cluster/readiness/observe.py)."""

    DOCUMENTATION = r"""
options:
  name:
    description: Name of the ClusterPolicy. If it is empty, the module takes the oldest one, which the operator serves.
    type: str
    default: ""
  namespace:
    description:
      - Namespace of the operator, where the operands run. If it is empty, the one in the ClusterPolicy's status.
    type: str
    default: ""
"""
