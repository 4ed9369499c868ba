# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of the modules that only read."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Can run in check mode and returns the same result as a run.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
    details: This module only reads.
"""
