# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects in JSON and YAML, also in texts that are an attack."""

from __future__ import annotations

import time

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import saved_objects

POD = """apiVersion: v1
kind: Pod
metadata:
  name: a
  creationTimestamp: 2026-11-20T04:12:09Z
  labels: {n: "1", b: 2}
spec:
  containers:
  - name: c
    args: ["yes", yes, 0x10, 1.5, ~, null, true, 'true', 010]
status: {}
"""


def test_yaml_becomes_json_with_dates_as_text() -> None:
    (pod,) = saved_objects.from_yaml(POD)
    assert pod["metadata"]["creationTimestamp"] == "2026-11-20T04:12:09Z"
    args = pod["spec"]["containers"][0]["args"]
    assert args == ["yes", "yes", "0x10", 1.5, None, None, True, "true", "010"]
    assert pod["status"] == {}


def test_documents_and_keys_that_are_no_text() -> None:
    assert saved_objects.from_yaml("a: 1\n---\n- 2\n") == [{"a": 1}, [2]]
    assert saved_objects.from_yaml("1: a\n? [x]\n: b\n") == [{"1": "a", '["x"]': "b"}]
    # What comes before an error counts.
    assert saved_objects.from_yaml("a: 1\n---\nb: [\n") == [{"a": 1}]


BOMB = "a: &a [x,x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)},*{chr(97 + n)}]\n" for n in range(20))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "aliases"),
        ("[" * 100_000, "nested"),
        ("- " * 50_000 + "x", "nested"),
        ("{a: " * 400, "nested"),
        ("a: [", "no YAML"),
        ("\x01", "no YAML"),
        ("a: " + "x" * (saved_objects.YAML_BYTES + 1), "24 MiB"),
    ],
    ids=["aliases", "brackets", "dashes", "braces", "broken", "control", "long"],
)
def test_hostile_yaml_is_refused_at_once(text: str, why: str) -> None:
    started = time.process_time()
    with pytest.raises(saved_objects.UnreadableError, match=why):
        saved_objects.from_yaml(text)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "{", "nonsense", ""])
def test_hostile_json_is_refused(text: str) -> None:
    with pytest.raises(saved_objects.UnreadableError):
        saved_objects.from_json(text)


def test_json_within_a_text_ends_where_its_value_ends() -> None:
    assert saved_objects.from_json('x {"a": 1} y', 2) == ({"a": 1}, 10)


def test_lists_are_flattened_and_secrets_left_out() -> None:
    def item(name: str, kind: str = "Pod") -> dict[str, object]:
        return {"kind": kind, "metadata": {"name": name}}

    found = list(
        saved_objects.flattened(
            [
                {"kind": "List", "items": [item("a"), item("s", "Secret"), 7, {"metadata": {}}]},
                {"kind": "NodeList", "items": [{"metadata": {"name": "n"}}]},
                item("b"),
                item("t", "Secret"),
                {"kind": "Pod", "metadata": {"name": 7}},
                {"kind": "Pod", "metadata": []},
                "text",
            ]
        )
    )
    assert [(each["kind"], each["metadata"]["name"], listed) for each, listed in found] == [
        ("Pod", "a", True),
        ("Node", "n", True),
        ("Pod", "b", False),
    ]


def test_odd_parts_of_an_object_are_left_out() -> None:
    odd = {"kind": "Node", "metadata": {"name": "n", "labels": {"a": 1}, "annotations": "x"}, "spec": 1, "status": []}
    ((item, dummy),) = saved_objects.flattened(odd)
    assert item == {"kind": "Node", "metadata": {"name": "n", "labels": {"a": "1"}}}


def test_brackets_that_are_closed_again_are_not_deep() -> None:
    assert saved_objects.from_yaml("[[]] " * 1 + "\n") == [[[]]]
    (wide,) = saved_objects.from_yaml(f"[{'[],' * 5000}]")
    assert len(wide) == 5000


@pytest.mark.parametrize(("depth", "is_refused"), [(saved_objects.DEEPEST, False), (saved_objects.DEEPEST + 1, True)])
def test_lists_are_read_up_to_a_depth(depth: int, is_refused: bool) -> None:
    text = "\n".join(f"{'  ' * level}a:" for level in range(depth - 1)) + "\n" + "  " * (depth - 1) + "a: 1"
    if is_refused:
        with pytest.raises(saved_objects.UnreadableError, match="nested"):
            saved_objects.from_yaml(text)
    else:
        assert saved_objects.from_yaml(text)
