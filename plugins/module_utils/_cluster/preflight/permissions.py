# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The permissions that each operation of this collection needs, and the ClusterRoles that grant them.

The checks ask for the operations of this run. scripts/cluster_roles.py writes the ClusterRoles for the role preflight.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Permission:
    """Verbs on one resource, in the whole cluster or in the operator's namespace."""

    group: str
    resource: str
    verbs: str
    in_namespace: bool = False
    is_optional: bool = False
    """Whether the operation also works without it, and only says less."""


RBAC = "rbac.authorization.k8s.io"
_DRA = names.DRA_GROUP
_WRITE = "get create patch"

_VERDICT = (
    Permission("", "nodes", "list"),
    Permission("nvidia.com", "clusterpolicies", "list"),
    Permission("apps", "daemonsets", "list", in_namespace=True),
    Permission("apps", "deployments", "list", in_namespace=True),
    Permission("", "pods", "get list", in_namespace=True),
    Permission("nvidia.com", "gpuclusters", "list", is_optional=True),
    Permission("nvidia.com", "nvidiadrivers", "list", is_optional=True),
    Permission(_DRA, "resourceslices devicetaintrules", "list", is_optional=True),
    Permission("", "events", "list", in_namespace=True, is_optional=True),
    Permission("", "pods/log", "get", in_namespace=True, is_optional=True),
    Permission("apps", "controllerrevisions", "list", in_namespace=True, is_optional=True),
    Permission("coordination.k8s.io", "leases", "list", in_namespace=True, is_optional=True),
    Permission("", "nodes", "watch", is_optional=True),
)
"""What the judge reads to say whether the stack is ready."""

_GPU_PODS = (
    Permission("", "pods", "list"),
    Permission(_DRA, "resourceclaims", "list", is_optional=True),
)
"""What finding the pods that use GPUs reads."""

_WORKLOAD = (
    Permission("", "pods", "create get list delete", in_namespace=True),
    Permission("", "pods/log", "get", in_namespace=True),
    Permission("scheduling.k8s.io", "priorityclasses", "list create get delete", is_optional=True),
    Permission(_DRA, "resourceclaimtemplates", "list create get delete", in_namespace=True, is_optional=True),
    Permission(_DRA, "resourceclaims", "list", in_namespace=True, is_optional=True),
)
"""What a workload on a GPU needs: pods that end soon, and a priority below that of all others."""

_OTHER_MAINTAINERS = (
    Permission("apps", "daemonsets", "list"),
    Permission("maintenance.nvidia.com", "nodemaintenances", "list", is_optional=True),
)
"""What tells whether somebody else takes nodes out of service."""

_REMOVED_FROM_NODES = Permission("", "nodes", "get patch")
_DELETED_CRDS = Permission("apiextensions.k8s.io", "customresourcedefinitions", "get list delete")

_IN_THE_CHART = (
    Permission("", "serviceaccounts", _WRITE, in_namespace=True),
    Permission("", "configmaps", _WRITE, in_namespace=True),
    Permission("", "services", _WRITE, in_namespace=True, is_optional=True),
    Permission("nfd.k8s-sigs.io", "nodefeaturerules", _WRITE, is_optional=True),
    Permission("apps", "daemonsets", _WRITE, in_namespace=True),
    Permission("apps", "deployments", _WRITE, in_namespace=True),
    Permission(RBAC, "roles", _WRITE, in_namespace=True),
    Permission(RBAC, "rolebindings", _WRITE, in_namespace=True),
    Permission(RBAC, "clusterroles", _WRITE),
    Permission(RBAC, "clusterrolebindings", _WRITE),
)
"""What Helm writes: the kinds of the objects in the charts of GPU Operator and Node Feature Discovery.

The optional ones are in the charts with few values only.
"""

