# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.known_platforms import PLATFORM_OF
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import platform_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.platform_rules import COMBINATIONS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.preflight.clusters import (
    ON_HOSTS,
    bare,
    check,
    daemonset,
    intent,
    node,
    only,
    snapshot,
)

PRESETS = Path(__file__).parents[6] / "roles" / "operator" / "vars" / "presets"


def preset(name: str) -> dict:
    return yaml.safe_load((PRESETS / f"{name}.yml").read_text())["__operator_preset_values"]


GKE_LABELS = {
    "cloud.google.com/gke-nodepool": "g",
    "cloud.google.com/gke-accelerator": "nvidia-l4",
    "cloud.google.com/gke-gpu-driver-version": "default",
    "gke-no-default-nvidia-gpu-device-plugin": "true",
}
NODES: dict[str, dict[str, t.Any]] = {
    "rke2": {"kubelet": "v1.34.1+rke2r1", "runtime": "containerd://2.1.4-k3s1"},
    "k3s": {"kubelet": "v1.34.1+k3s1"},
    "talos": {"image": "Talos (v1.13.2)", "kernel": "6.18.1-talos"},
    "flatcar": {"image": "Flatcar Container Linux by Kinvolk 4459.2.1 (Oklo)"},
    "bottlerocket": {"image": "Bottlerocket OS 1.64.0 (aws-k8s-1.34-nvidia)", "kubelet": "v1.34.1-eks-c39b1d0"},
    "eks": {"kubelet": "v1.34.1-eks-c39b1d0"},
    "eks_gpu_image": {"image": "Amazon Linux 2023.10", "kubelet": "v1.34.1-eks-c39b1d0"},
    "gke": {"image": "Container-Optimized OS from Google", "kubelet": "v1.34.4-gke.1130000", "labels": GKE_LABELS},
    "aks": {"labels": {"kubernetes.azure.com/cluster": "c"}},
    "openshift": {"image": "Red Hat Enterprise Linux CoreOS 9.6", "runtime": "cri-o://1.33.0"},
    "dgx_os": {"kernel": "6.8.0-1030-nvidia", "labels": {"nvidia.com/gpu.machine": "NVIDIA-DGX-H100"}},
}
AUTO = {"image": "Bottlerocket (EKS Auto, Nvidia) 2026.4.23", "kubelet": "v1.34.4-eks-f69f56f"}


def found(item: dict, intended: Intent | None = None, **changes: t.Any) -> list[ClusterFinding]:
    return check("platform", snapshot(nodes=[item], **changes), intended)


def worse(findings: list[ClusterFinding]) -> list[tuple[str, str]]:
    return [(each.level, each.message) for each in findings if each.level != "ok"]


@pytest.mark.parametrize("name", NODES)
def test_the_preset_of_a_platform_has_nothing_against_it(name: str) -> None:
    item = node(**NODES[name])
    finding = only("platform", snapshot(nodes=[item]), Intent("n", "r", "v26.7.0", preset(name), preset=name))
    assert finding.level == "ok" and name in finding.message and finding.nodes == ("gpu-0",)


@pytest.mark.parametrize("name", [name for name in NODES if name != "eks"])
def test_the_charts_defaults_are_known_not_to_fit(name: str) -> None:
    item = node(**NODES[name])
    assert worse(found(item))
    recognised, *others = found(item, Intent("n", "r", "v26.7.0", {}, preset="bare_metal"))
    assert (recognised.level == "ok") is (name == "aks") and others


