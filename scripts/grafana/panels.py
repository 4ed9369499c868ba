# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The four kinds of panels that the dashboards have: a number, lines, bars and a table."""

from __future__ import annotations

import dataclasses
import string
import typing as t

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

Panel = bargauge.Panel | stat.Panel | table.Panel | timeseries.Panel

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
AT_MOST, POINTS = 500, 200
"""The rows of the longest table, and into how many parts a time range is divided where a query sums it up."""
NOTHING = "Nothing: either there is no such case, or nothing reports it"
"""What an empty table says: that a list is empty proves nothing while the exporter is silent."""

COLUMNS = {
    "cluster": "Cluster",
    "node": "Node",
    "gpu": "GPU",
    "UUID": "UUID",
    "modelName": "Model",
    "GPU_I_ID": "MIG instance",
    "GPU_I_PROFILE": "MIG profile",
    "namespace": "Namespace",
    "exported_namespace": "Namespace",
    "pod": "Pod",
    "exported_pod": "Pod",
    "container": "Container",
    "exported_container": "Container",
    "vgpu": "Share",
    "team": "Team",
    "kind": "Kind",
    "xid": "Xid",
    "err_code": "Last Xid",
    "err_msg": "Message",
    "health_watch": "Part of the GPU",
    "health_error_code": "Finding",
    "DCGM_FI_DRIVER_VERSION": "Driver",
}
"""The titles of columns that come from labels, in the order of the columns."""
MIB, RATIO, WATT, CELSIUS, HOURS, NUMBER, MONEY = "mbytes", "percentunit", "watt", "celsius", "h", "none", "short"
MHZ, BYTES_PER_S, MEGABYTES_PER_S, KWH = "rotmhz", "Bps", "MBs", "kwatth"
_NODE_URL = "/d/gpuops-node?var-node=${__value.raw}&${datasource:queryparam}&${__url_time_range}"
NODE_LINK = {"title": "Open the node", "url": _NODE_URL}


@dataclasses.dataclass(frozen=True)
class Query:
    """A query, the name of its line or column, and the unit of a column."""

    expr: str
    name: str
    unit: str = NUMBER
    decimals: int | None = None


_LATEST = common.ReduceDataOptions().calcs(["lastNotNull"])


def _dataquery(query: Query, place: int) -> prometheus.Dataquery:
    wanted = prometheus.Dataquery().ref_id(string.ascii_uppercase[place]).expr(query.expr).legend_format(query.name)
    return wanted.datasource(SOURCE)


def _instant(query: Query, place: int) -> prometheus.Dataquery:
    return _dataquery(query, place).instant()


def _steps(red_from: float | None) -> build.ThresholdsConfig:
    """Return the colours of values: grey, or green and from a limit on red."""
    steps = [model.Threshold(value=None, color="text" if red_from is None else "green")]
    if red_from is not None:
        steps.append(model.Threshold(value=red_from, color="red"))
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


def number(
    title: str, description: str, expr: str, *, unit: str = NUMBER, red_from: float | None = None, width: int = 4
) -> Panel:
    """Return a panel with one number."""
    panel = stat.Panel().title(title).description(description).datasource(SOURCE).height(4).span(width)
    panel = panel.with_target(_instant(Query(expr, title), 0)).unit(unit).thresholds(_steps(red_from))
    panel = panel.max_data_points(POINTS).interval("1m").reduce_options(_LATEST)
    return panel.color_mode(looks.BigValueColorMode.VALUE).graph_mode(looks.BigValueGraphMode.NONE)


