# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""40 nodes in three pools go to claims and back while jobs run: at no event has one GPU two users."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab, Options
from tests.integration.test_stack_move import (
    BACK,
    CLAIMS,
    POLICY,
    TO_DRA,
    YES,
    claiming,
    create,
    drivers,
    job,
    ready,
    rows,
)
from tests.support.ansible import OPERATOR, Playbook, on
from tests.support.bookings import Bookings, recorded
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = [pytest.mark.slow("the stack of 40 nodes goes and comes back"), pytest.mark.wide]

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
POOLS: tuple[dict[str, t.Any], ...] = (
    {"count": 20, "model": "H100", "name": "h100"},
    {"count": 12, "model": "A100", "name": "a100", "os": "ubuntu22.04", "taints": [TAINT]},
    {"count": 8, "model": "L40S", "name": "l40s", "os": "rhel9.4", "gpus": 8},
)


@pytest.fixture
def fleet(tmp_path: Path) -> t.Iterator[Lab]:
    pools = tmp_path / "pools.yaml"
    pools.write_text(yaml.safe_dump({"pools": list(POOLS)}))
    with running_lab("move", Options(fleet=str(pools), upgrade_tick=3)) as lab:
        yield lab


def jobs() -> list[dict[str, t.Any]]:
    """Return jobs that ask for more GPUs than there are, by the plugin's resource and by claims."""
    counting = job("counting", 84, resources={"limits": {"nvidia.com/gpu": "4"}})
    template, claims = claiming(4, 84)
    for each in (counting, claims):
        each["spec"]["template"]["spec"]["tolerations"].append({"key": TAINT["key"], "operator": "Exists"})
    return [template, counting, claims]


def test_no_gpu_has_two_users_on_the_way_there_and_back(fleet: Lab) -> None:
    ansible: Playbook = on(fleet)
    first = ansible.run(OPERATOR, operator_values=POLICY)
    assert first.status == 0, first.message
    loaded = drivers(fleet)
    assert len(loaded.split()) == 40
    with recorded(fleet) as events:
        create(fleet, *jobs())
        sees(lambda: ready(fleet, "counting") == 80)

        there = ansible.run(TO_DRA, timeout=550, operator_values=CLAIMS, **YES)
        assert there.status == 0, there.output
        sees(lambda: (ready(fleet, "counting"), ready(fleet, "claiming")) == (0, 80))
        assert [(row["claimable"], row["cordoned"]) for row in rows(fleet)] == [(True, False)] * 40
        again = ansible.run(TO_DRA, operator_values=CLAIMS, **YES)
        assert (again.status, again.changed) == (0, 0), again.output

        back = ansible.run(BACK, timeout=550, operator_values=POLICY, **YES)
        assert back.status == 0, back.output
        sees(lambda: (ready(fleet, "counting"), ready(fleet, "claiming")) == (80, 0))
        assert drivers(fleet) == loaded, "no driver was unloaded"
        seen = events()

    bookings, most = Bookings(), {"counted": 0, "claimed": 0}
    for event in seen:
        bookings.take(event)
        assert not bookings.conflicts(8), event
        most["counted"] = max(most["counted"], sum(gpus for dummy, gpus in bookings.counted.values()))
        most["claimed"] = max(most["claimed"], sum(map(len, bookings.claimed.values())))
    assert most == {"counted": 320, "claimed": 320}, "both ways were used to the full"
