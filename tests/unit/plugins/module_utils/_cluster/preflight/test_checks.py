# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.checks import (
    CHECKS,
    Finding,
    Plan,
    Snapshot,
    facts,
    os_of,
    run_checks,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._compatibility import NEWEST

NFD_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}


def node(name: str = "gpu-0", labels: dict | None = None, **changes: t.Any) -> dict:
    """A healthy GPU node that Node Feature Discovery has labelled. ``labels`` are added; None removes one."""
    merged = {**NFD_LABELS, **(labels or {})}
    return {
        "metadata": {"name": name, "labels": {key: value for key, value in merged.items() if value is not None}},
        "spec": {
            "taints": changes.get("taints"),
            "unschedulable": changes.get("cordoned", False),
            "providerID": changes.get("provider", ""),
        },
        "status": {
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True")}],
            "nodeInfo": {
                "containerRuntimeVersion": changes.get("runtime", "containerd://2.1.4"),
                "osImage": changes.get("image", "Ubuntu 24.04.3 LTS"),
                "kernelVersion": changes.get("kernel", "6.8.0-60-generic"),
            },
        },
    }


def bare(name: str = "gpu-0", image: str = "Ubuntu 24.04.3 LTS", labels: dict | None = None, **changes: t.Any) -> dict:
    """A node that nothing has labelled yet."""
    return node(name, {**dict.fromkeys(NFD_LABELS), **(labels or {})}, image=image, **changes)


def daemonset(
    name: str,
    image: str = "x",
    namespace: str = "kube-system",
    *,
    owner: str | None = None,
    desired: int = 1,
    release: str | None = None,
) -> dict:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [{"kind": owner}] if owner else None,
            "annotations": {"meta.helm.sh/release-name": release} if release else None,
        },
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}},
        "status": {"desiredNumberScheduled": desired},
    }


NFD_IMAGE = "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"
OUR_NFD = daemonset("worker", NFD_IMAGE, "gpu-operator", release="gpu-operator")
OTHER_NFD = daemonset("nfd-worker", NFD_IMAGE, "node-feature-discovery")


def snapshot(**changes: t.Any) -> Snapshot:
    base: dict[str, t.Any] = {
        "version": "v1.36.3",
        "nodes": [node()],
        "daemonsets": [OUR_NFD],
        "operators": [],
        "clusterpolicies": [],
        "gpuclusters": [],
        "namespace": None,
    }
    return Snapshot(**{**base, **changes})


def plan(version: str | None = "v26.7.0", **values: t.Any) -> Plan:
    return Plan("gpu-operator", "gpu-operator", version, values)


def check(name: str, found: Snapshot, intended: Plan | None = None) -> list[Finding]:
    return list(CHECKS[name].function(found, intended or plan()))


def only(name: str, found: Snapshot, intended: Plan | None = None) -> Finding:
    (finding,) = check(name, found, intended)
    assert finding.check == name
    assert bool(finding.remedy) or finding.level == "ok" or "no compatibility data" in finding.message
    return finding


