# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import answers
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("0.5", 0.5),
        ("Sun, 22 Nov 2026 12:00:03 GMT", 3.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
        ("-5", 1.0),
        ("nan", 1.0),
        ("soon", 1.0),
        ("", 1.0),
        (None, 1.0),
    ],
)
def test_a_pause_may_have_any_form(retry_after: str | None, seconds: float) -> None:
    noon = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC).timestamp()
    assert answers.pause_s(retry_after, noon) == seconds


def test_an_object_is_what_the_api_server_sent() -> None:
    assert answers.json_object(b'{"items": []}', "GET", "/thing") == {"items": []}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<h1>Sign in</h1> <p>to go on</p>", "Sign in to go on"),
        (b"", "no message"),
        (b"[1]", "[1]"),
        (b"\xff\xfe" + b"x" * 5000, "\ufffd\ufffd" + "x" * 198),
    ],
)
def test_a_page_in_place_of_an_object_is_one_sentence(body: bytes, words: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        answers.json_object(body, "GET", "/thing?limit=5")
    assert e.value.reason == "ServerError"
    assert f"answered GET /thing: {words}." in e.value.msg
