# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a request is sent again. test_api.py shows the same with a server."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.tries import (
    APPLY,
    LONGEST_PAUSE_S,
    MERGE,
    Tries,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(f"{Tries.__module__}.time.monotonic", lambda: now[0])
    return now


def test_the_pauses_grow_and_end(clock: list[float]) -> None:
    tries, pauses = Tries("GET", "/thing", None, {}), list[float]()
    while (pause := tries.pause_s(500, None, 0.0)) is not None:
        pauses.append(pause)
        clock[0] += pause
    assert pauses == [0.25, 0.5, 1.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_pause_that_the_server_asks_for_counts(clock: list[float]) -> None:
    assert Tries("GET", "/thing", None, {}).pause_s(503, "3", 0.0) == 3.0
    assert Tries("GET", "/thing", None, {}).pause_s(503, "60", 0.0) is None
    assert Tries("POST", "/thing", None, {}).pause_s(429, None, 0.0) == 1.0
    assert Tries("POST", "/pods/a/eviction", None, {}).pause_s(429, "1", 0.0) is None


@pytest.mark.parametrize(
    ("method", "kind", "body", "is_repeatable"),
    [
        ("GET", "", None, True),
        ("DELETE", "application/json", '{"preconditions": {"uid": "a"}}', True),
        ("PATCH", APPLY, "{}", True),
        ("PATCH", MERGE, '{"metadata": {"labels": {"a": "b"}}}', True),
        ("PATCH", MERGE, '{"metadata": {"resourceVersion": "7", "labels": {"a": "b"}}}', False),
        ("PATCH", "application/json-patch+json", "[]", False),
        ("POST", "application/json", "{}", False),
    ],
)
def test_a_connection_that_broke_is_tried_again_for_what_changes_nothing_twice(
    clock: list[float], method: str, kind: str, body: str | None, is_repeatable: bool
) -> None:
    tries = Tries(method, "/thing", None, {"Content-Type": kind} if kind else {}, body)
    assert tries.pause_s(None, None, 0.0) == (0.25 if is_repeatable else None)


def test_an_answer_about_the_request_itself_is_final(clock: list[float]) -> None:
    assert Tries("GET", "/thing", None, {}).pause_s(404, None, 0.0) is None
