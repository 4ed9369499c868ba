# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drivers are declared in the ClusterPolicy, move to NVIDIADrivers and back, with a real registry beside the lab."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import declare
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import driver_container

from lab.cluster import Lab, Options
from lab.registry import Registry
from tests.support.ansible import OPERATOR, Playbook, on
from tests.support.labs import running_lab
from tests.support.registries import running_registry

pytestmark = pytest.mark.slow("drivers move to pools and back")

OLD, NEW, NEWER = "595.91.07", "595.99.02", "610.57.04"
POLICY = {
    "autoUpgrade": True,
    "maxParallelUpgrades": 0,
    "maxUnavailable": "100%",
    "waitForCompletion": {},
    "gpuPodDeletion": {},
    "drain": {},
}
FLEET = """
pools:
  - {count: 2, name: gpu}
"""


class Stage(t.NamedTuple):
    """A lab with the operator, and the registry that its drivers come from."""

    lab: Lab
    images: Registry

    @property
    def ansible(self) -> Playbook:
        return on(self.lab)

    def declare(self, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Call the module's code with its own defaults. Return its result, or the error with ``rc``."""
        registry = {"insecure": [self.images.host], **options.pop("registry", {})}
        given = {"timeout": 120, "max_unavailable": "100%", **options, "registry": registry}
        checked = ArgumentSpecValidator(driver_container.SPEC.options).validate(given)
        assert checked.error_messages == []
        cluster = Cluster({"kubeconfig": str(self.lab.kubeconfig)}, check)
        try:
            return {"rc": 0, **declare.declare(cluster, checked.validated_parameters, lambda text: None)}
        except GpuOpsError as e:
            return {"rc": 1, "msg": e.msg, **e.details}

    def four_times(self, **options: t.Any) -> dict[str, t.Any]:
        """Run {check, run, check, run}: a change is foretold, made once, and then there is nothing to do."""
        foretold = self.declare(check=True, **options)
        assert foretold["rc"] == 0 and foretold["changed"] is True, foretold
        made = self.declare(**options)
        assert made["rc"] == 0 and made["changed"] is True, made
        assert foretold["plan"] == made["plan"] and foretold["objects"] == made["objects"]
        for again in (self.declare(check=True, **options), self.declare(**options)):
            assert again["rc"] == 0 and again["changed"] is False, again
        return made

    def get(self, *arguments: str) -> dict[str, t.Any]:
        return t.cast(dict[str, t.Any], json.loads(self.lab.kubectl("get", *arguments, "--output=json")))

    def versions(self) -> dict[str, str]:
        """Return the driver that feature discovery reports on each node."""
        label = "nvidia.com/cuda.driver-version.full"
        return {
            item["metadata"]["name"]: item["metadata"]["labels"].get(label, "") for item in self.get("nodes")["items"]
        }

    def driver_pods(self) -> dict[str, list[str]]:
        """Return the images of the driver's pods on each node."""
        found: dict[str, list[str]] = {}
        selector = "--selector=app.kubernetes.io/component=nvidia-driver"
        for pod in self.get("pods", "--namespace=gpu-operator", selector)["items"]:
            node = pod["spec"].get("nodeName", "none")
            found.setdefault(node, []).append(pod["spec"]["containers"][0]["image"].rpartition(":")[2])
        return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Stage]:
    """Two nodes whose driver comes from a registry that wants a token."""
    fleet = tmp_path_factory.mktemp("fleet") / "two.yaml"
    fleet.write_text(FLEET)
    with running_registry("token") as images, running_lab("drivers", Options(fleet=str(fleet), upgrade_tick=2)) as lab:
        for version in (OLD, NEW, NEWER):
            images.push("nvidia/driver", f"{version}-ubuntu24.04")
        lab.kubectl("create", "namespace", "gpu-operator")
        lab.kubectl(
            "create", "--namespace=gpu-operator", "--filename=-", stdin=json.dumps(images.pull_secret("mirror"))
        )
        made = Stage(lab, images)
        values = {
            "driver": {
                "repository": f"{images.host}/nvidia", "version": OLD, "imagePullSecrets": ["mirror"],
                "upgradePolicy": POLICY,
            },
        }  # fmt: skip
        run = made.ansible.run(OPERATOR, operator_values=values)
        assert run.status == 0, run.output
        yield made


