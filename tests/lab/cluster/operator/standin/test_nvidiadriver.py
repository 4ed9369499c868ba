# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIADrivers and a GPUCluster, in a lab with different nodes."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab.cluster import Lab, Options
from lab.cluster.operator.standin import drivers, images, nodes
from tests.lab.cluster.operator.standin.builders import IMAGE, Json, driver
from tests.support.labs import running_lab

pytestmark = [pytest.mark.wide, pytest.mark.slow("drivers are rolled out at the pace of pods")]


class Cluster:
    """The state of a lab that the tests read."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def items(self, kind: str) -> dict[str, Json]:
        found = json.loads(self.lab.kubectl("get", kind, "--namespace=gpu-operator", "--output=json"))["items"]
        return {item["metadata"]["name"]: item for item in found}

    def verdict(self, kind: str, name: str) -> tuple[str | None, str, str]:
        """Return the state, and the reason and message of the condition Error."""
        status = self.items(kind)[name].get("status") or {}
        error = next((entry for entry in status.get("conditions") or [] if entry["type"] == "Error"), {})
        return status.get("state"), error.get("reason", ""), error.get("message", "")

    def pools(self) -> list[tuple[str, int]]:
        """Return the driver DaemonSets, named without their hash, each with its number of available pods."""
        found = [
            (name, item)
            for name, item in self.items("daemonsets").items()
            if name.startswith(("nvidia-gpu-driver-", "nvidia-driver-"))
        ]
        return sorted((name.rpartition("-")[0], item["status"].get("numberAvailable", 0)) for name, item in found)

    def driver_images(self) -> list[str]:
        """Return the images of the driver pods."""
        query = ("--all-namespaces", f"--selector={'='.join(drivers.COMPONENT)}", "--output=json")
        found = json.loads(self.lab.kubectl("get", "pods", *query))["items"]
        return [str(pod["spec"]["containers"][0]["image"]) for pod in found]

    def labels(self, key: str) -> dict[str, str]:
        return {
            name: item["metadata"]["labels"][key]
            for name, item in self.items("nodes").items()
            if key in item["metadata"]["labels"]
        }

    def create(self, kind: str, item: Json) -> None:
        body = {
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": kind,
            "metadata": {"name": item["metadata"]["name"]},
            "spec": item["spec"],
        }
        self.lab.kubectl("create", "--filename=-", stdin=json.dumps(body))

    def delete(self, *names: str) -> None:
        self.lab.kubectl("delete", *names, "--timeout=30s")

    @staticmethod
    def sees(condition: t.Callable[[], bool], seconds: float = 90) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.3)
        return True


EVERY_POOL = [
    ("nvidia-gpu-driver-rhel9", 1),
    ("nvidia-gpu-driver-ubuntu22.04", 1),
    ("nvidia-gpu-driver-ubuntu24.04", 5),
]
"""The pools of the fleet `mixed`."""
HOST = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def delegating() -> t.Iterator[Cluster]:
    """A lab with different nodes, whose drivers the chart's own NVIDIADriver deploys."""
    # The pods have no life of their own here: these tests are about the operator, not about the driver's manager.
    with running_lab("nvidiadriver", Options(fleet="mixed", upgrade_tick=3, pods="instant")) as lab:
        at_once = (
            "--set=driver.upgradePolicy.maxParallelUpgrades=0",
            "--set-string=driver.upgradePolicy.maxUnavailable=100%",
        )
        lab.deploy("--set=driver.nvidiaDriverCRD.enabled=true", *at_once)
        cluster = Cluster(lab)
        assert cluster.sees(lambda: cluster.pools() == EVERY_POOL)
        yield cluster


def test_the_default_driver_of_the_chart(delegating: Cluster) -> None:
    assert delegating.sees(lambda: delegating.verdict("nvidiadrivers", "default")[0] == "ready")
    assert set(delegating.labels(drivers.OWNER).values()) == {"default"}
    selectors = [
        item["spec"]["template"]["spec"]["nodeSelector"]
        for name, item in delegating.items("daemonsets").items()
        if "-driver-rhel9-" in name
    ]
    assert [selector[f"{images.OS_VERSION}.major"] for selector in selectors] == ["9"]


