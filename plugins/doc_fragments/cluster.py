# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Requirements of all modules that talk to Kubernetes, besides the options of kubernetes.core.k8s_auth_options."""

    DOCUMENTATION = r"""
options: {}
requirements:
  - kubernetes >= 29.0.0
"""
