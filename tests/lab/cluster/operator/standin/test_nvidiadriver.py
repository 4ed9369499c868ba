# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in operator: the parts that need no cluster, and what it does with NVIDIADrivers and a GPUCluster in one."""

from __future__ import annotations

import copy
import json
import time
import typing as t

import pytest

from lab.cluster import Lab, Options
from lab.cluster.operator.standin import drivers, images, nodes, readiness, render
from lab.cluster.operator.standin.controllers import upgrade
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.objects import condition
from lab.cluster.operator.standin.operands import OPERANDS
from tests.support.labs import running_lab

Json = dict[str, t.Any]
BY_STATE = {operand.state: operand for operand in OPERANDS}
NFD = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}
IMAGE = {"repository": "nvcr.io/nvidia", "image": "thing", "version": "v1"}


def policy(**spec: t.Any) -> Json:
    components = {operand.spec: dict(IMAGE) for operand in OPERANDS}
    components["driver"]["manager"] = dict(IMAGE)
    for name, value in spec.items():
        components[name] = {**components.get(name, {}), **value}
    return {"metadata": {"name": "cluster-policy", "uid": "1"}, "spec": components}


def site(**spec: t.Any) -> render.Site:
    return render.Site("gpu-operator", policy(**spec), {}, "ubuntu24.04", {"6.8.0-31-generic": "ubuntu24.04"})


def node(labels: Json | None = None, *, unschedulable: bool = False, name: str = "gpu-0000") -> Json:
    return {
        "metadata": {"name": name, "uid": name, "labels": labels or {}},
        "spec": {"unschedulable": unschedulable},
        "status": {},
    }


class TestImages:
    def test_tag_and_digest(self) -> None:
        assert images.image(IMAGE, "X", {}) == "nvcr.io/nvidia/thing:v1"
        assert images.image({**IMAGE, "version": "sha256:ab"}, "X", {}) == "nvcr.io/nvidia/thing@sha256:ab"
        assert images.image({"image": "a/b@sha256:c"}, "X", {}) == "a/b@sha256:c"

    def test_environment_stands_in(self) -> None:
        assert images.image({}, "X", {"X": "from/env:1"}) == "from/env:1"

    @pytest.mark.parametrize(
        ("block", "word"),
        [
            ({}, "empty image path"),
            ({"image": "a", "version": "1"}, "must all be set (repository=, image=a, version=1)"),
        ],
    )
    def test_refused(self, block: Json, word: str) -> None:
        with pytest.raises(images.ReconcileError) as caught:
            images.image(block, "X", {})
        assert word in str(caught.value)

    def test_digest_takes_no_suffix(self) -> None:
        assert images.driver_image({**IMAGE, "version": "sha256:ab"}, "X", {}, "ubuntu24.04").endswith("@sha256:ab")

    @pytest.mark.parametrize(
        ("system", "version", "tag"),
        [("ubuntu", "24.04", "ubuntu24.04"), ("rhel", "9.4", "rhel9"), ("rocky", "9.4", "rocky9")],
    )
    def test_os_tag(self, system: str, version: str, tag: str) -> None:
        assert images.os_tag({images.OS_ID: system, images.OS_VERSION: version}) == tag

    def test_os_unknown(self) -> None:
        with pytest.raises(images.ReconcileError, match="failed to retrieve GPU node OS info"):
            images.os_tag({images.OS_ID: "ubuntu"})

    def test_kernel_suffix(self) -> None:
        assert images.kernel_suffix("5.14.0-427.13.1.el9_4.x86_64") == "5.14.0-427.13.1.el9.4"


class TestEnabled:
    def test_nil_means(self) -> None:
        enabled = {operand.state for operand in OPERANDS if operand.enabled({})}
        assert "state-dcgm" in enabled
        assert "state-node-status-exporter" not in enabled
        assert not any(operand.sandbox is not None for operand in OPERANDS if operand.state in enabled)

    def test_sandbox_modes(self) -> None:
        spec = {
            "sandboxWorkloads": {"enabled": True, "mode": "kata"},
            "ccManager": {"enabled": True},
            "sandboxDevicePlugin": {"enabled": True},
        }
        assert BY_STATE["state-cc-manager"].enabled(spec)
        assert not BY_STATE["state-sandbox-device-plugin"].enabled(spec)


