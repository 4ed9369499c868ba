# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real Prometheus answers to the dashboards' queries about a small fleet (tests/support/gpu_series.py)."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from lab.errors import UnavailableError
from tests.support import dashboards, gpu_series, prometheus
from tests.support.dashboards import Asked
from tests.support.prometheus import Recorded

pytestmark = pytest.mark.deep

Shape = tuple[Recorded, str]
"""A Prometheus, and the prefix of its pod labels."""
FAULTY = {"node": "a2", "gpu": "1"}
OF_A_FLEET = ("fleet", "health", "namespaces")


def _served(folder: Path, text: t.Iterable[str], prefix: str) -> t.Iterator[Shape]:
    try:
        with prometheus.serving(folder, text, gpu_series.NOW) as server:
            yield server, prefix
    except UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def honoring(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Shape]:
    """A Prometheus that keeps the exporter's pod labels, and has no label cluster."""
    yield from _served(tmp_path_factory.mktemp("honoring"), gpu_series.text(honor_labels=True), "")


@pytest.fixture(scope="module")
def renaming(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Shape]:
    """A Prometheus that renames the exporter's pod labels, and has a label cluster."""
    text = gpu_series.text(honor_labels=False, cluster="east")
    yield from _served(tmp_path_factory.mktemp("renaming"), text, "exported_")


@pytest.fixture(params=["honoring", "renaming"])
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.getfixturevalue(request.param)
    return found


def ask(shape: Shape, query: Asked, **chosen: str) -> prometheus.Result:
    server, prefix = shape
    return (server.values if query.instant else server.lines)(query.filled(prefix=prefix, **chosen))


def values(shape: Shape, panel: str, letter: str = "A", **chosen: str) -> dict[str, float]:
    """Return the latest values of a panel's query, rounded, by the values of the labels that matter."""
    name, dummy, title = panel.partition("/")
    [query] = [each for each in dashboards.queries(name) if each.key[1:] == (title, letter)]
    return {_named(series["metric"]): round(_latest(series), 3) for series in ask(shape, query, **chosen)}


def _named(labels: dict[str, str]) -> str:
    left_out = {"cluster", "UUID", *(["modelName"] if "gpu" in labels else [])}
    return " ".join(value for label, value in sorted(labels.items()) if label not in left_out)


def _latest(series: dict[str, t.Any]) -> float:
    return float((series["value"] if "value" in series else series["values"][-1])[1])


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_every_query_has_an_answer_on_a_fleet_with_faults(shape: Shape, name: str) -> None:
    chosen = {} if name in OF_A_FLEET else FAULTY
    assert [query.key for query in dashboards.queries(name) if not ask(shape, query, **chosen)] == []


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_the_answers_do_not_depend_on_the_names_of_pod_labels(honoring: Shape, renaming: Shape, name: str) -> None:
    def plain(shape: Shape, query: Asked) -> list[tuple[list[tuple[str, str]], float]]:
        chosen = {} if name in OF_A_FLEET else FAULTY
        found = [(_plain(series["metric"]), round(_latest(series), 6)) for series in ask(shape, query, **chosen)]
        return sorted(found)

    for query in dashboards.queries(name):
        assert plain(honoring, query) == plain(renaming, query), query.key


def _plain(labels: dict[str, str]) -> list[tuple[str, str]]:
    return sorted((name.removeprefix("exported_"), value) for name, value in labels.items() if name != "cluster")


def test_each_gpu_is_in_one_state(shape: Shape) -> None:
    states = {title: values(shape, f"fleet/{title}") for title in ("GPUs", "In use", "Idle", "Free", "Lost GPUs")}
    assert states == {"GPUs": {"": 14}, "In use": {"": 9}, "Idle": {"": 2}, "Free": {"": 3}, "Lost GPUs": {"": 1}}


def test_power_counts_once_per_gpu_however_many_share_it(shape: Shape) -> None:
    assert values(shape, "fleet/Power now") == {"": 13 * 500}
    assert values(shape, "fleet/Energy") == {"": pytest.approx(6.5, rel=0.02)}


