# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user must be allowed, word for word. The tests on the lab prove that it is enough, and not too much."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import permissions

from scripts import cluster_roles

VERDICT = {
    "clusterpolicies.nvidia.com *": "list",
    "daemonsets.apps": "list",
    "deployments.apps": "list",
    "nodes *": "list",
    "pods": "get list",
}
ON_NODES = {
    "clusterpolicies.nvidia.com *": "list",
    "daemonsets.apps *": "list",
    "deployments.apps": "list",
    "nodes *": "get list patch",
    "pods": "get",
    "pods *": "list",
}
NEEDED: dict[str, dict[str, str]] = {
    "deploy": {
        "clusterpolicies.nvidia.com *": "create get list patch",
        "clusterrolebindings.rbac.authorization.k8s.io *": "create get patch",
        "clusterroles.rbac.authorization.k8s.io *": "create get patch",
        "configmaps": "create get patch",
        "customresourcedefinitions.apiextensions.k8s.io *": "create get patch",
        "daemonsets.apps": "create get patch",
        "daemonsets.apps *": "list",
        "deployments.apps": "create get patch",
        "deployments.apps *": "list",
        "namespaces *": "create get patch",
        "nodes *": "list",
        "pods": "get",
        "pods *": "list",
        "resourcequotas": "get",
        "rolebindings.rbac.authorization.k8s.io": "create get patch",
        "roles.rbac.authorization.k8s.io": "create get patch",
        "secrets": "create delete get list patch update",
        "serviceaccounts": "create get patch",
    },
    "drain": {
        "daemonsets.apps *": "list",
        "nodes *": "get list patch",
        "pods *": "list",
        "pods/eviction *": "create",
    },
    "quota": {
        "resourcequotas": "create get patch",
    },
    "remove": {
        "clusterpolicies.nvidia.com *": "delete get list",
        "clusterrolebindings.rbac.authorization.k8s.io *": "delete get",
        "clusterroles.rbac.authorization.k8s.io *": "delete get",
        "configmaps": "delete get",
        "daemonsets.apps": "delete get",
        "daemonsets.apps *": "list",
        "deployments.apps": "delete get",
        "deployments.apps *": "list",
        "namespaces *": "get",
        "nodes *": "list",
        "pods": "get",
        "pods *": "list",
        "rolebindings.rbac.authorization.k8s.io": "delete get",
        "roles.rbac.authorization.k8s.io": "delete get",
        "secrets": "delete get list update",
        "serviceaccounts": "delete get",
    },
    "uninstall": {},
    "uninstall_labels": {"nodes *": "get patch"},
    "uninstall_taints": {"nodes *": "get patch"},
    "uninstall_nfd": {"nodes *": "get patch", "customresourcedefinitions.apiextensions.k8s.io *": "delete get list"},
    "uninstall_crds": {"customresourcedefinitions.apiextensions.k8s.io *": "delete get list"},
    "uninstall_namespace": {"namespaces *": "delete get"},
    "evict": {"pods/eviction *": "create"},
    "images": {**VERDICT, "nvidiadrivers.nvidia.com *": "list"},
    "driver": {
        **VERDICT,
        "pods *": "list",
        "pods": "get",
        "clusterpolicies.nvidia.com *": "list patch",
        "nvidiadrivers.nvidia.com *": "list",
        "nodes *": "get list patch",
        "controllerrevisions.apps": "list",
    },
    "pools": {"nvidiadrivers.nvidia.com *": "create delete patch", "daemonsets.apps": "delete"},
    "upgrade": {
        **VERDICT,
        "nodes *": "get list patch",
        "namespaces *": "get",
        "clusterpolicies.nvidia.com *": "create get list patch",
        "gpuclusters.nvidia.com *": "list",
        "nvidiadrivers.nvidia.com *": "list",
        "customresourcedefinitions.apiextensions.k8s.io *": "list",
        "controllerrevisions.apps": "list",
        "secrets": "get list",
    },
    "mig": {
        **ON_NODES,
        "daemonsets.apps": "get",
        "configmaps": "get list",
    },
    "layouts": {"configmaps": "create delete patch", "clusterpolicies.nvidia.com *": "patch"},
    "monitoring": {
        "clusterpolicies.nvidia.com *": "list patch",
        "configmaps": "create delete get list patch",
        "daemonsets.apps": "list",
        "deployments.apps": "list",
        "nodes *": "list",
        "pods": "list",
        "pods/portforward": "create get",
    },
    "workload": {"pods": "create delete get list", "pods/log": "get"},
    "sharing": {
        **ON_NODES,
        "clusterpolicies.nvidia.com *": "list patch",
        "configmaps": "create delete get patch",
    },
    "verify": {
        "clusterpolicies.nvidia.com *": "list",
        "daemonsets.apps": "list",
        "deployments.apps": "list",
        "nodes *": "list",
        "pods": "get list",
    },
    "metrics": {"pods/portforward": "create get"},
    "usage": {"nodes *": "list", "pods *": "list", "daemonsets.apps": "list", "pods/portforward": "create get"},
}
"""For each operation and resource the verbs. An asterisk marks what is needed in the whole cluster."""


