# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From the page's model to HTML: Jinja2, which Ansible brings along, with everything escaped."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import jinja2
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.bars import Box
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.nodes import NODE_STATES, State
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.page import Page
from markupsafe import Markup

FOLDER = Path(__file__).parent

_BOXES = {"held": "h", "free": "", "lost": "x", "empty": "e", "unknown": "u"}
"""The classes of boxes in the style sheet."""


def html(page: Page) -> str:
    """Return the page. Its policy allows only its own style and script, by their hashes."""
    css, js = _own("page.css"), _own("page.js")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["join_state"] = _counted
    template = environment.get_template("page.html.j2")
    return template.render(
        page=page,
        titles=dict(sorted((each.number, each.title) for each in (*page.findings, *page.drift))),
        state_titles={key: state.title for key, state in NODE_STATES.items()},
        boxes=_classes,
        css=css,
        js=js,
        hashes={"css": _hash(css), "js": _hash(js)},
    )


def _own(name: str) -> Markup:
    """Return a file of this folder, which is no text from outside. It must not end its element."""
    return Markup((FOLDER / name).read_text(encoding="utf-8"))  # noqa: S704


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _counted(each: tuple[State, int]) -> str:
    return f"{each[1]:,} {each[0].title[0].lower()}{each[0].title[1:]}"


def _classes(box: Box) -> Markup:
    """Return the class attribute of a box, from our own words and a number."""
    names = [_BOXES[box.state], f"w{box.width}" if box.width > 1 else ""]
    found = " ".join(filter(None, names))
    return Markup(' class="{}"').format(found) if found else Markup()