def lines(
    title: str,
    description: str,
    queries: t.Sequence[Query],
    *,
    unit: str = NUMBER,
    stacked: bool = False,
    top: float | None = None,
    width: int = 12,
    points: int = 100,
) -> Panel:
    """Return a panel with lines over time. Queries about a thousand nodes take a second for 100 points."""
    panel = timeseries.Panel().title(title).description(description).datasource(SOURCE).height(8).span(width)
    panel = panel.targets([_dataquery(query, place) for place, query in enumerate(queries)]).unit(unit).min(0)
    panel = panel.max_data_points(points).interval("1m").show_points(looks.VisibilityMode.NEVER)
    legend = common.VizLegendOptions().display_mode(looks.LegendDisplayMode.TABLE).calcs(["lastNotNull", "max"])
    panel = panel.legend(legend.placement(looks.LegendPlacement.RIGHT).show_legend(True))
    tooltip = common.VizTooltipOptions().mode(looks.TooltipDisplayMode.MULTI).sort(looks.SortOrder.DESCENDING)
    panel = panel.tooltip(tooltip)
    if top is not None:
        panel = panel.max(top)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(looks.StackingMode.NORMAL)).fill_opacity(60).line_width(0)
    return panel


def bars(title: str, description: str, query: Query, *, unit: str = NUMBER, width: int = 12) -> Panel:
    """Return a panel with one horizontal bar for each group."""
    panel = bargauge.Panel().title(title).description(description).datasource(SOURCE).height(8).span(width)
    panel = panel.with_target(_instant(query, 0)).unit(unit).min(0).thresholds(_steps(None)).no_value(NOTHING)
    panel = panel.reduce_options(_LATEST).orientation(looks.VizOrientation.HORIZONTAL)
    return panel.display_mode(looks.BarGaugeDisplayMode.BASIC)


def rows(
    title: str,
    description: str,
    columns: t.Sequence[Query],
    *,
    sort_by: str = "",
    total: bool = False,
    meanings: t.Mapping[str, t.Mapping[str, str]] | None = None,
    width: int = 24,
) -> Panel:
    """Return a table, sorted by a column, of which the largest come first. ``total`` adds the sums of the columns.

    The queries have the same labels, which become the first columns. ``meanings`` has texts for values of columns.
    """
    panel = table.Panel().title(title).description(description).datasource(SOURCE).height(8).span(width)
    panel = panel.targets([_instant(query, place).format(PromQueryFormat.TABLE) for place, query in enumerate(columns)])
    for step in _as_one_table(columns, sort_by or columns[0].name):
        panel = panel.with_transformation(step)
    for column in columns:
        panel = panel.override_by_name(column.name, _looks_of(column))
    for title_of_column, texts in (meanings or {}).items():
        panel = panel.override_by_name(title_of_column, [model.DynamicConfigValue("mappings", [_texts(texts)])])
    panel = panel.override_by_name("Node", [model.DynamicConfigValue("links", [NODE_LINK])])
    if total:
        footer = common.TableFooterOptions().show(True).reducer(["sum"])
        panel = panel.footer(footer.fields([column.name for column in columns]))
    return panel.unit(NUMBER).filterable(True).no_value(NOTHING).max_data_points(POINTS).interval("1m")


def _as_one_table(columns: t.Sequence[Query], sort_by: str) -> t.Iterator[model.DataTransformerConfig]:
    alone = len(columns) == 1
    values = {
        "Value" if alone else f"Value #{string.ascii_uppercase[place]}": each.name for place, each in enumerate(columns)
    }
    names = {**COLUMNS, **values}
    yield model.DataTransformerConfig("merge", options={})
    order = {name: place for place, name in enumerate(names)}
    organized = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names}
    yield model.DataTransformerConfig("organize", options=organized)
    yield model.DataTransformerConfig("sortBy", options={"fields": {}, "sort": [{"field": sort_by, "desc": True}]})
    yield model.DataTransformerConfig("limit", options={"limitField": AT_MOST})


def _looks_of(column: Query) -> list[model.DynamicConfigValue]:
    found = [model.DynamicConfigValue("unit", column.unit)]
    if column.decimals is not None:
        found.append(model.DynamicConfigValue("decimals", column.decimals))
    return found


def _texts(texts: t.Mapping[str, str]) -> model.ValueMap:
    return model.ValueMap({value: model.ValueMappingResult(text=text) for value, text in texts.items()})