class TestDaemonSets:
    def test_driver_is_replaced_on_deletion_only(self) -> None:
        (daemonset,) = render.daemonsets(BY_STATE["state-driver"], site())
        assert daemonset["spec"]["updateStrategy"] == {"type": "OnDelete"}
        assert daemonset["spec"]["template"]["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/thing:v1-ubuntu24.04"

    def test_tolerations_replace_the_built_in_one(self) -> None:
        mine = [{"key": "mine", "operator": "Exists"}]
        pod = render.daemonset(BY_STATE["state-dcgm-exporter"], site(daemonsets={"tolerations": mine}))["spec"][
            "template"
        ]["spec"]
        assert pod["tolerations"] == mine

    def test_labels_cannot_break_the_selector(self) -> None:
        labels = {"app": "other", "app.kubernetes.io/part-of": "other", "team": "a"}
        daemonset = render.daemonset(BY_STATE["gpu-feature-discovery"], site(daemonsets={"labels": labels}))
        found = daemonset["spec"]["template"]["metadata"]["labels"]
        assert found == {**daemonset["spec"]["selector"]["matchLabels"], "team": "a"}

    def test_hash_follows_the_spec(self) -> None:
        before, same, after = (
            render.daemonset(BY_STATE["state-dcgm-exporter"], site(dcgmExporter=extra))["metadata"]["annotations"][
                render.HASH
            ]
            for extra in ({}, {}, {"version": "v2"})
        )
        assert before == same != after

    def test_validator_without_device_plugin(self) -> None:
        pod = render.daemonset(BY_STATE["state-operator-validation"], site(devicePlugin={"enabled": False}))["spec"][
            "template"
        ]["spec"]
        assert [entry["name"] for entry in pod["initContainers"]] == [
            "driver-validation",
            "toolkit-validation",
            "cuda-validation",
        ]

    def test_precompiled_drivers_have_a_daemonset_per_kernel(self) -> None:
        (daemonset,) = render.daemonsets(
            BY_STATE["state-driver"], site(driver={"usePrecompiled": True, "version": "595"})
        )
        assert daemonset["metadata"]["name"] == "nvidia-driver-daemonset-6.8.0-31-generic-ubuntu24.04"
        assert (
            daemonset["spec"]["template"]["spec"]["containers"][0]["image"]
            == "nvcr.io/nvidia/thing:595-6.8.0-31-generic-ubuntu24.04"
        )

    def test_gds_is_not_for_precompiled_drivers(self) -> None:
        with pytest.raises(images.ReconcileError, match="gds"):
            render.daemonsets(BY_STATE["state-driver"], site(driver={"usePrecompiled": True}, gds={"enabled": True}))

    def test_resources_do_not_count_as_driver_configuration(self) -> None:
        plain, limited, other = (
            render.daemonset(BY_STATE["state-driver"], site(driver=extra))["spec"]["template"]["spec"]
            for extra in ({}, {"resources": {"limits": {"cpu": "1"}}}, {"version": "v2"})
        )
        assert upgrade.digest(plain) == upgrade.digest(limited) != upgrade.digest(other)

    def test_runtime_classes(self) -> None:
        assert all(render.runtime_classes(site()).values())
        assert [name for name, wanted in render.runtime_classes(site(cdi={"enabled": False})).items() if wanted] == [
            "nvidia"
        ]
        assert not any(render.runtime_classes(site(cdi={"nriPluginEnabled": True})).values())


class TestNodeLabels:
    def test_a_fresh_gpu_node(self) -> None:
        patch = nodes.label_patch(node(NFD), {})
        assert patch[nodes.PRESENT] == "true"
        assert sum(key.startswith(nodes.DEPLOY) for key in patch) == 9

    def test_a_cpu_node_is_left_alone(self) -> None:
        assert nodes.label_patch(node(), {}) == {}

    def test_what_the_user_set_stays(self) -> None:
        assert f"{nodes.DEPLOY}dcgm" not in nodes.label_patch(node({**NFD, f"{nodes.DEPLOY}dcgm": "false"}), {})

    def test_a_gpu_that_went(self) -> None:
        assert nodes.label_patch(node({nodes.PRESENT: "true", f"{nodes.DEPLOY}driver": "true"}), {}) == {
            nodes.PRESENT: "false",
            f"{nodes.DEPLOY}driver": None,
        }

    def test_operands_unwanted(self) -> None:
        patch = nodes.label_patch(
            node({**NFD, f"{nodes.DEPLOY}operands": "false", f"{nodes.DEPLOY}driver": "true"}), {}
        )
        assert patch == {nodes.PRESENT: "true", f"{nodes.DEPLOY}driver": None}

    @pytest.mark.parametrize(
        ("labels", "capable"),
        [
            ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, True),
            ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/mig.capable": "false"}, False),
            ({"nvidia.com/mig.capable": "true", "nvidia.com/vgpu.host-driver-version": "1"}, False),
            ({"nvidia.com/gpu.product": "Tesla-T4"}, False),
        ],
    )
    def test_mig(self, labels: dict[str, str], capable: bool) -> None:
        patch = nodes.label_patch(node({**NFD, **labels}), {})
        assert (f"{nodes.DEPLOY}mig-manager" in patch) is capable
        assert patch.get("nvidia.com/mig.config") == ("all-disabled" if capable else None)

    def test_edits_of_its_own_labels_go_unseen(self) -> None:
        before, after = node({**NFD, f"{nodes.DEPLOY}driver": "true"}), node(NFD)
        assert not nodes.concerns_labelling(before, after)
        assert nodes.concerns_labelling(before, node({}))

    def test_annotation_follows_the_upgrade_policy(self) -> None:
        wanted = {"driver": {"upgradePolicy": {"autoUpgrade": True}}}
        assert nodes.annotation_patch(node(NFD), wanted) == {nodes.UPGRADE_ENABLED: "true"}
        assert nodes.annotation_patch(node(NFD), {}) == {}


