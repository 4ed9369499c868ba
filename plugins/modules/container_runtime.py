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
  - Does not restart the container runtime, which must read its configuration again.
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
  when: containerd is changed
"""

RETURN = r"""
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.container_runtime import configure
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {
    "name": {"type": "str", "choices": ["containerd", "crio", "docker"], "required": True},
    "default": {"type": "bool", "default": False},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=OPTIONS, supports_check_mode=True)
    try:
        result = configure(Host(), module.params, module.check_mode)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
