# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sphinx settings; scripts/docs.sh combines these pages with the generated pages."""

from __future__ import annotations

import posixpath
import re
import typing as t
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst.directives.parts import Contents

project = "gpuops.nvidia"
author = "gpuops.nvidia contributors"
copyright = "2026 " + author  # noqa: A001  # the name that Sphinx reads
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
antsibull_ext_color_scheme = "none"  # site.css has the colours
templates_path = ["_templates"]
exclude_patterns = ["docsite", "_static", "_templates"]
# Furo's own parts, and below them the choice of the version.
html_sidebars = {
    "**": [
        *(f"sidebar/{part}.html" for part in ("brand", "search", "scroll-start", "navigation", "scroll-end")),
        "versions.html",
    ]
}
myst_heading_anchors = 3
# Sphinx cannot check links to the documentation of other collections and of ansible-core, which is on other sites.
suppress_warnings = ["ref.ref"]

# Links to the pages below a page: the rooms of the front page, the pages of a room, the generated pages of a wing.
_CHILD = re.compile(r"\[(?P<text>[^]]+)\]\((?P<page>\w+/index|\w+|collections/\w+)\.(?:md|rst)\)")


class NoContents(Contents):
    """Leave out the list of headings that antsibull-docs puts on each page: Furo shows one beside every page.

    Furo's style sheet would show the second list as an error.
    """

    def run(self) -> list[nodes.Node]:
        return []


def lead_inside(app: t.Any, name: str, source: list[str]) -> None:
    """Turn links to the published site into links to the pages of this build, so that a reader keeps the version."""
    folder = posixpath.dirname(name)

    def inside(link: re.Match[str]) -> str:
        page = link["page"]
        ending = next((each for each in (".md", ".rst") if Path(app.srcdir, page + each).exists()), ".html")
        return f"]({posixpath.relpath(page, folder or '.')}{ending}{link['anchor'] or ''})"

    address = re.escape(app.config.html_baseurl)
    source[0] = re.sub(rf"\]\({address}(?P<page>[\w/]+)\.html(?P<anchor>#[\w-]+)?\)", inside, source[0])


def add_toctree(_app: t.Any, name: str, source: list[str]) -> None:
    """Make the menu from the links, so that readers of the repository see no directives.

    An index page gets a toctree of the pages that it links to, and a wing's page gets a toctree of the roles, modules
    and filters.
    """
    entries = dict.fromkeys(_entry(link) for link in _CHILD.finditer(source[0]) if _belongs(link["page"], name))
    if entries:
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *entries, "```", ""])


def _belongs(page: str, parent: str) -> bool:
    return parent.endswith("index") or page.startswith("collections/")


def _entry(link: re.Match[str]) -> str:
    """Return the line of a toctree. The titles of generated pages are too long for a menu, so use the link's text."""
    page = link["page"]
    return f"{link['text'].strip('`')} <{page}>" if page.startswith("collections/") else page


def setup(app: t.Any) -> None:
    """Register the hooks. The menu is made from links that already lead inside."""
    app.add_directive("contents", NoContents, override=True)
    app.connect("source-read", lead_inside, priority=400)
    app.connect("source-read", add_toctree)
