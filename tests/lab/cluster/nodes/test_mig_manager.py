# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The MIG manager: its states, its pauses, and every way in which it leaves a node stuck."""

from __future__ import annotations

import contextlib
import copy
import json
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster.api import ApiError
from lab.cluster.nodes.agents.managers.mig_manager import MigManager, Session, Timing
from lab.cluster.nodes.agents.mounts import Mounts

Json = dict[str, t.Any]
RECORDED = Path(__file__).parents[4] / "lab/cluster/conformance/agents.json"
NODE = "/api/v1/nodes/gpu-0000"
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
PAUSED = "paused-for-mig-change"
NOTE = "lab.gpuops.nvidia/"
SEVEN = [{"1g.10gb": 7}] * 2
APPS = {
    "nvidia-device-plugin-daemonset": "device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-dcgm-exporter": "dcgm-exporter",
    "nvidia-dcgm": "dcgm",
    "nvidia-operator-validator": "operator-validator",
    "nvidia-mig-manager": "mig-manager",
}


class Cluster:
    """A node whose DaemonSets follow its labels, with the API that its manager uses."""

    def __init__(self, layout: str | None = "all-disabled", map_delay: float = 0, **environment: str) -> None:
        labels = {f"nvidia.com/gpu.deploy.{name}": "true" for name in APPS.values()}
        labels |= {CONFIG: layout} if layout else {}
        notes = {NOTE + "model": "H100", NOTE + "gpus": "2"}
        self.node: Json = {
            "metadata": {"name": "gpu-0000", "labels": labels, "annotations": notes},
            "status": {"nodeInfo": {"bootID": "first"}},
        }
        self.environment = [{"name": name, "value": value} for name, value in environment.items()]
        self.pods: dict[str, Json] = {}
        self.config_maps: dict[str, Json] = {}
        self.states: list[tuple[str, str]] = []
        self.writes: list[list[str]] = []
        self.born = 0
        self.image = "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0"
        mounts = Mounts(self._texts, lambda seconds, node: None, map_delay)
        self.manager = MigManager(t.cast(t.Any, self), Timing(0, 0.03, 0), lambda seconds, node: None, mounts)
        self._follow()
        self.settle()
        self.states.clear()

    # ---- the API ----------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Json:
        assert path == NODE
        return copy.deepcopy(self.node)

    def merge(self, path: str, body: Json) -> None:
        assert path.startswith(NODE)
        labels = body.get("metadata", {}).get("labels", {})
        changed = [key for key in sorted(labels) if self.labels.get(key) != labels[key]]
        self.writes += [[key.removeprefix("nvidia.com/"), labels[key]] for key in changed]
        self._write(body)

    def strategic(self, path: str, body: Json) -> None:
        _merge(self.pods[path.split("/")[-2]], body)

    def apply(self, path: str, body: Json, manager: str) -> None:
        self.config_maps[path] = body

    def delete(self, path: str) -> None:
        del self.pods[path.rpartition("/")[2]]
        self._follow()

    # ---- the cluster ------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> dict[str, str]:
        return t.cast("dict[str, str]", self.node["metadata"]["labels"])

    @property
    def layout(self) -> t.Any:
        return json.loads(self.node["metadata"]["annotations"].get(NOTE + "mig", "[null, null]"))

    def _write(self, body: Json) -> None:
        _merge(self.node, body)
        self.manager.saw(copy.deepcopy(self.node))
        now = self.labels.get(STATE, ""), self.labels[PLUGIN]
        if not self.states or self.states[-1] != now:
            self.states.append(now)
        self._follow()

    def label(self, key: str, value: str | None) -> None:
        self._write({"metadata": {"labels": {key: value}}})

    def fault(self, name: str | None) -> None:
        self._write({"metadata": {"annotations": {NOTE + "mig-fault": name}}})

    def change(self, layout: str) -> list[tuple[str, str]]:
        """Ask for a layout and return the states and pauses of the device plugin until nothing moves any more."""
        self.label(CONFIG, None)
        self.settle()
        self.label(STATE, None)
        self.states.clear()
        self.writes.clear()
        self.label(CONFIG, layout)
        self.settle()
        return [state for state in self.states if state[0]]

    def settle(self) -> None:
        """Play the manager until nothing has changed for longer than its patience."""
        seen, deadline, steps = "", 0.0, 0
        while (now := json.dumps([self.node, self.pods])) != seen or time.monotonic() < deadline or steps < 10:
            steps += 1
            if now != seen:
                seen, deadline, steps = now, time.monotonic() + 0.08, 0
            self.step()
            time.sleep(0.004)

    def step(self) -> None:
        self.manager.play(copy.deepcopy(self.node), copy.deepcopy(list(self.pods.values())))

    def replace_manager(self) -> None:
        self.delete(f"/{self._of('nvidia-mig-manager')}")

    def add_pod(self, name: str, app: str, **limits: str) -> None:
        self.born += 1
        container = {"name": app, "image": self.image, "env": self.environment, "resources": {"limits": limits}}
        volume = {"name": "mig-parted-config", "configMap": {"name": "custom"}}
        self.pods[name] = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-{self.born}", "labels": {"app": app}},
            "spec": {"nodeName": "gpu-0000", "containers": [container], "volumes": [volume]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }

    def _follow(self) -> None:
        """Create and delete pods as the DaemonSets do."""
        for app, operand in APPS.items():
            wanted, name = self.labels[f"nvidia.com/gpu.deploy.{operand}"] == "true", self._of(app)
            if wanted and not name:
                self.add_pod(f"{app}-{self.born}", app)
            elif name and not wanted:
                del self.pods[name]

    def _of(self, app: str) -> str:
        return next((name for name, pod in self.pods.items() if pod["metadata"]["labels"]["app"] == app), "")

    def _texts(self, namespace: str, name: str) -> t.Mapping[str, str] | None:
        return self.config_maps.get(name)