def test_what_is_missing_is_named(shape: Shape) -> None:
    assert values(shape, "fleet/Nodes with lost GPUs") == {"b1": 1}
    assert values(shape, "health/Nodes without GPU metrics") == {"x1": 8}
    assert values(shape, "fleet/Nodes that withhold devices") == {"a2": 1, "b1": 1}
    assert values(shape, "health/GPUs without profiling counters")[gpu_series.L40S] == 1


def test_faults_are_counted_by_gpu(shape: Shape) -> None:
    for title in ("GPUs with a fault", "GPUs with failing memory", "Slowed down GPUs"):
        assert values(shape, f"fleet/{title}") == {"": 1}, title
    for title in ("GPUs that wait for a reset", "GPUs with a narrow PCIe link", "GPUs outside of the NVLink fabric"):
        assert values(shape, f"health/{title}") == {"": 1}, title


def test_each_xid_of_the_time_range_counts_once(shape: Shape) -> None:
    assert values(shape, "health/Xids in the time range") == {"95": 2, "13": 1}
    assert values(shape, "health/Xids of the last 5 minutes") == {"95": 2, "13": 1, "none": 0}


def test_the_parts_of_a_gpu_add_up(shape: Shape) -> None:
    held = {"team-a": 4 + 1 / 2 + 3 / 7, "team-b": 2 + 1 / 2 + 4 / 7, "team-c": 1 + 1 / 4, "team-d": 1}
    assert values(shape, "namespaces/Held GPUs by namespace") == pytest.approx(held, abs=0.001)
    assert values(shape, "namespaces/Idle GPUs by namespace") == pytest.approx({"team-b": 2 + 4 / 7}, abs=0.001)


def test_hours_and_cost_are_those_of_the_time_range(shape: Shape) -> None:
    assert values(shape, "namespaces/Namespaces", "A")["team-a"] == pytest.approx(4.929, rel=0.02)
    assert values(shape, "namespaces/Namespaces", "D")["team-b"] == pytest.approx(3.071 * 2.5, rel=0.02)
    assert values(shape, "namespaces/Cost of idle GPUs") == {"": pytest.approx(2.571 * 2.5, rel=0.02)}
    hours = {"vision": 4.929, "language": 3.071, "no label": 2.25}
    assert values(shape, "namespaces/Teams") == pytest.approx(hours, rel=0.02)


def test_a_namespace_alone_keeps_its_part(shape: Shape) -> None:
    assert values(shape, "namespaces/Held GPUs", namespace="team-b") == {"": pytest.approx(3.071, abs=0.001)}


def test_requests_count_until_the_pod_ends(shape: Shape) -> None:
    assert values(shape, "namespaces/Requested devices") == {"team-a": 6, "team-b": 3}
    assert values(shape, "namespaces/Devices that pods wait for") == {"team-e": 8}


def test_pools_are_those_of_the_label(shape: Shape) -> None:
    assert values(shape, "fleet/GPUs by pool") == {"p5": 10, "no label": 4}


def test_sharers_have_their_own_rows(shape: Shape) -> None:
    rows = values(shape, "gpu/Who holds the GPU", node="a2", gpu="0")
    assert sorted(rows.values()) == [500, 500]
    assert values(shape, "gpu/Holders", node="a2", gpu="0") == {"": 2}


def test_instances_have_their_own_rows(shape: Shape) -> None:
    assert len(values(shape, "gpu/Who holds the GPU", node="m1", gpu="1")) == 3
    assert values(shape, "gpu/Parts", node="m1", gpu="1") == {"": 3}
    assert values(shape, "node/Power now", node="m1") == {"": 1000}
    assert values(shape, "node/Memory in use", node="m1") == {"0 m1": 2000, "1 m1": 3000}


def test_a_gpu_without_profiling_counters_has_its_activity_from_the_driver(shape: Shape) -> None:
    assert values(shape, "node/Activity", node="v1") == {"0 v1": 0.3}
