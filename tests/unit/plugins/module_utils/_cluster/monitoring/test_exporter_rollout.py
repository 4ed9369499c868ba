# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring import exporter_rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

Json = dict[str, t.Any]


def daemonset(mounted: str | None, updated: int = 3, generation: int = 2, name: str = "nvidia-dcgm-exporter") -> Json:
    volumes: list[Json] = [{"name": "run", "hostPath": {}}]
    volumes += [{"name": "metrics-config", "configMap": {"name": mounted}}] if mounted else []
    status = {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated}
    spec = {"template": {"spec": {"volumes": volumes}}}
    return {"metadata": {"name": name, "generation": generation}, "spec": spec, "status": status}


class Looks:
    """A cluster that shows other DaemonSets at each look."""

    def __init__(self, *looks: list[Json], rows: list[Json] | None = None) -> None:
        self._looks, self._rows = list(looks), rows or []

    def list(self, path: str, **query: str) -> list[Json]:
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    def table(self, path: str, **query: str) -> list[Json]:
        return self._rows


def wait(
    looks: Looks, wanted: str = "new", path: Path | None = None, serving: int = 0, timeout_s: float = 0.05
) -> None:
    request = types.SimpleNamespace(timeout_s=timeout_s, progress_path=str(path) if path else None)
    chosen = exporter_rollout.WantedList(wanted, frozenset({"old", "new"}), serving)
    exporter_rollout.wait(t.cast("t.Any", looks), "gpus", chosen, t.cast("t.Any", request))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter_rollout.waiting, "POLL_S", 0.001)


@pytest.mark.parametrize(("wanted", "mounted"), [("new", "new"), ("", None), ("", "theirs"), ("theirs", "theirs")])
def test_the_wait_ends_when_the_exporters_have_the_list(wanted: str, mounted: str | None) -> None:
    wait(Looks([daemonset(mounted)]), wanted)


@pytest.mark.parametrize(
    "item",
    [
        daemonset("old"),
        daemonset(None),
        daemonset("new", updated=2),
        daemonset("new", generation=3),
        daemonset("new", name="nvidia-mig-manager"),
    ],
    ids=["another", "none", "two of three", "not seen", "another operand"],
)
def test_it_goes_on_until_then(item: Json) -> None:
    wait(Looks([item], [daemonset("new")]), timeout_s=60)
    with pytest.raises(GpuOpsError) as error:
        wait(Looks([item]))
    assert error.value.details["reason"] == "TimedOut"


@pytest.mark.parametrize(("available", "before", "ends"), [(3, 3, True), (2, 2, True), (2, 3, False), (3, 9, True)])
def test_as_many_exporters_serve_as_before(available: int, before: int, ends: bool) -> None:
    item = daemonset("new")
    item["status"]["numberAvailable"] = available
    assert exporter_rollout.serving(t.cast("t.Any", Looks([item])), "gpus") == available
    if ends:
        wait(Looks([item]), serving=before)
    else:
        with pytest.raises(GpuOpsError):
            wait(Looks([item]), serving=before)


@pytest.mark.parametrize("status", [{"observedGeneration": 2}, {"observedGeneration": 2, "desiredNumberScheduled": 0}])
def test_a_fleet_without_exporters_has_the_list(status: Json) -> None:
    wait(Looks([{**daemonset("new"), "status": status}]))


@pytest.mark.parametrize("status", [{}, {"observedGeneration": 1, "desiredNumberScheduled": 0}])
def test_a_daemonset_that_its_controller_has_not_seen_is_no_proof(status: Json) -> None:
    with pytest.raises(GpuOpsError):
        wait(Looks([{**daemonset("new"), "status": status}]))


@pytest.mark.parametrize("others", [["old"], ["other-new"]])
def test_all_daemonsets_of_exporters_count(others: list[str]) -> None:
    found = [daemonset("new"), *map(daemonset, others)]
    with pytest.raises(GpuOpsError):
        wait(Looks(found))


def test_a_list_of_ours_has_to_go_before_the_charts_counts() -> None:
    with pytest.raises(GpuOpsError) as error:
        wait(Looks([daemonset("old")], rows=[{"name": "a", "node": "gpu-1", "status": "Pending", "ready": "0/1"}]), "")
    assert error.value.msg == wording(
        "The exporters have not all taken up the list of the chart within 0.05 s. a on gpu-1 is Pending. Look at their pods, or raise wait_timeout."
    )


def test_no_daemonset_is_no_proof() -> None:
    with pytest.raises(GpuOpsError):
        wait(Looks([]))


def test_each_step_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    path.touch()
    steps = [{**daemonset("new", generation=1), "status": None}]
    steps += [daemonset("new", updated=count) for count in (1, 1, 2, 2, 3)]
    wait(Looks(*[[step] for step in steps], [daemonset("new")]), path=path, timeout_s=60)
    assert re.findall(r"\d of \d", path.read_text()) == ["0 of 0", "1 of 3", "2 of 3", "3 of 3"]
