# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw a dashboard from its JSON and the answers of a Prometheus, as HTML: places, titles, units, legends, colours.

It shows what a reader of the dashboard sees, without Grafana: an empty panel, a legend without names, a wrong unit.
"""

from __future__ import annotations

import html
import re
import typing as t

Series = dict[str, t.Any]
Panel = dict[str, t.Any]
Ask = t.Callable[[Panel, dict[str, t.Any]], list[Series]]
"""Returns the series of a panel's query: with ``value`` if it is instant, and otherwise with ``values``."""

COLUMN, ROW = 50, 38
"""The pixels of a column of 24, and of a row, as in Grafana at 1,200 pixels."""
PALETTE = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#705da0", "#37872d", "#fade2a")
NAMED = {"green": "#73bf69", "yellow": "#fade2a", "orange": "#ff9830", "red": "#f2495c", "blue": "#5794f2"}
STYLE = """
body { margin: 0; background: #111217; color: #ccccdc; font: 12px sans-serif; position: relative }
.p { position: absolute; box-sizing: border-box; background: #181b1f; border: 1px solid #2c3235; overflow: hidden }
.t { padding: 5px 8px; font-weight: 600; white-space: nowrap } .row { background: none; border: none; font-size: 14px }
.big { font-size: 34px; text-align: center; padding-top: 16px }
.empty { text-align: center; color: #888; padding: 30px }
table { border-collapse: collapse; width: 100% } td, th { padding: 3px 8px; text-align: left; white-space: nowrap }
th { color: #6e9fff } td { border-top: 1px solid #24272b } .chart { display: flex }
.legend { flex: 1; overflow: hidden; align-self: flex-start }
.legend td { font-size: 11px; padding: 1px 4px; border: none }
"""
SCALES: dict[str, tuple[float, tuple[str, ...]]] = {
    "watt": (1000, (" W", " kW", " MW")),
    "kwatth": (1000, (" kWh", " MWh", " GWh")),
    "mbytes": (1024, (" MiB", " GiB", " TiB")),
    "Bps": (1000, (" B/s", " kB/s", " MB/s", " GB/s")),
    "MBs": (1000, (" MB/s", " GB/s", " TB/s")),
    "rotmhz": (1000, (" MHz", " GHz")),
}


def page(dashboard: Panel, ask: Ask) -> str:
    """Return a dashboard as HTML."""
    panels = dashboard["panels"]
    high = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels) * ROW
    drawn = "".join(box(each, ask) for each in panels)
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><body style='height:{high}px'>{drawn}"


def box(panel: Panel, ask: Ask) -> str:
    """Return a panel in its place."""
    place = panel["gridPos"]
    sizes = {"left": place["x"] * COLUMN, "top": place["y"] * ROW, "width": place["w"] * COLUMN - 6}
    style = ";".join(f"{name}:{size}px" for name, size in (sizes | {"height": place["h"] * ROW - 6}).items())
    inside = "" if panel["type"] == "row" else content(panel, ask)
    kind = "p row" if panel["type"] == "row" else "p"
    return f"<div class='{kind}' style='{style}'><div class=t>{html.escape(panel['title'])}</div>{inside}</div>"


def content(panel: Panel, ask: Ask) -> str:
    """Return what a panel shows."""
    answers = [(query, ask(panel, query)) for query in panel["targets"]]
    if not any(found for dummy, found in answers):
        return "<div class=empty>No data</div>"
    return {"stat": stat, "timeseries": chart, "table": table, "bargauge": bars}[panel["type"]](panel, answers)


Answers = list[tuple[dict[str, t.Any], list[Series]]]


def stat(panel: Panel, answers: Answers) -> str:
    """Return the numbers of a panel."""
    return "".join(
        f"<div class=big style='color:{colour(panel, last(each))}'>{shown(panel, last(each))}</div>"
        for dummy, found in answers
        for each in found
    )


def bars(panel: Panel, answers: Answers) -> str:
    """Return a bar for each series."""
    rows = [(legend(query, each), last(each)) for query, found in answers for each in found]
    most = max(value for dummy, value in rows) or 1
    return "".join(
        f"<div style='margin:6px 8px'>{html.escape(name)}: {shown(panel, value)}<div style='height:14px;"
        f"background:{colour(panel, value)};width:{max(0.5, value / most * 80):.1f}%'></div></div>"
        for name, value in rows
    )


