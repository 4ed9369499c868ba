# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import LAYOUT_LABEL, SHARING_LABEL

LABEL, MARK = "nvidia.com/device-plugin.config", "gpuops.nvidia/sharing"
THEN = 1767225600.0


def marked(label: str | None, mark: str | None) -> dict[str, t.Any]:
    labels = {} if label is None else {LABEL: label}
    return {"metadata": {"labels": labels, "annotations": {} if mark is None else {MARK: mark}}}


def test_the_patch_marks_the_label_that_it_sets_and_removes_both() -> None:
    made = SHARING_LABEL.metadata("t4-0a3a0ca6", THEN)
    assert made == {"labels": {LABEL: "t4-0a3a0ca6"}, "annotations": {MARK: "t4-0a3a0ca6 2026-01-01T00:00:00Z"}}
    assert SHARING_LABEL.is_ours({"metadata": made}) and SHARING_LABEL.value_of({"metadata": made}) == "t4-0a3a0ca6"
    assert SHARING_LABEL.metadata(None, THEN) == {"labels": {LABEL: None}, "annotations": {MARK: None}}


@pytest.mark.parametrize(
    ("label", "mark", "is_ours"),
    [
        ("a", "a 2026-01-01T00:00:00Z", True),
        ("a", "a", True),
        ("b", "a 2026-01-01T00:00:00Z", False),
        ("a", None, False),
        (None, "a 2026-01-01T00:00:00Z", False),
        (None, None, False),
    ],
)
def test_a_label_is_ours_if_the_mark_repeats_it(label: str | None, mark: str | None, is_ours: bool) -> None:
    assert SHARING_LABEL.is_ours(marked(label, mark)) is is_ours


def test_a_label_is_young_for_a_while() -> None:
    node = marked("a", "a 2026-01-01T00:00:00Z")
    assert SHARING_LABEL.is_young(node, THEN + 600.0, 600.0) and not SHARING_LABEL.is_young(node, THEN + 601.0, 600.0)
    assert not SHARING_LABEL.is_young(marked("b", "a 2026-01-01T00:00:00Z"), THEN, 600.0)
    assert not SHARING_LABEL.is_young(marked("a", "a"), THEN, 600.0)
    assert not SHARING_LABEL.is_young(marked("a", "a soon"), THEN, 600.0)


def test_a_mark_without_a_time_proves_the_label_and_says_nothing_of_its_age() -> None:
    made = LAYOUT_LABEL.metadata("all-1g.10gb")
    assert made == {
        "labels": {"nvidia.com/mig.config": "all-1g.10gb"},
        "annotations": {"gpuops.nvidia/mig": "all-1g.10gb"},
    }
    node = {"metadata": made}
    assert LAYOUT_LABEL.is_ours(node) and not LAYOUT_LABEL.is_young(node, THEN, 600.0)
    assert not SHARING_LABEL.is_ours(node)
