# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page as HTML: well-formed, escaped, and without anything that a browser would fetch."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import changes, page, render

from tests.support.fleets import H100, data, finding, fleet, gpu, part, row

VOID = {"meta", "link", "input", "br", "rect"}
ADDRESSES = ("href", "src", "action", "srcset", "data", "poster", "formaction", "xlink:href")


class Document(html.parser.HTMLParser):
    """Reads a page: its elements with their attributes, its text, and whether they are nested as they should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        assert len({name for name, value in attrs}) == len(attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("style", "script"):
            self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def rendered(found: dict[str, t.Any], title: str = "Test", former: t.Any = None) -> str:
    return render.html(page.page_of(found, title, former))


@pytest.fixture(scope="module")
def text() -> str:
    return rendered(fleet(60), former=changes.compare(page.page_of(fleet(40), "", None).state, None)[0])


@pytest.fixture(scope="module")
def document(text: str) -> Document:
    return Document(text)


def test_all_elements_are_closed_and_every_id_is_unique(document: Document) -> None:
    ids = [attributes["id"] for tag, attributes in document.elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 60


def test_links_within_the_page_lead_somewhere(document: Document) -> None:
    ids = {attributes["id"] for tag, attributes in document.elements if "id" in attributes}
    inner = {each["href"][1:] for each in document.of("a") if each["href"].startswith("#")}
    assert inner <= ids
    named = {attributes["aria-labelledby"] for tag, attributes in document.elements if "aria-labelledby" in attributes}
    assert named <= ids


def test_nothing_is_fetched(document: Document) -> None:
    for tag, attributes in document.elements:
        found = [attributes[name] for name in ADDRESSES if name in attributes]
        assert all(tag == "a" or each.startswith(("#", "data:")) for each in found), (tag, found)
        assert not {name for name in attributes if name.startswith("on") or name == "style"}
    outside = {each["href"] for each in document.of("a") if not each["href"].startswith("#")}
    assert outside
    assert all(each.startswith("https://gpuops.github.io/gpuops.nvidia/") for each in outside), outside


def test_the_policy_allows_the_own_style_and_script_alone(text: str, document: Document) -> None:
    (policy,) = (each["content"] for each in document.of("meta") if "http-equiv" in each)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for element in ("style", "script"):
        found = re.search(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        assert found
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy


def test_screen_readers_find_landmarks_headings_and_headers_of_tables(document: Document) -> None:
    tags = [tag for tag, attributes in document.elements]
    assert [tags.count(tag) for tag in ("header", "nav", "main", "h1", "footer")] == [1, 1, 1, 1, 1]
    assert document.of("html")[0]["lang"] == "en"
    assert tags.count("table") == tags.count("caption") > 3
    assert all(each.get("scope") in ("col", "row") for each in document.of("th"))
    assert all(each.get("aria-label") for each in document.of("span") if each.get("role") == "img")
    assert len(document.of("section")) == 7


def test_every_node_has_a_cell_and_an_entry(document: Document) -> None:
    cells = [each for each in document.of("a") if each.get("class", "").startswith("c ")]
    entries = [each for each in document.of("details") if each.get("class") == "n"]
    assert len(cells) == len(entries) == 60
    assert all(each["aria-label"] for each in cells)


def test_the_page_keeps_its_state_for_the_next_one(text: str) -> None:
    found = json.loads(changes.state_text(text) or "")
    assert len(found["nodes"]) == 60
    assert rendered(fleet(60), former=found).count("Since the report of 23 November 2026, 12:00 UTC") == 1


def test_all_that_can_be_missing_has_words() -> None:
    empty = Document(rendered(data([], stack=None)))
    spoken = " ".join(empty.texts)
    for words in ("No GPU node was found", "No cause of a problem", "There is no earlier report", "could be read"):
        assert words in spoken
    uncounted = " ".join(Document(rendered(data([row("a", H100, part(8, None))]))).texts)
    assert "Nobody has counted" in uncounted
    assert "No pod holds a GPU" in " ".join(Document(rendered(data([row("a", H100, part(8, 0))]))).texts)


def test_an_unchanged_fleet_is_said_to_be_unchanged() -> None:
    first = page.page_of(data([row("a", H100, part(8, 0))]), "", None).state
    pod = {"namespace": "a", "name": "b", "node": "a", "gpus": {"nvidia.com/gpu": 0}}
    assert "as they were on 23 November" in rendered(data([row("a", H100, part(8, 0))], pods=[pod]), former=first)


# ---- hostile text ---------------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "</style><style>*{display:none}",
    "javascript:alert(1)",
    "x' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "\u202e\x1b[2J\x00",
    "a\u2028b\u2029c",
    "x" * 100_000,
]


@pytest.mark.parametrize("evil", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(evil: str) -> None:
    node = row(
        *(evil, evil, part(8, 3), part(7, 0, profile=evil)),
        **dict.fromkeys(("driver", "kernel", "os", "runtime", "left_out", "upgrade_state"), evil),
        taints=[evil],
        waiting_for={evil: evil},
    )
    quotes = [{"text": evil, "source": evil, "node": evil}]
    words: dict[str, t.Any] = {"cause": evil, "remedy": evil, "objects": [evil], "quotes": quotes, "url": evil}
    words |= {"consequences": [{"code": evil, "title": evil, "nodes": []}], "tell_apart": [evil], "certainty": "likely"}
    found = data(
        [node],
        taken=evil,
        pods=[{"namespace": evil, "name": evil, "node": evil, "gpus": {evil: 1}}],
        hosts={evil: {"gpus": [gpu(0, vbios=evil, inforom=evil, gsp=evil)]}},
        findings=[finding(evil, evil, "failure", [evil], **words), finding("FleetDrift", evil, "ok", [], **words)],
        gaps=[{"what": evil, "why": evil}],
    )
    found["stack"]["verdict"]["message"] = evil
    calm = json.loads(json.dumps(found).replace(json.dumps(evil)[1:-1], "calm"))
    text = rendered(found, evil)
    document, expected = Document(text), Document(rendered(calm, "calm"))
    assert [tag for tag, dummy in document.elements] == [tag for tag, dummy in expected.elements]
    assert [set(each) for dummy, each in document.elements] == [set(each) for dummy, each in expected.elements]
    assert all(not each["href"].lower().startswith("javascript") for each in document.of("a"))
    assert len(text) < 200_000
    assert "\x1b" not in text
    assert "49" not in "".join(document.texts).replace("2049", "")
    # The next report reads what this one has kept.
    kept = json.loads(changes.state_text(text) or "")
    assert page.page_of(found, evil, kept).changes.is_new is False


def test_a_thousand_nodes_fit_into_five_megabytes() -> None:
    text = rendered(fleet(1000))
    assert len(text.encode()) < 5_000_000
    assert text.count('class="n"') == 1000
