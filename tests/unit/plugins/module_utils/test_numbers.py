# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of numbers that a user gives."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _numbers
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording


def test_an_impossible_number_is_refused_by_name() -> None:
    with pytest.raises(GpuOpsError) as e:
        _numbers.refuse_below({"wait_timeout": -1}, wait_timeout=0)
    assert e.value.reason == "Invalid"
    assert e.value.msg == wording("wait_timeout is -1: give 0 or more.")


def test_possible_numbers_and_options_that_are_not_given_pass() -> None:
    _numbers.refuse_below({"wait_timeout": 0, "parallel": 1, "other": None}, wait_timeout=0, parallel=1, other=1)
    with pytest.raises(GpuOpsError) as error:
        _numbers.refuse_below({"parallel": 0}, parallel=1)
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("parallel is 0: give 1 or more.")