def driver(name: str = "a", selector: Json | None = None, **spec: t.Any) -> Json:
    chosen = {"nodeSelector": selector} if selector is not None else {}
    made = {"default": False, "driverType": "gpu", **IMAGE, "manager": dict(IMAGE), **chosen, **spec}
    return {"metadata": {"name": name, "uid": name}, "spec": made}


def gpu_node(name: str = "gpu-0000", owner: str | None = None, **labels: str) -> Json:
    own = {drivers.OWNER: owner} if owner else {}
    return node({**NFD, nodes.PRESENT: "true", "node": name, **own, **labels}, name=name)


class TestDriverOwners:
    NODES: t.ClassVar[list[Json]] = [gpu_node("gpu-0000"), gpu_node("gpu-0001"), node(name="cpu-0000")]

    def test_the_default_takes_what_nobody_asks_for(self) -> None:
        found = drivers.owners([driver("rest", default=True), driver("one", {"node": "gpu-0001"})], self.NODES)
        assert found == {"gpu-0000": "rest", "gpu-0001": "one"}

    def test_no_default(self) -> None:
        assert drivers.owners([driver("one", {"node": "gpu-0001"})], self.NODES) == {
            "gpu-0000": None,
            "gpu-0001": "one",
        }

    def test_without_a_selector_it_asks_for_every_gpu_node(self) -> None:
        assert set(drivers.owners([driver("all")], self.NODES).values()) == {"all"}

    def test_overlap_concerns_every_driver(self) -> None:
        everyone = [driver("a", {"node": "gpu-0001"}), driver("b", {}), driver("rest", default=True)]
        expected = ("ConflictingNodeSelector", "multiple NVIDIADrivers match the same node gpu-0001: [a b]")
        assert {drivers.conflict(item, everyone, self.NODES) for item in everyone} == {expected}
        with pytest.raises(images.ReconcileError, match="gpu-0001"):
            drivers.owners(everyone, self.NODES)

    def test_one_default_only(self) -> None:
        everyone = [driver("b", default=True), driver("a", default=True)]
        assert drivers.conflict(everyone[0], everyone, self.NODES) == (
            "ReconcileFailed",
            "multiple default NVIDIADrivers found: [a b]",
        )
        with pytest.raises(images.ReconcileError, match="multiple default"):
            drivers.owners(everyone, self.NODES)

    def test_the_owner_label_is_no_selector(self) -> None:
        problem = drivers.conflict(driver("a", {drivers.OWNER: "a"}), [], [])
        assert problem is not None
        assert "reserved label" in problem[1]

    def test_what_is_being_deleted_owns_nothing(self) -> None:
        leaving = driver("a")
        leaving["metadata"]["deletionTimestamp"] = "now"
        assert drivers.owners([leaving], self.NODES) == {"gpu-0000": None, "gpu-0001": None}


