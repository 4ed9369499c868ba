# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check every page of a built site: `check_site.py FOLDER [ADDRESS]`.

A page shows no error of the theme, its links lead to pages, anchors and files of the same build, and the search knows
it. A link to ADDRESS, where the site is published, would leave the version that its reader has chosen.
"""

from __future__ import annotations

import json
import sys
import typing as t
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

ESCAPE = "this-will-duplicate-information-and-it-is-still-useful-here"
"""Furo shows an error for each list of contents without this class, since it has such a list beside every page."""
OF_THE_THEME = {"genindex", "search"}
"""Pages that the search leaves out."""


class Page(HTMLParser):
    """What a page has: its anchors, its links, and whether the theme shows an error."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.has_error = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        classes = given.get("class", "").split()
        self.has_error |= "contents" in classes and ESCAPE not in classes
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag in ("a", "img", "script") and (link := given.get("href") or given.get("src")):
            self.links.append(link)


def problems(folder: Path, address: str = "") -> t.Iterator[str]:
    """Yield a sentence for each fault."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    index = (folder / "searchindex.js").read_text()
    known = set(json.loads(index[index.index("{") : index.rindex("}") + 1])["docnames"])
    for path, page in pages.items():
        name = str(path.relative_to(folder))
        if page.has_error:
            yield f"{name} shows Furo's error about a list of contents."
        if name.removesuffix(".html") not in known | OF_THE_THEME:
            yield f"The search does not know {name}."
        for link in page.links:
            if address and link.startswith(address):
                yield f"{name} leaves its version with {link}."
            elif not is_served(link, path, pages):
                yield f"{name} links to {link}, which does not exist."


def is_served(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Return whether a link leads to another site, or to what this one has."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if target in pages and parts.fragment:
        return urllib.parse.unquote(parts.fragment) in pages[target].anchors
    return target.exists()


def main(folder: str, address: str = "") -> int:
    found = list(problems(Path(folder).resolve(), address))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
