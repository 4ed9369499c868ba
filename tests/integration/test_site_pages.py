# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The site in a real browser, built with the real settings from a page such as antsibull-docs writes."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from lab.errors import UnavailableError
from lab.hosts import packages
from scripts import check_site, publish_docs

if t.TYPE_CHECKING:
    from playwright.sync_api import Browser

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "https://example.com/site/main/"
INDEX = f"""\
# Front page

[the module]({ADDRESS}reference/collections/some_module.html) [a room](reference/index.md)
"""
ROOM = "# Reference\n\n[`some`](collections/some_module.rst)\n"
MODULE = """\
:orphan:

some module
+++++++++++

.. contents::
   :local:

Parameters
----------

.. list-table::
  :width: 100%
  :widths: auto
  :header-rows: 1
  :class: longtable ansible-option-table

  * - Parameter
    - Comments
  * - **name**
    - WIDE
""".replace("WIDE", "``a_value_without_any_place_to_break/`` " * 2 + "``" + "long_" * 40 + "``")
CONTRAST = """() => {
  const cell = document.querySelector(".ansible-option-table tbody td");
  const light = (colour) => colour.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b) / 765;
  return Math.abs(light(getComputedStyle(cell).color) - light(getComputedStyle(cell).backgroundColor));
}"""


@pytest.fixture(scope="module")
def browser() -> t.Iterator[Browser]:
    """Debian's chromium. Playwright brings no browser of its own here."""
    try:
        packages.provide("browser", print)
    except UnavailableError as reason:
        pytest.skip(str(reason))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of three pages, built as scripts/docs.sh builds the whole one."""
    folder = tmp_path_factory.mktemp("site")
    source = folder / "source"
    (source / "reference" / "collections").mkdir(parents=True)
    shutil.copy(DOCS / "conf.py", source)
    for name in ("_static", "_templates"):
        shutil.copytree(DOCS / name, source / name)
    (source / "index.md").write_text(INDEX)
    (source / "reference" / "index.md").write_text(ROOM)
    (source / "reference" / "collections" / "some_module.rst").write_text(MODULE)
    build = [sys.executable, "-m", "sphinx", "-W", "-q", "-D", f"html_baseurl={ADDRESS}"]
    subprocess.run([*build, str(source), str(folder / "html")], check=True)
    return folder / "html"


@contextlib.contextmanager
def served(folder: Path) -> t.Iterator[str]:
    """Serve a folder during a block, and yield its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *dummy: t.Any) -> None:
            """Print no line for each request."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_links_to_the_published_site_stay_in_the_build(html: Path) -> None:
    assert list(check_site.problems(html, ADDRESS)) == []
    assert 'href="reference/collections/some_module.html"' in (html / "index.html").read_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_generated_page_can_be_read(browser: Browser, html: Path, theme: t.Literal["light", "dark"]) -> None:
    context = browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.goto((html / "reference" / "collections" / "some_module.html").as_uri())
    shown = tab.evaluate("[...document.querySelectorAll('*')].map((e) => getComputedStyle(e, '::before').content)")
    assert [text for text in shown if "ERROR" in text] == []
    assert tab.locator(".toc-tree a", has_text="Parameters").count() == 1
    wrapper = tab.locator(".table-wrapper")
    assert wrapper.evaluate("(each) => each.scrollWidth <= each.clientWidth")
    assert tab.evaluate(CONTRAST) > 0.5
    assert not tab.locator("#versions").is_visible()
    context.close()


def test_a_reader_chooses_the_version_and_searches_it(browser: Browser, html: Path, tmp_path: Path) -> None:
    for version in ("1.0.0", "main"):
        publish_docs.put(html, tmp_path, version)
    (tmp_path / "1.0.0" / "reference" / "index.html").unlink()
    tab = browser.new_page()
    with served(tmp_path) as address:
        tab.goto(address)
        tab.wait_for_url(f"{address}/1.0.0/index.html")
        tab.goto(f"{address}/main/reference/collections/some_module.html")
        choice = tab.locator("#versions select")
        choice.wait_for()
        assert choice.locator("option").all_inner_texts() == ["1.0.0", "main"]
        assert choice.input_value() == "main"
        choice.select_option("1.0.0")
        tab.wait_for_url(f"{address}/1.0.0/reference/collections/some_module.html")
        tab.goto(f"{address}/main/reference/index.html")
        choice.select_option("1.0.0")
        tab.wait_for_url(f"{address}/1.0.0/index.html")
        tab.goto(f"{address}/main/search.html?q=parameters")
        tab.locator("#search-results a", has_text="some module").first.wait_for()
    tab.close()
