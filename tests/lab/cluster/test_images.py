# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver images that a registry lacks for one operating system, from an operator of one line to that of another."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, Options
from lab.cluster.api import Api
from lab.registry import Registry
from tests.support.labs import running_lab
from tests.support.registries import running_registry
from tests.support.waits import sees

pytestmark = pytest.mark.slow("images are pulled at a registry's pace")

Json = dict[str, t.Any]
SYSTEMS = ("rhel9.4", "ubuntu22.04", "ubuntu24.04")
FLEET = "pools:\n" + "".join(f"  - {{count: 1, model: T4, os: {system}}}\n" for system in SYSTEMS)
NAMESPACE = "gpu-operator"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Cluster:
    """A lab with three operating systems, whose drivers come from a registry that wants a token."""

    def __init__(self, lab: Lab, registry: Registry) -> None:
        self.lab, self.registry = lab, registry
        self.api = Api(str(lab.kubeconfig))

    def push(self, *tags: str) -> None:
        for tag in tags:
            self.registry.push("nvidia/driver", tag)

    def helm(self, operator: str, version: str, *options: str) -> None:
        values = {
            "operator.version": operator,
            "driver.repository": f"{self.registry.host}/nvidia",
            "driver.version": version,
            "driver.imagePullSecrets[0]": "mirror",
            "driver.upgradePolicy.maxParallelUpgrades": "0",
            "driver.upgradePolicy.maxUnavailable": "100%",
        }
        words = [f"--set-string={key}={value}" for key, value in values.items() if "Parallel" not in key]
        words += ["--set=driver.upgradePolicy.maxParallelUpgrades=0", *options]
        command = [str(self.lab.helm), "upgrade", "--install", "gpu-operator", self.lab.chart, *words]
        access = [f"--namespace={NAMESPACE}", f"--kubeconfig={self.lab.kubeconfig}"]
        subprocess.run([*command, *access], check=True, capture_output=True, text=True, timeout=60)

    def secret(self, password: str | None = None) -> None:
        body = self.registry.pull_secret("mirror", NAMESPACE, password=password)
        self.lab.kubectl("apply", "--filename=-", stdin=json.dumps(body))

    def drivers(self) -> list[Json]:
        return self.api.list(PODS, labelSelector="app.kubernetes.io/component=nvidia-driver")

    def driver(self, system: str) -> Json:
        """Return the driver pod on the node with an operating system."""
        node = f"gpu-{SYSTEMS.index(system):04d}"
        return next((pod for pod in self.drivers() if pod["spec"].get("nodeName") == node), {})

    def tags(self) -> list[str]:
        """Return the tags of the drivers that are ready, sorted."""
        ready = [pod for pod in self.drivers() if _entry(pod).get("ready")]
        return sorted(pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in ready)

    def waiting(self, system: str) -> tuple[str, str]:
        state = (_entry(self.driver(system)).get("state") or {}).get("waiting") or {}
        return state.get("reason", ""), state.get("message", "")

    def lacks(self, system: str, words: str) -> None:
        sees(lambda: self.waiting(system)[0] == "ImagePullBackOff" and words in self.waiting(system)[1])

    def restart(self, system: str) -> None:
        name = self.driver(system)["metadata"]["name"]
        self.lab.kubectl("delete", "pod", name, f"--namespace={NAMESPACE}")

    def done(self) -> bool:
        nodes = self.api.list("/api/v1/nodes")
        states = {node["metadata"]["labels"].get("nvidia.com/gpu-driver-upgrade-state") for node in nodes}
        return states == {"upgrade-done"} and not any(node["spec"].get("unschedulable") for node in nodes)


def _entry(pod: Json) -> Json:
    return next(iter((pod.get("status") or {}).get("containerStatuses") or []), {})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    fleet: Path = tmp_path_factory.mktemp("fleet") / "systems.yaml"
    fleet.write_text(FLEET)
    with running_registry("token") as registry, running_lab("images", Options(fleet=str(fleet), upgrade_tick=2)) as lab:
        found = Cluster(lab, registry)
        lab.kubectl("create", "namespace", NAMESPACE)
        found.secret()
        found.push("7.1-rhel9.4")
        found.helm("v26.3.3", "7.1")
        sees(lambda: found.tags() == ["7.1-rhel9.4"] * 3)
        sees(found.done)
        yield found


@pytest.mark.wide
def test_before_v26_7_a_policy_without_drain_stops_every_upgrade(cluster: Cluster) -> None:
    cluster.push("7.2-rhel9.4")
    spec = {"driver": {"version": "7.2", "upgradePolicy": {"drain": None}}}
    patch = ("patch", "clusterpolicy", "cluster-policy", "--type=merge")
    cluster.lab.kubectl(*patch, f"--patch={json.dumps({'spec': spec})}")
    log = cluster.lab.component("operator").process.log
    sees(lambda: "nil pointer dereference" in log.read_text())
    time.sleep(3)
    assert cluster.tags() == ["7.1-rhel9.4"] * 3
    cluster.helm("v26.3.3", "7.2", "--force-conflicts")
    sees(lambda: cluster.tags() == ["7.2-rhel9.4"] * 3)
    sees(cluster.done)


@pytest.mark.wide
def test_another_line_of_the_operator_wants_other_tags_which_a_mirror_may_lack(cluster: Cluster) -> None:
    cluster.helm("v26.7.0", "7.2", "--force-conflicts")
    cluster.lacks("rhel9.4", "driver:7.2-rhel9: not found")
    assert "HEAD /v2/nvidia/driver/manifests/7.2-rhel9" in cluster.registry.requests()
    cluster.push("7.2-rhel9")
    sees(lambda: cluster.tags() == ["7.2-rhel9"] * 3)
    sees(cluster.done)


@pytest.mark.wide
def test_an_image_that_one_pool_of_three_lacks(cluster: Cluster) -> None:
    cluster.push("7.2-ubuntu22.04")
    cluster.helm("v26.7.0", "7.2", "--force-conflicts", "--set=driver.nvidiaDriverCRD.enabled=true")
    cluster.lacks("ubuntu24.04", "driver:7.2-ubuntu24.04: not found")
    sees(lambda: cluster.tags() == ["7.2-rhel9", "7.2-ubuntu22.04"])
    cluster.push("7.2-ubuntu24.04")
    sees(lambda: cluster.tags() == ["7.2-rhel9", "7.2-ubuntu22.04", "7.2-ubuntu24.04"])
    sees(cluster.done)


def test_a_pull_secret_with_an_old_password(cluster: Cluster) -> None:
    cluster.secret(password="old")
    cluster.restart("ubuntu22.04")
    cluster.lacks("ubuntu22.04", "401 Unauthorized")
    cluster.secret()
    sees(lambda: len(cluster.tags()) == 3)


@pytest.mark.wide
def test_a_registry_that_is_down(cluster: Cluster) -> None:
    cluster.registry.stop()
    cluster.restart("rhel9.4")
    cluster.lacks("rhel9.4", "failed to do request")
    cluster.registry.start()
    sees(lambda: len(cluster.tags()) == 3)
