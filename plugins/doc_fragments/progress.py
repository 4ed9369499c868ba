# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option of the modules that print their progress while they run."""

    DOCUMENTATION = r"""
options:
  progress_path:
    description:
      - File on the machine that runs the module. The module appends a line to it whenever its progress changes.
      - Without this option, the controller prints these lines if it runs the module itself (connection V(local)).
    type: path
"""