def words(*operations: str) -> set[str]:
    """Return each needed permission as words: verb, resource with its group, and * for the whole cluster."""
    return {
        f"{verb} {each.resource}{'.' if each.group else ''}{each.group}{'' if each.in_namespace else ' *'}"
        for each, verb in permissions.needed(operations)
    }


@pytest.mark.parametrize("operation", NEEDED)
def test_what_an_operation_needs(operation: str) -> None:
    listed = NEEDED[operation].items()
    assert words(operation) == {f"{verb} {resource}" for resource, verbs in listed for verb in verbs.split()}


def test_a_permission_in_the_whole_cluster_is_not_asked_for_in_the_namespace_too() -> None:
    needed = words("deploy", "verify")
    assert "list daemonsets.apps *" in needed and "list daemonsets.apps" not in needed
    assert "get daemonsets.apps" in needed


def test_several_operations_need_the_permissions_of_each_once() -> None:
    needed = permissions.needed(["deploy", "verify", "drain"])
    assert len(needed) == len(set(needed))
    assert words("deploy", "verify", "drain") >= words("drain")
    assert permissions.needed([]) == []


def test_the_shipped_cluster_roles_are_up_to_date() -> None:
    shipped = {path.name: path.read_text() for path in cluster_roles.FOLDER.iterdir()}
    assert shipped == cluster_roles.files()


def test_every_operation_but_those_that_read_or_share_out_is_written_down() -> None:
    assert permissions.OPERATIONS.keys() - NEEDED.keys() == {
        *("claims", "diagnose", "domains", "scheduling", "namespaces", "kubevirt", "workloads"),
    }


def test_every_operation_is_granted_by_a_cluster_role() -> None:
    granted = {operation for operations in permissions.READY.values() for operation in operations}
    assert permissions.OPERATIONS.keys() - granted == {"images"}  # the role verify reads the same


def test_a_permission_that_is_asked_for_names_one_resource() -> None:
    assert [each for each, dummy in permissions.needed(permissions.OPERATIONS) if " " in each.resource] == []


@pytest.mark.parametrize("name", permissions.READY)
def test_a_cluster_role_grants_what_its_operations_need(name: str) -> None:
    granted = {
        (rule["apiGroups"][0], resource, verb, role["metadata"]["name"].endswith("-namespace"))
        for role in permissions.cluster_roles(name)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for each, verb in permissions.needed(permissions.READY[name]):
        assert (each.group, each.resource, verb, each.in_namespace) in granted


def test_who_only_asks_for_causes_may_only_read() -> None:
    rules = [rule for role in permissions.cluster_roles("diagnose") for rule in role["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert [rule for rule in rules if "secrets" in rule["resources"]] == []


def test_only_who_deploys_may_grant_more_than_they_have() -> None:
    granting = {
        name
        for name in permissions.READY
        for role in permissions.cluster_roles(name)
        for rule in role["rules"]
        if {"escalate", "bind"} & set(rule["verbs"])
    }
    assert granting == {"deploy"}