def _merge(item: Json, patch: Json) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(item.setdefault(key, {}), value)
        elif value is None:
            item.pop(key, None)
        else:
            item[key] = value


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_manager_publishes_the_configurations_of_its_node(cluster: Cluster) -> None:
    ((path, item),) = cluster.config_maps.items()
    assert path == "/api/v1/namespaces/ns/configmaps/gpu-0000-mig-config"
    assert item["metadata"]["labels"] == {
        "app.kubernetes.io/component": "nvidia-mig-manager",
        "nvidia.com/node-name": "gpu-0000",
    }
    assert item["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    assert sorted(yaml.safe_load(item["data"]["config.yaml"])["mig-configs"]) == [
        "all-1g.10gb",
        "all-1g.10gb.me",
        "all-1g.20gb",
        "all-2g.20gb",
        "all-3g.40gb",
        "all-4g.40gb",
        "all-7g.80gb",
        "all-balanced",
        "all-disabled",
        "all-enabled",
    ]


def test_a_change_pauses_the_operands_and_restores_them(cluster: Cluster) -> None:
    before = set(cluster.pods)
    assert cluster.change("all-1g.10gb") == [
        ("pending", "true"),
        ("pending", PAUSED),
        ("pending", "true"),
        ("success", "true"),
    ]
    assert cluster.layout == [{"1g.10gb": 7}] * 2
    assert cluster.labels["nvidia.com/gpu.deploy.nvsm"] == "true"
    (kept,) = before & set(cluster.pods)
    assert kept.startswith("nvidia-mig-manager")


def test_an_operand_that_is_off_stays_off(cluster: Cluster) -> None:
    cluster.label("nvidia.com/gpu.deploy.dcgm-exporter", "false")
    assert cluster.change("all-1g.10gb")[-1] == ("success", "true")
    assert cluster.labels["nvidia.com/gpu.deploy.dcgm-exporter"] == "false"


def test_the_layout_that_is_in_place_succeeds_without_a_pause(cluster: Cluster) -> None:
    assert cluster.change("all-disabled") == [("success", "true")]


def test_the_same_value_set_again_is_ignored(cluster: Cluster) -> None:
    cluster.label(STATE, None)
    cluster.label(CONFIG, "all-disabled")
    cluster.settle()
    assert STATE not in cluster.labels


def test_a_name_that_the_file_does_not_have_fails_at_once(cluster: Cluster) -> None:
    assert cluster.change("1g.10gb-2") == [("failed", "true")]


def test_a_busy_gpu_makes_a_first_change_fail_and_nothing_stays_paused(cluster: Cluster) -> None:
    cluster.add_pod("job", "job", **{"nvidia.com/gpu": "1"})
    assert cluster.change("all-1g.10gb") == [("pending", "true"), ("pending", PAUSED), ("failed", "true")]
    assert cluster.layout == [None, None]


