# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import NEWEST


def test_lines_compare_as_numbers() -> None:
    older, newer = (dataclasses.replace(NEWEST, name=name) for name in ("26.7", "26.10"))
    assert older.number == (26, 7) and older.number < newer.number
