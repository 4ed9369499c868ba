# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clusters for the preflight checks: snapshots that are healthy unless a test breaks one, and an API server."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.checks import CHECKS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

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
            "allocatable": changes.get("allocatable", {}),
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True")}],
            "nodeInfo": {
                "containerRuntimeVersion": changes.get("runtime", "containerd://2.1.4"),
                "osImage": changes.get("image", "Ubuntu 24.04.3 LTS"),
                "kernelVersion": changes.get("kernel", "6.8.0-60-generic"),
                "kubeletVersion": changes.get("kubelet", "v1.36.3"),
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


def intent(version: str | None = "v26.7.0", **values: t.Any) -> Intent:
    return Intent("gpu-operator", "gpu-operator", version, values)


def check(name: str, found: Snapshot, intended: Intent | None = None) -> list[ClusterFinding]:
    return list(CHECKS[name].function(found, intended or intent()))


def only(name: str, found: Snapshot, intended: Intent | None = None) -> ClusterFinding:
    (finding,) = check(name, found, intended)
    assert finding.check == name
    assert bool(finding.remedy) or finding.level == "ok" or "no compatibility data" in finding.message
    return finding


def levels(findings: list[ClusterFinding]) -> list[str]:
    return [finding.level for finding in findings]


def named(name: str) -> dict:
    return {"metadata": {"name": name}}


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}

ON_HOSTS = {"driver": {"enabled": False}}


# ---- an API server ------------------------------------------------------------------------------------------------

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
RBAC_ROLES = [
    {"kind": "ClusterRole", "name": "wide", "namespace": None, "rules": [READ_PODS]},
    {"kind": "Role", "name": "narrow", "namespace": "ns", "rules": [READ_PODS]},
    {"kind": "Role", "name": "nfd", "namespace": None, "rules": [READ_PODS]},
]
ADMIN = ("*", "*.*", None)


def operator(namespace: str = "gpu-operator", app: str = "gpu-operator") -> dict:
    """A Deployment as OLM creates it: its pods have labels, but it has none itself."""
    return {
        "metadata": {"name": "gpu-operator", "namespace": namespace},
        "spec": {"template": {"metadata": {"labels": {"app": app}}}},
    }


class FakeCluster:
    """An API server that knows what its user may do. ``rules`` are (verb, resource with group, namespace or None)."""

    def __init__(
        self,
        *rules: tuple[str, str, str | None],
        forbidden: tuple[str, ...] = (),
        broken: bool = False,
        held: dict[str, list[dict]] | None = None,
    ) -> None:
        self.rules = set(rules)
        self.held = held or {}
        self.roles: dict[str, dict] = {}
        self.deployments = [operator()]
        self.forbidden = forbidden
        self.groups = ["apps", "batch"]
        self.broken = broken
        self.reviews = 0
        self.held_urls: list[dict] | None = None
        """The user's rules for URLs of the API server."""

    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        if (method, path) == ("GET", "/version"):
            return {"gitVersion": "v1.36.3"}
        if (method, path) == ("GET", "/apis"):
            if "apis" in self.forbidden:
                raise GpuOpsError("No permission", reason="Forbidden")
            return {"groups": [{"name": name} for name in self.groups]}
        assert method == "POST" and body is not None and body["apiVersion"] == "authorization.k8s.io/v1"
        group, kind = path.removeprefix("/apis/authorization.k8s.io/v1/"), body["kind"]
        if (group, kind) == ("selfsubjectrulesreviews", "SelfSubjectRulesReview"):
            if "rules" in self.forbidden:
                raise GpuOpsError("No permission", reason="Forbidden")
            held = self.held.get("", []) + self.held.get(body["spec"]["namespace"], [])
            return {"status": {"resourceRules": held, "nonResourceRules": self.held_urls}}
        assert (group, kind) == ("selfsubjectaccessreviews", "SelfSubjectAccessReview")
        self.reviews += 1
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        resource += f".{asked['group']}" if asked["group"] else ""
        return {"status": {"allowed": (asked["verb"], resource, asked.get("namespace")) in self.rules}}

    def list(self, path: str, **query: str) -> list[dict] | None:
        plural = path.rsplit("/", 1)[-1]
        if plural in self.forbidden:
            raise GpuOpsError("No permission", reason="Forbidden")
        if self.broken:
            raise GpuOpsError("Cannot reach the API.", reason="Unreachable")
        if plural == "deployments":
            assert query == {"fieldSelector": "metadata.name=gpu-operator"}
            return self.deployments
        return None if plural == "gpuclusters" else [{"kind": plural}]

    def get(self, path: str) -> dict | None:
        if path.startswith("/apis/rbac.authorization.k8s.io/v1/"):
            if "roles" in self.forbidden:
                raise GpuOpsError("No permission", reason="Forbidden")
            if "away" in self.forbidden:
                raise GpuOpsError("Cannot reach the API.", reason="Unreachable")
            return self.roles.get(path.removeprefix("/apis/rbac.authorization.k8s.io/v1/"))
        if "namespaces" in self.forbidden:
            raise GpuOpsError("No permission", reason="Forbidden")
        assert path.startswith("/api/v1/namespaces/")
        return {"metadata": {"name": path.rsplit("/", 1)[-1]}}
