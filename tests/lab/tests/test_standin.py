# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the stand-in operator that need no cluster."""

from __future__ import annotations

import copy
import typing as t

import pytest

from tests.lab.standin import drivers, images, nodes, readiness, render
from tests.lab.standin.controllers import upgrade
from tests.lab.standin.controllers.policy import oldest
from tests.lab.standin.operands import OPERANDS
from tests.lab.standin.objects import condition

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
    return {"metadata": {"name": name, "uid": name, "labels": labels or {}}, "spec": {"unschedulable": unschedulable}, "status": {}}


class TestImages:
    def test_tag_and_digest(self) -> None:
        assert images.image(IMAGE, "X", {}) == "nvcr.io/nvidia/thing:v1"
        assert images.image({**IMAGE, "version": "sha256:ab"}, "X", {}) == "nvcr.io/nvidia/thing@sha256:ab"
        assert images.image({"image": "a/b@sha256:c"}, "X", {}) == "a/b@sha256:c"

    def test_environment_stands_in(self) -> None:
        assert images.image({}, "X", {"X": "from/env:1"}) == "from/env:1"

    @pytest.mark.parametrize(
        ("block", "word"), [({}, "empty image path"), ({"image": "a", "version": "1"}, "must all be set (repository=, image=a, version=1)")]
    )
    def test_refused(self, block: Json, word: str) -> None:
        with pytest.raises(images.ReconcileError) as caught:
            images.image(block, "X", {})
        assert word in str(caught.value)

    def test_digest_takes_no_suffix(self) -> None:
        assert images.driver_image({**IMAGE, "version": "sha256:ab"}, "X", {}, "ubuntu24.04").endswith("@sha256:ab")

    @pytest.mark.parametrize(("system", "version", "tag"), [("ubuntu", "24.04", "ubuntu24.04"), ("rhel", "9.4", "rhel9"), ("rocky", "9.4", "rocky9")])
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
        spec = {"sandboxWorkloads": {"enabled": True, "mode": "kata"}, "ccManager": {"enabled": True}, "sandboxDevicePlugin": {"enabled": True}}
        assert BY_STATE["state-cc-manager"].enabled(spec)
        assert not BY_STATE["state-sandbox-device-plugin"].enabled(spec)