def test_a_new_version_is_rolled_out(delegating: Cluster) -> None:
    expected = {f"nvcr.io/nvidia/driver:599.1-{tag}" for tag in ("rhel9", "ubuntu22.04", "ubuntu24.04")}
    delegating.lab.kubectl(
        "patch", "nvidiadriver", "default", "--type=merge", "--patch", json.dumps({"spec": {"version": "599.1"}})
    )
    assert delegating.sees(lambda: set(delegating.driver_images()) == expected)
    assert delegating.sees(lambda: set(delegating.labels(nodes.STATE).values()) == {"upgrade-done"})
    assert not any(item["spec"].get("unschedulable") for item in delegating.items("nodes").values())
    assert delegating.sees(
        lambda: delegating.verdict("nvidiadrivers", "default")[0] == "ready" and delegating.pools() == EVERY_POOL
    )


def test_a_driver_for_one_node_and_its_removal(delegating: Cluster) -> None:
    delegating.create("NVIDIADriver", driver("own", {HOST: "gpu-0003"}))
    assert delegating.sees(lambda: delegating.labels(drivers.OWNER)["gpu-0003"] == "own")
    assert delegating.sees(
        lambda: delegating.pools()[2:] == [("nvidia-gpu-driver-ubuntu24.04", 1), ("nvidia-gpu-driver-ubuntu24.04", 4)]
    )
    delegating.delete("nvidiadriver/own")
    assert delegating.sees(
        lambda: delegating.labels(drivers.OWNER)["gpu-0003"] == "default" and delegating.pools() == EVERY_POOL
    )


def test_overlapping_selectors_stop_every_driver(delegating: Cluster) -> None:
    delegating.create("NVIDIADriver", driver("one", {HOST: "gpu-0000"}))
    assert delegating.sees(lambda: delegating.labels(drivers.OWNER)["gpu-0000"] == "one")
    delegating.create("NVIDIADriver", driver("two", {HOST: "gpu-0000"}))
    expected = ("notReady", "ConflictingNodeSelector", "multiple NVIDIADrivers match the same node gpu-0000: [one two]")
    for name in ("one", "two", "default"):
        assert delegating.sees(lambda name=name: delegating.verdict("nvidiadrivers", name) == expected)
    assert delegating.labels(drivers.OWNER)["gpu-0000"] == "one"
    assert delegating.verdict("clusterpolicies", "cluster-policy")[0] == "ready"
    delegating.delete("nvidiadriver/one", "nvidiadriver/two")
    assert delegating.sees(
        lambda: delegating.verdict("nvidiadrivers", "default")[0] == "ready" and delegating.pools() == EVERY_POOL
    )


def test_a_gpucluster_beside_the_policy_stops_both(delegating: Cluster) -> None:
    delegating.create("GPUCluster", {"metadata": {"name": "gpu-cluster"}, "spec": {"draDriver": IMAGE}})
    assert delegating.sees(
        lambda: delegating.verdict("gpuclusters", "gpu-cluster")[:2] == ("notReady", "PrerequisiteNotMet")
    )
    assert delegating.sees(
        lambda: delegating.verdict("clusterpolicies", "cluster-policy")[:2] == ("notReady", "ReconcileFailed")
    )
    delegating.create("NVIDIADriver", driver("late", {HOST: "gpu-0001"}))
    assert delegating.sees(lambda: delegating.verdict("nvidiadrivers", "late")[0] == "ready")
    assert delegating.labels(drivers.OWNER)["gpu-0001"] == "default"
    delegating.delete("gpucluster/gpu-cluster")
    assert delegating.sees(lambda: delegating.verdict("clusterpolicies", "cluster-policy")[0] == "ready")
    assert delegating.sees(lambda: delegating.labels(drivers.OWNER)["gpu-0001"] == "late")
    delegating.delete("nvidiadriver/late")
    assert delegating.sees(lambda: delegating.pools() == EVERY_POOL)


def test_a_policy_without_any_driver_stays_ready(delegating: Cluster) -> None:
    default = delegating.items("nvidiadrivers")["default"]
    delegating.delete("nvidiadriver/default")
    assert delegating.sees(
        lambda: not delegating.pools() and not delegating.labels(drivers.OWNER) and not delegating.labels(nodes.STATE)
    )
    assert delegating.verdict("clusterpolicies", "cluster-policy")[0] == "ready"
    delegating.create("NVIDIADriver", default)
    assert delegating.sees(lambda: delegating.pools() == EVERY_POOL)
