# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A dashboard: its variables, and its rows of panels."""

from __future__ import annotations

import itertools
import typing as t

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from . import panels, variables

FOLDER = "GPUs"
"""The tag by which the dashboards find each other, named as the folder that they belong to."""

Row = tuple[str, t.Sequence[panels.Panel]]


def board(
    uid: str,
    title: str,
    description: str,
    choices: t.Sequence[variables.Variable],
    rows: t.Sequence[Row],
    *,
    hours: int = 6,
    refresh: str = "1m",
) -> build.Dashboard:
    """Return a dashboard whose panels have the numbers of their places."""
    made = build.Dashboard(title).uid(f"gpuops-{uid}").description(description).tags([FOLDER, "nvidia"]).editable()
    made = made.time(f"now-{hours}h", "now").refresh(refresh).timezone("browser").variables(list(choices))
    made = made.tooltip(model.DashboardCursorSync.CROSSHAIR).link(_others())
    numbers = itertools.count(1)
    for name, contents in rows:
        made = made.with_row(build.Row(name).id(next(numbers)))
        for panel in contents:
            made = made.with_panel(panel.id(next(numbers)))
    return made


def _others() -> build.DashboardLink:
    link = build.DashboardLink("GPU dashboards").type(model.DashboardLinkType.DASHBOARDS).tags([FOLDER, "nvidia"])
    return link.as_dropdown(True).include_vars(True).keep_time(True)
