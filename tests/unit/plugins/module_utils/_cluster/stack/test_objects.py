# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pure functions about any object of the Kubernetes API."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects


def test_names() -> None:
    node = {"metadata": {"name": "gpu-0000"}}
    pod = {"metadata": {"name": "web", "namespace": "default"}}
    assert (objects.name_of(node), objects.full_name(node)) == ("gpu-0000", "gpu-0000")
    assert (objects.name_of(pod), objects.full_name(pod)) == ("web", "default/web")


@pytest.mark.parametrize("given", [{}, {"labels": None, "annotations": None}])
def test_an_object_may_have_no_labels_and_annotations(given: dict[str, None]) -> None:
    item = {"metadata": {"name": "x", **given}}
    assert (objects.labels_of(item), objects.annotations_of(item)) == ({}, {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T00:01:00Z", 60), ("1970-01-01T00:01:00.999999Z", 60), (None, 0), ("", 0)],
)
def test_times(text: str | None, seconds: float) -> None:
    assert objects.timestamp(text) == seconds


def test_status_updates_are_not_edits() -> None:
    created, edited, updated = (f"1970-01-01T00:00:{second:02}Z" for second in (7, 20, 30))
    writes = [{"manager": "gpuops.nvidia", "time": edited}, {"manager": "x", "time": updated, "subresource": "status"}]
    assert objects.last_write({"metadata": {"creationTimestamp": created, "managedFields": writes}}) == 20
    assert objects.last_write({"metadata": {"creationTimestamp": created}}) == 7
    assert objects.last_write({"metadata": {}}) == 0


def test_annotations_are_no_edits() -> None:
    writes = [
        {"manager": "a", "time": "1970-01-01T00:00:20Z", "fieldsV1": {"f:spec": {}}},
        {"manager": "b", "time": "1970-01-01T00:00:30Z", "fieldsV1": {"f:metadata": {"f:annotations": {}}}},
    ]
    assert objects.last_write({"metadata": {"managedFields": writes}}) == 20


@pytest.mark.parametrize(("text", "number"), [("8", 8), (8, 8), ("1k", 1000), ("12k", 12000), (0, 0)])
def test_quantities(text: str | int, number: int) -> None:
    assert objects.quantity(text) == number


def test_the_oldest_object_comes_first_and_the_name_decides_within_a_second() -> None:
    made = [
        {"metadata": {"name": name, "creationTimestamp": time}}
        for name, time in (("b", "2026-01-02T00:00:00Z"), ("c", "2026-01-01T00:00:00Z"), ("a", "2026-01-02T00:00:00Z"))
    ]
    assert [objects.name_of(item) for item in sorted(made, key=objects.seniority)] == ["c", "a", "b"]
