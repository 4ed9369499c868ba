# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has changed since the last report."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import changes
from inline_snapshot import snapshot as wording


def state(**changed: t.Any) -> dict[str, t.Any]:
    return {
        "taken": "2026-11-22T12:00:00Z",
        "digest": "a",
        "nodes": {"gpu-0": ["In service", "1 of 8", "580.95.05", "6.8.0"], "gpu-1": ["Failing", "0 of 8", "", "6.8.0"]},
        "findings": [["Nouveau", "nouveau holds the GPU.", "nouveau holds the GPU"]],
        **changed,
    }


def kept(**changed: t.Any) -> dict[str, t.Any]:
    """Return the state that a page has kept."""
    return changes.compare(state(**changed), None)[0]


def test_the_first_report_has_nothing_to_compare_with() -> None:
    found, changed = changes.compare(state(), None)
    assert changed == changes.Changes(None, ())
    assert found["changes"] == {"since": None, "lines": [], "more": 0}


def test_changes_are_sentences_and_equal_ones_are_one() -> None:
    now = state(
        digest="b",
        nodes={
            "gpu-1": ["In service", "0 of 8", "580.95.05", "6.8.0"],
            "gpu-2": ["In service", "0 of 8", "580.95.05", "6.8.0"],
        },
        findings=[["Xid", "The GPU is lost.", "A GPU has fallen off the bus"]],
    )
    assert changes.compare(now, kept())[1] == changes.Changes(
        "2026-11-22T12:00:00Z",
        (
            "1 node is new: gpu-2.",
            "1 node is gone: gpu-0.",
            "gpu-1: state Failing \u2192 In service.",
            "gpu-1: driver unknown \u2192 580.95.05.",
            wording("New finding: A GPU has fallen off the bus."),
            "Solved: nouveau holds the GPU.",
        ),
    )


def test_many_nodes_are_counted_and_many_changes_cut() -> None:
    now = state(digest="b", nodes={f"gpu-{n:03d}": ["Failing", "", str(n), ""] for n in range(100)})
    before = kept(nodes={f"gpu-{n:03d}": ["In service", "", "", ""] for n in range(90)})
    changed = changes.compare(now, before)[1]
    assert changed.lines[0] == "10 nodes are new: gpu-090, gpu-091, gpu-092, gpu-093, gpu-094, and 5 more."
    assert changed.lines[1] == "gpu-000, gpu-001, gpu-002, and 87 more: state In service \u2192 Failing."
    assert (len(changed.lines), changed.more) == (changes.CHANGES_LISTED, 92 - changes.CHANGES_LISTED)


def test_an_unchanged_fleet_keeps_the_changes_of_the_last_report() -> None:
    second, changed = changes.compare(state(digest="b", findings=[]), kept())
    third, same = changes.compare(state(digest="b", findings=[], taken="2026-11-24T12:00:00Z"), second)
    assert (changed.is_new, same.is_new) == (True, False)
    assert (same.since, same.lines) == ("2026-11-22T12:00:00Z", ("Solved: nouveau holds the GPU.",))
    assert third["changes"] == second["changes"]


def broken() -> t.Iterator[t.Any]:
    yield from (None, [], "x", {}, {**kept(), "form": 0})
    for key, value in (
        ("taken", 1),
        ("digest", None),
        ("nodes", []),
        ("nodes", {"gpu-0": ["too", "few"]}),
        ("nodes", {"gpu-0": [1, 2, 3, 4]}),
        ("findings", {}),
        ("findings", [["a", "b"]]),
        ("changes", []),
        ("changes", {"since": 1, "lines": [], "more": 0}),
        ("changes", {"since": None, "lines": "x", "more": 0}),
        ("changes", {"since": None, "lines": [1], "more": 0}),
        ("changes", {"since": None, "lines": [], "more": "1"}),
    ):
        yield {**copy.deepcopy(kept()), key: value}


@pytest.mark.parametrize("former", list(broken()))
def test_a_page_that_somebody_edited_is_no_former_page(former: t.Any) -> None:
    assert changes.compare(state(), former)[1].since is None


def test_the_state_is_found_in_a_page() -> None:
    assert changes.state_text('<p>x</p><script type="application/json" id="state">{"a": 1}</script>') == '{"a": 1}'
    assert changes.state_text("<p>x</p>") is None
