#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: explain
short_description: Name the cause in a log, a description, a ticket or a must-gather
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Applies the rules of the diagnosis to a saved or pasted text, without a cluster or a host.
  - It reads kernel logs (C(dmesg), C(journalctl)), logs of pods, C(kubectl describe), C(kubectl get pods) and
    C(kubectl get events), objects in YAML or JSON, C(nvidia-smi -q), C(nvidia-bug-report.log.gz), tickets in Markdown,
    folders and archives of C(oc adm must-gather) and of the operator's C(must-gather.sh), and bundles of evidence.
  - Skips links and files that may contain secrets, and reads archives in memory.
  - It runs on the controller. If the text is on another host, fetch it first.
extends_documentation_fragment:
  - gpuops.nvidia.read_only
options:
  path:
    description: A file, a folder or an archive (C(tar), C(zip), C(gz), C(bz2) or C(xz)) on the controller.
    type: path
  text:
    description: The text itself, instead of O(path) or with it.
    type: str
  limit_mib:
    description:
      - How much is read of each file. Of a longer file, the beginning and the end are read, half of this size each.
      - In all, 16 times as much is read, and at most 5000 files.
    type: int
    default: 64
seealso:
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Explain a must-gather
  gpuops.nvidia.explain:
    path: must-gather.tar.gz
  register: explained

- name: Show the causes
  ansible.builtin.debug:
    msg: "{{ explained.text.split('\n') }}"

- name: Explain a line of a kernel log
  gpuops.nvidia.explain:
    text: "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
"""

RETURN = r"""
findings:
  description:
    - The causes, the most severe first. It is empty if no rule matches.
    - C(certainty) is V(certain) if only this cause leaves this evidence, V(likely) if other causes are rare, and
      V(possible) if they are as common. C(quotes) are the lines themselves, C(consequences) the findings that follow
      from the cause, and C(tell_apart) says how to tell it from other causes of the same evidence.
  returned: success
  type: list
  elements: dict
  sample:
    - code: NouveauHoldsGPU
      title: nouveau holds the GPU
      severity: failure
      certainty: likely
      cause: The kernel's own driver nouveau holds the GPU, so NVIDIA's driver cannot take it.
      remedy: Run the role host_prep, which keeps nouveau from loading, and reboot.
      nodes: [gpu-0001]
      objects: []
      quotes:
        - text: "NVRM: the NVIDIA probe routine, such as: nouveau, rivafb, nvidiafb or rivatv"
          source: kernel log
          node: gpu-0001
      consequences: []
      tell_apart: []
      url: https://gpuops.github.io/gpuops.nvidia/main/reference/findings.html#nouveauholdsgpu
text:
  description: The causes, what to do, and what was not read, in words for a terminal.
  returned: success
  type: str
  sample: "1. FAILURE: nouveau holds the GPU"
read:
  description: What was read, the number of bytes or characters, and what was found in it beside lines of logs.
  returned: success
  type: list
  elements: dict
  sample:
    - name: must-gather/gpu_operand_pods.yaml
      size: 182311
      found: [Pod (12)]
left_out:
  description: What was not read, and why.
  returned: success
  type: list
  elements: dict
  sample:
    - name: must-gather/core/secrets.yaml
      why: It may hold secrets.
gaps:
  description: What a bundle of evidence lacks, and what the rules could not look at.
  returned: success
  type: list
  elements: dict
  sample:
    - what: pods in gpu-operator
      why: "No permission: pods is forbidden."
summary:
  description: The number of findings at each level, and of nodes.
  returned: success
  type: dict
  sample:
    {failures: 1, warnings: 0, notes: 0, gaps: 0, nodes: 1, nodes_affected: 1, verdict: null}
taken:
  description: When a bundle of evidence was taken, or an empty string.
  returned: success
  type: str
  sample: "2026-11-23T12:00:00Z"
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "path": {"type": "path"},
        "text": {"type": "str"},
        "limit_mib": {"type": "int", "default": 64},
    },
    required_one_of=[("path", "text")],
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: explain(module.params), libraries={"PyYAML": HAS_YAML})


if __name__ == "__main__":
    main()
