# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import known_from, known_if, unknown


def test_a_fact_has_a_source_or_a_reason() -> None:
    assert known_from("sysfs") == {"source": "sysfs", "reason": None}
    assert unknown("No such file") == {"source": None, "reason": "No such file"}


@pytest.mark.parametrize("value", [0, False, "", []])
def test_only_none_is_unknown(value: object) -> None:
    assert known_if(value, "sysfs", "No such file") == known_from("sysfs")
    assert known_if(None, "sysfs", "No such file") == unknown("No such file")
