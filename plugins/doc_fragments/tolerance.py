# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that judge the stack: which GPU nodes count, and how many must be ready."""

    DOCUMENTATION = r"""
options:
  node_selector:
    description:
      - Label selector of Kubernetes, for example C(pool=a,zone in (x,y),!spot). The module judges only the GPU nodes
        that it selects. If it is empty, it judges all of them.
      - A node that is switched off with the label C(nvidia.com/gpu.deploy.operands=false), or that is for virtual
        machines, is always left out. The verdict names all nodes that are left out.
      - With a GPUCluster, the operator ignores the label C(nvidia.com/gpu.deploy.operands), so these nodes count.
    type: str
    default: ""
  exclude_nodes:
    description: Names of nodes to leave out, for example because they are under repair.
    type: list
    elements: str
    default: []
  max_unready:
    description:
      - How many of the judged GPU nodes may be unready when the stack counts as ready, as a number (V(3)) or a
        percentage that is rounded down (V(5%)). The verdict names these nodes.
    type: str
    default: "0"
  min_nodes:
    description:
      - How many GPU nodes must be ready. With V(0), a cluster whose GPU nodes have been scaled down to zero is ready.
    type: int
    default: 1
"""
