# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import kernel_lines


def test_of_lines_that_differ_in_numbers_the_newest_few_are_kept() -> None:
    storm = [f"2026-11-20T04:{i:02}:09+00:00 kernel: NVRM: Xid (PCI:0000:18:00): 13, pid={i}" for i in range(60)]
    other = "2026-11-20T03:00:00+00:00 kernel: NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0x40:2168)"
    assert kernel_lines.chosen("\n".join([other, *storm]), 100) == [other, *storm[-kernel_lines.PER_SHAPE :]]
    assert kernel_lines.chosen("\n".join([other, *storm]), 2) == storm[-2:]


def test_lines_of_other_drivers_are_left_out_and_long_ones_are_cut() -> None:
    text = "[  1.0] e1000e: eth0 NIC Link is Up\n[  2.0] NVRM: " + "x" * 5000
    (line,) = kernel_lines.chosen(text, 10)
    assert line.startswith("[  2.0] NVRM: xxx") and len(line) == kernel_lines.KERNEL_LINE_LENGTH


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        (
            "2026-11-20T04:12:09+00:00 gpu-4 kernel: NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0x40:2168)",
            "NVRM: GPU #:#:#.#: RmInitAdapter failed! (#:#:#)",
        ),
        ("[  101.287612] NVRM: GPU6 _kgspBootGspRm: unexpected WPR2", "NVRM: GPU6 _kgspBootGspRm: unexpected WPR2"),
        ("Nov 20 04:12:09 gpu-4 kernel: [   12.3] pcieport 0000:00:03.1: gone", "pcieport #:#:#.#: gone"),
    ],
)
def test_the_shape_of_a_line(line: str, shape: str) -> None:
    assert kernel_lines.shape_of(line) == shape