def test_each_combination_is_found_on_each_of_its_platforms() -> None:
    wrong = {
        "no_driver_container": {},
        "driver_in_image": {},
        "runtime_of_the_system": ON_HOSTS,
        "toolkit_in_image": ON_HOSTS,
        "socket_of_k3s": {},
        "device_plugin_of_gke": preset("gke"),
        "paths_of_google": ON_HOSTS,
        "runtime_config_of_gke": {},
        "driver_root_of_talos": ON_HOSTS,
        "operator_before_talos": preset("talos"),
        "extension_of_talos": preset("talos"),
        "discovery_of_openshift": {},
        "constraints_of_openshift": {},
        "driver_toolkit_of_openshift": {},
        "eks_auto_mode": {},
    }
    by_platform = {"amazon_linux": "eks_gpu_image", "cos": "gke"}
    labels = {
        "device_plugin_of_gke": {**GKE_LABELS, "gke-no-default-nvidia-gpu-device-plugin": None},
        "extension_of_talos": {"extensions.talos.dev/iscsi-tools": "v0.2.0"},
    }
    assert list(wrong) == [combination.name for combination in COMBINATIONS]
    for combination in COMBINATIONS:
        for name in combination.platforms:
            fields = AUTO if name == "eks_auto" else NODES[by_platform.get(name, name)]
            item = node(**{**fields, "labels": labels.get(combination.name, fields.get("labels"))})
            version = "v26.3.0" if combination.name == "operator_before_talos" else "v26.7.0"
            told = combination.message.format(nodes=f"1 node with {PLATFORM_OF[name].title}")
            levels = {
                message: level for level, message in worse(found(item, intent(version, **wrong[combination.name])))
            }
            assert levels.get(told) == combination.level, (combination.name, name, levels)


def test_the_sentences_name_the_nodes_the_cause_and_the_remedy() -> None:
    messages = [each.message + " " + each.remedy for each in found(node(**NODES["talos"]))]
    assert messages == wording(
        [
            "For 1 node with Talos the preset talos fits. ",
            "There is no driver container for 1 node with Talos: the system brings its driver, and has no kernel headers. Use the preset talos, which sets driver.enabled to false.",
            "The toolkit would change the container runtime of 1 node with Talos, whose configuration belongs to the system. Use the preset talos, which sets toolkit.enabled to false, or set cdi.nriPluginEnabled to true.",
        ]
    )
    assert [each.message for each in found(node(**AUTO))] == wording(
        [
            "For 1 node with EKS Auto Mode no preset fits.",
            "AWS manages driver, toolkit and device plugin of 1 node with EKS Auto Mode.",
        ]
    )


def test_a_claim_needs_no_toolkit_and_the_nri_plugin_no_changed_runtime() -> None:
    rke2 = node(**NODES["rke2"])
    assert not worse(found(rke2, intent(gpuCluster={"deployCR": True})))
    assert not worse(found(rke2, intent(cdi={"nriPluginEnabled": True})))
    assert worse(found(rke2, intent("v25.10.1", cdi={"nriPluginEnabled": True})))
    assert worse(found(rke2, intent("v26.2.9", cdi={"nriPluginEnabled": True})))
    assert not worse(found(rke2, intent("v26.3.0", cdi={"nriPluginEnabled": True})))
    assert not worse(found(rke2, intent(toolkit={"enabled": False})))
    given = [{"name": "CONTAINERD_SOCKET", "value": "/run/k3s/containerd/containerd.sock"}]
    assert not worse(found(rke2, intent(toolkit={"env": given})))
    assert worse(found(rke2, intent(toolkit={"env": ["CONTAINERD_SOCKET"]})))


def test_ubuntu_in_gke_may_have_a_driver_container() -> None:
    ubuntu = node(kubelet="v1.32.4-gke.1", labels=GKE_LABELS)
    assert not worse(found(ubuntu, Intent("n", "r", "v26.7.0", {}, preset="bare_metal")))
    newer = node(kubelet="v1.33.0-gke.1", labels=GKE_LABELS)
    ((level, message),) = worse(found(newer))
    assert level == "failure" and "1.33" in message
    assert not worse(found(newer, intent(toolkit={"env": [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]})))


