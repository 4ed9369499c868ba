#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_evidence_info
short_description: "Plumbing of the role diagnose: collect from a GPU host what a diagnosis needs beyond its facts"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Reads the lines of the kernel log and of the journals of services that matter for GPUs, and the state of services,
    container runtimes and processes. The results go into O(gpuops.nvidia.diagnose#module:hosts).
  - Ends within a few times O(timeout) even if the driver hangs, because it leaves the driver alone.
  - Only reads, works with the host's own Python without further packages, and hides secrets. Run it as root, because
    other users cannot see all of the evidence.
extends_documentation_fragment:
  - gpuops.nvidia.read_only
options:
  timeout:
    description: Seconds that each command may take. The field of a command that does not answer is null, and
      C(state.sources) says why.
    type: int
    default: 5
  max_lines:
    description: How many lines to return of the kernel log, and of the journal of each service. The newest lines are
      kept.
    type: int
    default: 200
seealso:
  - module: gpuops.nvidia.gpu_facts
  - module: gpuops.nvidia.diagnose
"""

EXAMPLES = r"""
- name: Gather the facts
  gpuops.nvidia.gpu_facts:

- name: Collect what a diagnosis needs beyond the facts
  gpuops.nvidia.host_evidence_info:
  register: evidence

- name: Name the processes that hang in the driver
  ansible.builtin.debug:
    var: evidence.state.stuck
"""

RETURN = r"""
state:
  description: The state of the host. A field is null if it is unknown.
  returned: success
  type: dict
  contains:
    stuck:
      description: >-
        The processes that did not leave the kernel for a second. V(nvidia) is whether the driver holds them, as their
        kernel stack says, or if their open files say so.
      type: list
      elements: dict
      sample:
        - {pid: 4711, name: nvidia-smi, wchan: "", stack: ["os_acquire_rwlock_read [nvidia]"], nvidia: true}
    services:
      description: The services that exist, with systemd's words.
      type: dict
      sample:
        nvidia-fabricmanager.service:
          {load: loaded, active: failed, sub: failed, result: exit-code, restarts: 3, enabled: enabled}
    dkms:
      description: The modules that dkms has. V(kernel) is null for source that was not built.
      type: list
      elements: dict
      sample: [{module: nvidia, version: 580.95.05, kernel: 6.8.0-60-generic, state: installed}]
    mok_pending:
      description: Whether a key for secure boot waits for the next boot to be enrolled.
      type: bool
      sample: false
    runtimes:
      description: >-
        The configuration files of container runtimes. V(nvidia_from) are the files that define the handler nvidia,
        V(not_imported) those that define it and are not read, and V(fixed_templates) the templates of k3s or RKE2
        without expressions.
      type: list
      elements: dict
      sample:
        - name: containerd
          distribution: null
          config: /etc/containerd/config.toml
          handlers: {runc: null, nvidia: /usr/local/nvidia/toolkit/nvidia-container-runtime}
          nvidia_from: [/etc/containerd/conf.d/99-nvidia.toml]
          not_imported: []
          fixed_templates: []
          cni_bin_dirs: [/opt/cni/bin]
          systemd_cgroup: true
    cgroups:
      description: The version of cgroups, and how the kubelet manages them if its files say so.
      type: dict
      sample: {version: 2, kubelet: systemd}
    links_missing:
      description: The driver's device files without a link below /dev/char. Without these, containers can lose GPUs
        when systemd reloads its units.
      type: list
      elements: str
      sample: []
    driver_gpus:
      description: The PCI addresses of the GPUs that the driver has, or null without a driver.
      type: list
      elements: str
      sample: ["0000:18:00.0"]
    selinux:
      description: V(enforcing), V(permissive) or V(disabled).
      type: str
      sample: disabled
    sources:
      description: Why a field is null, and under C(kernel_log) why the kernel log could not be read.
      type: dict
      sample: {dkms: dkms is not installed}
lines:
  description: >-
    Lines of logs, the oldest of each source first. Of kernel lines that differ only in numbers, only the newest few.
  returned: success
  type: list
  elements: dict
  sample:
    - text: "2026-11-20T04:12:09+00:00 kernel: NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0x40:2168)"
      kind: kernel
      source: kernel log
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import collect
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "timeout": {"type": "int", "default": 5},
        "max_lines": {"type": "int", "default": 200},
    },
)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: collect.collect(
            Host(timeout_s=module.params["timeout"]), module.params["timeout"], module.params["max_lines"]
        ),
        minimums={"timeout": 1, "max_lines": 1},
    )


if __name__ == "__main__":
    main()