def test_a_failure_after_a_success_leaves_the_operands_paused(cluster: Cluster) -> None:
    cluster.change("all-1g.10gb")
    cluster.fault("busy")
    assert cluster.change("all-2g.20gb")[-1] == ("failed", PAUSED)
    assert cluster.layout == [{"1g.10gb": 7}] * 2
    assert cluster.change("all-1g.10gb") == [("success", PAUSED)], "What is in place succeeds, and stays paused."
    cluster.fault(None)
    assert cluster.change("all-2g.20gb")[-1] == ("success", "true")


def test_a_fault_can_leave_the_operands_paused_at_once(cluster: Cluster) -> None:
    cluster.fault("left-paused")
    assert cluster.change("all-2g.20gb")[-1] == ("failed", PAUSED)


def test_instances_that_do_not_fit_leave_the_gpus_without_any() -> None:
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": {"4g.40gb": 2}}
    cluster = Cluster(CONFIG_FILE="/mig-parted-config/config.yaml")
    cluster.config_maps["custom"] = {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": {"two": [entry]}})}
    assert cluster.change("two")[-1] == ("failed", "true")
    assert cluster.layout == [{}, {}]


class Overloaded(Cluster):
    """A cluster whose API server fails at one request: before it has done what was asked, or after it."""

    def __init__(self) -> None:
        self.requests, self.fails_at, self.is_late = 0, 0, False
        super().__init__()
        self.requests = 0

    def _request(self, do: t.Callable[[], t.Any]) -> t.Any:
        self.requests += 1
        answer = None if self.requests == self.fails_at and not self.is_late else do()
        if self.requests == self.fails_at:
            raise ApiError(504, "the request did not complete in time")
        return answer

    def get(self, path: str) -> Json:
        return t.cast(Json, self._request(lambda: super(Overloaded, self).get(path)))

    def merge(self, path: str, body: Json) -> None:
        self._request(lambda: super(Overloaded, self).merge(path, body))

    def apply(self, path: str, body: Json, manager: str) -> None:
        self._request(lambda: super(Overloaded, self).apply(path, body, manager))

    def delete(self, path: str) -> bool:
        return bool(self._request(lambda: super(Overloaded, self).delete(path)))

    def step(self) -> None:
        with contextlib.suppress(ApiError):  # the agents play the node again
            super().step()


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(
    ("trouble", "end"),
    [
        ("", ("success", "true")),
        ("busy", ("failed", "true")),
        ("mode", ("failed", "true")),
        ("left-paused", ("failed", PAUSED)),
        ("validator", ("pending", PAUSED)),
        ("pods-stay", ("pending", PAUSED)),
    ],
)
def test_an_overloaded_api_server_changes_nothing_in_what_a_manager_does(
    trouble: str, end: tuple[str, str], is_late: bool
) -> None:
    """Each request fails once. A change whose trouble were forgotten would succeed on the next try."""
    fails_at = total = 0
    while fails_at <= total:
        cluster = Overloaded()
        cluster.fault(trouble or None)
        cluster.requests, cluster.fails_at, cluster.is_late = 0, fails_at, is_late
        assert cluster.change("all-1g.10gb")[-1] == end, fails_at
        assert cluster.layout == (SEVEN if trouble in ("", "validator") else [None, None]), fails_at
        total = total or cluster.requests
        fails_at += 1
    assert fails_at >= 5


def custom(**layouts: int) -> Json:
    """Return a ConfigMap with layouts of so many of the largest instance."""
    entries = {
        name: [{"devices": "all", "mig-enabled": True, "mig-devices": {"7g.80gb": number}}]
        for name, number in layouts.items()
    }
    return {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": entries})}


def test_a_pod_shows_an_edited_config_map_only_after_a_while() -> None:
    cluster = Cluster(map_delay=0.3, CONFIG_FILE="/mig-parted-config/config.yaml")
    cluster.config_maps["custom"] = custom(one=1)
    cluster.replace_manager()
    cluster.settle()
    assert cluster.change("one")[-1][0] == "success"
    cluster.config_maps["custom"] = custom(two=1)
    cluster.step()
    assert cluster.change("two")[-1][0] == "failed"
    time.sleep(0.3)
    assert cluster.change("two")[-1][0] == "success"


def test_a_new_pod_shows_the_config_map_as_it_is() -> None:
    cluster = Cluster(map_delay=100, CONFIG_FILE="/mig-parted-config/config.yaml")
    cluster.config_maps["custom"] = custom(one=1)
    cluster.replace_manager()
    cluster.settle()
    cluster.config_maps["custom"] = custom(two=1)
    cluster.step()
    assert cluster.change("two")[-1][0] == "failed"
    cluster.replace_manager()
    cluster.settle()
    assert cluster.labels[STATE] == "success"


def test_a_gpu_stays_busy_until_the_trouble_is_cleared(cluster: Cluster) -> None:
    cluster.fault("busy")
    assert cluster.change("all-1g.10gb")[-1][0] == "failed"
    cluster.replace_manager()
    cluster.settle()
    assert cluster.labels[STATE] == "failed"
    cluster.fault(None)
    assert cluster.change("all-1g.10gb")[-1][0] == "success"


def test_pods_that_stay_leave_the_node_pending_for_ever(cluster: Cluster) -> None:
    cluster.fault("pods-stay")
    assert cluster.change("all-3g.40gb") == [("pending", "true"), ("pending", PAUSED)]
    assert cluster.layout == [None, None]
    assert cluster.change("all-3g.40gb")[-1] == ("success", "true")


def test_a_validator_that_cannot_be_deleted_leaves_the_node_pending_with_the_new_layout(cluster: Cluster) -> None:
    cluster.fault("validator")
    assert cluster.change("all-4g.40gb")[-1] == ("pending", PAUSED)
    assert cluster.layout == [{"4g.40gb": 1}] * 2
    assert cluster.change("all-4g.40gb")[-1] == ("success", "true")


@pytest.mark.parametrize(("trouble", "layout"), [("pods-stay", None), ("validator", {"4g.40gb": 1})])
def test_a_manager_after_v0_15_0_says_that_pods_were_in_its_way(
    cluster: Cluster, trouble: str, layout: dict[str, int] | None
) -> None:
    cluster.image = "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.1"
    cluster.replace_manager()
    cluster.fault(trouble)
    assert cluster.change("all-4g.40gb")[-1] == ("failed", "true")
    assert cluster.layout == [layout] * 2


def test_a_run_ends_with_the_managers_pod_and_the_next_one_starts_afresh(cluster: Cluster) -> None:
    cluster.fault("hangs")
    assert cluster.change("all-2g.20gb")[-1] == ("pending", PAUSED)
    cluster.replace_manager()
    cluster.settle()
    assert (cluster.labels[STATE], cluster.labels[PLUGIN]) == ("success", "true")
    assert cluster.layout == [{"2g.20gb": 3}] * 2


def test_a_manager_that_starts_brings_back_operands_that_a_driver_manager_has_paused(cluster: Cluster) -> None:
    """NVIDIA's does so, too: each value but ``false`` becomes ``true`` when the layout is in place already.

    Source: ``setState`` and ``maybeSetTrue`` in pkg/mig/reconfigure/reconfigure.go of NVIDIA/mig-parted v0.15.0. The
    driver manager then waits for the pods in vain, for five minutes, and its container starts again
    (``cleanupOnFailure`` in NVIDIA/k8s-driver-manager v0.12.0). So a node whose driver changes twice within
    seconds may stay in its first init container for so long.
    """
    cluster.label(PLUGIN, "paused-for-driver-upgrade")
    cluster.replace_manager()
    cluster.settle()
    assert (cluster.labels[STATE], cluster.labels[PLUGIN]) == ("success", "true")


def test_a_change_that_is_undone_while_another_runs_is_lost(cluster: Cluster) -> None:
    cluster.label(CONFIG, "all-1g.10gb")
    cluster.step()
    for layout in ("all-3g.40gb", "all-1g.10gb"):
        cluster.label(CONFIG, layout)
    cluster.settle()
    assert cluster.labels[STATE] == "success"
    assert cluster.layout == [{"1g.10gb": 7}] * 2


def test_a_label_that_is_removed_while_a_change_runs_ends_in_a_failure(cluster: Cluster) -> None:
    cluster.label(CONFIG, "all-1g.10gb")
    cluster.step()
    cluster.label(CONFIG, None)
    cluster.settle()
    assert cluster.labels[STATE] == "failed"
    assert cluster.layout == [{"1g.10gb": 7}] * 2


def test_a_change_can_be_overlooked(cluster: Cluster) -> None:
    cluster.fault("lost")
    cluster.label(CONFIG, "all-2g.20gb")
    cluster.settle()
    assert cluster.labels[STATE] == "success"
    assert cluster.layout == [None, None]
    assert cluster.change("all-2g.20gb")[-1] == ("success", "true")


def test_a_manager_that_is_called_not_ready_goes_on(cluster: Cluster) -> None:
    (name,) = [name for name in cluster.pods if name.startswith("nvidia-mig-manager")]
    cluster.pods[name]["status"]["conditions"][0]["status"] = "False"
    cluster.states.clear()
    cluster.settle()
    cluster.label(CONFIG, "all-2g.20gb")
    cluster.settle()
    assert cluster.labels[STATE] == "success"


def test_a_mode_that_needs_a_reboot_fails_without_permission_to_reboot(cluster: Cluster) -> None:
    cluster.fault("mode")
    assert cluster.change("all-1g.10gb")[-1] == ("failed", "true")
    assert cluster.layout == [None, None]


def test_a_mode_that_needs_a_reboot_comes_with_it() -> None:
    cluster = Cluster(WITH_REBOOT="true")
    cluster.add_pod("job", "job", **{"nvidia.com/gpu": "1"})
    states = [state for state, dummy in cluster.change("all-1g.10gb")]
    assert list(dict.fromkeys(states)) == ["pending", "rebooting", "success"]
    assert cluster.layout == [{"1g.10gb": 7}] * 2
    assert cluster.node["status"]["nodeInfo"]["bootID"] != "first"
    job = cluster.pods["job"]["status"]
    assert (job["phase"], job["reason"]) == ("Failed", "UnexpectedAdmissionError")


def test_a_mode_that_not_even_a_reboot_changes_fails() -> None:
    cluster = Cluster(WITH_REBOOT="true")
    cluster.fault("mode-stays")
    states = [state for state, dummy in cluster.change("all-1g.10gb")]
    assert list(dict.fromkeys(states)) == ["pending", "rebooting", "failed"]
    assert cluster.layout == [None, None]


def test_one_bad_entry_of_a_custom_map_makes_every_layout_fail() -> None:
    cluster = Cluster(CONFIG_FILE="/mig-parted-config/config.yaml")
    good = {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}
    layouts = {"halves": [good], "bad": [{**good, "gpus": 1}]}
    cluster.config_maps["custom"] = {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": layouts})}
    assert cluster.change("halves") == [("failed", "true")]
    del layouts["bad"]
    cluster.config_maps["custom"] = {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": layouts})}
    assert cluster.change("halves")[-1] == ("success", "true")
    assert cluster.layout == [{"3g.40gb": 2}] * 2


def test_a_manager_before_v0_14_reads_the_operators_map_and_publishes_nothing(cluster: Cluster) -> None:
    cluster.image, cluster.config_maps = "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.13.1", {}
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": {"7g.80gb": 1}}
    cluster.config_maps["custom"] = {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": {"one": [entry]}})}
    cluster.replace_manager()
    cluster.settle()
    assert cluster.config_maps.keys() == {"custom"}
    assert cluster.change("one")[-1] == ("success", "true")


def test_a_manager_writes_what_the_vendors_manager_wrote() -> None:
    recorded = json.loads(RECORDED.read_text())["mig manager"]
    cluster = Cluster(None, CONFIG_FILE="/mig-parted-config/config.yaml")
    cluster.config_maps["custom"] = {"config.yaml": recorded["config"]}
    for change in recorded["changes"]:
        for key in [key for key, value in cluster.labels.items() if value == PAUSED]:
            cluster.label(key, "true")
        cluster.fault("busy" if change["busy"] else None)
        cluster.change(change["layout"])
        assert (change["name"], cluster.writes, cluster.layout) == (change["name"], change["writes"], change["after"])


# ---- the order in which a manager reads its label -------------------------------------------------------------------


def read(*values: str, during: t.Sequence[str] = ()) -> list[str]:
    """Return the values that a manager works on. ``during`` are set while it works on the last of ``values``."""
    session, taken = Session("pod"), []
    for value in values:
        session.take()
        session.set(value)
        taken.append(session.take())
    for value in during:
        session.set(value)
    taken += list(iter(session.take, None))
    return [value for value in taken if value is not None]


def test_a_manager_reads_the_last_value_after_a_run() -> None:
    assert read("a", during=["b", "c"]) == ["a", "c"]


def test_a_manager_misses_a_value_that_returns_during_a_run() -> None:
    assert read("a", during=["b", "a"]) == ["a"]


def test_a_manager_works_on_an_empty_value_that_it_finds_after_a_run() -> None:
    assert read("a", during=[""]) == ["a", ""]


def test_a_removed_label_wakes_no_manager_and_the_same_value_after_it_does() -> None:
    assert read("a", "", "a") == ["a", "a"]
