#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Write a page that shows the whole GPU fleet
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Reads the cluster once, as M(gpuops.nvidia.diagnose) does, and writes one HTML page. It shows every GPU node by its
    state, its GPUs with their MIG instances and shares, who holds them, what is wrong and what to do, versions and
    drift, and what has changed since the page was last written.
  - The page is a single file that contains everything it needs. It can be read offline, by keyboard, with a screen
    reader and on paper, and has a light and a dark theme.
  - The controller writes the page, even if another host talks to the cluster. The result has only its path and its
    totals.
  - The page contains names of nodes, namespaces and pods, lines of logs, and versions. Secrets are masked.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.stack
  - gpuops.nvidia.evidence
  - gpuops.nvidia.usage
  - gpuops.nvidia.tolerance
attributes:
  action:
    description: The page is written by an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
    details: The result has the changes of the fleet in words.
options:
  path:
    description:
      - The file on the controller. It is replaced in one step. Its folder is created if it does not exist.
      - If it already has a page of this module, the new page says what has changed since.
    type: path
    required: true
  title:
    description: Name of the fleet, for the page's title.
    type: str
    default: GPU fleet
  mode:
    description: Permissions of the file, as an octal number in quotes.
    type: str
    default: "0600"
  usage:
    description:
      - Also say how much the GPUs are used, by whom, and which ones are idle. It is read from O(prometheus) if that is
        given, or else from the exporters, as M(gpuops.nvidia.gpu_metrics_info) does.
      - What cannot be read is named among the gaps. The exporters take the verbs C(get) and C(create) on
        C(pods/portforward) in the operator's namespace.
      - It is on if O(prometheus) is given.
    type: bool
    default: false
seealso:
  - module: gpuops.nvidia.diagnose
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Write the page
  gpuops.nvidia.fleet_report:
    path: reports/fleet.html
    title: Production
  register: report

- name: Say what has changed since the last page
  ansible.builtin.debug:
    msg: "{{ report.changes }}"
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /home/ada/reports/fleet.html
size:
  description: Size of the file in bytes.
  returned: success
  type: int
  sample: 1949637
summary:
  description: The fleet in numbers, and how many findings of each severity there are.
  returned: success
  type: dict
  sample:
    headline: 982 of 1,000 GPU nodes are in service.
    nodes: 1000
    nodes_in_service: 982
    failures: 2
    warnings: 2
    notes: 0
    gaps: 1
changes:
  description:
    - What differs from the last page, in words, at most 60 sentences. If only the time differs, the changes that the
      last page has shown.
  returned: success
  type: list
  elements: str
  sample: ["gpu-0003: state In service \u2192 Failing."]
since:
  description: When the last page was made, or null for the first page.
  returned: success
  type: str
  sample: "2026-11-22T12:00:00Z"
changed:
  description: Whether the page differs from the last one in more than the time.
  returned: always
  type: bool
  sample: true
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import picture
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = CONNECTION.including(picture.SPEC)


def main() -> t.NoReturn:
    # The action plugin of this name takes it out of the result, and writes the page.
    run(SPEC, lambda module: {"picture": picture.picture(module.params)}, secrets=("prometheus",))


if __name__ == "__main__":
    main()
