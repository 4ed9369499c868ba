# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: other_run
short_description: "Plumbing of the role preflight: say which other run changes a host"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - The role C(host_change) keeps a record on a host from before the drain until the node is back. The record names the
    run, by its machine and its process there.
  - A run on this machine is active as long as its process exists. A run on another machine is assumed active for an
    hour after its last write.
positional: _input, host
options:
  _input:
    description: The text of the record, C(files.change) of M(gpuops.nvidia.gpu_facts). Empty or null without one.
    type: str
    required: true
  host:
    description: The name of the host, for the sentence.
    type: str
    required: true
  take_over:
    description: Whether this run resumes the change of the other one.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Stop if another run changes the host
  ansible.builtin.assert:
    that: other == ''
    fail_msg: "{{ other }}"
  vars:
    other: "{{ gathered.ansible_facts.gpuops.files.change | gpuops.nvidia.other_run(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: A sentence with the run and what to do, or an empty string without another active run.
  type: str
  sample: >-
    Another run changes gpu1: process 4711 on controller-1, which was last seen at 2026-03-01T12:00:00Z (stage reboot).
    Wait until it has ended. If it was killed, set host_change_take_over to true.
"""

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _runs


def other_run(text: str | None, host: str, take_over: bool = False) -> str:
    """Return which other run changes a host and what to do, or an empty string."""
    return _runs.refusal(host, json.loads(text) if text else {}, take_over)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"other_run": other_run}
