# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A list of the Kubernetes API, read while it arrives."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import list_reader


def pieces(text: str, size: int) -> list[bytes]:
    data = text.encode()
    return [data[start : start + size] for start in range(0, len(data), size)]


ITEMS = '[{"a":"}]{","b":[1,{"items":[]}]},{"c":"ä"}, {}]'
LIST = f'{{"kind":"NodeList","metadata":{{"resourceVersion":"42"}},"items":{ITEMS},"x":1}}'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("parsed", [1, 20, 1 << 18])
def test_a_list_is_read_piece_by_piece(size: int, parsed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_reader, "PIECE", parsed)
    reader = list_reader.ListReader()
    assert list(reader.objects(pieces(LIST, size))) == [{"a": "}]{", "b": [1, {"items": []}]}, {"c": "ä"}, {}]
    assert reader.envelope["metadata"] == {"resourceVersion": "42"} and reader.envelope["x"] == 1


@pytest.mark.parametrize(
    "text", ['{"items": []}', '{"items":null,"metadata":{}}', '{"metadata": {}, "items" : [ ] }', '{"kind":"Status"}']
)
def test_a_list_may_be_empty(text: str) -> None:
    assert list(list_reader.ListReader().objects(pieces(text, 5))) == []


@pytest.mark.parametrize(
    "text", ["", '{"items":[{"a":1}', '{"items":[{"a":1},', '{"items":[{"a"', "<html>", '{"items":[1]']
)
def test_what_is_no_whole_list_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        list(list_reader.ListReader().objects(pieces(text, 4)))


def test_objects_are_yielded_before_the_list_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_reader, "PIECE", 10)
    found = list_reader.ListReader().objects(iter([b'{"items":[{"a":1},{"b"', b":2}]}"]))
    assert next(found) == {"a": 1}