OPERATIONS: dict[str, tuple[Permission, ...]] = {
    "deploy": (
        *_VERDICT,
        *_GPU_PODS,
        *_IN_THE_CHART,
        Permission("", "namespaces", _WRITE),
        Permission("apps", "daemonsets", "list"),
        Permission("apps", "deployments", "list"),
        Permission("apiextensions.k8s.io", "customresourcedefinitions", _WRITE),
        Permission("nvidia.com", "clusterpolicies", _WRITE),
        Permission("", "secrets", "get list create update patch delete", in_namespace=True),
        Permission("", "resourcequotas", "get", in_namespace=True),
        Permission("", "resourcequotas", "delete", in_namespace=True, is_optional=True),
        Permission("operators.coreos.com", "subscriptions", "list", is_optional=True),
        # What a move to claims tells.
        Permission("kueue.x-k8s.io", "clusterqueues", "list", is_optional=True),
        # What gives nodes their turn when the toolkit's settings change.
        Permission("", "nodes", "get patch", is_optional=True),
        Permission("", "pods", "delete", in_namespace=True, is_optional=True),
        Permission("maintenance.nvidia.com", "nodemaintenances", "list", is_optional=True),
    ),
    "remove": (
        *_VERDICT,
        *_GPU_PODS,
        *(dataclasses.replace(each, verbs="get delete") for each in _IN_THE_CHART),
        *_OTHER_MAINTAINERS,
        # Only if a driver upgrade has left a node cordoned.
        Permission("", "nodes", "get patch", is_optional=True),
        # The fields of this collection in CRDs that stay.
        Permission("apiextensions.k8s.io", "customresourcedefinitions", "get patch", is_optional=True),
        Permission("apps", "deployments", "list"),
        Permission("", "namespaces", "get"),
        Permission("nvidia.com", "clusterpolicies", "get delete"),
        Permission("nvidia.com", "gpuclusters", "get patch delete", is_optional=True),
        Permission("nvidia.com", "nvidiadrivers", "get delete", is_optional=True),
        Permission("apiextensions.k8s.io", "customresourcedefinitions", "list", is_optional=True),
        Permission("operators.coreos.com", "subscriptions", "list", is_optional=True),
        Permission("", "secrets", "get list update delete", in_namespace=True),
    ),
    "uninstall": (
        Permission("nfd.k8s-sigs.io", "nodefeaturerules nodefeaturegroups", "list", is_optional=True),
        Permission("resource.nvidia.com", "computedomains computedomaincliques", "list", is_optional=True),
        Permission("", "pods", "delete", in_namespace=True, is_optional=True),
    ),
    "uninstall_labels": (_REMOVED_FROM_NODES, Permission("", "namespaces", "patch", is_optional=True)),
    "uninstall_taints": (_REMOVED_FROM_NODES,),
    "uninstall_nfd": (_REMOVED_FROM_NODES, _DELETED_CRDS),
    "uninstall_crds": (_DELETED_CRDS,),
    "uninstall_namespace": (
        Permission("", "namespaces", "get delete"),
        Permission("apps", "statefulsets", "list", in_namespace=True, is_optional=True),
        Permission("batch", "jobs cronjobs", "list", in_namespace=True, is_optional=True),
        Permission("", "persistentvolumeclaims configmaps", "list", in_namespace=True, is_optional=True),
    ),
    "quota": (Permission("", "resourcequotas", _WRITE, in_namespace=True),),
    "verify": (
        *_VERDICT,
        Permission("", "pods", "list", is_optional=True),
        Permission("batch", "jobs", "create get list delete", in_namespace=True, is_optional=True),
    ),
    "metrics": (Permission("", "pods/portforward", "get create", in_namespace=True),),
    "usage": (
        Permission("", "nodes", "list"),
        Permission("", "pods", "list"),
        Permission(_DRA, "resourceclaims", "list", is_optional=True),
        Permission("apps", "daemonsets", "list", in_namespace=True),
        # Not with a Prometheus.
        Permission("", "pods/portforward", "get create", in_namespace=True),
    ),
    "drain": (
        *_GPU_PODS,
        Permission("", "nodes", "get list patch"),
        Permission("", "pods/eviction", "create"),
        Permission("", "pods", "delete", is_optional=True),
        *_OTHER_MAINTAINERS,
    ),
    "evict": (Permission("", "pods/eviction", "create"),),
    "images": (*_VERDICT, Permission("nvidia.com", "nvidiadrivers", "list")),
    "driver": (
        *_VERDICT,
        *_GPU_PODS,
        Permission("nvidia.com", "clusterpolicies", "patch"),
        Permission("nvidia.com", "nvidiadrivers", "list"),
        Permission("", "nodes", "get patch"),
        Permission("policy", "poddisruptionbudgets", "list", is_optional=True),
        Permission("apps", "controllerrevisions", "list", in_namespace=True),
        Permission("", "pods", "watch delete", in_namespace=True, is_optional=True),
        Permission("", "secrets", "get", in_namespace=True, is_optional=True),
        Permission("", "events", "list", is_optional=True),
        *(dataclasses.replace(each, is_optional=True) for each in _OTHER_MAINTAINERS),
    ),
    "pools": (
        Permission("nvidia.com", "nvidiadrivers", "create patch delete"),
        Permission("apps", "daemonsets", "delete", in_namespace=True),
    ),
    "upgrade": (
        *_VERDICT,
        Permission("", "nodes", "get patch"),
        Permission("", "namespaces", "get"),
        Permission("nvidia.com", "clusterpolicies", "get create patch"),
        Permission("nvidia.com", "gpuclusters", "list"),
        Permission("nvidia.com", "nvidiadrivers", "list"),
        Permission("nvidia.com", "gpuclusters nvidiadrivers", "create patch", is_optional=True),
        Permission("apiextensions.k8s.io", "customresourcedefinitions", "list"),
        Permission("apps", "controllerrevisions", "list", in_namespace=True),
        Permission("", "secrets", "list get", in_namespace=True),
    ),
    "mig": (
        *_VERDICT,
        *_GPU_PODS,
        *_OTHER_MAINTAINERS,
        Permission("", "nodes", "get patch"),
        Permission("apps", "daemonsets", "get", in_namespace=True),
        Permission("", "configmaps", "get list", in_namespace=True),
    ),
    "layouts": (
        Permission("", "configmaps", "create patch delete", in_namespace=True),
        Permission("nvidia.com", "clusterpolicies", "patch"),
    ),
    "monitoring": (
        Permission("nvidia.com", "clusterpolicies", "list patch"),
        Permission("apps", "deployments", "list", in_namespace=True),
        Permission("apps", "daemonsets", "list", in_namespace=True),
        Permission("", "configmaps", "get list create patch delete", in_namespace=True),
        Permission("", "pods", "list", in_namespace=True),
        Permission("", "pods/portforward", "get create", in_namespace=True),
        Permission("", "nodes", "list"),
        Permission("", "namespaces", "get", is_optional=True),
        Permission("monitoring.coreos.com", "prometheuses", "list", is_optional=True),
        *(
            Permission(
                "monitoring.coreos.com", kind, "get list create patch delete", in_namespace=True, is_optional=True
            )
            for kind in ("servicemonitors", "prometheusrules")
        ),
    ),
    "workload": _WORKLOAD,
    "sharing": (
        *_VERDICT,
        *_GPU_PODS,
        *_OTHER_MAINTAINERS,
        Permission("nvidia.com", "clusterpolicies", "patch"),
        Permission("", "nodes", "get patch"),
        Permission("", "configmaps", "get create patch delete", in_namespace=True),
        Permission("", "pods", "delete", in_namespace=True, is_optional=True),
    ),
    "scheduling": (
        *_GPU_PODS,
        Permission("", "nodes", "get list patch"),
        Permission("apps", "daemonsets", "list", is_optional=True),
        Permission("nvidia.com", "clusterpolicies", "list"),
        Permission("nvidia.com", "gpuclusters", "list", is_optional=True),
        Permission("nvidia.com", "nvidiadrivers", "list", is_optional=True),
        Permission("", "resourcequotas", "get list create patch delete"),
        Permission("scheduling.k8s.io", "priorityclasses", "get list create patch delete"),
    ),
    "namespaces": (Permission("", "namespaces", "create"),),
    "claims": (
        *(
            Permission(_DRA, kind, "get list create patch delete")
            for kind in ("deviceclasses", "resourceclaimtemplates", "resourceclaims")
        ),
        Permission(_DRA, "resourceslices", "list"),
        Permission(_DRA, "devicetaintrules", "list", is_optional=True),
        Permission("", "resourcequotas", "get list create patch delete"),
        # Who uses what goes, whether a namespace may have access for administrators, and who offers a resource twice.
        Permission("", "pods", "list"),
        Permission("", "namespaces", "get", is_optional=True),
        Permission("", "nodes", "list", is_optional=True),
        # The feature gates of the driver.
        Permission("nvidia.com", "gpuclusters", "list", is_optional=True),
        Permission("apps", "daemonsets", "list", is_optional=True),
    ),
    "domains": (
        Permission("resource.nvidia.com", "computedomains", "get list create patch delete"),
        # The nodes that can have one, its controller, its daemons, and who uses it.
        *(Permission("", kind, "list") for kind in ("nodes", "pods")),
        *(Permission(_DRA, kind, "list") for kind in ("resourceslices", "resourceclaims")),
        Permission(_DRA, "resourceclaimtemplates", "get list"),
        # The feature gates of the driver, and what is left of a ComputeDomain that is gone.
        Permission("nvidia.com", "gpuclusters", "list", is_optional=True),
        Permission("apps", "daemonsets", "list", is_optional=True),
    ),
    "kubevirt": (
        Permission("kubevirt.io", "kubevirts", "list patch"),
        # Without these, how many nodes offer a device and who asks for it is unknown, and what may be in use stays.
        Permission("", "nodes", "list", is_optional=True),
        Permission("kubevirt.io", "virtualmachineinstances virtualmachines", "list", is_optional=True),
        *(
            Permission("instancetype.kubevirt.io", kind, "list", is_optional=True)
            for kind in ("virtualmachineinstancetypes", "virtualmachineclusterinstancetypes")
        ),
        # Whether NVIDIA's device plugin gives out what KubeVirt is to give out.
        Permission("apps", "daemonsets", "list", is_optional=True),
    ),
    "workloads": (
        *_VERDICT,
        *_GPU_PODS,
        *_OTHER_MAINTAINERS,
        Permission("", "nodes", "get patch"),
        # How virtual machines with GPUs leave a node, and the stop of those that cannot.
        Permission("kubevirt.io", "virtualmachineinstances", "get delete", is_optional=True),
        Permission("kubevirt.io", "kubevirts", "list", is_optional=True),
    ),
    "diagnose": (
        *_VERDICT,
        *(dataclasses.replace(each, is_optional=True) for each in _GPU_PODS),
        Permission("", "namespaces", "get", is_optional=True),
        Permission("", "events resourcequotas", "list", is_optional=True),
        Permission("apps", "daemonsets deployments", "list", is_optional=True),
        Permission("node.k8s.io", "runtimeclasses", "list", is_optional=True),
        Permission("resource.k8s.io", "deviceclasses", "list", is_optional=True),
        Permission("resource.nvidia.com", "computedomains", "list", is_optional=True),
        Permission("kubevirt.io", "virtualmachineinstances", "list", is_optional=True),
        Permission("apiextensions.k8s.io", "customresourcedefinitions", "get", is_optional=True),
        Permission("", "configmaps services", "list", in_namespace=True, is_optional=True),
        Permission("monitoring.coreos.com", "servicemonitors", "list", in_namespace=True, is_optional=True),
    ),
}
"""The permissions of each operation, besides those that the chart's roles grant."""

