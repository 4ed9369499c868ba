# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated library for the tests of this folder."""

from __future__ import annotations

from tests.support.nvml import nvml, nvml_library

__all__ = ["nvml", "nvml_library"]