def levels(findings: list[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def test_a_healthy_cluster_passes_every_check() -> None:
    findings = run_checks(snapshot(), plan())
    assert levels(findings) == ["ok"] * len(CHECKS)
    assert [finding.check for finding in findings] == list(CHECKS)


def test_failures_come_first_and_skipped_checks_are_left_out() -> None:
    bad = snapshot(version="v1.20.0", nodes=[node(cordoned=True)])
    assert levels(run_checks(bad, plan()))[:3] == ["failure", "warning", "ok"]
    assert "kubernetes_version" not in {finding.check for finding in run_checks(bad, plan(), ["kubernetes_version"])}


def test_roles_that_give_away_too_much() -> None:
    found = only(
        "role_grants",
        snapshot(
            ungranted={"ClusterRole gpu-operator": [f"get r{number}" for number in range(9)], "Role nfd": ["list pods"]}
        ),
    )
    assert found.level == "failure" and "escalate and bind" in found.remedy
    assert found.message.endswith(
        ": ClusterRole gpu-operator (get r0, get r1, get r2, get r3, and 5 more); Role nfd (list pods)."
    )


def test_what_may_not_be_read_is_never_called_fine() -> None:
    blind = snapshot(nodes=[], daemonsets=[], unreadable=frozenset({"nodes", "daemonsets"}))
    by_check = {finding.check: finding for finding in run_checks(blind, plan())}
    assert by_check["taints"].level == by_check["nfd"].level == "warning"
    assert by_check["nfd"].message == "Not checked, because this user may not read daemonsets."
    assert by_check["kubernetes_version"].level == "ok"


@pytest.mark.parametrize(
    ("version", "level"),
    [("v1.31.9", "failure"), ("v1.32.0", "ok"), ("v1.36.3-gke.100", "ok"), ("v1.37.0", "warning"), ("odd", "ok")],
)
def test_kubernetes_version(version: str, level: str) -> None:
    assert NEWEST.kubernetes == ((1, 32), (1, 36))
    assert only("kubernetes_version", snapshot(version=version)).level == level


def test_operator_lines() -> None:
    assert levels(check("kubernetes_version", snapshot(), plan(None))) == ["ok"]
    assert (
        "no compatibility data for GPU Operator v99.1.0"
        in only("kubernetes_version", snapshot(), plan("v99.1.0")).message
    )
    old = check("kubernetes_version", snapshot(version="v1.33.0"), plan("25.10.1"))
    assert levels(old) == ["warning", "ok"] and "end of support" in old[0].message


def test_permissions() -> None:
    assert only("permissions", snapshot()).level == "ok"
    lacking = only("permissions", snapshot(missing_permissions=[f"list a{number}" for number in range(10)]))
    assert lacking.level == "failure" and "list a7, and 2 more." in lacking.message


def test_gpu_nodes() -> None:
    assert only("gpu_nodes", snapshot(nodes=[])).level == "failure"
    many = only("gpu_nodes", snapshot(nodes=[*(node(f"g{number}") for number in range(7)), bare("cpu")]))
    assert (many.level, many.message, len(many.nodes), many.count) == ("ok", "7 of 8 nodes carry an NVIDIA GPU.", 5, 7)
    assert "not known before" in only("gpu_nodes", snapshot(nodes=[bare()])).message
    none = only("gpu_nodes", snapshot(nodes=[node(labels={"feature.node.kubernetes.io/pci-10de.present": None})]))
    assert none.level == "warning" and "pci-10de.present" in none.remedy


@pytest.mark.parametrize(
    ("daemonsets", "enabled", "nodes", "level", "words"),
    [
        ([OTHER_NFD], True, [node()], "failure", "runs already (node-feature-discovery/nfd-worker)"),
        ([OTHER_NFD], False, [node()], "ok", "runs as node-feature-discovery/nfd-worker"),
        ([OTHER_NFD, OUR_NFD], False, [node()], "failure", "runs 2 times"),
        ([], False, [bare()], "failure", "nothing would mark the GPU nodes"),
        ([], False, [node()], "warning", "they go stale"),
        ([OUR_NFD], True, [node()], "ok", "The operator's chart brings"),
        ([], True, [bare()], "ok", "The operator's chart brings"),
    ],
)
def test_nfd(daemonsets: list[dict], enabled: bool, nodes: list[dict], level: str, words: str) -> None:
    finding = only("nfd", snapshot(daemonsets=daemonsets, nodes=nodes), plan(nfd={"enabled": enabled}))
    assert finding.level == level and words in finding.message


@pytest.mark.parametrize(
    ("other", "value", "level"),
    [
        (
            daemonset("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"),
            "devicePlugin",
            "failure",
        ),
        (daemonset("nvidia-driver-installer"), "driver", "failure"),
        (daemonset("x", "nvcr.io/nvidia/k8s/dcgm-exporter:4"), "dcgmExporter", "warning"),
        (daemonset("gpu-feature-discovery"), "gfd", "failure"),
        (daemonset("mig-manager"), "migManager", "failure"),
    ],
)
def test_other_stacks(other: dict, value: str, level: str) -> None:
    finding = only("other_stacks", snapshot(daemonsets=[other]))
    assert finding.level == level and f"set {value}.enabled to false" in finding.remedy
    assert only("other_stacks", snapshot(daemonsets=[other]), plan(**{value: {"enabled": False}})).level == "ok"


def test_our_own_operands_and_idle_ones_are_no_other_stack() -> None:
    mine = daemonset(
        "nvidia-device-plugin-daemonset",
        "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "gpu-operator",
        owner="ClusterPolicy",
    )
    idle = daemonset("nvidia-gpu-device-plugin-large", desired=0)
    assert only("other_stacks", snapshot(daemonsets=[mine, idle])).level == "ok"


def test_dra_driver_apart_from_the_operator() -> None:
    assert (
        "hand out GPUs"
        in only("other_stacks", snapshot(daemonsets=[daemonset("nvidia-dra-driver-gpu-kubelet-plugin")])).message
    )


def deployment(namespace: str, release: str | None = None) -> dict:
    annotations = {"meta.helm.sh/release-name": release} if release else None
    return {"metadata": {"name": "gpu-operator", "namespace": namespace, "annotations": annotations}}


def named(name: str) -> dict:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("changes", "values", "words"),
    [
        ({"operators": [deployment("elsewhere")]}, {}, "Another GPU Operator is installed (elsewhere/gpu-operator)"),
        ({"operators": [deployment("gpu-operator", "gpu-operator-17")]}, {}, "Another GPU Operator is installed"),
        ({"clusterpolicies": [named("a"), named("b")]}, {}, "several ClusterPolicies (a, b)"),
        ({"gpuclusters": [named("gpu-cluster")]}, {}, "There is a GPUCluster"),
        ({"clusterpolicies": [named("a")]}, {"gpuCluster": {"deployCR": True}}, "There is a ClusterPolicy"),
    ],
)
def test_other_operators(changes: dict, values: dict, words: str) -> None:
    finding = only("other_stacks", snapshot(**changes), plan(**values))
    assert finding.level == "failure" and words in finding.message


@pytest.mark.parametrize("operators", [[deployment("gpu-operator", "gpu-operator")], [deployment("gpu-operator")]])
def test_our_own_operator_is_fine(operators: list[dict]) -> None:
    assert only("other_stacks", snapshot(operators=operators, clusterpolicies=[named("cluster-policy")])).level == "ok"


@pytest.mark.parametrize(
    ("runtimes", "level", "words"),
    [
        (["containerd://2.3.0"], "ok", "is containerd"),
        (["cri-o://1.33.0"], "ok", "is cri-o"),
        (["docker://27.0.0"], "failure", "supports containerd and CRI-O"),
        (["containerd://2.9.0"], "warning", "validated containerd 1.8 to 2.3"),
        (["containerd://2.1.0", "cri-o://1.33.0"], "failure", "mix container runtimes (containerd, cri-o)"),
    ],
)
def test_container_runtime(runtimes: list[str], level: str, words: str) -> None:
    finding = only(
        "container_runtime",
        snapshot(nodes=[node(f"g{number}", runtime=runtime) for number, runtime in enumerate(runtimes)]),
    )
    assert finding.level == level and words in finding.message


def test_container_runtimes_are_no_failure_while_gpus_are_unknown() -> None:
    found = check("container_runtime", snapshot(nodes=[bare("a"), bare("b", runtime="docker://27.0.0")]))
    assert levels(found) == ["warning", "warning"]
    assert found[1].message.startswith("Nodes (which of them carry a GPU is not known yet) mix container runtimes")


def test_container_runtime_without_what_it_needs() -> None:
    mixed = snapshot(nodes=[node("a"), node("b", runtime="cri-o://1.33.0")])
    assert (
        only("container_runtime", mixed, plan(toolkit={"enabled": False})).message
        == "The container runtime is containerd and cri-o."
    )
    assert (
        only("container_runtime", snapshot(nodes=[node(runtime="containerd://9.9.9")]), plan("v99.1.0")).level == "ok"
    )
    assert only("container_runtime", snapshot(nodes=[])).message == "The container runtime is not known yet."


@pytest.mark.parametrize(
    ("item", "system"),
    [
        (node(), ("ubuntu", "24.04")),
        (node(labels={"feature.node.kubernetes.io/system-os_release.VERSION_ID": None}), ("ubuntu", "")),
        (bare(), ("ubuntu", "24.04")),
        (bare(image="Red Hat Enterprise Linux CoreOS 418.94.202501 (Plow)"), ("rhcos", "418.94")),
        (bare(image="Red Hat Enterprise Linux 9.4 (Plow)"), ("rhel", "9.4")),
        (bare(image="Rocky Linux 9.7 (Blue Onyx)"), ("rocky", "9.7")),
        (bare(image="Amazon Linux 2023.7.20250512"), ("Amazon Linux", "2023.7")),
        (bare(image="Container-Optimized OS from Google"), ("Container-Optimized OS from Google", "")),
        (bare(image=""), ("unknown", "")),
    ],
)
def test_os_of(item: dict, system: tuple[str, str]) -> None:
    assert os_of(item) == system


def other_os(name: str, os_id: str, version: str, **changes: t.Any) -> dict:
    prefix = "feature.node.kubernetes.io/system-os_release"
    return node(name, {f"{prefix}.ID": os_id, f"{prefix}.VERSION_ID": version}, **changes)


PER_POOL = {"driver": {"nvidiaDriverCRD": {"enabled": True}}}
ON_HOSTS = {"driver": {"enabled": False}}


@pytest.mark.parametrize(
    ("nodes", "values", "level", "words"),
    [
        ([node()], {}, "ok", "fit ubuntu 24.04"),
        (
            [node("a"), other_os("b", "ubuntu", "22.04")],
            {},
            "failure",
            "different operating systems (ubuntu 22.04, ubuntu 24.04)",
        ),
        ([bare("a"), bare("b", "Ubuntu 22.04.5 LTS")], {}, "warning", "different operating systems"),
        ([node("a"), other_os("b", "ubuntu", "22.04")], PER_POOL, "ok", "fit"),
        ([node("a"), other_os("b", "ubuntu", "22.04")], ON_HOSTS, "ok", "any operating system"),
        ([other_os("a", "rhel", "9.4"), other_os("b", "rhel", "9.6")], {}, "ok", "fit rhel 9"),
        ([other_os("a", "debian", "13")], {}, "warning", "did not validate GPU Operator 26.7 on debian 13"),
        ([other_os("a", "ubuntu", "18.04")], {}, "warning", "on ubuntu 18.04"),
        ([other_os("a", "rhcos", "9.6.20251")], {}, "ok", "fit rhcos"),
        ([bare(image="")], {}, "ok", "fit unknown"),
        ([node("a"), node("b", kernel="6.8.0-71-generic")], {}, "ok", "fit"),
        (
            [node("a"), node("b", kernel="6.8.0-71-generic")],
            {"driver": {"usePrecompiled": True}},
            "failure",
            "different kernels (6.8.0-60-generic, 6.8.0-71-generic)",
        ),
    ],
)
def test_operating_system(nodes: list[dict], values: dict, level: str, words: str) -> None:
    finding = only("operating_system", snapshot(nodes=nodes), plan(**values))
    assert finding.level == level and words in finding.message


def test_nothing_is_said_of_systems_without_compatibility_data() -> None:
    assert only("operating_system", snapshot(nodes=[other_os("a", "debian", "13")]), plan("v99.1.0")).level == "ok"


@pytest.mark.parametrize(
    ("product", "values", "level"),
    [
        ("NVIDIA-B200", {"driver": {"version": "570.86.15"}}, "failure"),
        ("NVIDIA-B200", {"driver": {"version": "570.133.20"}}, "ok"),
        ("NVIDIA-B200", {}, "ok"),
        ("NVIDIA-B200", {"driver": {"version": "535.1.1", "enabled": False}}, "ok"),
        ("NVIDIA-B200", {"driver": {"version": "sha256:0123"}}, "ok"),
        ("NVIDIA-H100-80GB-HBM3", {"driver": {"version": "535.309.01"}}, "ok"),
    ],
)
def test_driver(product: str, values: dict, level: str) -> None:
    assert (
        only("driver", snapshot(nodes=[node(labels={"nvidia.com/gpu.product": product})]), plan(**values)).level
        == level
    )


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def test_taints() -> None:
    mild = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    gpu = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert only("taints", snapshot(nodes=[node(taints=mild), node(taints=gpu)])).level == "ok"
    some = only("taints", snapshot(nodes=[node("a", taints=[TAINT]), node("b")]))
    assert (some.level, some.nodes) == ("warning", ("a",)) and "(team)" in some.message
    every = only("taints", snapshot(nodes=[node("a", taints=[TAINT]), node("b", taints=[TAINT])]))
    assert every.level == "failure" and every.message.startswith("Every GPU node has a taint")
    assert (
        only(
            "taints", snapshot(nodes=[node(taints=[TAINT])]), plan(daemonsets={"tolerations": [{"operator": "Exists"}]})
        ).level
        == "ok"
    )
    assert only("taints", snapshot(nodes=[node(taints=gpu)]), plan(daemonsets={"tolerations": []})).level == "failure"


def test_control_plane_nodes_are_no_candidates_while_gpus_are_unknown() -> None:
    control_plane = bare("cp", labels={"node-role.kubernetes.io/control-plane": ""}, taints=[TAINT])
    assert only("taints", snapshot(nodes=[control_plane, bare("worker")])).level == "ok"


@pytest.mark.parametrize(
    ("labels", "values", "level"),
    [
        (None, {}, "ok"),
        ({}, {}, "ok"),
        ({"pod-security.kubernetes.io/enforce": "privileged"}, {}, "ok"),
        ({"pod-security.kubernetes.io/enforce": "restricted"}, {}, "warning"),
        ({"pod-security.kubernetes.io/enforce": "restricted"}, {"psa": {"enabled": True}}, "ok"),
    ],
)
def test_pod_security(labels: dict | None, values: dict, level: str) -> None:
    namespace = None if labels is None else {"metadata": {"name": "gpu-operator", "labels": labels}}
    assert only("pod_security", snapshot(namespace=namespace), plan(**values)).level == level


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (node(ready="Unknown"), "not Ready"),
        (node(cordoned=True), "cordoned"),
        (node(labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), "upgrade-failed"),
        (node(labels={"nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade"}), "paused by an interrupted"),
        (node(labels={"nvidia.com/gpu.deploy.operands": "false"}), "left out by hand"),
        (node(labels={"nvidia.com/gpu.deploy.driver": "pre-installed"}), "with a driver of their own"),
    ],
)
def test_node_state(item: dict, words: str) -> None:
    finding = only("node_state", snapshot(nodes=[item]))
    assert finding.level == "warning" and words in finding.message and finding.nodes == ("gpu-0",)


