# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.address import normal_address


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("0000:18:00.0", "0000:18:00.0"),
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("00000009:01:00.0", "0009:01:00.0"),
        ("0000:03:00", "0000:03:00.0"),
        ("03:00.1", "0000:03:00.1"),
        ("nonsense", "nonsense"),
    ],
)
def test_addresses_have_one_form(written: str, address: str) -> None:
    assert normal_address(written) == address