def test_an_extension_of_nvidia_is_seen_and_without_labels_of_extensions_it_is_not_missed() -> None:
    values = preset("talos")
    extension = {"extensions.talos.dev/nvidia-open-gpu-kernel-modules-production": "570.211.01-v1.12.4"}
    assert not worse(found(node(**{**NODES["talos"], "labels": extension}), intent(**values)))
    assert not worse(found(node(**NODES["talos"]), intent(**values)))


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"toolkit": {"enabled": False}}, True),
        ({"toolkit": {"enabled": True, "installDir": "/usr/local/nvidia"}}, False),
        ({"hostPaths": {"driverInstallDir": "/"}}, False),
        ({"hostPaths": {"driverInstallDir": "/"}, "toolkit": {"enabled": False}}, False),
    ],
)
def test_driver_and_toolkit_of_gke_are_where_google_has_and_allows_them(changes: dict, fits: bool) -> None:
    messages = [message for _, message in worse(found(node(**NODES["gke"]), intent(**{**preset("gke"), **changes})))]
    assert any("Google's installer puts" in message for message in messages) is not fits


def test_a_driver_that_nobody_installs_in_gke() -> None:
    values, labels = preset("gke"), {**GKE_LABELS, "cloud.google.com/gke-gpu-driver-version": None}
    item = node(**{**NODES["gke"], "labels": labels})
    ((level, message),) = worse(found(item, intent(**values)))
    assert (level, "driver installer" in message) == ("failure", True)
    installer = daemonset("nvidia-driver-installer")
    assert not worse(found(item, intent(**values), daemonsets=[installer]))
    assert worse(found(item, intent(**values), daemonsets=[daemonset("nvidia-driver-installer", desired=0)]))
    assert not worse(found(item, intent(**values), unreadable=frozenset({"daemonsets"})))


@pytest.mark.parametrize(
    "changes",
    [
        {"clusterpolicies": [{"metadata": {"name": "cluster-policy"}}]},
        {"gpuclusters": [{"metadata": {"name": "g"}}]},
        {"daemonsets": [daemonset("nvidia-device-plugin")]},
        {"unreadable": frozenset({"daemonsets"})},
    ],
)
def test_a_device_plugin_of_the_image_is_seen_by_what_nodes_offer(changes: dict) -> None:
    item = node(**NODES["bottlerocket"], allocatable={"nvidia.com/gpu": "1"})
    values = preset("bottlerocket")
    ((level, message),) = worse(found(item, intent(**values)))
    assert level == "failure" and message == wording(
        "There are GPUs for pods on 1 node although no device plugin runs in the cluster: the image has one."
    )
    assert not worse(found(item, intent(**values), **changes))
    assert not worse(found(item, intent(**values, devicePlugin={"enabled": False})))
    switched_off = node(labels={"nvidia.com/gpu.deploy.operands": "false"}, allocatable={"nvidia.com/gpu": "1"})
    assert not worse(found(switched_off))


def test_the_api_tells_openshift_on_nodes_without_a_sign() -> None:
    rhel = node(image="Red Hat Enterprise Linux 9.6")
    assert not worse(found(rhel))
    assert worse(found(rhel, api_groups=frozenset({"config.openshift.io"})))


def test_what_somebody_else_installed_is_not_judged_by_values_of_the_chart() -> None:
    """The Operator Lifecycle Manager sets platform and constraints elsewhere."""
    openshift, others = node(**NODES["openshift"]), Intent("n", "r", "v26.7.0", {}, installs=False)
    assert worse(found(openshift)) and not worse(found(openshift, others))
    assert worse(found(node(**NODES["talos"]), others))


def test_unknown_is_said_as_unknown() -> None:
    plain = only("platform", snapshot(), Intent("n", "r", "v26.7.0", {}, preset="bare_metal"))
    assert plain.level == "ok" and plain.message == wording(
        "On 1 node is no sign of a platform that this collection knows, so whether the preset bare_metal fits is not known."
    )
    assert only("platform", snapshot()).message == wording(
        "On 1 node is no sign of a platform that this collection knows."
    )
    assert only("platform", snapshot(nodes=[])).message == wording(
        "There are no nodes yet whose platform could be recognised."
    )


