# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: from_cwd
short_description: Make a relative path one from the folder in which Ansible was started
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Local tasks run in the folder of the playbook. For a playbook of a collection, that is the installed collection,
    which is the wrong place for a report or a kubeconfig.
  - Only a path below the folder in which Ansible was started changes. An absolute path, a path that begins with
    C(~), text of several lines and values of other types stay as they are.
options:
  _input:
    description: A path, or what a variable may have instead of one, such as the content of a kubeconfig.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Write a report where the user expects it
  ansible.builtin.copy:
    content: "{{ report }}"
    dest: "{{ 'reports/gpu.xml' | gpuops.nvidia.from_cwd }}"
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The absolute path, or the input.
  type: raw
"""

import os
import typing as t


def from_cwd(value: t.Any) -> t.Any:
    """Return the absolute path of a relative one, and anything else as it is."""
    is_relative = isinstance(value, str) and value != "" and not value.startswith(("/", "~", "{")) and "\n" not in value
    return os.path.abspath(value) if is_relative else value


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"from_cwd": from_cwd}
