# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The published dashboards, and their queries as Grafana would send them."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "roles" / "monitoring" / "files" / "dashboards"
NAMES = ("fleet", "gpu", "health", "namespaces", "node")

DEFAULTS = {
    "cluster": ".*",
    "node": ".*",
    "model": ".*",
    "namespace": ".*",
    "gpu": "0",
    "idle": "0.05",
    "price": "2.50",
    "pool_label": "label_node_kubernetes_io_instance_type",
    "team_label": "label_team",
    "prefix": "",
}
"""What the variables are at first. A node has to be chosen on the dashboards of one node."""
OF_GRAFANA = {"__rate_interval": "4m", "__interval": "1m", "__interval_ms": "60000", "__range": "1h"}
VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$([A-Za-z_]\w*)")


@dataclasses.dataclass(frozen=True)
class Asked:
    """A query of a panel. ``key`` is the dashboard, the panel's title and the query's letter."""

    key: tuple[str, str, str]
    expr: str
    instant: bool
    description: str

    def filled(self, **chosen: str) -> str:
        """Return the query with values in place of its variables."""
        values = {**DEFAULTS, **OF_GRAFANA, **chosen}
        return VARIABLE.sub(lambda match: values[match[1] or match[2]], self.expr)


def load(name: str) -> dict[str, t.Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


def panels(name: str) -> list[dict[str, t.Any]]:
    """Return the panels of a dashboard, without the titles of its rows."""
    return [panel for panel in load(name)["panels"] if panel["type"] != "row"]


def queries(*names: str) -> list[Asked]:
    """Return the queries of dashboards, in the order of their panels."""
    return [
        Asked((name, panel["title"], query["refId"]), query["expr"], query.get("instant", False), panel["description"])
        for name in names or NAMES
        for panel in panels(name)
        for query in panel["targets"]
    ]
