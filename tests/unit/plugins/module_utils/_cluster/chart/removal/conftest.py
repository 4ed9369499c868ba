# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole stack in a store, as the chart and the operator leave it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting

from tests.support.clock import Clock
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Json, Store

NS = "gpu-operator"
MARKS = {"meta.helm.sh/release-name": NS, "meta.helm.sh/release-namespace": NS}
OTHERS = {"meta.helm.sh/release-name": "nfd", "meta.helm.sh/release-namespace": "nfd"}
LABELS = {
    "kubernetes.io/hostname": "gpu-0000",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.deploy.driver": "true",
    "nvidia.com/gpu.deploy.dcgm": "false",
    "nvidia.com/gpu.product": "H100",
    "nvidia.com/cuda.driver.major": "595",
    "nvidia.com/mig.config": "all-1g.10gb",
    "nvidia.com/mig.config.state": "success",
    "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
    "feature.node.kubernetes.io/pci-10de.present": "true",
}
NOTES = {
    "nvidia.com/gpu-driver-upgrade-enabled": "true",
    "nfd.node.kubernetes.io/feature-labels": "pci-10de.present",
    "gpuops.nvidia/gpus": "8",
    "gpuops.nvidia/mig": "all-1g.10gb",
    "gpuops.nvidia/taints": '["nvidia.com/gpu:NoSchedule"]',
    "example.com/note": "mine",
}
KEPT = {
    "kubernetes.io/hostname": "gpu-0000",
    "nvidia.com/gpu.deploy.dcgm": "false",
}
TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


def daemonset(
    store: Store, name: str, owner: Json | None, namespace: str = NS, image: str = "x", **more: t.Any
) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"template": template, "selector": {"matchLabels": labels}}
    item = store.add("DaemonSet", name, namespace, owner, spec=spec, **more)
    store.add("Pod", f"{name}-0", namespace, item, metadata={"labels": labels}, spec={"containers": []})
    return item


def deployment(store: Store, namespace: str = NS, marks: Json | None = None) -> Json:
    spec = {"template": {"metadata": {"labels": {"app": "gpu-operator"}}}}
    notes = {"annotations": MARKS if marks is None else marks}
    item = store.add("Deployment", "gpu-operator", namespace, metadata=notes, spec=spec)
    pod = {"labels": {"app": "gpu-operator"}}
    store.add("Pod", "gpu-operator-0", namespace, item, metadata=pod, spec={"containers": []})
    return item


def crd(store: Store, name: str, kind: str = "", **metadata: t.Any) -> Json:
    plural, dummy, group = name.partition(".")
    spec = {"group": group, "names": {"kind": kind, "plural": plural}, "versions": [{"name": "v1alpha1"}]}
    return store.add("CustomResourceDefinition", name, metadata=metadata, spec=spec)


def node(store: Store, name: str = "gpu-0000", **spec: t.Any) -> Json:
    metadata = {"labels": dict(LABELS), "annotations": dict(NOTES)}
    return store.add("Node", name, metadata=metadata, spec={"taints": [TAINT], **spec})


def gpu_pod(store: Store) -> Json:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return store.add("Pod", "job", "team", spec={"nodeName": "gpu-0000", "containers": [limits]})


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with namespaces and a node that has never seen a GPU."""
    monkeypatch.setattr(waiting, "time", Clock())
    store = Store()
    for name in ("team", "nfd", "other"):
        store.add("Namespace", name)
    store.add("Node", "cpu", metadata={"labels": {}}, spec={})
    return store


@pytest.fixture
def stack(bare: Store) -> Store:
    """A store with a release, its ClusterPolicy, an NVIDIADriver, operands, Node Feature Discovery and a node."""
    store = bare
    store.add("Namespace", NS, metadata={"labels": {"resource.kubernetes.io/admin-access": "true"}})
    account = store.add("ServiceAccount", "gpu-operator", NS, metadata={"annotations": MARKS})
    role = store.add("ClusterRole", "gpu-operator", metadata={"annotations": MARKS})
    worker = daemonset(
        store, "nfd-worker", None, image="nfd/node-feature-discovery:v1", metadata={"annotations": MARKS}
    )
    contents = [account, role, deployment(store), worker]
    store.record("gpu-operator", NS, [{**item, "metadata": {"name": item["metadata"]["name"]}} for item in contents])
    policy = store.add("ClusterPolicy", "cluster-policy", spec={})
    daemonset(store, "nvidia-device-plugin-daemonset", policy)
    driver = store.add("NVIDIADriver", "default", spec={})
    daemonset(store, "nvidia-gpu-driver-ubuntu24.04-1", driver)
    for name, kind in (("clusterpolicies.nvidia.com", "ClusterPolicy"), ("nvidiadrivers.nvidia.com", "NVIDIADriver"),
                       ("nodefeaturerules.nfd.k8s-sigs.io", "NodeFeatureRule")):  # fmt: skip
        crd(store, name, kind)
    store.add("ConfigMap", "kube-root-ca.crt", NS)
    store.add("Secret", "ngc-secret", NS)
    node(store)
    return store
