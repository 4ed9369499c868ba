# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page as a whole, before it is HTML."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import page
from inline_snapshot import snapshot as wording

from tests.support.fleets import A100, H100, L4, data, finding, fleet, gpu, part, row


def made(*rows: dict[str, t.Any], former: t.Any = None, **changes: t.Any) -> page.Page:
    return page.page_of(data(rows, **changes), "Test", former)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], wording("No GPU node was found.")),
        ([row("a", H100, part(8, 0))], wording("The GPU node is in service.")),
        ([row("a", H100, part(8, 0)), row("b", H100, part(8, 0))], wording("Both GPU nodes are in service.")),
        ([row(str(n), H100, part(8, 0)) for n in range(1200)], wording("All 1,200 GPU nodes are in service.")),
        ([row("a", H100, part(8, 0)), row("b", H100)], wording("1 of 2 GPU nodes are in service.")),
    ],
)
def test_the_headline_is_the_answer(rows: list[t.Any], expected: str) -> None:
    assert made(*rows).headline == expected


def test_each_resource_has_one_total() -> None:
    rows = (
        row("a", H100, part(8, 3, allocatable=7)),
        row("b", A100, part(1, 1), part(7, 2, profile="1g.10gb"), part(2, 0, profile="3g.40gb")),
        row("c", A100, part(7, 7, profile="1g.10gb"), cordoned=True),
    )
    totals = made(*rows).totals
    assert (totals.nodes, totals.serving, totals.missing, totals.held) == (3, 2, 1, 13)
    assert totals.serving_percent == 67
    assert totals.devices == (
        page.Share("nvidia.com/gpu", 8, 50, "4 of 8"),
        page.Share("nvidia.com/mig-1g.10gb", 14, 64, "9 of 14"),
        page.Share("nvidia.com/mig-3g.40gb", 2, 0, "0 of 2"),
    )


def test_shares_with_a_name_of_their_own_have_a_total_of_their_own() -> None:
    shared = {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 16}
    rows = (
        row("a", H100, part(4, 0), allocatable={"nvidia.com/gpu": 4}),
        row("b", H100, part(16, 0), allocatable=shared),
    )
    assert [(each.name, each.more) for each in made(*rows).totals.devices] == [
        ("nvidia.com/gpu", "0 of 4"),
        ("nvidia.com/gpu.shared", "0 of 16"),
    ]


def test_what_nobody_has_counted_is_not_zero() -> None:
    found = made(row("a", H100, part(8, None), part(7, None, profile="1g.10gb")))
    assert found.totals.held is None
    assert found.totals.devices[1].more == "7"


@pytest.mark.parametrize(("number", "total", "expected"), [(0, 9, 0), (1, 1000, 1), (1, 2, 50), (5, 0, 0)])
def test_a_share_that_exists_is_seen(number: int, total: int, expected: int) -> None:
    assert page.percent(number, total) == expected


def test_states_models_and_sizes_of_the_picture() -> None:
    found = made(row("a", H100, part(8, 0)), row("b", L4, part(4, 0)), row("c", L4, part(4, 0), cordoned=True))
    assert [(state.key, number) for state, number in found.states] == [("out", 1), ("ok", 2)]
    assert [(name, [node.name for node in nodes]) for name, nodes in found.models] == [
        ("L4", ["b", "c"]),
        ("H100 80GB HBM3", ["a"]),
    ]
    sizes = [made(*[row(str(n), L4, part(1, 0)) for n in range(count)]).size for count in (48, 49, 300, 301)]
    assert sizes == ["l", "m", "m", "s"]


def test_the_verdict_is_said_in_its_own_words() -> None:
    verdict = {"state": "unknown", "message": "The verdict is unknown.", "reasons": []}
    assert made(stack={"nodes": [], "verdict": verdict}).message == "The verdict is unknown."
    assert made(stack=None).message == wording("The cluster could not be read.")


