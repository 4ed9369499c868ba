# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import rollout_options
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.upgrades.drivers import OPTIONS


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"soak": -1}, wording("soak is -1: give 0 or more.")),
        ({"timeout": 0}, wording("timeout is 0: give 1 or more.")),
        ({"drain_timeout": 0}, wording("drain_timeout is 0: give 1 or more.")),
        ({"waves": ["10%", "none"]}, wording("waves is 'none'. Give a number or a percentage, such as 1 or 10%.")),
        (
            {"windows": ["at night"]},
            wording("The window 'at night' cannot be read. Write windows such as 22:00-04:00 or sat,sun 08:00-18:00."),
        ),
        (
            {"time_zone": "Mars/Base"},
            wording("time_zone is 'Mars/Base': give a name of the time zone database, such as Europe/Berlin."),
        ),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        rollout_options.request_of({**OPTIONS, **wrong})
    assert error.value.msg == said


def test_the_defaults_are_accepted() -> None:
    assert rollout_options.request_of(OPTIONS).rollout.pace.wishes.sizes == "1"
    assert set(rollout_options.SPEC.options) <= set(OPTIONS), "the tests of the rollout give every option"


def test_a_request_has_everything_that_a_rollout_needs() -> None:
    given = {"windows": ["22:00-04:00"], "group_by": "rack", "canary": 2, "max_failed": "10%", "soak": 7, "lease": 60}
    made = rollout_options.request_of({**OPTIONS, **given, "allow_shared": True})
    pace, maintenance = made.rollout.pace, made.rollout.maintenance
    assert "22:00-04:00" in str(pace.windows) and made.rollout.group_by == "rack" and pace.wishes.groups is None
    assert (pace.wishes.canary, pace.wishes.may_be_out(20), pace.soak_s, maintenance.lease_s) == (2, 2, 7, 60)
    assert maintenance.allows_shared and not maintenance.takes_over


def test_the_upgrade_policy_says_which_pods_may_go() -> None:
    draining = rollout_options.request_of({**OPTIONS, "drain_timeout": 7}).rollout.maintenance
    assert (draining.state, draining.timeout_s, draining.evicts_all) == ("drained", 7, False)
    assert draining.permits.disruption and not draining.permits.force and draining.purpose == "driver-upgrade"
