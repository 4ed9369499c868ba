# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as door
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import reader as readers
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader, described
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import DAEMONSETS, EVENTS, GPUCLUSTERS, NODES, PODS, FakeApi, Reply, refusal


@pytest.fixture
def reader(api: FakeApi) -> GapReader:
    return GapReader(api.connection)


def refuse(api: FakeApi, *paths: str, status: int = 403) -> None:
    """Let the API server refuse what begins with one of these paths."""

    def answer(method: str, path: str) -> Reply | None:
        return refusal(status, f'cannot list "{path}"') if path.startswith(paths) else None

    api.answer = answer


def test_what_can_be_read_is_no_gap(api: FakeApi, reader: GapReader) -> None:
    assert len(reader.list(NODES) or []) == 2
    assert reader.list("/apis/none/v1/things") is None
    assert reader.gaps == []
    assert reader.has_read(NODES)


@pytest.mark.parametrize("status", [403, 500, 404 + 18])
def test_a_collection_that_is_refused_is_one_gap(api: FakeApi, reader: GapReader, status: int) -> None:
    refuse(api, PODS, status=status)
    assert reader.list(PODS) is None
    assert reader.table(PODS) == []
    assert reader.get(f"{PODS}/one") is None
    (gap,) = reader.gaps
    assert gap.what == "pods in gpu-operator"
    assert PODS in gap.why and gap.why.endswith(".")
    assert not reader.has_read(PODS)
    assert reader.has_read(DAEMONSETS)


def test_large_and_optional_collections_are_gaps_too(api: FakeApi, reader: GapReader) -> None:
    refuse(api, NODES, GPUCLUSTERS)
    assert reader.large_list(NODES, lambda item: item) == ([], "")
    listed = reader.list_readable(GPUCLUSTERS)
    assert (listed.items, bool(listed.refusal), listed.is_served) == ([], True, True)
    assert [gap.what for gap in reader.gaps] == ["nodes", "gpuclusters"]


def test_a_kind_that_is_not_served_is_no_gap(reader: GapReader) -> None:
    listed = reader.list_readable(GPUCLUSTERS)
    assert (listed.items, listed.refusal, listed.is_served) == ([], "", False)
    assert reader.gaps == []


def test_an_api_that_hangs_is_a_gap(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "ANSWER_S", 0.05)

    def hang(method: str, path: str) -> Reply | None:
        if path == EVENTS:
            time.sleep(0.2)
        return None

    api.answer = hang
    reader = GapReader(api.connection)
    assert reader.first_page(EVENTS) == []
    assert reader.gaps[0].what == "events in gpu-operator"
    assert "Read timed out" in reader.gaps[0].why


def test_the_first_page_of_a_long_list(api: FakeApi, reader: GapReader) -> None:
    api.answer = lambda method, path: (200, {"items": [{"metadata": {}}], "metadata": {"continue": "more"}})
    assert len(reader.first_page(EVENTS)) == 1
    assert api.log[-1][2] == {"limit": str(door.PAGE)}
    assert reader.gaps == [Gap("all events in gpu-operator", wording("There are many: only the first 500 were read."))]


def test_a_log_that_is_gone_is_empty_and_one_that_is_refused_is_a_gap(api: FakeApi, reader: GapReader) -> None:
    assert reader.log("gpu-operator", "gone", {"container": "a"}) == ""
    refuse(api, f"{PODS}/waiting", status=400)
    assert reader.log("gpu-operator", "waiting", {}) == ""
    assert reader.gaps == []
    refuse(api, f"{PODS}/a/", f"{PODS}/b/")
    assert reader.log("gpu-operator", "a", {}) == reader.log("gpu-operator", "b", {}) == ""
    assert [gap.what for gap in reader.gaps] == ["logs of pods in gpu-operator"]


def test_an_attempt_is_a_gap_in_its_own_words(reader: GapReader) -> None:
    def fail() -> int:
        raise GpuOpsError("No such thing.", reason="ClaimsUnreadable")

    assert reader.attempt("who holds GPUs", fail, -1) == -1
    assert reader.attempt("something else", lambda: 5, -1) == 5
    assert reader.gaps == [Gap("who holds GPUs", "No such thing.")]


def test_requests_in_words() -> None:
    assert described(observe.NODES_PATH) == "nodes"
    assert described("/api/v1/namespaces/gpu-operator") == "namespaces"
    assert described("/apis/apps/v1/namespaces/a/daemonsets/b") == "daemonsets in a"
    assert described("/version") == "/version"
