# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers that are slow or fail, nodes that are down, and an operator that crashes, in the middle of an upgrade."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab import cli
from lab.cluster import Lab, LabError, Options, faults
from lab.cluster.api import Api
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = [pytest.mark.wide, pytest.mark.slow("each fault has to show in the states of an upgrade")]

Json = dict[str, t.Any]
STATE = "nvidia.com/gpu-driver-upgrade-state"
PAUSED = "paused-for-driver-upgrade"
POLICY = (
    "--set=driver.upgradePolicy.maxParallelUpgrades=0",
    "--set-string=driver.upgradePolicy.maxUnavailable=100%",
)


class Fleet:
    """What a test sees of the lab's nodes and driver pods."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.api = Api(str(lab.kubeconfig))

    def node(self, name: str) -> Json:
        return self.api.get(f"/api/v1/nodes/{name}") or {}

    def label(self, name: str, key: str) -> str:
        return str(self.node(name)["metadata"]["labels"].get(key, ""))

    def states(self) -> list[str]:
        items = self.api.list("/api/v1/nodes")
        return [item["metadata"]["labels"].get(STATE, "") for item in items]

    def cordoned(self) -> list[str]:
        items = self.api.list("/api/v1/nodes")
        return [item["metadata"]["name"] for item in items if item["spec"].get("unschedulable")]

    def driver(self, node: str) -> Json | None:
        query = {"labelSelector": "app.kubernetes.io/component=nvidia-driver", "fieldSelector": f"spec.nodeName={node}"}
        return next(iter(self.api.list("/api/v1/pods", **query)), None)

    def container(self, node: str) -> Json:
        pod = self.driver(node) or {}
        return next(iter((pod.get("status") or {}).get("containerStatuses") or []), {})

    def image(self, node: str) -> str:
        pod = self.driver(node)
        return str(pod["spec"]["containers"][0]["image"]) if pod else ""

    def change(self, **driver: t.Any) -> None:
        body = json.dumps({"spec": {"driver": driver}})
        self.lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", f"--patch={body}")

    def upgraded(self, version: str) -> bool:
        everywhere = all(f":{version}-" in self.image(name) for name in NODES)
        return everywhere and set(self.states()) == {"upgrade-done"} and not self.cordoned()


NODES = ("gpu-0000", "gpu-0001", "gpu-0002")


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Fleet]:
    """A lab whose stack is ready, and whose nodes are all upgraded at once."""
    with running_lab("drivers", Options(nodes=3, upgrade_tick=2, validation_seconds=3, manager_patience=8)) as lab:
        lab.deploy(*POLICY)
        found = Fleet(lab)
        sees(lambda: set(found.states()) == {"upgrade-done"})
        yield found


@pytest.fixture(autouse=True)
def cleared(fleet: Fleet) -> t.Iterator[None]:
    yield
    faults.clear(fleet.lab)
    assert faults.active(fleet.lab) == []
    sees(lambda: set(fleet.states()) == {"upgrade-done"} and not fleet.cordoned())


def test_a_slow_build_runs_and_is_not_ready_until_it_is_done(fleet: Fleet) -> None:
    faults.driver(fleet.lab, "slow-build", node="gpu-0001", version="600.1", seconds=6)
    assert faults.active(fleet.lab) == ["driver 600.1 on gpu-0001: slow-build 6 s"]
    fleet.change(version="600.1")
    sees(lambda: ":600.1-" in fleet.image("gpu-0001") and "running" in fleet.container("gpu-0001").get("state", {}))
    entry, pod = fleet.container("gpu-0001"), fleet.driver("gpu-0001")
    assert (entry["ready"], entry["started"], entry["restartCount"]) == (False, False, 0)
    assert pod is not None
    assert pod["status"]["phase"] == "Running"
    assert pod["spec"]["containers"][0]["startupProbe"]["failureThreshold"] == 120
    assert fleet.label("gpu-0001", STATE) == "pod-restart-required"
    unhealthy = {"fieldSelector": "reason=Unhealthy"}
    events = "/api/v1/namespaces/gpu-operator/events"
    sees(lambda: {each["message"] for each in fleet.api.list(events, **unhealthy)} == {"Startup probe failed: "})
    sees(lambda: fleet.upgraded("600.1"))


def test_a_driver_that_crashes_fails_its_node_and_a_cure_lets_it_go_on_by_itself(fleet: Fleet) -> None:
    faults.driver(fleet.lab, "manager-crash", node="gpu-0000", version="600.2")
    faults.driver(fleet.lab, "crash-loop", node="gpu-0002", version="600.2")
    fleet.change(version="600.2")
    sees(lambda: sorted(fleet.states()) == ["upgrade-done", "upgrade-failed", "upgrade-failed"])
    assert fleet.container("gpu-0002")["restartCount"] > 10
    assert fleet.cordoned() == ["gpu-0000", "gpu-0002"]
    faults.clear(fleet.lab)
    sees(lambda: fleet.upgraded("600.2"))


def test_a_driver_manager_pauses_the_operands_until_it_is_done(fleet: Fleet) -> None:
    faults.driver(fleet.lab, "manager-hangs", node="gpu-0000", version="600.3")
    fleet.change(version="600.3")
    key = "nvidia.com/gpu.deploy.device-plugin"
    sees(lambda: fleet.label("gpu-0000", key) == PAUSED)
    sees(lambda: (fleet.node("gpu-0000")["status"]["allocatable"]).get("nvidia.com/gpu") == "0")
    faults.clear(fleet.lab)
    sees(lambda: fleet.label("gpu-0000", key) == "true")
    sees(lambda: fleet.upgraded("600.3"))
    assert fleet.label("gpu-0000", "nvidia.com/gpu.deploy.sandbox-validator") == ""
    assert "nvidia.com/gpu.deploy.sandbox-validator" in fleet.node("gpu-0000")["metadata"]["labels"]


def test_one_node_that_is_down_stops_the_upgrade_of_every_node(fleet: Fleet) -> None:
    faults.node(fleet.lab, "gpu-0001", "down")
    assert "node gpu-0001: down" in faults.active(fleet.lab)
    sees(lambda: "node.kubernetes.io/unreachable" in json.dumps(fleet.node("gpu-0001")["spec"].get("taints")))
    pod = fleet.driver("gpu-0001")
    assert pod is not None
    fleet.lab.kubectl("delete", "pod", pod["metadata"]["name"], "--namespace=gpu-operator", "--wait=false")
    fleet.change(version="600.5")
    # The DaemonSet's pods do not tolerate the taint, so it wants one pod less than it has.
    log = fleet.lab.component("operator").process.log
    sees(lambda: "driver DaemonSet should not have Unscheduled pods" in log.read_text())
    time.sleep(3)
    assert set(fleet.states()) == {"upgrade-done"}
    ending = fleet.driver("gpu-0001")
    assert ending is not None
    assert "deletionTimestamp" in ending["metadata"]
    faults.clear(fleet.lab)
    sees(lambda: fleet.upgraded("600.5"))


def test_an_operator_that_crashes_goes_on_where_it_was(fleet: Fleet) -> None:
    faults.driver(fleet.lab, "slow-build", version="600.6", seconds=3)
    fleet.change(version="600.6")
    sees(lambda: "pod-restart-required" in fleet.states())
    faults.restart_operator(fleet.lab)
    assert fleet.lab.status().died == ()
    sees(lambda: fleet.upgraded("600.6"))


def test_a_validator_that_never_comes_up_fails_the_node_for_a_moment_and_is_then_forgotten(fleet: Fleet) -> None:
    lab = fleet.lab
    faults.operand(lab, "nvidia-operator-validator", "hang-init", node="gpu-0001")
    fleet.change(version="600.7")
    sees(lambda: ":600.7-" in fleet.image("gpu-0001") and fleet.label("gpu-0001", STATE) == "upgrade-done")
    events = fleet.api.list("/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=gpu-0001")
    said = [event["message"] for event in events]
    assert any(message.endswith("to upgrade-failed") for message in said)


def test_without_upgrades_the_manager_evicts_and_uncordons_itself(fleet: Fleet) -> None:
    fleet.change(upgradePolicy={"autoUpgrade": False})
    sees(lambda: set(fleet.states()) == {""})
    fleet.lab.kubectl("create", "--filename=-", stdin=json.dumps(WORK))
    fleet.lab.kubectl("rollout", "status", "deployment/work", "--timeout=60s")
    before = {pod["metadata"]["name"] for pod in fleet.api.list("/api/v1/namespaces/default/pods")}
    fleet.change(version="600.8")
    wanted = "/apis/apps/v1/namespaces/gpu-operator/daemonsets/nvidia-driver-daemonset"
    sees(lambda: ":600.8-" in json.dumps(fleet.api.get(wanted)))
    pod = fleet.driver("gpu-0000")
    assert pod is not None
    fleet.lab.kubectl("delete", "pod", pod["metadata"]["name"], "--namespace=gpu-operator")
    sees(lambda: fleet.node("gpu-0000")["spec"].get("unschedulable"))
    sees(lambda: ":600.8-" in fleet.image("gpu-0000") and fleet.container("gpu-0000").get("ready"))
    assert not fleet.node("gpu-0000")["spec"].get("unschedulable")
    after = {pod["metadata"]["name"] for pod in fleet.api.list("/api/v1/namespaces/default/pods")}
    assert not before & after
    fleet.lab.kubectl("delete", "deployment", "work")
    fleet.change(upgradePolicy={"autoUpgrade": True})
    sees(lambda: fleet.upgraded("600.8"))


WORK = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "work", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "work"}},
        "template": {
            "metadata": {"labels": {"app": "work"}},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "gpu-0000"},
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {"name": "work", "image": "work", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
                ],
            },
        },
    },
}


def test_by_command(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> None:
        given = cli.parser().parse_args(["cluster", "fault", *words, "--name", fleet.lab.name])
        given.run(given)

    run("driver", "slow-build", "--seconds", "2.5", "--version", "9")
    assert capsys.readouterr().out == "driver 9: slow-build 2.5 s\n"
    run("restart-operator")
    run("clear")
    assert capsys.readouterr().out.endswith("No fault is active.\n")


def test_wrong_words_are_refused(fleet: Fleet) -> None:
    for words, message in (
        ({"trouble": "tired"}, "Drivers have no trouble 'tired'"),
        ({"trouble": "slow-build"}, "needs a number of seconds"),
        ({"trouble": "crash-loop", "seconds": 3}, "needs a number of seconds"),
        ({"trouble": "crash-loop", "node": "gpu-9999"}, "There is no node 'gpu-9999'"),
    ):
        with pytest.raises(LabError, match=message):
            faults.driver(fleet.lab, **t.cast(t.Any, words))
    with pytest.raises(LabError, match="Nodes have no fault 'sad'"):
        faults.node(fleet.lab, "gpu-0000", "sad")
