# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the config manager of a pod chooses a key, and what happens where its pod does not show the key yet."""

from __future__ import annotations

import json
import re
import time
import typing as t
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.cluster.nodes.agents.managers import config_manager
from lab.cluster.nodes.agents.managers.config_manager import ConfigManager
from lab.cluster.nodes.agents.mounts import Mounts

Json = dict[str, t.Any]
LABEL = "nvidia.com/device-plugin.config"
FAILS = re.compile(
    r"\S+ stdout F E\d{4} \d\d:\d\d:\d\d[.]\d{6} {7}1 main[.]go:167\] specified config four does not exist\n"
)


class Pod:
    """A pod of the device plugin on a node, with the API and the clock that its config manager uses."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "any.log").touch()
        self.folder, self.now = folder, 1000.0
        self.data: dict[str, str] = {"two": "text of two"}
        self.node: Json = {"metadata": {"name": "n", "labels": {LABEL: "two"}}}
        running = {"ready": True, "state": {"running": {}}}
        container = {"name": "config-manager", "volumeMounts": [{"name": "v", "mountPath": "/available-configs"}]}
        self.item: Json = {
            "metadata": {"name": "p", "namespace": "o", "uid": "1", "labels": {"app": "plugin"}},
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "nvidia-device-plugin"}, container],
                "volumes": [{"name": "v", "configMap": {"name": "shares"}}],
            },
            "status": {
                "initContainerStatuses": [{"name": "config-manager-init", **running}],
                "containerStatuses": [{"name": name, **running} for name in ("nvidia-device-plugin", "config-manager")],
            },
        }
        self.logs: list[str] = []
        self.wakes: list[float] = []
        for clock in ("time", "monotonic"):
            monkeypatch.setattr(time, clock, lambda: self.now)
        monkeypatch.setattr("lab.cluster.nodes.agents.pods.now", self._moment)
        mounts = Mounts(lambda namespace, name: dict(self.data), self._later, 60)
        self.manager = ConfigManager(t.cast(t.Any, self), mounts, self._later, folder)
        self.play()

    def _moment(self) -> str:
        return datetime.fromtimestamp(self.now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _later(self, seconds: float, node: str) -> None:
        self.wakes.append(self.now + seconds)

    def merge(self, path: str, body: Json) -> None:
        pass

    def strategic(self, path: str, body: Json) -> None:
        self.item["status"] |= body["status"]

    def apply(self, path: str, body: Json, manager: str) -> None:
        self.logs.append(Path(body["spec"]["logs"][0]["logsFile"]).read_text())

    def play(self, after: float = 0) -> None:
        self.now += after
        self.manager.play(self.node, self.item)

    @property
    def key(self) -> str:
        return str(json.loads(self.item["metadata"]["annotations"]["lab.gpuops.nvidia/config"])["key"])

    @property
    def state(self) -> str:
        return str(next(iter(self.item["status"]["containerStatuses"][1]["state"])))


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    return Pod(tmp_path, monkeypatch)


def test_a_key_that_the_pod_shows_is_taken_at_once(pod: Pod) -> None:
    assert (pod.key, pod.state, pod.logs) == ("two", "running", [])


def test_a_new_key_is_missing_until_the_pod_shows_it_and_the_kubelet_starts_the_container_again(pod: Pod) -> None:
    pod.data["four"], pod.node["metadata"]["labels"][LABEL] = "text of four", "four"
    pod.play()
    assert (pod.key, pod.state) == ("two", "waiting") and FAILS.fullmatch(pod.logs[0]), pod.logs
    assert pod.wakes == [1060.0]
    pod.play(59)
    assert (pod.key, len(pod.logs)) == ("two", 1)
    # The pod shows it after 60 seconds. The container has been started after 10 and 30 seconds, and next after 70.
    pod.play(1)
    assert (pod.key, pod.state, pod.wakes[-1]) == ("two", "waiting", 1070.0)
    pod.play(10)
    assert (pod.key, pod.state) == ("four", "running")


def test_a_new_pod_shows_the_key_at_once(pod: Pod) -> None:
    pod.data["four"], pod.node["metadata"]["labels"][LABEL] = "text of four", "four"
    pod.play()
    pod.item["metadata"] |= {"uid": "2", "annotations": {}}
    for entry in pod.item["status"]["containerStatuses"]:
        entry |= {"ready": True, "state": {"running": {}}}
    pod.item["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    pod.play()
    assert pod.key == "four"


def test_the_pauses_grow_to_five_minutes() -> None:
    starts = [config_manager._next_start(0, cured) for cured in (0, 11, 31, 71, 151, 311, 611)]
    assert starts == [10, 30, 70, 150, 310, 610, 910]


def test_a_cause_that_comes_back_counts_anew(pod: Pod) -> None:
    labels = pod.node["metadata"]["labels"]
    labels[LABEL] = "gone"
    pod.play()
    labels[LABEL] = "two"
    pod.play(1)
    labels[LABEL] = "gone"
    pod.play(15)
    labels[LABEL] = "two"
    pod.play(1)
    assert pod.wakes[-1] == 1030.0 and pod.state == "waiting"
