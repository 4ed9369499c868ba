# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where secrets are in a text."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils import _secret_text


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in _secret_text.spans(text, "HIDDEN")]


def test_places_come_from_left_to_right_and_never_overlap() -> None:
    assert found("pw=a1 http://u:p@h token=b2") == ["a1", "u:p", "b2"]
    assert found("password=http://u:p1@h/x") == ["http://u:p1@h/x"]
    assert found("") == [] and found("nothing here") == []


def test_what_is_hidden_already_stays() -> None:
    assert found("pw=HIDDEN and http://HIDDEN@h") == []


def test_a_value_that_is_itself_a_name_is_taken_whole() -> None:
    assert found("args=--pw=a1 x") == ["a1"]
    assert found("token=token=token=a1") == ["token=token=a1"]


def test_prose_about_secrets_is_no_secret() -> None:
    for text in ("token: expired", "auth: required", "the key is missing", "pass: all", "password is wrong."):
        assert found(text) == [], text


def test_the_logins_of_addresses() -> None:
    assert _secret_text.logins("a http://u:p@h and netroot=iscsi:v:q@i") == ["u:p", "iscsi:v:q"]
    assert _secret_text.logins("no address") == []