READY: dict[str, tuple[str, ...]] = {
    "claims": ("claims",),
    "deploy": ("deploy", "remove", "quota"),
    "diagnose": ("diagnose",),
    "domains": ("domains",),
    "drain": ("drain",),
    "driver": ("driver", "pools", "evict"),
    "mig": ("mig", "layouts", "workload", "evict"),
    "monitoring": ("monitoring",),
    "pools": ("mig", "layouts", "sharing", "workloads", "evict"),
    "scheduling": ("scheduling", "namespaces"),
    "sharing": ("sharing", "evict"),
    "uninstall": (
        "remove",
        "uninstall",
        *(f"uninstall_{leftover}" for leftover in ("labels", "taints", "nfd", "crds", "namespace")),
    ),
    "upgrade": ("upgrade",),
    "usage": ("usage",),
    "verify": ("verify", "workload", "metrics"),
    "kubevirt": ("kubevirt",),
    "workloads": ("workloads", "evict"),
}
"""The ClusterRoles that ship with the role preflight, and the operations that each allows.

Whoever upgrades the operator needs those for deploying, too."""

_GRANTING = Permission(RBAC, "clusterroles roles", "escalate bind")
"""Lets Helm create the chart's roles, which grant more than anybody but an administrator has."""


def needed(operations: t.Iterable[str]) -> list[tuple[Permission, str]]:
    """Return each permission without which one of the operations fails, with its verb, and without repeats."""
    asked = {
        (dataclasses.replace(permission, verbs=verb), verb): None
        for operation in operations
        for permission in OPERATIONS[operation]
        if not permission.is_optional
        for verb in permission.verbs.split()
    }
    everywhere = {permission for permission, dummy in asked if not permission.in_namespace}

    def is_covered(permission: Permission) -> bool:
        return permission.in_namespace and dataclasses.replace(permission, in_namespace=False) in everywhere

    return [(permission, verb) for permission, verb in asked if not is_covered(permission)]


def cluster_roles(name: str) -> list[Json]:
    """Return two ClusterRoles: one to bind in the whole cluster, and one to bind in the operator's namespace."""
    permissions = [each for operation in READY[name] for each in OPERATIONS[operation]]
    wide = [each for each in permissions if not each.in_namespace] + ([_GRANTING] if name == "deploy" else [])
    narrow = [each for each in permissions if each.in_namespace]
    roles = {f"gpuops-{name}": _rules(wide), f"gpuops-{name}-namespace": _rules(narrow)}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}
        for role, rules in roles.items()
        if rules
    ]


def _rules(permissions: t.Iterable[Permission]) -> list[Json]:
    """Return one rule for each resource, in alphabetical order."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for each in permissions:
        verbs.setdefault((each.group, each.resource), set()).update(each.verbs.split())
    return [
        {"apiGroups": [group], "resources": resource.split(), "verbs": sorted(found)}
        for (group, resource), found in sorted(verbs.items())
    ]
