# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard of the fleet: how many GPUs there are, who uses them, and whether any is missing."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from . import faults, variables
from .board import board
from .panels import CELSIUS, KWH, RATIO, WATT, Panel, Query, bars, lines, number, rows
from .promql import DEVICES, FLEET, GPU, POWER, PRESENT, STATE_S

_STATES = (
    f"A GPU is in use if a pod holds it and its mean activity of the last {STATE_S} reaches the value at the top. It "
    "is idle if a pod holds it and the activity is below, and free if no pod holds it."
)
_KUBERNETES = "Needs kube-state-metrics."


def dashboard() -> build.Dashboard:
    choices = [
        variables.datasource(),
        variables.cluster(),
        variables.model_name(),
        variables.nodes(),
        variables.idle(),
        variables.pool_label(),
        variables.prefix(),
    ]
    contents = [
        ("At a glance", [*_states(), *_errors()]),
        ("Use", [_states_over_time(), _allocation(), _activity(), _memory()]),
        ("Where", [_models(), _nodes(), _pools()]),
        ("Missing", [_missing(), _withheld()]),
        ("Power and heat", [_power(), _heat(), _hottest()]),
    ]
    return board("fleet", "GPU fleet", "All GPUs: how many there are, their use, and errors.", choices, contents)


def _states() -> list[Panel]:
    return [
        number("GPUs", "The GPUs that report now.", f"count({FLEET.present()})"),
        number("In use", _STATES, FLEET.count(FLEET.used())),
        number("Idle", _STATES, FLEET.count(FLEET.idle())),
        number("Free", _STATES, FLEET.count(FLEET.free())),
        number("Power now", "What all GPUs draw now.", f"sum({FLEET.each(POWER)})", unit=WATT),
        number(
            "Energy",
            "What all GPUs drew in the time range.",
            f"sum_over_time((sum({FLEET.each(POWER)}))[$__range:$__interval]) * $__interval_ms / 3.6e9",
            unit=KWH,
        ),
    ]


def _errors() -> list[Panel]:
    lost = "GPUs that reported a day ago and are silent now. GPUs of a node that left count for a day, too."
    return [
        number("Lost GPUs", lost, FLEET.count(FLEET.lost()), red_from=1),
        number(
            "Nodes without GPU metrics",
            f"Nodes on which Kubernetes knows GPUs, and of which no GPU reports. {_KUBERNETES}",
            f"count({_silent_nodes()}) or 0 * count({FLEET.about('kube_node_status_capacity', DEVICES)})",
            red_from=1,
        ),
        number(
            "GPUs with a fault",
            "GPUs with an Xid of the last 5 minutes after which NVIDIA wants a reset, a restart or a repair.",
            FLEET.count(faults.serious(FLEET)),
            red_from=1,
        ),
        number(
            "GPUs with failing memory",
            "GPUs with uncorrectable ECC errors since the driver was loaded, or with rows that could not be "
            "remapped, or wait for a reset to be remapped.",
            FLEET.count(faults.bad_memory(FLEET)),
            red_from=1,
        ),
        number(
            "Slowed down GPUs",
            "GPUs whose clocks were cut by heat or by their supply of power within the last 5 minutes. A power "
            "limit that is reached in normal work does not count.",
            FLEET.count(faults.slowed_down(FLEET)),
            red_from=1,
        ),
        number(
            "Cordoned GPU nodes",
            f"Nodes with GPUs on which Kubernetes starts no new pods. {_KUBERNETES}",
            f"count({FLEET.about('kube_node_spec_unschedulable')} == 1 and on (cluster, node) {_has_devices()}) "
            f"or 0 * count({FLEET.about('kube_node_status_capacity', DEVICES)})",
        ),
    ]


def _has_devices() -> str:
    return f"sum by (cluster, node) ({FLEET.about('kube_node_status_capacity', DEVICES)}) > 0"


def _silent_nodes() -> str:
    """Return the query for nodes with GPUs of which none reports, whatever their model is."""
    return f"({_has_devices()}) unless on (cluster, node) {FLEET.about(PRESENT)}"


def _states_over_time() -> Panel:
    states = [
        Query(FLEET.count(FLEET.used()), "In use"),
        Query(FLEET.count(FLEET.idle()), "Idle"),
        Query(FLEET.count(FLEET.free()), "Free"),
        Query(FLEET.count(FLEET.unknown()), "Held, activity unknown"),
    ]
    return lines("GPUs by state", _STATES, states, stacked=True)


def _allocation() -> Panel:
    description = (
        "What Kubernetes offers, what pods request, and how many GPUs compute. Kubernetes counts devices: a GPU "
        "that is time-sliced is as many devices as it has shares, and a divided one as many as it has MIG "
        f"instances. The number of active GPUs comes from the exporter. {_KUBERNETES}"
    )
    of_models = FLEET.devices("kube_node_status_capacity")
    requested = f"sum({FLEET.requested('cluster, node')} and on (cluster, node) {of_models})"
    queries = [
        Query(f"sum({FLEET.devices('kube_node_status_allocatable')})", "Allocatable devices"),
        Query(requested, "Requested devices"),
        Query(FLEET.count(FLEET.used()), "Active GPUs"),
    ]
    return lines("Allocated against used", description, queries)


def _activity() -> Panel:
    description = "The mean activity of GPUs: the part of the time in which a GPU computes. Free GPUs count as well."
    queries = [Query(f"avg by (modelName) ({FLEET.activity()})", "{{modelName}}")]
    return lines("Activity by model", description, queries, unit=RATIO, top=1)


