# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ClusterRoles that ship with the collection are enough for its work, and grant hardly more than it uses.

The API server's audit log says what was asked for, and what was refused.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import permissions
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permission_checks import (
    by_resource,
    missing_permissions,
)

from lab.cluster import Lab, Options, kubevirt
from tests.integration import test_operator_upgrade, test_workload_kind
from tests.support.ansible import OPERATOR, ROOT, Playbook, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("a stack is deployed and verified by users with few rights")

FILES = ROOT / "roles" / "preflight" / "files"
NAMES = sorted(path.stem.removeprefix("cluster_role_") for path in FILES.iterdir())
NAMESPACE = "gpu-operator"
PLAYBOOKS = ROOT / "playbooks"

Right = tuple[str, str, str, bool]
"""Group, resource with subresource, verb, and whether it is in one namespace."""


@pytest.fixture(scope="module")
def own_lab() -> t.Iterator[Lab]:
    """A lab whose users have the shipped ClusterRoles of their names, as docs/tasks/connection.md binds them."""
    with running_lab("roles", Options(nodes=2, upgrade_tick=3, mig_seconds=0.5, mig_patience=6, audit=True)) as lab:
        lab.kubectl("create", "namespace", NAMESPACE)
        for name in NAMES:
            path = FILES / f"cluster_role_{name}.yml"
            lab.kubectl("create", f"--filename={path}")
            bind(lab, name, name)
        yield lab


def bind(lab: Lab, name: str, user: str) -> None:
    """Give a user the ClusterRoles of a name, as docs/tasks/connection.md says."""
    binding = f"{name}-{user}"
    lab.kubectl("create", "clusterrolebinding", binding, f"--clusterrole=gpuops-{name}", f"--user={user}")
    narrow = [f"--clusterrole=gpuops-{name}-namespace", f"--user={user}", f"--namespace={NAMESPACE}"]
    lab.kubectl("create", "rolebinding", binding, *narrow)


def granted(name: str) -> set[Right]:
    """Return the rights in the shipped ClusterRoles of this name."""
    found = set()
    for role in yaml.safe_load((FILES / f"cluster_role_{name}.yml").read_text())["items"]:
        in_namespace = role["metadata"]["name"].endswith("-namespace")
        for rule in role["rules"]:
            for resource in rule["resources"]:
                found |= {(rule["apiGroups"][0], resource, verb, in_namespace) for verb in rule["verbs"]}
    return found


class User:
    """A user of the lab with the ClusterRoles of a name, and what the audit log says about them.

    ``more`` are the names of other ClusterRoles that the user has.
    """

    def __init__(self, lab: Lab, name: str, *more: str) -> None:
        self.lab, self.name, self.more = lab, name, more
        self.playbook: Playbook = on(lab)
        self.playbook.environment["K8S_AUTH_KUBECONFIG"] = str(lab.kubeconfig_for(name))

    def requests(self) -> list[dict[str, t.Any]]:
        """Return the requests for objects, without the questions about own rights, which everybody may ask."""
        return [
            event
            for event in self.lab.audited()
            if event["user"]["username"] == self.name
            and event.get("objectRef", {}).get("apiGroup") != "authorization.k8s.io"
        ]

    def refused(self) -> list[str]:
        """Return the requests that RBAC refused, escalations included.

        On a busy machine the API server refuses a pod whose PriorityClass it has not heard of yet, with the code 403
        as well. The workloads ask again then.
        """
        return [
            f"{event['verb']} {event['requestURI']}: {event['responseStatus'].get('message')}"
            for event in self.requests()
            if event["annotations"]["authorization.k8s.io/decision"] != "allow"
            or (
                event["responseStatus"]["code"] == 403
                and "no PriorityClass with name" not in event["responseStatus"].get("message", "")
            )
        ]

    def used(self) -> set[Right]:
        """Return the rights that were used. A patch that made an object also needed the right to create."""
        found = set()
        for event in self.requests():
            if "objectRef" not in event:
                continue  # The API server's version, and what it serves.
            about = event["objectRef"]
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            narrow = "namespace" in about and about["resource"] != "namespaces"
            verbs = {event["verb"]} | ({"create"} if event["responseStatus"]["code"] == 201 else set())
            found |= {(about.get("apiGroup", ""), resource, verb, narrow) for verb in verbs}
        return found

    def unused(self) -> set[str]:
        """Return what the ClusterRoles grant and nothing used, as words, after every request was allowed."""
        assert self.refused() == []
        # A right in the whole cluster is one in each namespace too.
        asked, held = self.used(), granted(self.name)
        all_held = held.union(*map(granted, self.more))
        assert {right for right in asked if right not in all_held and (*right[:3], False) not in all_held} == set()
        spent = asked | {(*right[:3], False) for right in asked}
        return {
            f"{verb} {resource}{'.' if group else ''}{group}{'' if narrow else ' *'}"
            for group, resource, verb, narrow in held - spent
        }


