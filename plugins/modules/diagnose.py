#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: diagnose
short_description: Name the causes of what is wrong with a GPU stack, with their evidence and remedies
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Reads the cluster once. That is the verdict on the stack, the preflight checks, the failing pods with their logs and
    events, and the pods that wait for a GPU. Adds the facts of the GPU hosts, if O(hosts) is given. Compares all of it
    with the published failures of NVIDIA's stack, and names the causes, each with its consequences.
  - The same cause on many nodes is one finding. With the findings of the last run, the module says which ones are new
    and which are gone.
  - What it could not see is a gap, for example a kind of object that this user may not read. It reports everything
    else. The module fails only if the cluster does not answer and O(hosts) is empty. Findings alone do not make it
    fail.
  - Secrets are masked in everything that is returned.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.stack
  - gpuops.nvidia.evidence
  - gpuops.nvidia.tolerance
  - gpuops.nvidia.read_only
options:
  last:
    description: The findings of the last run, to compare with.
    type: list
    elements: dict
  last_path:
    description:
      - A JSON file with the findings of the last run, or with the whole result. The module only reads it. Without such
        a file, it leaves out the comparison.
    type: path
  evidence_path:
    description:
      - A bundle of evidence that O(bundle_path) has written, as an archive or as the folder in it. The module examines
        this evidence instead of the cluster and of O(hosts).
      - M(gpuops.nvidia.explain) reads bundles, too, and does not compare them with the last run.
    type: path
    default: ""
  bundle_path:
    description:
      - A file to write the evidence and the findings to, as one archive that may be sent to a vendor. Its folder must
        exist. Only the user who runs the module can read it, and secrets are masked.
      - Writing it does not count as a change. In check mode, it is not written.
    type: path
    default: ""
  bundle_max_mib:
    description: Maximum size of the archive's content, in MiB. Evidence that findings quote is kept longest.
    type: int
    default: 50
seealso:
  - module: gpuops.nvidia.gpu_stack_info
  - module: gpuops.nvidia.host_evidence_info
"""

EXAMPLES = r"""
- name: Find out what is wrong
  gpuops.nvidia.diagnose:
  register: diagnosis

- name: Show it
  ansible.builtin.debug:
    msg: "{{ diagnosis.text.splitlines() }}"

- name: Join the facts of the hosts
  gpuops.nvidia.diagnose:
    hosts: "{{ dict(groups['gpu_hosts'] | zip(groups['gpu_hosts'] | map('extract', hostvars, 'gpu_evidence'))) }}"
    last_path: /var/lib/gpuops/diagnosis.json
"""

RETURN = r"""
bundle:
  description: Path of the archive with the evidence, or null.
  returned: success
  type: str
  sample: /srv/tickets/gpu-cluster.tar.gz
findings:
  description:
    - The causes, the most severe first. Empty if the module found no problem.
    - C(code) names the cause, and C(url) leads to the page that explains it. C(severity) is V(failure), V(warning) or
      V(ok), which is a note. C(certainty) is V(certain) (only this cause leaves this evidence), V(likely) (other causes
      are rare) or V(possible) (other causes are as common).
    - C(quotes) are the first pieces of evidence. C(consequences) are the findings that follow from the cause.
      C(tell_apart) says how to tell the cause from others that the same evidence supports.
  returned: success
  type: list
  elements: dict
  sample:
    - code: NouveauHoldsGPU
      title: nouveau holds the GPU
      severity: failure
      certainty: certain
      cause: The kernel's own driver nouveau holds the GPU, so NVIDIA's driver cannot take it.
      remedy: >-
        Run playbooks/site.yml: its role host_prep keeps the kernel's own drivers from loading, and the host reboots if
        host_change_allowed permits it.
      nodes: [gpu-0003]
      objects: []
      quotes:
        - {text: "nouveau.loaded: true", source: facts of the host, node: gpu-0003}
      consequences:
        - {code: OperandWaiting, title: An operand is not ready, nodes: [gpu-0003]}
      tell_apart: []
      url: https://gpuops.github.io/gpuops.nvidia/main/reference/findings.html#nouveauholdsgpu
changes:
  description:
    - What differs from the last run, or null without a last run. C(new) and C(gone) are titles of
      findings, and C(known) is the number of the others.
  returned: success
  type: dict
  sample: {new: [nouveau holds the GPU], gone: [], known: 2}
gaps:
  description: What could not be seen, and why.
  returned: success
  type: list
  elements: dict
  sample:
    - what: events in gpu-operator
      why: "No permission: events is forbidden: User \"viewer\" cannot list resource \"events\"."
summary:
  description:
    - How many findings there are of each severity, and on how many GPU nodes. C(verdict) is that of
      M(gpuops.nvidia.gpu_stack_info), V(unknown) if a part of the stack could not be read, or null without a cluster.
  returned: success
  type: dict
  sample: {failures: 1, warnings: 0, notes: 0, gaps: 1, nodes: 4, nodes_affected: 1, verdict: progressing}
taken:
  description: When the evidence was collected, by the clock of the API server.
  returned: success
  type: str
  sample: "2026-11-23T12:00:00Z"
text:
  description: The findings, the gaps and the totals in the form that a person reads in a terminal.
  returned: success
  type: str
  sample: |-
    1. FAILURE: nouveau holds the GPU
       Where:  gpu-0003
       Why:    The kernel's own driver nouveau holds the GPU, so NVIDIA's driver cannot take it.
       Seen:   nouveau.loaded: true [facts of the host on gpu-0003]
       Do:     Run playbooks/site.yml: its role host_prep keeps the kernel's own drivers from loading, and
               the host reboots if host_change_allowed permits it.
       Sure:   certain: only this cause leaves this evidence
       Effect: An operand is not ready (gpu-0003)
       Page:   https://gpuops.github.io/gpuops.nvidia/main/reference/findings.html#nouveauholdsgpu

    1 failure, 0 warnings, 0 gaps.
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import diagnose
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "last": {"type": "list", "elements": "dict"},
        "last_path": {"type": "path"},
        "evidence_path": {"type": "path", "default": ""},
        "bundle_path": {"type": "path", "default": ""},
        "bundle_max_mib": {"type": "int", "default": 50},
    },
).including(CONNECTION, diagnose.SPEC)


def main() -> t.NoReturn:
    run(SPEC, lambda module: diagnose.diagnose(module.params, module.check_mode))


if __name__ == "__main__":
    main()
