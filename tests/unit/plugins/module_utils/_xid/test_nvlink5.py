# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import nvlink5
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.nvlink5 import Decoded, decode


def message(unit: str, info: int, status: int, severity: str = "Nonfatal") -> str:
    return f"{unit} {severity} XC0 i0 Link 03 (0x{info:08x} 0x{status:08x} 0x00000000 0x00000000 0x00000000 0x00000000)"


@pytest.mark.parametrize(
    ("code", "unit", "info", "status", "action"),
    [
        (144, "SAW_MVB", 0x21, 0x1, "IGNORE"),
        (144, "SAW_MVB", 0x21, 0x2, "RESET_GPU"),
        (144, "SAW_MVB", 0x21, 0x5, "IGNORE"),
        (144, "SAW_MVB", 0x21, 0x6, "RESET_GPU"),
        (145, "RLW_REMAP", 0x82, 0x20, "XID_154_EVAL"),
        (145, "RLW_SRC_TRACK", 0x040988E2, 0x8, "XID_154_EVAL"),
        (146, "TLW_RX_PIPE1", 0x0B, 0x4, "RESET_GPU"),
        (147, "TREX", 0x184, 0x80000000, "IGNORE"),
        (148, "NVLPW", 0x0F, 0x80000000, "IGNORE"),
        (149, "NETIR", 0x000FE406, 0x0, "RESET_GPU"),
        (149, "NETIR_LINK_EVT", 0x021425C6, 0x0, "RESET_GPU"),
        (149, "NETIR_LINK_DOWN", 38 << 20 | 0x11, 0x0, "IGNORE"),
        (149, "NETIR_BER_EVENT", 0x00086226, 0x1, "IGNORE"),
        (149, "NETIR_MFDE_EVENT", 0x14, 0x3, "IGNORE"),
        (149, "NETIR_MFDE_EVENT", 0x14, 0x5, "RESET_GPU"),
        (150, "MSE_WATCHDOG", 0x0, 0x0, "RESET_GPU"),
    ],
)
def test_each_unit_is_decoded_as_in_nvidias_table(code: int, unit: str, info: int, status: int, action: str) -> None:
    decoded = decode(code, message(unit, info, status), None)
    assert decoded and decoded.action == action


def test_the_driver_may_promote_an_error_and_says_so_in_another_bit_since_r575() -> None:
    before, since = 0x0C2 | 1 << 10, 0x06 | 1 << 7
    assert decode(145, message("RLW_RXPIPE", before, 1), 570) == Decoded("RESET_GPU", "CONTACT_SUPPORT")
    assert decode(145, message("RLW_RXPIPE", since, 1), 580) == Decoded("RESET_GPU", "CONTACT_SUPPORT")
    for info, branch in ((since, 570), (0x0C2, None), (0x06, None)):
        assert decode(145, message("RLW_RXPIPE", info, 1), branch) == Decoded("IGNORE", "CONTACT_SUPPORT")
    # Without the driver's version, the register shows which layout it has.
    assert decode(145, message("RLW_RXPIPE", before, 1), None) == Decoded("RESET_GPU", "CONTACT_SUPPORT")
    assert decode(145, message("RLW_RXPIPE", since, 1), None) == Decoded("RESET_GPU", "CONTACT_SUPPORT")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (144, message("NETIR", 0, 0)),
        (149, message("NETIR_LINK_EVT", 63 << 20, 0)),
        (149, message("NETIR_MFDE_EVENT", 0x14, 2)),
        (145, "RLW_REMAP Nonfatal XC0 i0 Link 03"),
        (145, ""),
    ],
)
def test_what_the_table_does_not_have_is_not_decoded(code: int, text: str) -> None:
    assert decode(code, text, None) is None


def test_the_process_may_stand_before_the_unit() -> None:
    text = "pid=876767, name=ray::WorkerDict, " + message("RLW_RXPIPE", 0x0409A0C2, 0x8)
    assert decode(145, text, None) == Decoded("IGNORE", "CONTACT_SUPPORT")


def test_the_table_has_all_rows_of_the_catalog() -> None:
    # Two units have one row for any error. Names with a slash and the two pipes share their rows.
    rows = dict.fromkeys(range(144, 151), 0)
    for (code, name), unit in nvlink5._UNITS.items():
        if name not in ("TLW_RX", "TLW_TX", "NVLPW", "NETIR_INT", "NETIR_LINK_DOWN"):
            rows[code] += sum(max(len(values), 1) for values in unit.rows)
    assert rows == {144: 6, 145: 33, 146: 20, 147: 2, 148: 1, 149: 31, 150: 2}
    assert sum(rows.values()) == 95
