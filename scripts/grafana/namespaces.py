# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard of namespaces and teams: who holds GPUs for how long, whether they are used, and what that costs."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from . import variables
from .board import board
from .panels import HOURS, MONEY, Panel, Query, bars, lines, number, rows
from .promql import DEVICES, NAMESPACE, POD, STATE_S, TENANTS, alive, hours

_SHARES = (
    "Pods that share a GPU have equal parts of it. A MIG instance is the part of its GPU that its compute slices "
    "are of those of all instances there."
)
_HOURS = (
    "GPU hours of the time range. Held is what pods had, used the hours in which the GPU was at least as active as "
    f"the value at the top, idle those in which it was less active. {_SHARES}"
)
_USED, _IDLE = ">= $idle", "< $idle"
_OF_NAMESPACE = f"cluster, {NAMESPACE}"
_NAMES = "{{namespace}}{{exported_namespace}}"
"""The name of a namespace's line: one of the two labels is there."""


def dashboard() -> build.Dashboard:
    choices = [
        variables.datasource(),
        variables.cluster(),
        variables.model_name(),
        variables.namespace(),
        variables.idle(),
        variables.price(),
        variables.team_label(),
        variables.prefix(),
    ]
    contents = [
        ("Now", [*_now(), _held(), _idle()]),
        ("GPU hours and cost", [*_costs(), _namespaces(), _teams()]),
        ("Pods", [_idle_pods(), _requests(), _waiting()]),
    ]
    description = "Who holds GPUs, whether they are used, and what that costs."
    title = "GPU namespaces and teams"
    return board("namespaces", title, description, choices, contents, hours=24, refresh="15m")


def _or_none(amount: str) -> str:
    """Return the query for an amount that is 0 if nobody holds a GPU, and nothing if no GPU reports."""
    return f"{amount} or {TENANTS.none()}"


def _now() -> list[Panel]:
    now = f"by the mean activity of the last {STATE_S}"
    used, idle = (TENANTS.shares_that(each, window=STATE_S) for each in (_USED, _IDLE))
    held = _or_none(f"sum({TENANTS.shares()})")
    return [
        number("Held GPUs", f"The GPUs that pods hold. {_SHARES}", held, width=8),
        number("Used GPUs", f"Held and active, {now}.", _or_none(f"sum({used})"), width=8),
        number("Idle GPUs", f"Held and not active, {now}.", _or_none(f"sum({idle})"), width=8),
    ]


def _held() -> Panel:
    queries = [Query(f"topk(15, sum by ({_OF_NAMESPACE}) ({TENANTS.shares()}))", _NAMES)]
    return lines(
        "Held GPUs by namespace", f"The 15 namespaces that hold the most GPUs. {_SHARES}", queries, stacked=True
    )


def _idle() -> Panel:
    queries = [Query(f"topk(15, sum by ({_OF_NAMESPACE}) ({TENANTS.shares_that(_IDLE, window=STATE_S)}))", _NAMES)]
    return lines(
        "Idle GPUs by namespace", "The 15 namespaces that hold the most GPUs without use.", queries, stacked=True
    )


def _costs() -> list[Panel]:
    held, idle = hours(f"sum({TENANTS.shares()})"), hours(f"sum({TENANTS.shares_that(_IDLE)})")
    price = "at the price per GPU hour that stands at the top"
    of_held, of_idle = f"The GPU hours of pods {price}. {_HOURS}", f"The idle GPU hours {price}. {_HOURS}"
    return [
        number("Cost", of_held, _or_none(f"{held} * $price"), unit=MONEY, width=12),
        number("Cost of idle GPUs", of_idle, _or_none(f"{idle} * $price"), unit=MONEY, width=12),
    ]


def _hours_by_namespace(comparison: str = "") -> str:
    parts = TENANTS.shares_that(comparison) if comparison else TENANTS.shares()
    return hours(f"sum by ({_OF_NAMESPACE}) ({parts})")


def _namespaces() -> Panel:
    held, idle = _hours_by_namespace(), _hours_by_namespace(_IDLE)
    columns = [
        Query(held, "Held", HOURS, 1),
        Query(_hours_by_namespace(_USED), "Used", HOURS, 1),
        Query(idle, "Idle", HOURS, 1),
        Query(f"{held} * $price", "Cost", MONEY),
        Query(f"{idle} * $price", "Cost of idle GPUs", MONEY),
    ]
    return rows(
        "Namespaces", f"The 500 namespaces with the most GPU hours, and the sum of these. {_HOURS}", columns, total=True
    )


def _by_team(amount: str) -> str:
    """Return the query for an amount of namespaces, summed up by the team that a label of each namespace names."""
    named = f'label_replace({amount}, "namespace", "$1", "{NAMESPACE}", "(.*)")'
    by = "cluster, namespace"
    labels = TENANTS.about("kube_namespace_labels", '${team_label}!=""')
    team = f'max by ({by}, team) (label_replace({labels}, "team", "$1", "${{team_label}}", "(.+)"))'
    rest = f"group by ({by}) ({TENANTS.about('kube_namespace_status_phase')}) unless on ({by}) {labels}"
    teams = f'{team} or label_replace({rest}, "team", "no label", "", "")'
    return f"sum by (team) (({named}) * on ({by}) group_left (team) ({teams}))"


def _teams() -> Panel:
    held, idle = _hours_by_namespace(), _hours_by_namespace(_IDLE)
    columns = [
        Query(_by_team(held), "Held", HOURS, 1),
        Query(_by_team(_hours_by_namespace(_USED)), "Used", HOURS, 1),
        Query(_by_team(idle), "Idle", HOURS, 1),
        Query(_by_team(f"{held} * $price"), "Cost", MONEY),
        Query(_by_team(f"{idle} * $price"), "Cost of idle GPUs", MONEY),
    ]
    description = (
        f"{_HOURS} Needs kube-state-metrics, with --metric-labels-allowlist for this label of namespaces. Namespaces "
        "without it are under 'no label', and those that no longer exist are left out."
    )
    return rows("Teams", description, columns, total=True)


def _idle_pods() -> Panel:
    idle = TENANTS.shares_that(_IDLE, window=STATE_S)
    columns = [Query(f"topk(50, sum by (cluster, {NAMESPACE}, {POD}, node) ({idle}))", "Idle GPUs", decimals=2)]
    description = (
        f"The 50 pods that hold the most GPUs with a mean activity of the last {STATE_S} below the value at the top."
    )
    return rows("Pods with idle GPUs", description, columns)


def _requests() -> Panel:
    requested = TENANTS.requested("cluster, namespace")
    description = (
        "The 20 namespaces whose pods on nodes request the most devices. Shares of a time-sliced GPU and MIG "
        "instances count as devices. Needs kube-state-metrics."
    )
    return bars("Requested devices", description, Query(f"topk(20, {requested})", "{{namespace}}"))


def _waiting() -> Panel:
    wanted = TENANTS.about("kube_pod_container_resource_requests", DEVICES, 'node=""')
    pending = f"sum by (cluster, namespace) ({wanted} * on (cluster, namespace, pod) group_left () {alive('Pending')})"
    description = (
        "The 20 namespaces whose pods wait for the most devices: they request GPUs and have no node yet. Needs "
        "kube-state-metrics."
    )
    return bars("Devices that pods wait for", description, Query(f"topk(20, {pending})", "{{namespace}}"))