RARE: dict[str, set[str]] = {
    # Where pods use GPUs by claims, or virtual machines have them.
    "diagnose": {
        "list virtualmachineinstances.kubevirt.io *",
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        *("list deviceclasses.resource.k8s.io *", "list computedomains.resource.nvidia.com *"),
    },
    # Charts with Services or NodeFeatureRules, GPUClusters, NVIDIADrivers, pods without an owner, Helm's lock, claims.
    "uninstall": {
        *("get services", "delete services", "delete pods", "update secrets", "patch namespaces *"),
        *(f"{verb} nodefeaturerules.nfd.k8s-sigs.io *" for verb in ("get", "delete")),
        *(f"{verb} gpuclusters.nvidia.com *" for verb in ("get", "patch", "delete")),
        *(f"{verb} nvidiadrivers.nvidia.com *" for verb in ("get", "delete")),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        # This collection's fields in CRDs that stay. Here they go.
        "patch customresourcedefinitions.apiextensions.k8s.io *",
    },
    # GPU pods in the way, pull secrets, other maintainers, and drivers that fail.
    "driver": {
        *("list poddisruptionbudgets.policy *", "list resourceclaims.resource.k8s.io *", "create pods/eviction *"),
        *("list resourceslices.resource.k8s.io *", "get secrets", "get pods", "get pods/log", "list events *"),
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
        "list clusterqueues.kueue.x-k8s.io *",  # in a move to claims
    },
    # Jobs, port forwarding, priority classes of an earlier run, and pods in trouble.
    "verify": {
        *("create jobs.batch", "get jobs.batch", "list jobs.batch", "delete jobs.batch"),
        # A claim for each workload.
        *(f"{verb} resourceclaimtemplates.resource.k8s.io" for verb in ("create", "get", "list", "delete")),
        "list resourceclaims.resource.k8s.io",
        *("create pods/portforward", "get priorityclasses.scheduling.k8s.io *"),
        *("get pods", "list events", "list controllerrevisions.apps", "watch nodes *"),
        "list leases.coordination.k8s.io",
    },
    # Port forwarding with a version of it that older clusters have, and claims.
    "usage": {"create pods/portforward", "list resourceclaims.resource.k8s.io *"},
    # Drivers that the ClusterPolicy leaves to NVIDIADrivers, a GPUCluster in its place, claims, and missing namespaces.
    "scheduling": {
        "create namespaces *",
        *("list gpuclusters.nvidia.com *", "list nvidiadrivers.nvidia.com *"),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
    },
    # Namespaces with access for administrators, and taints that people have set.
    "claims": {"get namespaces *", "list devicetaintrules.resource.k8s.io *"},
    # Pods that leave, other maintainers, and a workload on a device (verify).
    "mig": {
        *("create pods/eviction *", "list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        *("create pods", "get pods", "delete pods", "get pods/log"),
        # A claim for each workload.
        *(f"{verb} resourceclaimtemplates.resource.k8s.io" for verb in ("create", "get", "list", "delete")),
        "list resourceclaims.resource.k8s.io",
        *(f"{verb} priorityclasses.scheduling.k8s.io *" for verb in ("list", "create", "get", "delete")),
    },
    # Pods that leave, other maintainers, and config-managers that end again and again.
    "sharing": {
        *("create pods/eviction *", "list nodemaintenances.maintenance.nvidia.com *"),
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        *("get pods", "delete pods", "get pods/log", "list events"),
    },
    # Ways back that put custom resources back.
    "upgrade": {
        "create clusterpolicies.nvidia.com *",
        *(f"{verb} {kind}.nvidia.com *" for verb in ("create", "patch") for kind in ("gpuclusters", "nvidiadrivers")),
    },
    "kubevirt": set(),
    # Claims, and pods in trouble.
    "workloads": {
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
        *("get pods", "get pods/log", "list events"),
    },
    # Pods that are deleted in place of an eviction, and claims.
    "drain": {
        "delete pods *",
        *("list resourceclaims.resource.k8s.io *", "list resourceslices.resource.k8s.io *"),
    },
}
"""What the ClusterRoles grant for cases that these tests do not, or not always, meet."""


TROUBLE = {
    # Devices for claims, which each look at the stack asks for, and taints of such devices.
    *("list resourceslices.resource.k8s.io *", "list devicetaintrules.resource.k8s.io *"),
    *("get pods", "get pods/log", "list events", "list pods *", "watch nodes *"),
    *("list controllerrevisions.apps", "list leases.coordination.k8s.io", "get nodes *"),
}
"""What is read in trouble, which is a matter of time: by the judge, of pods, operators and rollouts, and by whoever
patches a node that somebody else has changed since the last look."""


def check(user: User) -> None:
    """Every request was allowed, and only the rights of rare cases were not used."""
    unused, rare = user.unused() - TROUBLE, RARE[user.name] - TROUBLE
    assert unused == rare, f"too much: {sorted(unused - rare)}, used after all: {sorted(rare - unused)}"


@pytest.mark.wide
def test_deploying_changing_and_removing(own_lab: Lab) -> None:
    env = {"dcgmExporter": {"env": [{"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"}]}}
    secret = {"name": "mirror", "registry": "registry.example.com", "username": "robot", "password": "s3cret"}
    user = User(own_lab, "deploy")
    for variables in (
        {"operator_critical_pods": 100, "operator_pull_secrets": [secret]},
        {"operator_values": env},
        {"operator_values": {**env, "toolkit": {"env": [{"name": "RUNTIME_ARGS", "value": "new"}]}}},
    ):
        run = user.playbook.run(OPERATOR, **variables)
        assert run.status == 0, run.output
    assert "without a proof" not in run.output, "The user may give nodes their turn."
    quotas = own_lab.kubectl("get", "resourcequotas", f"--namespace={NAMESPACE}", "--output=name")
    assert quotas == "", "the quota of a former run would still keep pods out"
    run = user.playbook.run(OPERATOR, operator_state="absent")
    assert run.status == 0, run.output
    check(user)


@pytest.mark.deep
def test_upgrading(own_lab: Lab, tmp_path: Path) -> None:
    """The operator moves to the next line. The drivers stay the same, so that the stack is ready afterwards."""
    former = test_operator_upgrade.older_chart(own_lab, tmp_path)
    same = {"driver": {"version": "595.91.07"}}
    assert on(own_lab).run(OPERATOR, operator_chart_ref=former, operator_values=same).status == 0
    bind(own_lab, "deploy", "upgrade")
    user = User(own_lab, "upgrade", "deploy")
    folder = {"operator_upgrade_former_chart_ref": former, "operator_upgrade_snapshot_folder": str(tmp_path / "kept")}
    run = user.playbook.run(test_operator_upgrade.UPGRADE, operator_values=same, **folder)
    assert run.status == 0, run.output
    check(user)


def test_verifying(own_lab: Lab) -> None:
    on(own_lab).run(OPERATOR)
    user = User(own_lab, "verify")
    run = user.playbook.run(PLAYBOOKS / "verify.yml")
    assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
def test_reading(own_lab: Lab, tmp_path: Path) -> None:
    user = User(own_lab, "diagnose")
    for playbook in ("diagnose", "report"):
        run = user.playbook.run(PLAYBOOKS / f"{playbook}.yml", report_path=str(tmp_path / "page.html"))
        assert run.status == 0, run.output
    for module, options in (
        ("gpu_stack_info", {"allocated": True}),
        ("clusterpolicy_info", {"wait": False}),
        ("diagnose", {"namespace": NAMESPACE}),
    ):
        run = user.playbook.module(f"gpuops.nvidia.{module}", **options)
        assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
def test_measuring(own_lab: Lab) -> None:
    assert on(own_lab).run(OPERATOR).status == 0
    user = User(own_lab, "usage")
    run = user.playbook.module("gpuops.nvidia.gpu_metrics_info", nodes=["gpu-0000", "gpu-0001"])
    assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
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
    user = User(own_lab, "drain")
    for options in ({"state": "drained", "evict": "all", "force": True}, {"state": "restored"}):
        run = user.playbook.module("gpuops.nvidia.node_maintenance", nodes=["gpu-0000"], purpose="test", **options)
        assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
def test_dividing(own_lab: Lab) -> None:
    halves = {"halves": [{"mig_devices": {"3g.40gb": 2}}]}
    wish = {"mig_layouts": [{"layout": "halves", "nodes": ["gpu-0001"]}], "mig_custom_layouts": halves}
    user = User(own_lab, "mig")
    run = user.playbook.run(PLAYBOOKS / "mig.yml", mig_allow_disruption=True, **wish)
    assert run.status == 0, run.output
    for module, options in (
        ("mig_config", {"state": "absent", "nodes": ["gpu-0001"], "allow_disruption": True}),
        ("mig_layout", {"state": "absent"}),
    ):
        run = user.playbook.module(f"gpuops.nvidia.{module}", **options)
        assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
def test_the_second_of_two_runs_at_once_leaves_the_nodes_to_the_first(own_lab: Lab) -> None:
    """Both divide both nodes, one at a time. Whoever comes second finds a node that the first holds, or all done."""
    wish = [{"layout": "all-3g.40gb", "nodes": ["gpu-0000", "gpu-0001"]}]
    processes = [
        on(own_lab).start(PLAYBOOKS / "mig.yml", mig_allow_disruption=True, mig_layouts=wish) for dummy in range(2)
    ]
    runs = [Playbook.finish(process, 240) for process in processes]
    first, second = sorted(runs, key=lambda run: run.status)
    assert first.status == 0, first.output + second.output
    assert second.status == 0 or "Another run holds gpu-000" in second.message, second.output
    nodes = json.loads(own_lab.kubectl("get", "nodes", "--selector=nvidia.com/gpu.present", "--output=json"))["items"]
    for node in nodes:
        assert node["metadata"]["labels"]["nvidia.com/mig.config.state"] == "success"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "16", "the strategy single counts slices as GPUs"
        assert not node["spec"].get("unschedulable")
        assert [key for key in node["metadata"]["annotations"] if key.startswith("gpuops.nvidia/maintenance")] == []
    run = on(own_lab).module(
        "gpuops.nvidia.mig_config", state="absent", nodes=["gpu-0000", "gpu-0001"], allow_disruption=True
    )
    assert run.status == 0, run.output


REFUSED: dict[str, tuple[dict[str, t.Any], list[str]]] = {
    "mig": ({"mig_allow_disruption": True, "mig_custom_layouts": {"a": []}}, ["mig", "layouts", "evict"]),
    "sharing": ({"sharing_configs": [{"name": "a", "nodes": ["gpu-0001"]}]}, ["sharing"]),
    "upgrade_driver": ({"driver_container_version": "595.99.02"}, ["driver"]),
    "upgrade_operator": ({"operator_preset": "gke"}, ["deploy", "upgrade", "quota"]),
    "workloads": ({"workloads_kinds": [{"kind": "container", "nodes": ["gpu-0001"]}]}, ["workloads"]),
    "verify": ({"verify_metrics": False}, ["verify", "workload"]),
    "uninstall": ({"uninstall_remove": "labels,namespace"}, ["remove", "uninstall_labels", "uninstall_namespace"]),
}


@pytest.mark.parametrize(
    "playbook", [pytest.param(name, marks=[] if name == "verify" else pytest.mark.wide) for name in REFUSED]
)
def test_who_may_do_nothing_is_told_everything_before_anything_changes(own_lab: Lab, playbook: str) -> None:
    variables, operations = REFUSED[playbook]
    user = User(own_lab, "nobody")
    run = user.playbook.run(PLAYBOOKS / f"{playbook}.yml", **variables)
    cluster = Cluster({"kubeconfig": str(own_lab.kubeconfig_for("nobody"))})
    missing = missing_permissions(cluster, NAMESPACE, operations)
    assert (run.status, run.changed) == (2, 0), run.output
    assert f"may not: {by_resource(missing)}. Grant" in run.message, run.message


@pytest.mark.wide
def test_who_may_do_nothing_gets_a_diagnosis_with_gaps(own_lab: Lab) -> None:
    run = User(own_lab, "nobody").playbook.run(PLAYBOOKS / "diagnose.yml")
    assert run.status == 0, run.output
    for kind in ("nodes", "clusterpolicies", "daemonsets"):
        assert kind in run.output.lower()


@pytest.mark.wide
def test_rolling_out_drivers(own_lab: Lab) -> None:
    """Change the driver, move it to an NVIDIADriver, and bring it back."""
    assert on(own_lab).run(OPERATOR).status == 0
    fast = {"timeout": 120, "max_unavailable": "100%", "allow_disruption": True, "registry": {"mode": "offline"}}
    user = User(own_lab, "driver")
    rolled = {f"driver_container_{name}": value for name, value in fast.items()}
    run = user.playbook.run(PLAYBOOKS / "upgrade_driver.yml", driver_container_version="595.99.02", **rolled)
    assert run.status == 0, run.output
    for resource in ("NVIDIADriver", "ClusterPolicy"):
        run = user.playbook.module("gpuops.nvidia.driver_container", force_conflicts=True, resource=resource, **fast)
        assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
def test_sharing(own_lab: Lab) -> None:
    shared = {"name": "four", "nodes": ["gpu-0001"], "strategy": "time-slicing", "replicas": 4}
    user = User(own_lab, "sharing")
    for state in ("present", "absent"):
        run = user.playbook.run(PLAYBOOKS / "sharing.yml", sharing_configs=[shared], sharing_state=state)
        assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
def test_sharing_out(own_lab: Lab) -> None:
    taint = {"key": "nvidia.com/gpu", "nodes": ["gpu-0001"]}
    quota = {"namespace": "default", "gpus": {"nvidia.com/gpu": 1}}
    user = User(own_lab, "scheduling")
    for taints, quotas, classes in (([taint], [quota], [{"name": "train", "value": 1}]), ([], [], [])):
        runs = (
            user.playbook.module("gpuops.nvidia.node_taints", taints=taints),
            user.playbook.module("gpuops.nvidia.gpu_access", quotas=quotas, priority_classes=classes),
        )
        assert [run.status for run in runs] == [0, 0], [run.output for run in runs]
    check(user)


@pytest.mark.wide
def test_offering_gpus_by_claims(own_lab: Lab) -> None:
    user = User(own_lab, "claims")
    config = {"sharing": {"strategy": "MPS"}}
    claim = {"name": "one", "namespaces": ["default"], "device_class": "own"}
    wishes = {
        "classes": [{"name": "own", "extended_resource": "example.com/gpu", "config": config}],
        "templates": [claim],
        "claims": [claim],
        "quotas": [{"namespace": "default", "claims": 4}],
    }
    for each in (wishes, {name: [] for name in wishes}):
        run = user.playbook.module("gpuops.nvidia.gpu_claims", unmatched="warn", **each)
        assert run.status == 0, run.output
    check(user)


@pytest.mark.wide
def test_permitting_gpus_to_virtual_machines(own_lab: Lab) -> None:
    kubevirt.deploy(own_lab, {})
    user = User(own_lab, "kubevirt")
    wish = {"pci_id": "10DE:2236", "external_resource_provider": False}
    for each in ({"devices": [wish]}, {"state": "absent"}):
        run = user.playbook.module("gpuops.nvidia.kubevirt_gpus", **each)
        assert run.status == 0, run.output
    check(user)
    kubevirt.remove(own_lab)


@pytest.mark.wide
def test_giving_nodes_to_virtual_machines(own_lab: Lab) -> None:
    """A machine moves out, and a pod is evicted."""
    assert on(own_lab).run(OPERATOR, operator_values=test_workload_kind.SPEC).status == 0
    kubevirt.deploy(own_lab, {})
    test_workload_kind.train(own_lab)
    user = User(own_lab, "workloads")
    permitted = {**test_workload_kind.PERMITTED, "workloads_stop_machines": True, "workloads_force": True}
    for wishes in (test_workload_kind.WISHES, test_workload_kind.BACK):
        run = user.playbook.run(PLAYBOOKS / "workloads.yml", **wishes, **permitted)
        assert run.status == 0, run.output
        if wishes is test_workload_kind.WISHES:
            test_workload_kind.machine(own_lab, "windows", "LiveMigrate")
    check(user)
    kubevirt.remove(own_lab)
    assert on(own_lab).run(OPERATOR, operator_state="absent").status == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_preflight_asks_for_no_more_than_the_cluster_roles_grant(own_lab: Lab, name: str) -> None:
    cluster = Cluster({"kubeconfig": str(own_lab.kubeconfig_for(name))})
    assert missing_permissions(cluster, NAMESPACE, permissions.READY[name]) == []
    everything = missing_permissions(cluster, NAMESPACE, permissions.OPERATIONS)
    assert everything != []


EVERYTHING = {"uninstall_remove": ["labels", "taints", "nfd", "crds", "namespace"]}


@pytest.mark.wide
def test_uninstalling(own_lab: Lab) -> None:
    user = User(own_lab, "uninstall")
    run = user.playbook.run(PLAYBOOKS / "uninstall.yml", uninstall_allow_disruption=True, **EVERYTHING)
    assert run.status == 0, run.output
    check(user)