def test_findings_point_to_nodes_and_drift_stands_apart() -> None:
    quotes = [{"text": "x" * 5000, "source": "kernel log", "node": "a"}, {"text": "y", "source": "pods", "node": ""}]
    long = finding(
        "Long", "It is long", "failure", [f"n{n}" for n in range(30)], quotes=quotes, url="javascript:alert(1)"
    )
    drift = finding("FleetDriftVBIOS", "VBIOS", "warning", ["a"], certainty="likely", tell_apart=["Look."])
    found = made(row("a", H100, part(8, 0)), findings=[long, drift])
    (first,), (second,) = found.findings, found.drift
    assert (first.number, first.severity, first.level, first.url) == (0, "Failure", "failure", "")
    assert (first.nodes[0], len(first.nodes), first.more_nodes) == (("n0", None), page.NODES_LISTED, 10)
    assert first.quotes == (("x" * page.LONG + "\u2026", "kernel log, a"), ("y", "pods"))
    assert (second.number, second.nodes, second.certainty, second.tell_apart) == (1, (("a", 0),), "likely", ("Look.",))
    assert second.url.startswith("https://")
    assert found.levels == {"failure": 1, "warning": 1, "ok": 0}


def test_versions_name_the_nodes_of_what_is_rare() -> None:
    rows = [row(f"n{n}", H100, part(8, 0), driver="570.86.15" if n == 3 else "580.95.05") for n in range(5)]
    hosts = {"n0": {"gpus": [gpu(0)]}}
    tables = {table.title: table.rows for table in made(*rows, hosts=hosts).versions}
    assert tables["Driver"] == (page.Share("580.95.05", 4, 80, ""), page.Share("570.86.15", 1, 20, "n3"))
    assert tables["VBIOS"] == (page.Share("96.00.74.00.01", 1, 20, "n0"),)
    assert set(tables) == {
        *("Driver", "Kernel", "Operating system", "Container runtime", "VBIOS", "infoROM", "GSP firmware")
    }


def test_namespaces_are_ordered_by_what_they_hold() -> None:
    def pod(namespace: str, number: int) -> dict[str, t.Any]:
        return {"namespace": namespace, "name": "p", "node": "a", "gpus": {"nvidia.com/gpu": number}}

    found = made(pods=[pod("a", 1), pod("b", 5), pod("a", 2)]).namespaces
    assert found == (page.Share("b", 5, 62, "1"), page.Share("a", 3, 38, "2"))
    many = made(pods=[pod(f"ns-{n}", 1) for n in range(35)]).namespaces
    assert (len(many), many[-1]) == (page.NAMESPACES + 1, page.Share("5 more namespaces", 5, 14, "5"))


def test_times_are_words() -> None:
    assert made().taken_words == "23 November 2026, 12:00 UTC"
    assert made(taken="yesterday").taken_words == "yesterday"


def test_only_what_the_page_shows_makes_it_new() -> None:
    first = made(row("a", H100, part(8, 0)))
    again = made(row("a", H100, part(8, 0)), taken="2026-11-24T12:00:00Z", took_s=9.9, former=first.state)
    other = made(row("a", H100, part(8, 1)), former=again.state)
    assert (first.changes.is_new, again.changes.is_new, other.changes.is_new) == (True, False, True)
    assert other.changes.lines == ("a: GPUs 0 of 8 \u2192 1 of 8.",)
    assert other.since_words == "24 November 2026, 12:00 UTC"


def test_gaps_are_listed() -> None:
    assert made(gaps=[{"what": "events", "why": "Not permitted."}]).gaps == (("events", "Not permitted."),)


def test_a_fleet_of_each_size_makes_a_page() -> None:
    for count in (20, 24, 100):
        found = page.page_of(fleet(count), "Test", None)
        assert {state.key for state, number in found.states} >= {"bad", "warn", "work", "out", "ok"}
