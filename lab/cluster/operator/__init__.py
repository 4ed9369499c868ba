# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator of a lab: a stand-in for NVIDIA's GPU Operator, and its chart."""

from __future__ import annotations

from pathlib import Path

CHART = Path(__file__).parent / "chart" / "gpu-operator"
