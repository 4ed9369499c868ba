# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which way a jump goes. tests/unit/plugins/modules/test_operator_upgrade_info.py runs the whole module."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import assess
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.transitions import Jump


@pytest.mark.parametrize(
    ("older", "newer", "is_back", "direction"),
    [
        ((26, 3, 3), (26, 7, 0), False, "up"),
        ((26, 3, 3), (26, 7, 0), True, "back"),
        ((26, 7, 0), (26, 7, 0), False, "none"),
    ],
)
def test_the_direction(older: tuple[int, ...], newer: tuple[int, ...], is_back: bool, direction: str) -> None:
    assert assess._direction(Jump(older, newer, is_back, ())) == direction
