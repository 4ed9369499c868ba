# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often the alert rules, with their defaults, call a person to a healthy fleet. promtool evaluates them.

GpuHeldIdle is no false alarm: jobs that hold GPUs and do not use them are in the replay, and the alert says so.
"""

from __future__ import annotations

import re
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds

from tests.support import replay
from tests.support.prometheus import promtool_tests

pytestmark = pytest.mark.deep

NODES, CLUSTERS, DAYS = 16, 4, 30
AT_A_TIME = 3
"""Days that promtool replays at a time. It keeps a value for each series and minute, and each job has its own series:
two clusters of 16 nodes took more than 22 GB for 30 days."""
BEFORE = 1
"""Days that are replayed again before them. No rule looks back further."""
TOLERATED = 0.1
"""False alarms a day, of 64 nodes together."""

Alarm = tuple[str, str]
_GOT = re.compile(r"\{(?P<labels>alertname=[^}]*)\} (?P<minutes>[\d.E+]+)")
_NAME = re.compile(r'alertname="(?P<name>\w+)"')


def alarms(folder: Path, fleet: replay.Fleet) -> list[Alarm]:
    """Return the alerts that fire, with their labels: one for each day on which one does."""
    days = fleet.minutes // replay.DAY
    found = []
    for first in range(0, days, AT_A_TIME):
        begin, end = max(first - BEFORE, 0), min(first + AT_A_TIME, days)
        part = fleet.between(begin * replay.DAY, end * replay.DAY)
        found += _alarms(folder / str(first), part, range(first - begin + 1, end - begin + 1))
    return found


def _alarms(folder: Path, fleet: replay.Fleet, days: range) -> list[Alarm]:
    limits = Thresholds()
    firing = 'count_over_time(ALERTS{alertstate="firing"}[1d])'
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in fleet.series().items()],
        "promql_expr_test": [{"expr": firing, "eval_time": f"{day}d", "exp_samples": []} for day in days],
    }
    folder.mkdir(parents=True)
    alerts = rule_groups.chosen(limits, (), (26, 7))
    status, said = promtool_tests(folder, alerts, limits, [test], interval="2m", timeout=3600)
    found = [(match["labels"], match["minutes"]) for match in _GOT.finditer(said)]
    assert bool(found) == bool(status), said[-3000:]
    return found


def name_of(alarm: Alarm) -> str:
    found = _NAME.search(alarm[0])
    assert found, alarm
    return found["name"]


def test_the_replay_would_show_an_alarm(tmp_path: Path) -> None:
    fleet = replay.Fleet(2, AT_A_TIME + 2, seed=0)
    lost: t.Any = replay.State(exporter="down")
    fleet.nodes[1].happens((AT_A_TIME + 1) * replay.DAY + 600, (30, lost))
    assert [name_of(alarm) for alarm in alarms(tmp_path / "lost", fleet)] == ["GpuExporterDown"]


def test_a_healthy_fleet_calls_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four clusters of 16 nodes, each with upgrades, restarts, MIG changes and lost scrapes of its own."""
    fleets = [replay.Fleet(NODES, DAYS, seed) for seed in range(1, CLUSTERS + 1)]
    with ThreadPoolExecutor(2) as pool:
        listed = pool.map(lambda item: alarms(tmp_path / str(item[0]), item[1]), enumerate(fleets))
        found = [alarm for each in listed for alarm in each]
    false = [alarm for alarm in found if name_of(alarm) != "GpuHeldIdle"]
    with capsys.disabled():
        rate = len(false) / DAYS
        print(f"\n{rate:.2f} false alarms a day, and {len(found) - len(false)} GPU-days held idle: {false[:20]}")
    assert rate <= TOLERATED
