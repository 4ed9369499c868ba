# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: persistenced_dropin
short_description: Write the systemd drop-in with which nvidia-persistenced turns persistence mode on
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Ubuntu's unit starts the daemon with C(--no-persistence-mode), stops it if no unit needs it, and cannot be enabled.
    The drop-in changes only what keeps persistence mode off.
options:
  _input:
    description: The text of the unit C(nvidia-persistenced.service).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Read the unit
  ansible.builtin.slurp:
    src: /usr/lib/systemd/system/nvidia-persistenced.service
  register: unit

- name: Show what the unit lacks
  ansible.builtin.debug:
    msg: "{{ unit.content | b64decode | gpuops.nvidia.persistenced_dropin }}"
"""

RETURN = r"""
_value:
  description: The text of the drop-in, or an empty string if the unit needs none.
  type: str
"""

import re
import typing as t

_HEADER = "# Written by gpuops.nvidia.host_driver: persistence mode is on from boot on.\n"
_OFF = "--no-persistence-mode"


def persistenced_dropin(unit: str) -> str:
    """Return the text of the drop-in."""
    commands = re.findall(r"^\s*ExecStart\s*=\s*(.+?)\s*$", unit, re.MULTILINE)
    parts = []
    if re.search(r"^\s*StopWhenUnneeded\s*=\s*(1|yes|true|on|t|y)\s*$", unit, re.MULTILINE | re.IGNORECASE):
        parts.append("[Unit]\nStopWhenUnneeded=no\n")
    if commands and _OFF in commands[-1].split():
        words = [word for word in commands[-1].split() if word != _OFF]
        parts.append(f"[Service]\nExecStart=\nExecStart={' '.join(words)}\n")
    if not re.search(r"^\s*(WantedBy|RequiredBy)\s*=", unit, re.MULTILINE):
        parts.append("[Install]\nWantedBy=multi-user.target\n")
    return _HEADER + "\n".join(parts) if parts else ""


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"persistenced_dropin": persistenced_dropin}