def _memory() -> Panel:
    used, free = FLEET.memory("USED"), FLEET.memory("FREE")
    total = f"(sum by (modelName) ({used}) + sum by (modelName) ({free}))"
    queries = [Query(f"sum by (modelName) ({used}) / {total}", "{{modelName}}")]
    description = (
        "The part of the GPUs' memory that is in use. Frameworks often reserve memory that they do not need yet."
    )
    return lines("Memory in use by model", description, queries, unit=RATIO, top=1)


def _models() -> Panel:
    by = "modelName"
    columns = [
        Query(f"count by ({by}) ({FLEET.present()})", "GPUs"),
        Query(f"count by ({by}) ({FLEET.present(by=f'cluster, node, {by}')})", "Nodes"),
        Query(FLEET.count(FLEET.used(), by), "In use"),
        Query(FLEET.count(FLEET.idle(), by), "Idle"),
        Query(FLEET.count(FLEET.free(), by), "Free"),
        Query(FLEET.count(FLEET.lost(), by), "Lost"),
        Query(f"avg by ({by}) ({FLEET.activity(window=STATE_S)})", "Activity", RATIO, 0),
        Query(f"sum by ({by}) ({FLEET.each(POWER)})", "Power", WATT),
    ]
    return rows("GPUs by model", _STATES, columns, sort_by="GPUs")


def _pools() -> Panel:
    description = (
        "The 20 largest pools: the nodes with the same value of the label at the top. Needs kube-state-metrics with "
        "--metric-labels-allowlist for this label of nodes. Nodes without it are under 'no label'."
    )
    nodes = f"count by (cluster, node) ({FLEET.present()})"
    known = FLEET.about("kube_node_labels", '${pool_label}!=""')
    pool = f'max by (cluster, node, pool) (label_replace({known}, "pool", "$1", "${{pool_label}}", "(.+)"))'
    named = f"sum by (pool) ({nodes} * on (cluster, node) group_left (pool) {pool})"
    nameless = f'sum(label_replace({nodes} unless on (cluster, node) {known}, "pool", "no label", "", "")) by (pool)'
    query = Query(f"topk(20, {named} or {nameless})", "{{pool}}")
    return bars("GPUs by pool", description, query, width=24)


def _nodes() -> Panel:
    by = "cluster, node"
    chosen = f"and on ({by}) topk(100, {FLEET.count(FLEET.idle(), by)})"
    columns = [
        Query(f"count by ({by}) ({FLEET.present()}) {chosen}", "GPUs"),
        Query(f"({FLEET.count(FLEET.used(), by)}) {chosen}", "In use"),
        Query(f"({FLEET.count(FLEET.idle(), by)}) {chosen}", "Idle"),
        Query(f"({FLEET.count(FLEET.free(), by)}) {chosen}", "Free"),
        Query(f"avg by ({by}) ({FLEET.activity(window=STATE_S)}) {chosen}", "Activity", RATIO, 0),
        Query(f"sum by ({by}) ({FLEET.each(POWER)}) {chosen}", "Power", WATT),
        Query(f"max by ({by}) ({FLEET.series('DCGM_FI_DEV_GPU_TEMP')}) {chosen}", "Hottest GPU", CELSIUS),
    ]
    description = f"The 100 nodes with the most idle GPUs. Choose models or nodes at the top to see others. {_STATES}"
    return rows("Nodes", description, columns, sort_by="Idle")


def _missing() -> Panel:
    columns = [Query(f"topk(50, count by (cluster, node) ({FLEET.lost()}))", "Lost GPUs")]
    return rows(
        "Nodes with lost GPUs",
        "The 50 nodes with the most GPUs that reported a day ago and are silent now. A GPU that fell off the bus sends "
        "nothing at all, so only its absence shows it.",
        columns,
        width=12,
    )


def _withheld() -> Panel:
    metrics = ("kube_node_status_capacity", "kube_node_status_allocatable")
    capacity, offered = (f"sum by (cluster, node) ({FLEET.about(metric, DEVICES)})" for metric in metrics)
    withheld = f"topk(50, {capacity} - {offered} > 0)"
    columns = [
        Query(withheld, "Withheld devices"),
        Query(f"{capacity} and on (cluster, node) {withheld}", "Devices"),
    ]
    return rows(
        "Nodes that withhold devices",
        "The 50 nodes with the most devices that Kubernetes knows and does not offer, since the device plugin calls "
        f"them unhealthy. {_KUBERNETES}",
        columns,
        width=12,
    )


def _power() -> Panel:
    queries = [Query(f"sum by (modelName) ({FLEET.each(POWER)})", "{{modelName}}")]
    return lines("Power by model", "What the GPUs of each model draw together.", queries, unit=WATT, stacked=True)


def _heat() -> Panel:
    heat = FLEET.each("DCGM_FI_DEV_GPU_TEMP")
    queries = [
        Query(f"max by (modelName) ({heat})", "Hottest {{modelName}}"),
        Query(f"avg by (modelName) ({heat})", "Mean of {{modelName}}"),
    ]
    return lines("Temperature by model", "The hottest GPU of each model, and the mean.", queries, unit=CELSIUS)


def _hottest() -> Panel:
    hottest = f"topk(20, {FLEET.each('DCGM_FI_DEV_GPU_TEMP')})"
    of_these = f"and on ({GPU}) {hottest}"
    columns = [
        Query(hottest, "GPU temperature", CELSIUS),
        Query(f"{FLEET.each('DCGM_FI_DEV_MEMORY_TEMP')} {of_these}", "Memory temperature", CELSIUS),
        Query(f"{FLEET.each('DCGM_FI_DEV_GPU_TEMP_LIMIT')} {of_these}", "Left until it slows down", CELSIUS),
        Query(f"{FLEET.each(POWER)} {of_these}", "Power", WATT),
    ]
    return rows(
        "Hottest GPUs",
        "The 20 hottest GPUs. How many degrees are left until a GPU slows down is known from Hopper on.",
        columns,
    )
