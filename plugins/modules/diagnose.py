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
  - Reads the cluster once. That is the verdict on the stack, the preflight checks, the pods in trouble with their logs
    and events, and the pods that wait for a GPU. Joins what the GPU hosts say, if O(hosts) is given. Compares all of
    it with the published failures of NVIDIA's stack, and names the causes. What follows from a cause is listed with it.
  - The same cause on many nodes is one finding. Findings of the last run tell which ones are new and which are gone.
  - What could not be seen is a gap, for example a kind of object that this user may not read. The rest is reported all
    the same. The module fails only if the cluster does not answer and no hosts are given. It never fails because of a
    finding.
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
      - A JSON file with the findings of the last run, or with the whole result. It is only read. Without such a file,
        nothing is compared.
    type: path
  evidence_path:
    description:
      - A bundle of evidence that O(bundle_path) has written, as an archive or as the folder in it. Its evidence is
        examined in place of the cluster and of O(hosts), which are not asked.
      - M(gpuops.nvidia.explain) reads bundles, too, and does not compare them with the last run.
    type: path
    default: ""
  bundle_path:
    description:
      - A file to write the evidence and the findings to, as one archive that may be sent to a vendor. Its folder must
        exist. Only the user who runs the module can read it, and it holds no secrets.
      - Writing it does not count as a change. In check mode, it is not written.
    type: path
    default: ""
  bundle_max_mib:
    description: Limit of what is in the archive, in MiB. What findings quote is left out last.
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
    - The causes, the most severe first. Empty if nothing is wrong with what could be seen.
    - C(code) names the cause, and C(url) leads to the page that explains it. C(severity) is V(failure), V(warning) or
      V(ok), which is a note. C(certainty) is V(certain) (nothing else makes this evidence), V(likely) (other causes are
      rare) or V(possible) (other causes are as common).
    - C(quotes) are the first pieces of evidence. C(consequences) are what follows from the cause. C(tell_apart) says
      how to tell the cause from others that the same evidence supports.
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
      url: https://github.com/gpuops/gpuops.nvidia/blob/main/docs/reference/findings.md#nouveauholdsgpu
changes:
  description:
    - What differs from the last run, or null if there is none to compare with. C(new) and C(gone) are titles of
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
       Sure:   certain: nothing else makes this evidence
       Effect: An operand is not ready (gpu-0003)
       Page:   https://github.com/gpuops/gpuops.nvidia/blob/main/docs/reference/findings.md#nouveauholdsgpu

    1 failure, 0 warnings, 0 gaps.
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import call
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {
    **call.OPTIONS,
    "last": {"type": "list", "elements": "dict"},
    "last_path": {"type": "path"},
    "evidence_path": {"type": "path", "default": ""},
    "bundle_path": {"type": "path", "default": ""},
    "bundle_max_mib": {"type": "int", "default": 50},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True)
    try:
        result = call.diagnose(module.params, module.check_mode)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
