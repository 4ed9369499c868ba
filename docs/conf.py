# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sphinx settings; scripts/docs.sh combines these pages with the generated pages."""

from __future__ import annotations

import re
import typing as t

project = "gpuops.nvidia"
author = "gpuops.nvidia contributors"
copyright = "2026 " + author  # noqa: A001  # the name that Sphinx reads
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = project
myst_heading_anchors = 3
# Sphinx cannot check links to the documentation of other collections and of ansible-core, which is on other sites.
suppress_warnings = ["ref.ref"]

# Links to the pages below a page: the rooms of the front page, the pages of a room, the generated pages of a wing.
_CHILD = re.compile(r"\[(?P<text>[^]]+)\]\((?P<page>\w+/index|\w+|collections/\w+)\.(?:md|rst)\)")


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
    """Register the hook."""
    app.connect("source-read", add_toctree)
