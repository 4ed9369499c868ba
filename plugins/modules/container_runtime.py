#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: container_runtime
short_description: Add NVIDIA's runtime to the configuration of a container runtime
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Runs C(nvidia-ctk runtime configure) if the configuration, with all files that it imports, lacks NVIDIA's runtime.
  - Leaves the restart of the container runtime, which applies the new configuration, to its caller. A mark in
    C(/var/lib/gpuops/restarts) stays until the caller removes it, so that a later run finds a restart that was cut
    off.
attributes:
  check_mode:
    description:
      - Shows what C(nvidia-ctk) itself would write. If the container toolkit is not installed yet, says that it will
        add the runtime.
    support: full
  diff_mode:
    description: Shows the files that change.
    support: full
options:
  name:
    description: The container runtime. k3s, RKE2 and MicroK8s configure theirs themselves.
    type: str
    choices: [containerd, crio, docker]
    required: true
  default:
    description: Make NVIDIA's runtime the default. V(false) leaves the default as it is.
    type: bool
    default: false
requirements:
  - NVIDIA Container Toolkit on the host
seealso:
  - module: gpuops.nvidia.driver_packages
  - module: gpuops.nvidia.gpu_facts
"""

EXAMPLES = r"""
- name: Let containerd run GPU containers
  gpuops.nvidia.container_runtime:
    name: containerd
  register: containerd

- name: Restart containerd
  ansible.builtin.systemd_service:
    name: containerd.service
    state: restarted
  when: containerd.restart

- name: Forget that containerd had to be restarted
  ansible.builtin.file:
    path: /var/lib/gpuops/restarts/containerd.service
    state: absent
"""

RETURN = r"""
restart:
  description: Whether the container runtime has to be restarted, for this change or for one of a run that was killed.
  returned: success
  type: bool
  sample: true
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.container_runtime import configure
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "name": {"type": "str", "choices": ["containerd", "crio", "docker"], "required": True},
        "default": {"type": "bool", "default": False},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: configure(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
