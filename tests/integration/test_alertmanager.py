# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which messages a real Alertmanager makes of the alerts."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import alertmanager as wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds

from lab.errors import UnavailableError
from lab.prometheus import alertmanager
from tests.support import waits

SEVERITIES = {alert.name: alert.severity for alert in rule_groups.alerts(Thresholds())}

Fired = tuple[str, dict[str, str]]


def on(node: str, *names: str, gpu: str = "") -> list[Fired]:
    return [(name, {"node": node} | ({"gpu": gpu} if gpu else {})) for name in names]


SITUATIONS: dict[str, tuple[list[Fired], list[Fired]]] = {
    "a GPU falls off its bus": (
        [
            *on("n1", "GpuXidReboot", "GpuRecoveryAction", gpu="3"),
            *on("n1", "GpuXidApplication", gpu="4"),
            *on("n1", "GpuLost", "GpuNotAllocatable"),
            *on("n2", "GpuNotAllocatable"),
        ],
        [*on("n1", "GpuXidReboot", gpu="3"), *on("n2", "GpuNotAllocatable")],
    ),
    "a row of memory cannot be replaced": (
        [
            *on("n1", "GpuRowRemapFailed", "GpuEccUncorrectable", gpu="0"),
            *on("n1", "GpuEccUncorrectable", gpu="1"),
        ],
        [*on("n1", "GpuRowRemapFailed", gpu="0"), *on("n1", "GpuEccUncorrectable", gpu="1")],
    ),
    "an exporter is away": (
        on("n1", "GpuExporterDown", "GpuMetricsWithoutPods"),
        on("n1", "GpuExporterDown"),
    ),
    "a machine is away": (
        [
            *on("n1", "KubeNodeNotReady", "GpuExporterDown", "GpuNotAllocatable", "GpuLost"),
            *on("n2", "GpuExporterDown"),
        ],
        [*on("n1", "KubeNodeNotReady", "GpuLost"), *on("n2", "GpuExporterDown")],
    ),
    "an upgrade of drivers fails": (
        [("GpuDriverUpgradeFailed", {}), ("GpuDriverUpgradeStuck", {}), ("GpuOperatorNotReady", {})],
        [("GpuDriverUpgradeFailed", {})],
    ),
}


def labelled(fired: t.Iterable[Fired]) -> list[dict[str, str]]:
    return [{"alertname": name, "severity": SEVERITIES.get(name, "warning"), **labels} for name, labels in fired]


def as_set(listed: t.Iterable[dict[str, str]]) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(labels.items()) for labels in listed}


@pytest.fixture
def server() -> t.Iterator[alertmanager.Alertmanager]:
    """An Alertmanager with a receiver, and with what the module gives for it."""
    ours = wanted.configuration(rule_groups.alerts(Thresholds()))
    route = {"receiver": "people", "group_by": ["..."], "group_wait": "0s", **ours["route"]}
    whole = {"route": route, "receivers": [{"name": "people"}], "inhibit_rules": ours["inhibit_rules"]}
    try:
        with alertmanager.running(whole) as running:
            yield running
    except UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_cause_is_told_and_what_follows_from_it_is_not(server: alertmanager.Alertmanager, situation: str) -> None:
    fired, told = (labelled(listed) for listed in SITUATIONS[situation])
    server.fire(fired)
    waits.sees(lambda: as_set(server.told()) == as_set(told), 20)


def test_one_trouble_of_many_nodes_is_one_message_and_a_critical_one_is_one_of_each_node(
    server: alertmanager.Alertmanager,
) -> None:
    nodes = [f"n{number}" for number in range(5)]
    everywhere = [each for node in nodes for each in on(node, "GpuExporterDown")]
    broken = [*on("n1", "GpuXidHardware", gpu="0"), *on("n1", "GpuRowRemapFailed", gpu="5"), *on("n3", "GpuLost")]
    server.fire(labelled([*everywhere, *broken]))
    assert SEVERITIES["GpuXidHardware"] == SEVERITIES["GpuLost"] == "critical" != SEVERITIES["GpuExporterDown"]
    waits.sees(lambda: messages(server) == {"GpuExporterDown": 5, "n1": 2, "n3": 1}, 20)


def messages(server: alertmanager.Alertmanager) -> dict[str, int]:
    """Return the number of alerts in each message, by the only label of its group."""
    return {value: len(alerts) for group, alerts in server.groups() for value in group.values()}
