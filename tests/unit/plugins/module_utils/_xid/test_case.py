# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.cases import judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import from_lines


def test_a_case_names_its_error_and_all_of_its_codes() -> None:
    lines = [f"NVRM: Xid (PCI:0000:9b:00): {code}, x" for code in (45, 48, 45, 63)]
    (case,) = judge(from_lines("gpu-1", lines))
    assert (case.name, case.codes) == ("Xid 48 of 0000:9b:00.0", (45, 48, 63))
    (switch,) = judge(from_lines("gpu-1", ["nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 3"]))
    assert switch.name == "SXid 20034 of 0000:c1:00.0"
