# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pictures of the dashboards, with what a real Prometheus answers about a small fleet (tests/support/gpu_series.py)."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from lab.errors import UnavailableError
from lab.hosts import packages
from tests.support import dashboards, gpu_series, pictures, prometheus

pytestmark = pytest.mark.deep

HEIGHT = 1070
"""The pixels of a dashboard that the docs show."""
SHOWN = ("fleet", "node", "namespaces")
CHOSEN = {"node": {"node": "a1"}}


def _asking(server: prometheus.Recorded, name: str) -> pictures.Ask:
    def ask(panel: pictures.Panel, query: dict[str, t.Any]) -> list[pictures.Series]:
        instant = query.get("instant", False)
        key = (name, panel["title"], query["refId"])
        filled = dashboards.Asked(key, query["expr"], instant, "").filled(**CHOSEN.get(name, {}))
        return (server.values if instant else server.lines)(filled)

    return ask


def test_pictures_of_the_dashboards_can_be_taken(tmp_path: Path) -> None:
    """GPUOPS_PICTURES=docs/images replaces those of docs/tasks/dashboards.md. Look at them after a change."""
    folder = Path(os.environ.get("GPUOPS_PICTURES", tmp_path))
    try:
        packages.provide("browser", print)
        with prometheus.serving(tmp_path, gpu_series.text(honor_labels=True), gpu_series.NOW) as server:
            pages = {name: pictures.page(dashboards.load(name), _asking(server, name)) for name in SHOWN}
    except UnavailableError as reason:
        pytest.skip(str(reason))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": HEIGHT})
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text)
            tab.goto((tmp_path / f"{name}.html").as_uri())
            size = len(tab.screenshot(path=folder / f"dashboard_{name}.png"))
            assert 20_000 < size < 200_000, name
        browser.close()
