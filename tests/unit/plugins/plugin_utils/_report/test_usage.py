# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much the GPUs are used, before it is HTML, and in it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import page, render, usage

from tests.support.fleets import H100, data, idle, part, row, space
from tests.support.fleets import usage as measured

NODE = row("gpu-0003", H100, part(8, 8))


def made(**changes: t.Any) -> usage.Usage:
    found = usage.usage_of({"usage": measured({}, **changes)})
    assert found
    return found


def html(**changes: t.Any) -> str:
    return render.html(page.page_of(data([NODE], **changes), "Test", None))


def test_nothing_is_said_of_what_was_not_read() -> None:
    assert usage.usage_of(data([NODE])) is None and usage.of_node(data([NODE]), "gpu-0003") == ""
    assert 'id="idle"' not in html() and "Utilisation" not in html()


def test_the_largest_holder_comes_first_and_then_the_worst() -> None:
    spaces = [space("a", 4, 90.0), space("b", 8, None), space("c", 8, 1.0, idle=3)]
    assert [each.name for each in made(namespaces=spaces).namespaces] == ["c", "b", "a"]


def test_many_namespaces_and_idle_gpus_are_counted() -> None:
    spaces = [space(f"team-{number}", 1, 5.0) for number in range(usage.USES_LISTED + 2)]
    found = made(
        namespaces=spaces, idle_holders=[idle(f"pod-{number}", 0, 1.0) for number in range(usage.USES_LISTED + 5)]
    )
    assert (len(found.namespaces), found.more_namespaces) == (usage.USES_LISTED, 2)
    assert (len(found.idle_gpus), found.more_idle_gpus) == (usage.USES_LISTED, 5)


@pytest.mark.parametrize(
    ("begin", "words"),
    [
        ("2026-11-23T11:00:00Z", "over the last hour"),
        ("2026-11-23T06:00:00Z", "over 6 hours"),
        ("2026-11-22T12:00:00Z", "over 24 hours"),
        ("2026-11-21T12:00:00Z", "over 2 days"),
        ("2026-11-16T12:00:00Z", "over 7 days"),
    ],
)
def test_the_time_of_the_means_is_in_words(begin: str, words: str) -> None:
    span = {"begin": begin, "end": "2026-11-23T12:00:00Z", "step_s": 300}
    assert made(time_range=span).when == words


def test_exporters_know_neither_hours_nor_what_was_paid() -> None:
    now = {"time_range": None, "idle_holders": [idle("jupyter-ada-0", 3, None)]}
    found = made(**now)
    assert (found.when, found.has_hours, found.has_cost, found.idle_gpus[0].cost) == ("now", False, True, "2.50")
    text = html(usage=measured({"gpu-0003": 38.4}, **now))
    assert "Held for hours" not in text and "Cost per hour" in text and "38 % now" in text


def test_without_a_price_nothing_is_said_of_cost() -> None:
    free = {"cost_per_hour": None, "cost": None}
    total = measured({})["summary"] | {"idle_cost": None, "power_w": None, "mean_utilisation": None}
    found = made(summary=total, namespaces=[space("a", 1, None, cost=None)], idle_holders=[idle("p", 0, 3.0, **free)])
    assert (found.has_cost, found.cost, found.power, found.mean) == (False, "", "", None)
    text = html(usage=measured({}, summary=total, namespaces=[space("a", 1, None, cost=None)], idle_holders=[]))
    assert (
        "Unknown" in text and "No pod leaves a GPU idle." in text and "cost" not in text.partition("<main")[2].lower()
    )


def test_a_mig_instance_and_its_pods_are_named() -> None:
    pods = [{"namespace": "team", "pod": f"p-{number}", "container": "c"} for number in range(5)]
    (found,) = made(idle_holders=[idle("x", 2, 1.5, mig_profile="1g.10gb", pods=pods)]).idle_gpus
    assert (found.gpu, found.hours) == ("2, MIG 1g.10gb", "1.5")
    assert found.pods == "team/p-0, team/p-1, team/p-2 and 2 more"


def test_the_page_shows_the_sum_the_holders_and_each_node() -> None:
    text = html(usage=measured({"gpu-0003": 12.4}))
    for said in ("Utilisation over 7 days", "2 of 12 held are idle", "which cost 300.00", "41.2 kW now"):
        assert said in text, said
    for said in ("notebooks/jupyter-ada-0", "96.0", "240.00", "12 % over 7 days", "88 %"):
        assert said in text, said


def test_no_idle_gpu_has_no_cost() -> None:
    busy = measured({})["summary"] | {"idle": 0, "idle_cost": 0.0}
    text = html(usage=measured({}, summary=busy, idle_holders=[]))
    assert "0 of 12 held are idle" in text and "which cost" not in text


def test_another_use_of_the_same_fleet_is_no_change() -> None:
    before = page.page_of(data([NODE], usage=measured({"gpu-0003": 10.0})), "Test", None)
    after = page.page_of(data([NODE], usage=measured({"gpu-0003": 90.0})), "Test", before.state)
    assert not after.changes.is_new and after.changes.lines == ()


def test_hostile_names_are_escaped() -> None:
    evil = "<script>alert(1)</script>"
    holders = [idle(evil, 0, 1.0, node=evil, model=evil, mig_profile=evil)]
    assert evil not in html(usage=measured({}, namespaces=[space(evil, 1, 1.0)], idle_holders=holders))