class TestDriverPools:
    def test_one_per_operating_system(self) -> None:
        found = drivers.pools(
            driver("a"),
            [
                gpu_node("x", "a"),
                gpu_node("y", "a"),
                gpu_node("z", "a", **{images.OS_VERSION: "22.04"}),
                gpu_node("w", "b"),
            ],
        )
        assert [pool.os_tag for pool in found] == ["ubuntu22.04", "ubuntu24.04"]

    def test_minor_versions_share_one_where_the_image_has_none(self) -> None:
        rhel = [
            gpu_node(v, "a", **{images.OS_ID: "rhel", images.OS_VERSION: v, f"{images.OS_VERSION}.major": "9"})
            for v in ("9.4", "9.6")
        ]
        (pool,) = drivers.pools(driver("a"), rhel)
        assert (pool.os_tag, pool.selector[f"{images.OS_VERSION}.major"]) == ("rhel9", "9")
        assert images.OS_VERSION not in pool.selector

    def test_precompiled_drivers_have_one_per_kernel(self) -> None:
        precompiled = driver("a", usePrecompiled=True)
        found = drivers.pools(
            precompiled,
            [gpu_node(kernel, "a", **{images.KERNEL: kernel}) for kernel in ("6.8.0-1-generic", "6.8.0-2-generic")],
        )
        assert [pool.kernel for pool in found] == ["6.8.0-1-generic", "6.8.0-2-generic"]
        assert len({drivers.daemonset_name(precompiled, pool) for pool in found}) == 2

    def test_a_node_that_discovery_does_not_know_is_in_none(self) -> None:
        assert drivers.pools(driver("a"), [node({nodes.PRESENT: "true", drivers.OWNER: "a"})]) == []

    def test_names(self) -> None:
        pool = drivers.Pool("ubuntu24.04", "", {})
        # FNV-1a of "a" is 3826002220.
        assert drivers.daemonset_name(driver("a"), pool) == "nvidia-gpu-driver-ubuntu24.04-7d6b446664"
        assert len(drivers.daemonset_name(driver("a"), drivers.Pool("x" * 80, "", {}))) == 63

    def test_daemonset(self) -> None:
        tainted = [{"key": "mine", "operator": "Exists"}]
        mine = driver(
            "a", labels={"app": "other", "app.kubernetes.io/component": "other", "team": "a"}, tolerations=tainted
        )
        (pool,) = drivers.pools(mine, [gpu_node("x", "a")])
        made = drivers.driver_daemonset(mine, pool, drivers.site(mine, pool, "gpu-operator", {}))
        template = made["spec"]["template"]
        assert made["metadata"]["ownerReferences"][0]["kind"] == "NVIDIADriver"
        assert made["spec"]["updateStrategy"] == {"type": "OnDelete"}
        assert (
            template["metadata"]["labels"].items()
            >= {**made["spec"]["selector"]["matchLabels"], drivers.COMPONENT[0]: "nvidia-driver", "team": "a"}.items()
        )
        assert template["spec"]["tolerations"] == [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            *tainted,
        ]
        assert template["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/thing:v1-ubuntu24.04"
        assert template["spec"]["affinity"]["podAntiAffinity"]

    @pytest.mark.parametrize(
        ("spec", "word"),
        [
            ({"version": ""}, "must all be set"),
            ({"version": "sha256:ab", "usePrecompiled": True}, "digest is not supported"),
        ],
    )
    def test_images_that_it_cannot_use(self, spec: Json, word: str) -> None:
        refused = driver("a", **spec)
        (pool,) = drivers.pools(refused, [gpu_node("x", "a", **{images.KERNEL: "6.8.0-1-generic"})])
        with pytest.raises(images.ReconcileError, match=word):
            drivers.driver_daemonset(refused, pool, drivers.site(refused, pool, "gpu-operator", {}))

    @pytest.mark.parametrize(
        ("spec", "word"),
        [
            ({"usePrecompiled": True, "gdrcopy": {"enabled": True}}, "pre-compiled"),
            ({"gds": {"enabled": True, "version": "2.20.5"}}, "OpenRM"),
            ({"gds": {"enabled": True, "version": "2.16.1"}}, None),
            ({"gds": {"enabled": True, "version": "2.20.5"}, "kernelModuleType": "open"}, None),
        ],
    )
    def test_what_does_not_go_together(self, spec: Json, word: str | None) -> None:
        problem = drivers.unsupported(spec)
        assert (word in problem[1]) if word and problem else problem is None

    def test_upgrades_are_automatic_unless_said_otherwise(self) -> None:
        assert drivers.upgrade_policy(driver())["autoUpgrade"]
        assert not drivers.upgrade_policy(driver(upgradePolicy={"autoUpgrade": False}))["autoUpgrade"]


class TestReadiness:
    READY: t.ClassVar[Json] = {
        "desiredNumberScheduled": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
        "observedGeneration": 2,
    }

    def judge(
        self, status: Json, strategy: str = "RollingUpdate", pods: t.Sequence[Json] = (), revision: str | None = "new"
    ) -> bool:
        daemonset = {"metadata": {"generation": 2}, "spec": {"updateStrategy": {"type": strategy}}, "status": status}
        return readiness.daemonset_ready(daemonset, pods, lambda: revision)

    def test_no_pods_wanted_is_ready(self) -> None:
        assert self.judge({})

    @pytest.mark.parametrize(
        "change",
        [{"numberUnavailable": 1}, {"observedGeneration": 1}, {"updatedNumberScheduled": 1}, {"numberAvailable": 1}],
    )
    def test_rolling(self, change: Json) -> None:
        assert self.judge(self.READY)
        assert not self.judge({**self.READY, **change})

    @pytest.mark.parametrize(
        ("status", "verdict"),
        [
            ({}, False),
            ({"observedGeneration": 2}, True),
            ({"observedGeneration": 2, "numberMisscheduled": 1}, False),
            # The counts are those of the generation before, and count nevertheless.
            ({**READY, "observedGeneration": 1}, True),
            ({**READY, "numberAvailable": 1}, False),
        ],
    )
    def test_pool(self, status: Json, verdict: bool) -> None:
        assert readiness.pool_ready({"metadata": {"generation": 2}, "status": status}) is verdict

    @pytest.mark.parametrize(
        ("revision", "ready", "verdict"), [("new", True, True), ("old", True, False), ("new", False, False)]
    )
    def test_on_delete(self, revision: str, ready: bool, verdict: bool) -> None:
        pod = {
            "metadata": {"labels": {readiness.REVISION: revision}},
            "status": {"phase": "Running", "containerStatuses": [{"ready": ready}]},
        }
        assert self.judge(self.READY, "OnDelete", [pod]) is verdict


class TestUpgrade:
    def test_slots(self) -> None:
        idle = [node({nodes.STATE: "upgrade-required"}, name=str(number)) for number in range(8)]
        assert upgrade.slots(idle, {}) == 1
        assert upgrade.slots(idle, {"maxParallelUpgrades": 0, "maxUnavailable": "25%"}) == 2
        assert upgrade.slots(idle, {"maxParallelUpgrades": 4, "maxUnavailable": 3}) == 3

    def test_a_failed_node_keeps_its_slot(self) -> None:
        failed = node({nodes.STATE: "upgrade-failed"}, unschedulable=True)
        assert (
            upgrade.slots(
                [failed, node({nodes.STATE: "upgrade-required"}, name="b")],
                {"maxParallelUpgrades": 1, "maxUnavailable": "100%"},
            )
            == 0
        )

    def test_gpu_pods(self) -> None:
        pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}]}}
        assert upgrade.uses_gpu(pod)
        assert not upgrade.uses_gpu({"spec": {"containers": [{}]}})

    def test_what_may_not_be_evicted(self) -> None:
        bare: Json = {"metadata": {}, "spec": {}}
        assert upgrade.undeletable(bare, {})
        assert not upgrade.undeletable(bare, {"force": True})
        keeping = copy.deepcopy(bare) | {
            "metadata": {"ownerReferences": [{"controller": True}]},
            "spec": {"volumes": [{"name": "a", "emptyDir": {}}]},
        }
        assert upgrade.undeletable(keeping, {})
        assert not upgrade.undeletable(keeping, {"deleteEmptyDir": True})

    def test_an_orphaned_pod_is_never_current(self) -> None:
        pod = {
            "metadata": {"labels": {readiness.REVISION: "new"}},
            "spec": {"containers": []},
            "status": {"phase": "Running"},
        }
        orphan = upgrade.Driver(node(), pod, None, None)
        assert not orphan.current
        assert not orphan.ready
        assert not orphan.same_configuration