class TestDaemonSets:
    def test_driver_is_replaced_on_deletion_only(self) -> None:
        (daemonset,) = render.daemonsets(BY_STATE["state-driver"], site())
        assert daemonset["spec"]["updateStrategy"] == {"type": "OnDelete"}
        assert daemonset["spec"]["template"]["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/thing:v1-ubuntu24.04"

    def test_tolerations_replace_the_built_in_one(self) -> None:
        mine = [{"key": "mine", "operator": "Exists"}]
        pod = render.daemonset(BY_STATE["state-dcgm-exporter"], site(daemonsets={"tolerations": mine}))["spec"]["template"]["spec"]
        assert pod["tolerations"] == mine

    def test_labels_cannot_break_the_selector(self) -> None:
        labels = {"app": "other", "app.kubernetes.io/part-of": "other", "team": "a"}
        daemonset = render.daemonset(BY_STATE["gpu-feature-discovery"], site(daemonsets={"labels": labels}))
        found = daemonset["spec"]["template"]["metadata"]["labels"]
        assert found == {**daemonset["spec"]["selector"]["matchLabels"], "team": "a"}

    def test_hash_follows_the_spec(self) -> None:
        before, same, after = (
            render.daemonset(BY_STATE["state-dcgm-exporter"], site(dcgmExporter=extra))["metadata"]["annotations"][render.HASH]
            for extra in ({}, {}, {"version": "v2"})
        )
        assert before == same != after

    def test_validator_without_device_plugin(self) -> None:
        pod = render.daemonset(BY_STATE["state-operator-validation"], site(devicePlugin={"enabled": False}))["spec"]["template"]["spec"]
        assert [entry["name"] for entry in pod["initContainers"]] == ["driver-validation", "toolkit-validation", "cuda-validation"]

    def test_precompiled_drivers_have_a_daemonset_per_kernel(self) -> None:
        (daemonset,) = render.daemonsets(BY_STATE["state-driver"], site(driver={"usePrecompiled": True, "version": "595"}))
        assert daemonset["metadata"]["name"] == "nvidia-driver-daemonset-6.8.0-31-generic-ubuntu24.04"
        assert daemonset["spec"]["template"]["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/thing:595-6.8.0-31-generic-ubuntu24.04"

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
        assert [name for name, wanted in render.runtime_classes(site(cdi={"enabled": False})).items() if wanted] == ["nvidia"]
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
        assert nodes.label_patch(node({nodes.PRESENT: "true", f"{nodes.DEPLOY}driver": "true"}), {}) == {nodes.PRESENT: "false", f"{nodes.DEPLOY}driver": None}

    def test_operands_unwanted(self) -> None:
        patch = nodes.label_patch(node({**NFD, f"{nodes.DEPLOY}operands": "false", f"{nodes.DEPLOY}driver": "true"}), {})
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


class TestReadiness:
    READY: t.ClassVar[Json] = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2, "observedGeneration": 2}

    def judge(self, status: Json, strategy: str = "RollingUpdate", pods: t.Sequence[Json] = (), revision: str | None = "new") -> bool:
        daemonset = {"metadata": {"generation": 2}, "spec": {"updateStrategy": {"type": strategy}}, "status": status}
        return readiness.daemonset_ready(daemonset, pods, lambda: revision)

    def test_no_pods_wanted_is_ready(self) -> None:
        assert self.judge({})

    @pytest.mark.parametrize("change", [{"numberUnavailable": 1}, {"observedGeneration": 1}, {"updatedNumberScheduled": 1}, {"numberAvailable": 1}])
    def test_rolling(self, change: Json) -> None:
        assert self.judge(self.READY)
        assert not self.judge({**self.READY, **change})

    @pytest.mark.parametrize(("revision", "ready", "verdict"), [("new", True, True), ("old", True, False), ("new", False, False)])
    def test_on_delete(self, revision: str, ready: bool, verdict: bool) -> None:
        pod = {"metadata": {"labels": {readiness.REVISION: revision}}, "status": {"phase": "Running", "containerStatuses": [{"ready": ready}]}}
        assert self.judge(self.READY, "OnDelete", [pod]) is verdict


class TestUpgrade:
    def test_slots(self) -> None:
        idle = [node({nodes.STATE: "upgrade-required"}, name=str(number)) for number in range(8)]
        assert upgrade.slots(idle, {}) == 1
        assert upgrade.slots(idle, {"maxParallelUpgrades": 0, "maxUnavailable": "25%"}) == 2
        assert upgrade.slots(idle, {"maxParallelUpgrades": 4, "maxUnavailable": 3}) == 3

    def test_a_failed_node_keeps_its_slot(self) -> None:
        failed = node({nodes.STATE: "upgrade-failed"}, unschedulable=True)
        assert upgrade.slots([failed, node({nodes.STATE: "upgrade-required"}, name="b")], {"maxParallelUpgrades": 1, "maxUnavailable": "100%"}) == 0

    def test_gpu_pods(self) -> None:
        pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}]}}
        assert upgrade.uses_gpu(pod)
        assert not upgrade.uses_gpu({"spec": {"containers": [{}]}})

    def test_what_may_not_be_evicted(self) -> None:
        bare: Json = {"metadata": {}, "spec": {}}
        assert upgrade.undeletable(bare, {})
        assert not upgrade.undeletable(bare, {"force": True})
        keeping = copy.deepcopy(bare) | {"metadata": {"ownerReferences": [{"controller": True}]}, "spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}
        assert upgrade.undeletable(keeping, {})
        assert not upgrade.undeletable(keeping, {"deleteEmptyDir": True})


def test_the_oldest_policy_counts() -> None:
    items = [{"metadata": {"name": name, "creationTimestamp": moment}} for name, moment in (("c", "2"), ("b", "1"), ("a", "1"))]
    found = oldest(items)
    assert found is not None
    assert found["metadata"]["name"] == "a"


def test_transition_time_moves_with_the_status_only() -> None:
    before = {"type": "Ready", "status": "True", "reason": "NoGPUNodes", "message": "", "lastTransitionTime": "then"}
    assert condition("Ready", ("True", "Reconciled", "m"), before)["lastTransitionTime"] == "then"
    assert condition("Ready", ("False", "Error", ""), before)["lastTransitionTime"] != "then"