def table(panel: Panel, answers: Answers) -> str:
    """Return the rows of a panel, merged by their labels."""
    names = [str(query["legendFormat"]) for query, dummy in answers]
    rows: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for query, found in answers:
        for each in found:
            rows.setdefault(tuple(sorted(each["metric"].items())), {})[query["legendFormat"]] = last(each)
    chosen = organized(panel)
    hidden, renamed = chosen.get("excludeByName", {}), chosen.get("renameByName", {})
    places = chosen.get("indexByName", {})
    labels = sorted({label for row in rows for label, dummy in row if not hidden.get(label)}, key=places.__getitem__)
    head = "".join(f"<th>{html.escape(renamed.get(text, text))}</th>" for text in (*labels, *names))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(dict(row).get(label, ''))}</td>" for label in labels)
        + "".join(f"<td>{shown(panel, values[name], name) if name in values else ''}</td>" for name in names)
        for row, values in rows.items()
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def organized(panel: Panel) -> dict[str, t.Any]:
    """Return what a table hides and renames."""
    found = [each["options"] for each in panel.get("transformations", ()) if each["id"] == "organize"]
    return dict(found[0]) if found else {}


def chart(panel: Panel, answers: Answers) -> str:
    """Return lines over time with their legend."""
    lines = [(legend(query, each), points(each)) for query, found in answers for each in found]
    marks = [point for dummy, line in lines for point in line]
    times, values = [mark[0] for mark in marks], [mark[1] for mark in marks]
    first, span = min(times), (max(times) - min(times)) or 1
    low, high = min(0.0, *values), max(values) or 1.0
    wide, tall = panel["gridPos"]["w"] * COLUMN * 0.6, panel["gridPos"]["h"] * ROW - 50
    drawn, rows = "", ""
    for number, (name, line) in enumerate(lines):
        paint = PALETTE[number % len(PALETTE)]
        path = " ".join(
            f"{50 + (moment - first) / span * (wide - 60):.0f},{tall - (value - low) / (high - low) * (tall - 8):.0f}"
            for moment, value in line
        )
        drawn += f"<polyline fill=none stroke='{paint}' stroke-width=1.5 points='{path}'/>"
        cells = f"<td>{shown(panel, line[-1][1])}<td>{shown(panel, max(mark[1] for mark in line))}"
        rows += f"<tr><td style='color:{paint}'>{html.escape(name)}{cells}"
    axis = "".join(
        f"<text x=2 y={tall - part * (tall - 12):.0f} fill=#999 font-size=10>{shown(panel, low + part * (high - low))}"
        "</text>"
        for part in (0, 0.5, 1)
    )
    keys = f"<table class=legend><tr><th><th>Last<th>Max{rows}</table>"
    return f"<div class=chart><svg width={wide:.0f} height={tall + 4}>{axis}{drawn}</svg>{keys}</div>"


def legend(query: dict[str, t.Any], series: Series) -> str:
    """Return the name of a series: its labels in place of the blanks of the legend."""
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda blank: series["metric"].get(blank[1], ""), query["legendFormat"])


def points(series: Series) -> list[tuple[float, float]]:
    """Return the moments and values of a series."""
    found = series["values"] if "values" in series else [series["value"]]
    return [(float(moment), float(value)) for moment, value in found]


def last(series: Series) -> float:
    """Return the latest value of a series."""
    return points(series)[-1][1]


def settings(panel: Panel, column: str) -> dict[str, t.Any]:
    """Return the settings of a panel's values, with those of a column in a table."""
    chosen = dict(panel["fieldConfig"]["defaults"])
    for override in panel["fieldConfig"].get("overrides", ()):
        if override["matcher"]["options"] == column:
            chosen |= {each["id"]: each["value"] for each in override["properties"]}
    return chosen


def shown(panel: Panel, value: float, column: str = "") -> str:
    """Return a value with its unit."""
    chosen = settings(panel, column)
    unit = chosen.get("unit", "none")
    if unit in ("percentunit", "percent"):
        return f"{value * (100 if unit == 'percentunit' else 1):.1f}%"
    if unit in SCALES:
        factor, words = SCALES[unit]
        step = 0
        while abs(value) >= factor and step < len(words) - 1:
            value, step = value / factor, step + 1
        return f"{value:.4g}{words[step]}"
    return f"{value:.4g}" + {"celsius": " °C", "none": "", "short": ""}.get(unit, f" {unit}")


def colour(panel: Panel, value: float) -> str:
    """Return the colour of the highest threshold that a value reaches."""
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
    reached = [step["color"] for step in steps if step.get("value") is None or value >= step["value"]]
    return NAMED.get(reached[-1], "#ccccdc") if reached else "#ccccdc"
