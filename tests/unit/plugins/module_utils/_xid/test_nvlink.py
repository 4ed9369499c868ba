# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import nvlink


@pytest.mark.parametrize(
    ("registers", "signs"),
    [
        ("0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", {"harmless"}),
        ("0x2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", {"secondary"}),
        ("0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", {"mechanical"}),
        ("0x400000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", {"signal"}),
        ("0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0", {"diagnose"}),
        ("0x0, 0x0, 0x2000, 0x0, 0x0, 0x0, 0x0", {"bug"}),
        ("0x8000000, 0x0, 0x0, 0x40000, 0x100000, 0x0, 0x0", {"repeated bug", "secondary", "harmless"}),
        ("0x30, 0xffffffff, 0x0, 0x0, 0x0, 0x0, 0x0", {"parity"}),
        ("0x80000000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", {"unknown"}),
    ],
)
def test_the_bits_of_four_registers_mean_what_nvidias_workflow_says(registers: str, signs: set[str]) -> None:
    error = nvlink.decode(f"NVLink: fatal error detected on link 10({registers})")
    assert (error.link, error.signs) == (10, signs)


def test_a_message_without_registers_has_no_signs() -> None:
    assert nvlink.decode("pid=1, NVLink: Link training failed for links 0x4") == nvlink.LinkError(0, frozenset())
    assert nvlink.decode("") == nvlink.LinkError(None, frozenset())