def test_bad_input_is_refused_before_anything_is_written(stage: Stage) -> None:
    before = stage.get("clusterpolicy", "cluster-policy")["metadata"]["resourceVersion"]
    missing = stage.declare(version="999.99.99")
    assert missing["rc"] and f"{stage.images.host}/nvidia/driver:999.99.99-ubuntu24.04 does not exist" in missing["msg"]
    wrong = stage.declare(version=NEW, registry={"username": stage.images.user, "password": "wrong-one-of-a-test"})
    assert wrong["rc"] and "refuses the credentials" in wrong["msg"] and "wrong-one-of-a-test" not in json.dumps(wrong)
    stage.images.stop()
    try:
        down = stage.declare(version=NEW)
        assert down["rc"] and f"{stage.images.host} cannot be reached" in down["msg"]
    finally:
        stage.images.start()
    mixed_up = stage.declare(version="595")
    assert mixed_up["rc"] and "which is a branch" in mixed_up["msg"]
    nonsense = stage.declare(spec={"vershun": "1"})
    assert nonsense["rc"] and "The ClusterPolicy CRD has no field spec.driver.vershun" in nonsense["msg"]
    two = stage.declare(pools=[{"name": "a", "default": True}, {"name": "b", "default": True}])
    assert two["rc"] and "all have default: true" in two["msg"] and stage.get("nvidiadrivers")["items"] == []
    assert stage.images.password not in json.dumps([missing, wrong, down, mixed_up, nonsense, two])
    assert stage.get("clusterpolicy", "cluster-policy")["metadata"]["resourceVersion"] == before


def test_a_driver_is_changed_in_the_clusterpolicy(stage: Stage) -> None:
    made = stage.four_times(version=NEW, force_conflicts=True)
    assert {row["action"] for row in made["plan"]} == {"replace"}
    assert set(stage.versions().values()) == {NEW} and made["summary"]["upgraded"] == 2
    assert stage.get("clusterpolicy", "cluster-policy")["spec"]["driver"]["upgradePolicy"]["maxUnavailable"] == "100%"


def test_drivers_move_to_pools_and_back(stage: Stage) -> None:
    first, second = sorted(stage.versions())
    stage.lab.kubectl("label", "node", second, "pool=second")
    pools = [
        {"name": "default", "default": True},
        {"name": "second", "node_selector": {"pool": "second"}, "version": NEWER},
    ]
    made = stage.four_times(pools=pools)
    assert made["move"] == "to NVIDIADriver" and made["finished"] is True
    assert stage.versions() == {first: NEW, second: NEWER}
    assert {node: sorted(images) for node, images in stage.driver_pods().items()} == {
        first: [f"{NEW}-ubuntu24.04"], second: [f"{NEWER}-ubuntu24.04"],
    }  # fmt: skip

    overlap = stage.declare(pools=[{"name": "third", "node_selector": {"pool": "second"}, "version": NEW}])
    assert overlap["rc"] and f"all select node {second}" in overlap["msg"], overlap
    two = stage.declare(pools=[{"name": "third", "default": True, "version": NEW}])
    assert two["rc"] and "all have default: true" in two["msg"]

    back = stage.four_times(resource="ClusterPolicy", force_conflicts=True)
    assert back["move"] == "to ClusterPolicy" and back["finished"] is True
    assert stage.versions() == {first: NEW, second: NEW}
    assert stage.get("nvidiadrivers")["items"] == []
    assert {node: len(images) for node, images in stage.driver_pods().items()} == {first: 1, second: 1}
    cordoned = [item["metadata"]["name"] for item in stage.get("nodes")["items"] if item["spec"].get("unschedulable")]
    assert cordoned == []
