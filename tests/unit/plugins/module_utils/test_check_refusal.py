# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What check mode does where a run would refuse to go on."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


@pytest.mark.parametrize(
    ("asked", "check_mode", "warns"),
    [("fail", False, False), ("fail", True, False), ("warn", False, False), ("warn", True, True)],
)
def test_only_a_check_that_is_to_warn_does_not_fail(asked: str, check_mode: bool, warns: bool) -> None:
    assert _check_refusal.only_warns({"check_refusal": asked}, check_mode) is warns


def test_a_refusal_is_raised_as_it_is_or_told() -> None:
    error = GpuOpsError("No.", reason="Disruption")
    with pytest.raises(GpuOpsError) as caught:
        _check_refusal.refuse(error, warns=False)
    assert caught.value is error
    assert _check_refusal.refuse(error, warns=True) == f"{_check_refusal.WOULD_STOP}No."
