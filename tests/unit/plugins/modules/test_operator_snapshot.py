# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import json
import stat
import typing as t
from pathlib import Path

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.upgrades.upgrading import CRDS, DRIVERS, SECRETS, crd, install, release

NAME = "gpu-operator.gpu-operator.01234567.json"
MIG = "nvidia.com/mig.config"


@pytest.fixture
def keep(run_module: t.Callable, api: FakeApi, tmp_path: Path) -> t.Callable:
    install(api, values={"driver": {"env": [{"name": "TOKEN", "value": "hush"}]}})
    api.lists[POLICIES][0]["spec"]["driver"] = {"version": "580"}
    return functools.partial(run_module, "operator_snapshot", folder=str(tmp_path / "kept"), **api.connection)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept" / NAME


def writes(api: FakeApi) -> list[str]:
    return [f"{method} {path.rpartition('/')[2]}" for method, path, dummy in api.log if method not in ("GET", "HEAD")]


def test_a_snapshot_is_a_file_for_its_user_alone(keep: t.Callable, file: Path) -> None:
    predicted = keep(target="v26.7.0", _ansible_check_mode=True).result
    assert predicted["changed"] and not file.exists()
    done = keep(target="v26.7.0").result
    assert done["changed"] and not done["kept"] and done["path"] == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert done["snapshot"] == {
        "taken": done["snapshot"]["taken"],
        "target": "v26.7.0",
        "closed": "",
        "revision": 1,
        "chart_version": "v26.3.3",
        "app_version": "v26.3.3",
        "objects": ["ClusterPolicy cluster-policy"],
        "crds": ["clusterpolicies.nvidia.com"],
        "nodes": 2,
    }
    assert "hush" not in json.dumps(done), "The values may be secret."
    assert "hush" in file.read_text() and not list(file.parent.glob(".snapshot-*"))


def test_an_upgrade_that_has_not_ended_keeps_its_snapshot(api: FakeApi, keep: t.Callable, file: Path) -> None:
    keep(target="v26.7.0")
    api.lists[SECRETS].append(release(2, "v26.7.0", "deployed"))
    api.lists[SECRETS][0] = release(1, "v26.3.3", "superseded")
    again = keep(target="v26.7.0").result
    assert not again["changed"] and again["kept"] and again["snapshot"]["app_version"] == "v26.3.3"
    closed = keep(state="closed").result
    assert not closed["changed"] and closed["snapshot"]["closed"] == "upgraded"
    fresh = keep(target="v26.7.1").result
    assert fresh["changed"] and fresh["snapshot"]["app_version"] == "v26.7.0"
    assert json.loads(Path(f"{file}.previous").read_text())["release"]["app_version"] == "v26.3.3"


def test_reading_returns_the_values_or_nothing(keep: t.Callable) -> None:
    nothing = keep(state="read").result
    assert (nothing["snapshot"], nothing["helm_values"]) == (None, {})
    keep()
    assert keep(state="read").result["helm_values"] == {"driver": {"env": [{"name": "TOKEN", "value": "hush"}]}}


@pytest.mark.parametrize("state", ["restored", "closed"])
def test_without_a_snapshot(keep: t.Callable, state: str) -> None:
    failed = keep(state=state)
    assert failed.rc == 1 and "There is no snapshot" in failed.result["msg"]
    assert keep(state="closed", _ansible_check_mode=True).result["snapshot"] is None


def test_what_differs_is_put_back_and_told(api: FakeApi, keep: t.Callable) -> None:
    api.lists[NODES][0]["metadata"]["labels"][MIG] = "all-1g.10gb"
    keep()
    api.lists[POLICIES][0]["spec"]["driver"] = {"version": "595", "new": True}
    api.lists[NODES][0]["metadata"]["labels"][MIG] = "all-disabled"
    api.lists[CRDS][0] = crd("clusterpolicies.nvidia.com", "driver", "hostPaths")
    api.lists[CRDS].append(crd("gpuclusters.nvidia.com"))
    api.lists[DRIVERS].append({"metadata": {"name": "default"}, "spec": {}})
    expected = [
        wording("CRD clusterpolicies.nvidia.com: set back to its schema"),
        "ClusterPolicy cluster-policy: set back spec.driver.new, spec.driver.version",
        f"Node gpu-0000: set back {MIG}=all-1g.10gb",
    ]
    left = [
        wording("CRD gpuclusters.nvidia.com: it is new, and no CRD is ever deleted"),
        "NVIDIADriver default: it is new",
    ]
    by_chart = expected[:2]
    api.log.clear()
    dry = keep(state="restored", _ansible_check_mode=True, _ansible_diff=True).result
    assert dry["by_chart"] == by_chart
    assert (dry["restored"], dry["left"]) == (expected, left) and dry["diff"]["after"].splitlines() == expected
    assert api.lists[POLICIES][0]["spec"]["driver"]["version"] == "595"
    done = keep(state="restored").result
    assert done["changed"] and (done["restored"], done["left"]) == (expected, left)
    assert api.lists[POLICIES][0]["spec"]["driver"] == {"version": "580"}
    assert api.lists[NODES][0]["metadata"]["labels"][MIG] == "all-1g.10gb"
    assert len(api.lists[CRDS]) == 3, "No CRD should be deleted."
    again = keep(state="restored").result
    assert not again["changed"] and again["left"] == left


def test_what_is_gone_comes_back(api: FakeApi, keep: t.Callable) -> None:
    keep()
    api.lists[POLICIES].clear()
    made: list[str] = []

    def create(method: str, path: str) -> tuple[int, dict[str, t.Any]] | None:
        if method == "POST":
            made.append(path)
            return 201, {"metadata": {"name": "cluster-policy"}}
        return None

    api.answer = create
    assert keep(state="restored").result["restored"] == ["ClusterPolicy cluster-policy: created again"]
    assert made == [POLICIES]


def test_an_object_that_cannot_be_put_back_is_named(api: FakeApi, keep: t.Callable) -> None:
    keep()
    api.lists[POLICIES][0]["spec"]["driver"] = {"version": "595"}
    api.answer = lambda method, path: refusal(403, "not you") if method == "PATCH" else None
    failed = keep(state="restored")
    assert failed.rc == 1 and failed.result["reason"] == "Forbidden"
    assert failed.result["msg"] == wording(
        "ClusterPolicy cluster-policy could not be put back: No permission: not you. Grant it to this user, or use a kubeconfig that has it."
    )


def test_a_cluster_without_the_release(api: FakeApi, keep: t.Callable) -> None:
    api.lists[SECRETS].clear()
    failed = keep()
    assert failed.rc == 1 and "has deployed no release gpu-operator" in failed.result["msg"]


@pytest.mark.parametrize("content", ["", "[]", '{"format": 3}'])
def test_a_damaged_file_is_not_overwritten(keep: t.Callable, file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_text(content)
    failed = keep()
    assert failed.rc == 1 and "is no snapshot" in failed.result["msg"] and file.read_text() == content


def test_an_edited_file_is_refused(api: FakeApi, keep: t.Callable, file: Path) -> None:
    keep()
    content = json.loads(file.read_text())
    del content["release"]
    file.write_text(json.dumps(content))
    failed = keep(state="restored")
    assert failed.rc == 1 and failed.result["reason"] == "Invalid" and "cut off" in failed.result["msg"]
    assert writes(api) == []


def test_a_folder_that_cannot_be_written(api: FakeApi, keep: t.Callable, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    failed = keep(folder=str(tmp_path / "taken" / "below"))
    assert failed.rc == 1 and "Cannot" in failed.result["msg"] and writes(api) == []
