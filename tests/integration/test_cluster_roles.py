# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ClusterRoles that ship with the collection are enough for its work, and grant hardly more than it uses.

A recording proxy stands before the lab's API server. The user is impersonated, so RBAC applies as for anybody else.
"""

from __future__ import annotations

import json
import re
import typing as t
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import permissions
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.access import missing_permissions

from lab.cluster import Lab, Options
from lab.cluster.proxy import Proxy, before
from tests.support.ansible import OPERATOR, ROOT, Playbook, on
from tests.support.labs import running_lab

FILES = ROOT / "roles" / "preflight" / "files"
NAMESPACE = "gpu-operator"
REVIEWS = "/apis/authorization.k8s.io/"
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>v\w+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<resource>[a-z]+)"
    r"(?:/(?P<name>[^/?]+))?(?:/(?P<sub>[a-z]+))?"
)

Right = tuple[str, str, str, bool]
"""Group, resource with subresource, verb, and whether it is in one namespace."""


@pytest.fixture(scope="module")
def own_lab() -> t.Iterator[Lab]:
    """A lab whose users have the shipped ClusterRoles of their names, as docs/tasks/connection.md binds them."""
    with running_lab("roles", Options(nodes=2, upgrade_tick=3, mig_seconds=0.5, mig_patience=6)) as lab:
        lab.kubectl("create", "namespace", NAMESPACE)
        for name in ("deploy", "drain", "driver", "mig", "scheduling", "sharing", "verify"):
            lab.kubectl("create", f"--filename={FILES / f'cluster_role_{name}.yml'}")
            lab.kubectl("create", "clusterrolebinding", name, f"--clusterrole=gpuops-{name}", f"--user={name}")
            role = f"gpuops-{name}-namespace"
            lab.kubectl(
                "create", "rolebinding", name, f"--clusterrole={role}", f"--user={name}", f"--namespace={NAMESPACE}"
            )
        yield lab


def granted(name: str) -> set[Right]:
    """Return the rights in the shipped ClusterRoles of this name."""
    found = set()
    for role in yaml.safe_load((FILES / f"cluster_role_{name}.yml").read_text())["items"]:
        in_namespace = role["metadata"]["name"].endswith("-namespace")
        for rule in role["rules"]:
            for resource in rule["resources"]:
                found |= {(rule["apiGroups"][0], resource, verb, in_namespace) for verb in rule["verbs"]}
    return found


def used(proxy: Proxy) -> set[Right]:
    """Return the rights that the recorded requests used. A patch that made an object also needs the right to create."""
    found = {right for method, target, dummy in proxy.log if (right := right_of(method, target))}
    made = (right_of("PATCH", target) for method, target, status in proxy.log if (method, status) == ("PATCH", 201))
    return found | {(group, resource, "create", narrow) for group, resource, dummy, narrow in filter(None, made)}


def right_of(method: str, target: str) -> Right | None:
    url = urlsplit(target)
    found = _PATH.fullmatch(url.path)
    if found is None or url.path.startswith(REVIEWS):
        return None  # What every user may do: discovery and questions about the own rights.
    one = found["name"] is not None
    verbs = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete" if one else "deletecollection"}
    verb = verbs.get(method) or ("get" if one else "watch" if "watch" in parse_qs(url.query) else "list")
    resource = "/".join(filter(None, (found["resource"], found["sub"])))
    return found["group"] or "", resource, verb, found["namespace"] is not None


def as_user(lab: Lab, proxy: Proxy, user: str) -> Playbook:
    content = yaml.safe_load(proxy.kubeconfig.read_text())
    content["users"][0]["user"]["as"] = user
    path = lab.folder / f"{user}.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    playbook = on(lab)
    playbook.environment |= {"K8S_AUTH_KUBECONFIG": str(path), "K8S_AUTH_IMPERSONATE_USER": user}
    return playbook


RARE = {
    # GPU pods in the way, pull secrets, other maintainers, and drivers that fail.
    "driver": {
        *("list poddisruptionbudgets.policy *", "list resourceclaims.resource.k8s.io *", "create pods/eviction *"),
        *("list resourceslices.resource.k8s.io *", "get secrets", "get pods", "get pods/log", "list events *"),
        *("list nodemaintenances.maintenance.nvidia.com *", "list daemonsets.apps *"),
    },
    # Charts with Services or NodeFeatureRules, objects that exist already, refusals that Kubernetes makes without them
    # (escalate, bind), GPUClusters, and pods in trouble.
    "deploy": {
        *("create namespaces *", "patch secrets", "patch resourcequotas", "delete gpuclusters.nvidia.com *"),
        *("create services", "get services", "patch services", "delete services"),
        *(f"{verb} nodefeaturerules.nfd.k8s-sigs.io *" for verb in ("create", "get", "patch", "delete")),
        *(
            f"{verb} {kind}.rbac.authorization.k8s.io *"
            for verb in ("escalate", "bind")
            for kind in ("roles", "clusterroles")
        ),
        *("get pods", "list pods *", "get pods/log", "list events", "list controllerrevisions.apps", "watch nodes *"),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        *("list leases.coordination.k8s.io", "get gpuclusters.nvidia.com *", "patch gpuclusters.nvidia.com *"),
        *("get nvidiadrivers.nvidia.com *", "delete nvidiadrivers.nvidia.com *"),
    },
    # Jobs, port forwarding, priority classes of an earlier run, and pods in trouble.
    "verify": {
        *("create jobs.batch", "get jobs.batch", "list jobs.batch", "delete jobs.batch"),
        *("get pods/portforward", "create pods/portforward", "get priorityclasses.scheduling.k8s.io *"),
        *("get pods", "list pods *", "list events", "list controllerrevisions.apps", "watch nodes *"),
        "list leases.coordination.k8s.io",
    },
    # Drivers that the ClusterPolicy leaves to NVIDIADrivers, a GPUCluster in its place, and claims.
    "scheduling": {
        *("list gpuclusters.nvidia.com *", "list nvidiadrivers.nvidia.com *"),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
    },
    # Pods that leave, other maintainers, and a workload on a device (verify).
    "mig": {
        *("create pods/eviction *", "list nodemaintenances.maintenance.nvidia.com *"),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        *("create pods", "get pods", "delete pods", "get pods/log"),
        *(f"{verb} priorityclasses.scheduling.k8s.io *" for verb in ("list", "create", "get", "delete")),
    },
    # Pods that leave, other maintainers, and config-managers that end again and again.
    "sharing": {
        *("get nodes *", "create pods/eviction *", "list nodemaintenances.maintenance.nvidia.com *"),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        *("get pods", "delete pods", "get pods/log", "list events", "list daemonsets.apps *", "list pods *"),
    },
    # Pods that are deleted in place of an eviction, claims, and nodes that are read alone.
    "drain": {
        *("delete pods *", "get nodes *", "list nodemaintenances.maintenance.nvidia.com *"),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
    },
}
"""What the ClusterRoles grant for cases that these tests do not, or not always, meet."""


def compare(proxy: Proxy, name: str) -> set[str]:
    """Return what a ClusterRole grants and nothing used, as words, after every request was allowed."""
    refused = [(method, target) for method, target, status in proxy.log if status == 403]
    assert refused == []
    # A right in the whole cluster is one in each namespace too.
    asked, held = used(proxy), granted(name)
    assert {right for right in asked if right not in held and (*right[:3], False) not in held} == set()
    spent = asked | {(*right[:3], False) for right in asked}
    return {
        f"{verb} {resource}{'.' if group else ''}{group}{'' if narrow else ' *'}"
        for group, resource, verb, narrow in held - spent
    }


def test_deploying_changing_and_removing(own_lab: Lab) -> None:
    env = {"dcgmExporter": {"env": [{"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"}]}}
    secret = {"name": "mirror", "registry": "registry.example.com", "username": "robot", "password": "s3cret"}
    with before(own_lab) as proxy:
        playbook = as_user(own_lab, proxy, "deploy")
        for variables in (
            {"operator_critical_pods": 100, "operator_pull_secrets": [secret]},
            {"operator_values": env},
            {"operator_state": "absent"},
        ):
            run = playbook.run(OPERATOR, **variables)
            assert run.status == 0, run.output
        assert compare(proxy, "deploy") - RARE["deploy"] == set()


def test_verifying(own_lab: Lab) -> None:
    """Port forwarding does not pass the proxy."""
    on(own_lab).run(OPERATOR)
    with before(own_lab) as proxy:
        run = as_user(own_lab, proxy, "verify").run(ROOT / "playbooks" / "verify.yml", verify_metrics=False)
        assert run.status == 0, run.output
        assert compare(proxy, "verify") - RARE["verify"] == set()


def test_draining(own_lab: Lab) -> None:
    pod = {
        "spec": {
            "nodeName": "gpu-0000",
            "containers": [{"name": "a", "image": "a"}],
            "tolerations": [{"operator": "Exists"}],
        }
    }
    metadata = {"name": "plain", "namespace": "default"}
    own_lab.kubectl(
        "create", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata} | pod)
    )
    with before(own_lab) as proxy:
        playbook = as_user(own_lab, proxy, "drain")
        for options in ({"state": "drained", "evict": "all", "force": True}, {"state": "restored"}):
            run = playbook.module("gpuops.nvidia.node_maintenance", nodes=["gpu-0000"], purpose="test", **options)
            assert run.status == 0, run.output
        assert compare(proxy, "drain") - RARE["drain"] == set()


def test_dividing(own_lab: Lab) -> None:
    layout = [{"mig_devices": {"3g.40gb": 2}}]
    with before(own_lab) as proxy:
        playbook = as_user(own_lab, proxy, "mig")
        for module, options in (
            ("mig_layout", {"layouts": {"halves": layout}}),
            ("mig_config", {"layout": "halves", "nodes": ["gpu-0001"], "allow_disruption": True}),
            ("mig_config", {"state": "absent", "nodes": ["gpu-0001"], "allow_disruption": True}),
            ("mig_layout", {"state": "absent"}),
        ):
            run = playbook.module(f"gpuops.nvidia.{module}", **options)
            assert run.status == 0, run.output
        assert compare(proxy, "mig") - RARE["mig"] == set()


def test_rolling_out_drivers(own_lab: Lab) -> None:
    """Change the driver, move it to an NVIDIADriver, and bring it back."""
    assert on(own_lab).run(OPERATOR).status == 0
    fast = {"timeout": 120, "max_unavailable": "100%", "allow_disruption": True, "registry": {"mode": "offline"}}
    with before(own_lab) as proxy:
        playbook = as_user(own_lab, proxy, "driver")
        for options in ({"version": "595.99.02"}, {"resource": "NVIDIADriver"}, {"resource": "ClusterPolicy"}):
            run = playbook.module("gpuops.nvidia.driver_container", force_conflicts=True, **fast, **options)
            assert run.status == 0, run.output
        assert compare(proxy, "driver") - RARE["driver"] == set()


def test_sharing(own_lab: Lab) -> None:
    shared = {"name": "four", "nodes": ["gpu-0001"], "strategy": "time-slicing", "replicas": 4}
    with before(own_lab) as proxy:
        playbook = as_user(own_lab, proxy, "sharing")
        for options in ({"configs": [shared]}, {"configs": [shared], "state": "absent"}):
            run = playbook.module("gpuops.nvidia.gpu_sharing", **options)
            assert run.status == 0, run.output
        assert compare(proxy, "sharing") - RARE["sharing"] == set()


def test_sharing_out(own_lab: Lab) -> None:
    taint = {"key": "nvidia.com/gpu", "nodes": ["gpu-0001"]}
    quota = {"namespace": "default", "gpus": {"nvidia.com/gpu": 1}}
    with before(own_lab) as proxy:
        playbook = as_user(own_lab, proxy, "scheduling")
        for taints, quotas, classes in (([taint], [quota], [{"name": "train", "value": 1}]), ([], [], [])):
            runs = (
                playbook.module("gpuops.nvidia.node_taints", taints=taints),
                playbook.module("gpuops.nvidia.gpu_access", quotas=quotas, priority_classes=classes),
            )
            assert [run.status for run in runs] == [0, 0], [run.output for run in runs]
        assert compare(proxy, "scheduling") - RARE["scheduling"] == set()


@pytest.mark.parametrize("name", ["deploy", "drain", "driver", "mig", "scheduling", "sharing", "verify"])
def test_the_preflight_asks_for_no_more_than_the_cluster_roles_grant(own_lab: Lab, name: str) -> None:
    cluster = Cluster({"kubeconfig": str(own_lab.kubeconfig), "impersonate_user": name})
    assert missing_permissions(cluster, NAMESPACE, permissions.READY[name]) == []
    everything = missing_permissions(cluster, NAMESPACE, permissions.OPERATIONS)
    assert everything != []
