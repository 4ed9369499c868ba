# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View

WORD = pattern("word", "word")


def test_without_evidence_nothing_is_known() -> None:
    view = View(Evidence())
    assert (view.rows, view.nodes, view.names, view.reasons) == ({}, {}, [], [])
    assert view.listed("daemonsets") is None
    assert view.facts("gpu-1") == {}


def test_nodes_and_hosts_are_found_by_name() -> None:
    row, node, facts = {"name": "gpu-2"}, {"metadata": {"name": "gpu-2"}}, {"driver": {}}
    evidence = Evidence(stack={"nodes": [row]}, objects={"nodes": [node], "events": []}, hosts={"a": {"facts": facts}})
    view = View(evidence)
    assert view.rows == {"gpu-2": row}
    assert view.nodes == {"gpu-2": node}
    assert view.names == ["a", "gpu-2"]
    assert view.facts("a") is facts
    assert view.listed("events") == []


def test_matches_of_one_node() -> None:
    lines = [TextLine("a word", node="gpu-1"), TextLine("a word", node="gpu-2")]
    view = View(Evidence(lines=lines), [WORD])
    assert len(view.hits(WORD)) == 2
    assert [hit.line.node for hit in view.hits(WORD, "gpu-2")] == ["gpu-2"]


def test_statuses_of_pods_and_messages_of_the_verdict_are_lines_too() -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "a word"}}}
    pod = {"metadata": {"name": "a"}, "spec": {"nodeName": "gpu-1"}, "status": {"containerStatuses": [waiting]}}
    reason = {"code": "ReconcileFailed", "message": "another word", "level": "failed"}
    view = View(Evidence(pods=[pod], stack={"verdict": {"reasons": [reason]}}), [WORD])
    assert [hit.line.text for hit in view.hits(WORD)] == ["ErrImagePull: a word", "another word"]
    assert view.reasons == [reason]


def test_what_rules_share_is_made_once() -> None:
    view, made = View(Evidence()), list[View]()

    def make(given: View) -> str:
        made.append(given)
        return "shared"

    assert [view.once(make), view.once(make)] == ["shared", "shared"]
    assert made == [view]


OF_PLUGIN = pattern("unable to load config", "unable to load config", of=("device-plugin",))
OF_TOOLKIT = pattern("unable to load config", "unable to load config", of=("toolkit",))
TOOLKIT = (
    TextLine("Error: unable to load config", source="text line 1"),
    TextLine("error running nvidia-toolkit", source="text line 2"),
)


def test_a_line_without_a_name_is_of_the_component_that_its_text_names() -> None:
    view = View(Evidence(lines=[*TOOLKIT]), [OF_PLUGIN, OF_TOOLKIT])
    assert view.hits(OF_PLUGIN) == []
    assert [hit.is_ownerless for hit in view.hits(OF_TOOLKIT)] == [False]


def test_other_texts_do_not_name_the_component_of_a_line() -> None:
    view = View(Evidence(lines=[TOOLKIT[0], TextLine(TOOLKIT[1].text, source="other line 2")]), [OF_PLUGIN])
    assert [hit.is_ownerless for hit in view.hits(OF_PLUGIN)] == [True]