@pytest.mark.parametrize(
    "labels",
    [
        {
            "nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade",
            "nvidia.com/gpu-driver-upgrade-state": "pod-restart-required",
        },
        {"nvidia.com/gpu.deploy.driver": "paused-for-mig-change", "nvidia.com/mig.config.state": "pending"},
    ],
)
def test_a_pause_with_a_reason_is_fine(labels: dict) -> None:
    assert only("node_state", snapshot(nodes=[node(labels=labels)])).level == "ok"


def test_a_driver_on_the_host_is_fine_when_the_operator_brings_none() -> None:
    assert (
        only(
            "node_state",
            snapshot(nodes=[node(labels={"nvidia.com/gpu.deploy.driver": "pre-installed"})]),
            plan(**ON_HOSTS),
        ).level
        == "ok"
    )


EKS = {"labels": {"eks.amazonaws.com/nodegroup": "g"}, "provider": "aws:///eu-central-1a/i-0"}
GKE = {"labels": {"cloud.google.com/gke-nodepool": "g"}, "provider": "gce://project/zone/vm"}
AKS = {"labels": {"kubernetes.azure.com/cluster": "g"}, "provider": "azure:///subscriptions/x"}


@pytest.mark.parametrize(
    ("item", "values", "level", "cloud"),
    [
        (node(**EKS), {}, "ok", "eks"),
        (bare(image="Amazon Linux 2023", **EKS), {}, "warning", "eks"),
        (bare(image="Bottlerocket OS 1.30", **EKS), {}, "warning", "eks"),
        (bare(image="Amazon Linux 2023", **EKS), ON_HOSTS, "ok", "eks"),
        (node(**GKE), {}, "warning", "gke"),
        (node(**AKS), {}, "warning", "aks"),
        (node(**AKS), ON_HOSTS, "ok", "aks"),
        (node(provider="aws:///zone/i-1"), {}, "ok", None),
        (node(), {}, "ok", None),
    ],
)
def test_cloud(item: dict, values: dict, level: str, cloud: str | None) -> None:
    found = snapshot(nodes=[item])
    finding = only("cloud", found, plan(**values))
    assert finding.level == level and (cloud or "") in finding.remedy.lower() + finding.message.lower()
    assert facts(found)["cloud"] == cloud


