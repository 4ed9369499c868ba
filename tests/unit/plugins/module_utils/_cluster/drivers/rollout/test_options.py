# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import options
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.upgrades.drivers import OPTIONS


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"soak": -1}, "soak is -1"),
        ({"timeout": 0}, "timeout is 0"),
        ({"drain_timeout": 0}, "drain_timeout is 0"),
        ({"waves": ["10%", "none"]}, "waves is 'none'"),
        ({"windows": ["at night"]}, "'at night' cannot be read"),
        ({"time_zone": "Mars/Base"}, "time_zone is 'Mars/Base'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(GpuOpsError, match=said):
        options.refuse({**OPTIONS, **wrong})


def test_the_defaults_are_accepted() -> None:
    options.refuse(OPTIONS)
    assert set(options.OPTIONS) <= set(OPTIONS), "the tests of the rollout give every option"
