# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a driver manager does to a node before a driver container starts, and which images a node can pull."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from lab.cluster.api import ApiError
from lab.cluster.nodes.agents.drivers import labels
from lab.cluster.nodes.agents.drivers.manager import CONTAINER, DriverManager
from lab.cluster.nodes.agents.drivers.pulls import Pulls
from lab.registry import Registry

Json = dict[str, t.Any]
NODE_PATH = "/api/v1/nodes/gpu-0000"
POD_PATH = "/api/v1/namespaces/gpu-operator/pods/driver"
NOTE = "lab.gpuops.nvidia/"
AUTOMATIC = {"nvidia.com/gpu-driver-upgrade-enabled": "true"}
OPERANDS = ("operator-validator", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm", "client")


class Cluster:
    """A node and its pods, which the manager reads and changes."""

    def __init__(self, *, loaded: str = "old", annotations: Json | None = None, pods: t.Sequence[Json] = ()) -> None:
        notes = {f"{NOTE}loaded": json.dumps({"driver": loaded, "boot": "1"})} if loaded else {}
        self.node: Json = {
            "metadata": {
                "name": "gpu-0000",
                "labels": {labels.DEPLOY + name: "true" for name in OPERANDS},
                "annotations": {**notes, **(annotations or {})},
            },
            "spec": {},
            "status": {"nodeInfo": {"bootID": "1"}},
        }
        self.pod = driver_pod()
        self.others = list(pods)
        self.evicted: list[str] = []
        self.secrets: dict[str, Json] = {}
        self.refused = False
        self.restarts = 0
        self.later: list[float] = []
        api = t.cast(t.Any, self)
        self.pulls = Pulls(api, lambda seconds, node: self.later.append(seconds))
        self.manager = DriverManager(api, 0.0, lambda seconds, node: self.later.append(seconds), self.pulls)

    def play(self) -> None:
        self.manager.play(self.node, [self.pod, *self.others])

    def get(self, path: str, **query: t.Any) -> Json | None:
        return self.secrets.get(path) if "/secrets/" in path else self.node

    def merge(self, path: str, body: Json) -> None:
        item = self.node if path == NODE_PATH else self.pod
        for part in ("labels", "annotations"):
            for key, value in (body.get("metadata", {}).get(part) or {}).items():
                if value is None:
                    item["metadata"][part].pop(key, None)
                else:
                    item["metadata"][part][key] = value
        if "unschedulable" in body.get("spec", {}):
            item["spec"]["unschedulable"] = body["spec"]["unschedulable"]

    def strategic(self, path: str, body: Json) -> None:
        assert path == f"{POD_PATH}/status"
        self.pod["status"] |= body["status"]

    def create(self, path: str, body: Json) -> None:
        if self.refused:
            raise ApiError(429, "the budget does not allow it")
        self.evicted.append(path)

    @property
    def deployed(self) -> set[str]:
        return {value for key, value in self.node["metadata"]["labels"].items() if value and key != PLAIN}

    @property
    def passed(self) -> bool:
        return bool(CONTAINER in self.pod["metadata"]["annotations"].get(f"{NOTE}passed", ""))

    @property
    def crashed(self) -> bool:
        state = self.pod["status"]["initContainerStatuses"][0]["state"]
        return bool(state.get("waiting", {}).get("reason") == "CrashLoopBackOff")


PLAIN = "nvidia.com/gpu.deploy.driver"


def driver_pod(digest: str = "new", **env: str) -> Json:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    image = "nvcr.io/nvidia/driver:595-ubuntu24.04"
    container = {
        "name": "nvidia-driver-ctr",
        "image": image,
        "env": [{"name": "DRIVER_CONFIG_DIGEST", "value": digest}],
    }
    return {
        "metadata": {
            "name": "driver",
            "namespace": "gpu-operator",
            "uid": "1",
            "labels": {"app.kubernetes.io/component": "nvidia-driver"},
            "annotations": {},
            "creationTimestamp": "2026-11-23T00:00:00Z",
        },
        "spec": {"containers": [container], "initContainers": [{"name": CONTAINER, "env": variables}]},
        "status": {
            "phase": "Pending",
            "initContainerStatuses": [{"name": CONTAINER, "restartCount": 0, "state": {"running": {}}}],
        },
    }


def other(app: str, owner: str = "ReplicaSet", *, gpus: int = 0, **spec: t.Any) -> Json:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    owners = [{"kind": owner, "controller": True}] if owner else []
    return {
        "metadata": {
            "name": app,
            "namespace": "default",
            "uid": app,
            "labels": {"app": app},
            "ownerReferences": owners,
        },
        "spec": {"containers": [{"name": "main", "resources": limits}], **spec},
        "status": {"phase": "Running"},
    }


def test_without_a_driver_nothing_is_paused_and_stale_pauses_end() -> None:
    cluster = Cluster(loaded="")
    cluster.node["metadata"]["labels"][f"{labels.DEPLOY}dcgm"] = labels.PAUSED
    cluster.play()
    assert cluster.passed
    assert cluster.deployed == {"true"}
    assert cluster.node["metadata"]["labels"][f"{labels.DEPLOY}nvsm"] == ""


def test_a_driver_of_an_earlier_boot_is_not_loaded() -> None:
    cluster = Cluster()
    cluster.node["status"]["nodeInfo"]["bootID"] = "2"
    cluster.play()
    assert cluster.passed


def test_operands_are_paused_until_their_pods_are_gone() -> None:
    cluster = Cluster(annotations=AUTOMATIC, pods=[other("nvidia-device-plugin-daemonset", "DaemonSet")])
    cluster.manager._patience = 60
    cluster.play()
    cluster.play()
    assert cluster.deployed == {labels.PAUSED}
    assert not cluster.passed
    cluster.others = []
    cluster.play()
    assert cluster.passed
    assert cluster.deployed == {"true"}
    assert f"{NOTE}loaded" not in cluster.node["metadata"]["annotations"]


def test_a_pod_that_follows_the_label_for_clients_is_waited_for() -> None:
    client = other("monitor", "DaemonSet", nodeSelector={f"{labels.DEPLOY}client": "true"})
    cluster = Cluster(annotations=AUTOMATIC, pods=[client])
    cluster.play()
    cluster.play()
    assert not cluster.passed


def test_pods_that_stay_end_the_managers_patience() -> None:
    cluster = Cluster(annotations=AUTOMATIC, pods=[other("nvidia-dcgm", "DaemonSet")])
    cluster.play()
    cluster.play()
    assert cluster.crashed
    assert cluster.deployed == {"true"}


def test_the_same_configuration_stays_loaded() -> None:
    cluster = Cluster(loaded="new", annotations=AUTOMATIC, pods=[other("job", gpus=1)])
    cluster.play()
    cluster.play()
    assert cluster.passed
    assert f"{NOTE}loaded" in cluster.node["metadata"]["annotations"]


def test_where_the_operator_upgrades_a_pod_that_holds_the_driver_is_a_failure() -> None:
    cluster = Cluster(annotations=AUTOMATIC, pods=[other("job", gpus=1)])
    cluster.node["spec"]["unschedulable"] = True
    cluster.play()
    cluster.play()
    assert cluster.crashed
    assert cluster.evicted == []
    assert cluster.node["spec"]["unschedulable"]


def test_elsewhere_the_manager_cordons_evicts_and_uncordons() -> None:
    cluster = Cluster(pods=[other("job", gpus=1)])
    cluster.play()
    cluster.play()
    assert cluster.node["spec"]["unschedulable"]
    assert cluster.evicted == ["/api/v1/namespaces/default/pods/job/eviction"]
    cluster.others = []
    cluster.play()
    assert cluster.passed
    assert not cluster.node["spec"]["unschedulable"]


def test_an_eviction_that_a_budget_refuses_is_tried_again() -> None:
    cluster = Cluster(pods=[other("job", gpus=1)])
    cluster.refused = True
    cluster.play()
    cluster.play()
    assert not cluster.crashed
    assert cluster.later[-1] == 1.0


@pytest.mark.parametrize("pod", [other("bare", "", gpus=1), other("ds", "DaemonSet", gpus=1)])
def test_a_pod_that_may_not_be_evicted_is_a_failure_after_which_the_node_is_uncordoned(pod: Json) -> None:
    cluster = Cluster(pods=[pod])
    cluster.play()
    cluster.play()
    assert cluster.crashed
    assert not cluster.node["spec"]["unschedulable"]


def test_force_and_local_data_are_the_managers_own_settings() -> None:
    data = {"volumes": [{"name": "a", "emptyDir": {}}]}
    cluster = Cluster(pods=[other("bare", "", gpus=1, **data)])
    cluster.pod = driver_pod(DRAIN_USE_FORCE="true", DRAIN_DELETE_EMPTYDIR_DATA="true")
    cluster.play()
    cluster.play()
    assert cluster.evicted
    cluster = Cluster(pods=[other("job", gpus=1, **data)])
    cluster.play()
    cluster.play()
    assert cluster.crashed


def test_a_cordon_of_somebody_else_is_taken_off_where_the_operator_does_not_upgrade() -> None:
    cluster = Cluster(loaded="")
    cluster.node["spec"]["unschedulable"] = True
    cluster.play()
    assert not cluster.node["spec"]["unschedulable"]
    kept = Cluster(loaded="")
    kept.pod = driver_pod(ENABLE_GPU_POD_EVICTION="false", ENABLE_AUTO_DRAIN="false")
    kept.node["spec"]["unschedulable"] = True
    kept.play()
    assert kept.node["spec"]["unschedulable"]


def test_a_failed_container_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(annotations=AUTOMATIC, pods=[other("job", gpus=1)])
    cluster.play()
    cluster.play()
    assert cluster.later[-1] == 1.0
    cluster.manager._again["1"] = 0.0
    cluster.play()
    entry = cluster.pod["status"]["initContainerStatuses"][0]
    assert (entry["restartCount"], "running" in entry["state"]) == (1, True)


def test_faults_hang_or_crash_the_manager_until_they_heal() -> None:
    hangs = Cluster(annotations=AUTOMATIC)
    hangs.pod["metadata"]["annotations"][f"{NOTE}manager-fault"] = "hangs"
    hangs.play()
    hangs.play()
    assert hangs.deployed == {labels.PAUSED}
    hangs.pod["metadata"]["annotations"][f"{NOTE}heals-after"] = "1s"
    hangs.play()
    assert hangs.passed
    crashes = Cluster(loaded="")
    crashes.pod["metadata"]["annotations"][f"{NOTE}manager-fault"] = "crash"
    crashes.play()
    assert crashes.crashed


def test_a_driver_of_the_host_makes_the_pod_leave() -> None:
    cluster = Cluster(loaded="")
    cluster.node["metadata"]["annotations"][f"{NOTE}host-driver"] = "true"
    cluster.play()
    assert cluster.node["metadata"]["labels"][PLAIN] == "pre-installed"
    assert not cluster.passed


def test_a_ready_driver_is_remembered_as_loaded() -> None:
    cluster = Cluster(loaded="")
    cluster.pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.play()
    assert json.loads(cluster.node["metadata"]["annotations"][f"{NOTE}loaded"]) == {
        "driver": "new",
        "boot": "1",
        "version": "595",
    }


@pytest.mark.parametrize(
    ("before", "paused", "after"),
    [
        ("true", "paused-for-driver-upgrade", "true"),
        ("false", "false", "false"),
        ("", "", ""),
        ("paused-for-mig-change", "paused-for-mig-change_paused-for-driver-upgrade", "paused-for-mig-change"),
    ],
)
def test_the_values_of_a_label(before: str, paused: str, after: str) -> None:
    key = f"{labels.DEPLOY}dcgm"
    node = {"metadata": {"labels": {key: before}}}
    assert labels.paused(node)[key] == paused
    assert labels.restored({"metadata": {"labels": {key: paused}}})[key] == after


# ---- pulls ----------------------------------------------------------------------------------------------------------


def test_an_image_that_the_registry_lacks_is_pulled_once_it_is_there(registry: Registry) -> None:
    cluster = Cluster(loaded="")
    cluster.pod["spec"]["containers"][0]["image"] = registry.image("nvidia/driver", "7-rhel9")
    cluster.play()
    notes = cluster.pod["metadata"]["annotations"]
    assert notes[f"{NOTE}fault"] == "image-pull-backoff"
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
    cluster.pod["status"]["containerStatuses"] = [{"name": "nvidia-driver-ctr", **waiting}]
    cluster.pulls.play(cluster.node, [cluster.pod])
    assert cluster.later
    registry.push("nvidia/driver", "7-rhel9")
    cluster.pulls.play(cluster.node, [cluster.pod])
    assert f"{NOTE}fault" not in notes
    state = cluster.pod["status"]["containerStatuses"][0]["state"]
    assert state == {"waiting": {"reason": "ContainerCreating"}}


def test_a_pull_secret_of_the_pod_opens_the_registry(token_registry: Registry) -> None:
    token_registry.push("nvidia/driver", "7")
    cluster = Cluster()
    pod = cluster.pod
    pod["spec"]["containers"][0]["image"] = token_registry.image("nvidia/driver", "7")
    assert cluster.pulls.notes(pod)[f"{NOTE}fault"] == "image-unauthorized"
    pod["spec"]["imagePullSecrets"] = [{"name": "absent"}, {"name": "mirror"}]
    cluster.secrets["/api/v1/namespaces/gpu-operator/secrets/absent"] = {}
    cluster.secrets["/api/v1/namespaces/gpu-operator/secrets/mirror"] = token_registry.pull_secret("mirror")
    assert cluster.pulls.notes(pod) == {}


def test_an_entry_of_a_pull_secret_may_have_the_account_in_one_piece(basic_registry: Registry) -> None:
    basic_registry.push("nvidia/driver", "7")
    cluster = Cluster()
    cluster.pod["spec"]["containers"][0]["image"] = basic_registry.image("nvidia/driver", "7")
    cluster.pod["spec"]["imagePullSecrets"] = [{"name": "mirror"}]
    auth = base64.b64encode(b"lab:lab-password").decode()
    config = json.dumps({"auths": {basic_registry.host: {"auth": auth}}})
    data = {".dockerconfigjson": base64.b64encode(config.encode()).decode()}
    cluster.secrets["/api/v1/namespaces/gpu-operator/secrets/mirror"] = {"data": data}
    assert cluster.pulls.notes(cluster.pod) == {}