def test_contradicting_signs_are_named_and_judge_nothing() -> None:
    mixed = node(kubelet="v1.34.1+rke2r1", labels={"kubernetes.azure.com/cluster": "c"})
    ((level, message),) = worse(found(mixed))
    assert level == "warning" and "AKS/RKE2" in message


def test_gpu_nodes_of_several_platforms_need_a_preset_in_common() -> None:
    ubuntu, amazon = node("a", **NODES["eks"]), node("b", **NODES["eks_gpu_image"])
    (told,) = [
        each for each in check("platform", snapshot(nodes=[ubuntu, amazon]), intent(**ON_HOSTS)) if not each.nodes
    ]
    assert told.level == "warning" and told.message == wording(
        "The GPU nodes belong to Amazon Linux on EKS and EKS, and no preset fits all of them."
    )
    both = snapshot(nodes=[ubuntu, node("c", labels={"kubernetes.azure.com/cluster": "c"})])
    assert all(each.nodes for each in check("platform", both))


def test_while_the_gpu_nodes_are_unknown_only_what_concerns_all_nodes_fails() -> None:
    talos, plain = bare("a", **NODES["talos"]), bare("b")
    alone = check("platform", snapshot(nodes=[talos]))
    assert {each.level for each in alone} == {"ok", "failure"}
    assert {each.level for each in check("platform", snapshot(nodes=[talos, plain]))} == {"ok", "warning"}
    system_pool = bare("a", **NODES["eks_gpu_image"])
    assert {each.level for each in check("platform", snapshot(nodes=[system_pool]))} == {"ok", "warning"}
    gpus = bare("a", **NODES["eks_gpu_image"], labels={"node.kubernetes.io/instance-type": "p5.48xlarge"})
    assert "failure" in {each.level for each in check("platform", snapshot(nodes=[gpus]))}


def test_what_concerns_some_gpu_nodes_fails_if_their_platform_says_that_they_have_gpus() -> None:
    on, labels = bare("a", **NODES["gke"]), {**GKE_LABELS, "gke-no-default-nvidia-gpu-device-plugin": None}
    off = bare("b", **{**NODES["gke"], "labels": labels})
    told = check("platform", snapshot(nodes=[on, off]), intent(**preset("gke")))
    assert [(each.level, each.nodes) for each in told if each.level != "ok"] == [("failure", ("b",))]


def test_nodes_that_are_switched_off_are_not_judged() -> None:
    fields = {**NODES["talos"], "labels": {"nvidia.com/gpu.deploy.operands": "false"}}
    assert not worse(found(node(**fields)))


def test_facts() -> None:
    def facts(*items: dict) -> dict:
        return platform_checks.platform_facts(t.cast("Snapshot", snapshot(nodes=list(items))))

    amazon, ubuntu = node("a", **NODES["eks_gpu_image"]), node("b", **NODES["eks"])
    assert facts(amazon) == {
        "platforms": {"amazon_linux": 1, "eks": 1},
        "preset": "eks_gpu_image",
        "cloud": "eks",
    }
    assert facts(amazon, ubuntu)["preset"] is None and facts(amazon, ubuntu)["platforms"]["eks"] == 2
    assert facts(node()) == {"platforms": {"unknown": 1}, "preset": None, "cloud": None}
    assert facts() == {"platforms": {}, "preset": None, "cloud": None}
    assert facts(node(kubelet="v1.34.4-gke.1"))["preset"] == "gke"
    assert facts(ubuntu, node("c", kubelet="v1.34.4-gke.1")) == {
        "platforms": {"eks": 1, "gke": 1},
        "preset": "bare_metal",
        "cloud": "eks",
    }


def test_a_remedy_names_the_preset_that_fits_best() -> None:
    (remedy,) = [each.remedy for each in found(node(**NODES["aks"])) if each.level != "ok"]
    assert "Use the preset aks" in remedy
