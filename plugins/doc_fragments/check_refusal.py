# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What check mode does where a run would refuse to go on; spec in module_utils/_check_refusal.py."""

    DOCUMENTATION = r"""
options:
  check_refusal:
    description:
      - In check mode, what to do if a run would stop because of a finding or a missing permission.
      - V(fail) fails as the run would, so that a gate can rest on the status of a check. V(warn) shows a warning, and
        predicts the rest as if the run went on.
      - Outside of check mode it has no effect.
    type: str
    choices: [fail, warn]
    default: fail
    version_added: 0.1.0
"""