def test_facts() -> None:
    found = facts(snapshot(nodes=[node("a"), node("b", kernel="6.11"), bare("cpu", runtime="docker://1")]))
    assert found == {
        "kubernetes_version": "v1.36.3",
        "nodes": 3,
        "gpu_nodes": ["a", "b"],
        "container_runtimes": {"containerd://2.1.4": 2},
        "operating_systems": {"ubuntu 24.04": 2},
        "kernels": {"6.8.0-60-generic": 1, "6.11": 1},
        "nfd": ["gpu-operator"],
        "cloud": None,
        "namespace": None,
        "helm_clusterpolicies": [],
    }
    assert facts(snapshot(nodes=[bare()]))["gpu_nodes"] is None
    assert (
        facts(snapshot(nodes=[node(labels={"feature.node.kubernetes.io/pci-10de.present": None})]))["gpu_nodes"] == []
    )


@pytest.mark.parametrize("labels", [{}, {"a": "b"}])
def test_facts_tell_the_namespace(labels: dict[str, str]) -> None:
    namespace = {"metadata": {"name": "gpu-operator", **({"labels": labels} if labels else {})}}
    assert facts(snapshot(namespace=namespace))["namespace"] == {"name": "gpu-operator", "labels": labels}


def test_facts_name_what_helm_installed() -> None:
    mine, helms = named("mine"), named("cluster-policy")
    helms["metadata"]["annotations"] = {"meta.helm.sh/release-name": "gpu-operator"}
    assert facts(snapshot(clusterpolicies=[mine, helms]))["helm_clusterpolicies"] == ["cluster-policy"]
