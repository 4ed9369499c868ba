# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Kubernetes control plane with simulated GPU nodes. README.md in this folder describes it."""

from __future__ import annotations

from lab.cluster.lab import Lab, LabError, Options

__all__ = ["Lab", "LabError", "Options"]