def test_the_oldest_policy_counts() -> None:
    items = [
        {"metadata": {"name": name, "creationTimestamp": moment}}
        for name, moment in (("c", "2"), ("b", "1"), ("a", "1"))
    ]
    found = oldest(items)
    assert found is not None
    assert found["metadata"]["name"] == "a"


def test_transition_time_moves_with_the_status_only() -> None:
    before = {"type": "Ready", "status": "True", "reason": "NoGPUNodes", "message": "", "lastTransitionTime": "then"}
    assert condition("Ready", ("True", "Reconciled", "m"), before)["lastTransitionTime"] == "then"
    assert condition("Ready", ("False", "Error", ""), before)["lastTransitionTime"] != "then"


class Cluster:
    """What the tests below look at in a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def items(self, kind: str) -> dict[str, Json]:
        found = json.loads(self.lab.kubectl("get", kind, "--namespace=gpu-operator", "--output=json"))["items"]
        return {item["metadata"]["name"]: item for item in found}

    def verdict(self, kind: str, name: str) -> tuple[str | None, str, str]:
        """State, and the reason and message of the condition Error."""
        status = self.items(kind)[name].get("status") or {}
        error = next((entry for entry in status.get("conditions") or [] if entry["type"] == "Error"), {})
        return status.get("state"), error.get("reason", ""), error.get("message", "")

    def pools(self) -> list[tuple[str, int]]:
        """Driver DaemonSets without their hash, and how many pods are available."""
        found = [
            (name, item)
            for name, item in self.items("daemonsets").items()
            if name.startswith(("nvidia-gpu-driver-", "nvidia-driver-"))
        ]
        return sorted((name.rpartition("-")[0], item["status"].get("numberAvailable", 0)) for name, item in found)

    def driver_images(self) -> list[str]:
        """What the driver pods run."""
        found = json.loads(
            self.lab.kubectl(
                "get", "pods", "--all-namespaces", f"--selector={'='.join(drivers.COMPONENT)}", "--output=json"
            )
        )["items"]
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
"""Those of the mixed fleet."""
HOST = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def delegating() -> t.Iterator[Cluster]:
    """A lab of different nodes in which the chart's own NVIDIADriver has the drivers."""
    with running_lab("nvidiadriver", Options(fleet="mixed", upgrade_tick=3)) as lab:
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
    delegating.lab.kubectl(
        "patch", "nvidiadriver", "default", "--type=merge", "--patch", json.dumps({"spec": {"version": "599.1"}})
    )
    assert delegating.sees(
        lambda: (
            set(delegating.driver_images())
            == {f"nvcr.io/nvidia/driver:599.1-{tag}" for tag in ("rhel9", "ubuntu22.04", "ubuntu24.04")}
        )
    )
    assert delegating.sees(lambda: set(delegating.labels(nodes.STATE).values()) == {"upgrade-done"})
    assert not any(item["spec"].get("unschedulable") for item in delegating.items("nodes").values())
    assert delegating.sees(
        lambda: delegating.verdict("nvidiadrivers", "default")[0] == "ready" and delegating.pools() == EVERY_POOL
    )


def test_a_driver_for_some_nodes_and_its_end(delegating: Cluster) -> None:
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
