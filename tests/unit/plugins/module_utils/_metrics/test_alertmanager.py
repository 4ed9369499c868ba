# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import alertmanager, rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds

ALERTS = rule_groups.alerts(Thresholds())
OF = {alert.name: alert for alert in ALERTS}
PAIRS = [
    (cause, effect, each.equal)
    for each in alertmanager.FOLLOWS
    for cause, effect in itertools.product(each.causes, each.effects)
]


def test_all_names_are_those_of_alerts() -> None:
    assert {name for cause, effect, dummy in PAIRS for name in (cause, effect)} <= set(OF)


def test_nothing_hides_itself_or_what_hides_it() -> None:
    hides: dict[str, set[str]] = {name: {effect for cause, effect, dummy in PAIRS if cause == name} for name in OF}
    for _round in hides:
        hides = {name: below.union(*(hides[each] for each in below)) for name, below in hides.items()}
    assert [name for name, below in hides.items() if name in below] == []


def test_a_cause_is_no_less_severe_than_what_it_hides() -> None:
    order = ["info", "warning", "critical"]
    for cause, effect, dummy in PAIRS:
        assert order.index(OF[cause].severity) >= order.index(OF[effect].severity), (cause, effect)


def test_alerts_that_are_switched_off_are_not_named() -> None:
    on = [OF[name] for name in ("GpuXidHardware", "GpuXidReset", "GpuExporterDown")]
    first, last = alertmanager.configuration(on)["inhibit_rules"]
    assert first == {
        "source_matchers": ['alertname=~"GpuXidHardware"'],
        "target_matchers": ['alertname=~"GpuXidReset"'],
        "equal": ["node"],
    }
    assert last["target_matchers"] == ['alertname=~"Gpu.+"', 'severity!="critical"']


def test_the_route_takes_each_alert_and_no_other() -> None:
    (route,) = alertmanager.configuration(ALERTS)["route"]["routes"]
    (matcher,) = route["matchers"]
    pattern = matcher.partition('=~"')[2].rstrip('"')
    assert all(re.fullmatch(pattern, name) for name in OF)
    assert not any(re.fullmatch(pattern, name) for name in ("KubeNodeNotReady", "GPUOperatorReconciliationFailed"))
