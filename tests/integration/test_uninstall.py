# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""uninstall.yml removes a stack with NVIDIADrivers, asks before it interrupts, and completes what was cut off."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, faults
from tests.support.ansible import OPERATOR, ROOT, Playbook, Run, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("a whole stack is removed, in a run that is cut off")

UNINSTALL = ROOT / "playbooks" / "uninstall.yml"
VALUES = {
    "driver": {
        "nvidiaDriverCRD": {"enabled": True},
        # An upgrade of a driver waits for these pods.
        "upgradePolicy": {"waitForCompletion": {"podSelector": "job=train"}},
    }
}
ALL = {"uninstall_remove": ["all"]}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "default", "labels": {"job": "train"}},
    "spec": {
        "containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        "tolerations": [{"operator": "Exists"}],
    },
}
CALL = """
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import uninstall

release = {{"release_name": "gpu-operator", "release_namespace": "gpu-operator"}}
options = {{"allow_disruption": True, "remove": [], "helm_timeout": "5m0s", "break_lock": False, "wait_timeout": 60,
           "check_refusal": "fail"}}
uninstall.remove(Cluster({{"kubeconfig": {!r}}}), {{**release, **options}})
"""
"""What the module does, in a process that a test can kill. A module outlives a killed ansible-playbook."""
PATHS = {"PYTHONPATH": str(Path(sys.prefix) / "share")}
OTHERS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "dashboards",
        "namespace": "gpu-operator",
        "annotations": {"meta.helm.sh/release-name": "monitoring", "meta.helm.sh/release-namespace": "gpu-operator"},
    },
}


@pytest.fixture(scope="module")
def own_lab() -> t.Iterator[Lab]:
    with running_lab("uninstall") as lab:
        yield lab


@pytest.fixture(scope="module")
def stack(own_lab: Lab) -> Playbook:
    """A ready stack whose drivers belong to an NVIDIADriver."""
    ansible = on(own_lab)
    run = ansible.run(OPERATOR, operator_values=VALUES)
    assert run.status == 0, run.output
    assert "nvidiadriver.nvidia.com/default" in found(own_lab, "nvidiadrivers")
    return ansible


def found(lab: Lab, *kinds: str) -> str:
    return lab.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name").strip()


def labels(lab: Lab) -> set[str]:
    """Return the labels and annotations of NVIDIA and of Node Feature Discovery on all nodes."""
    nodes = json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
    keys = {key for node in nodes for part in ("labels", "annotations") for key in node["metadata"].get(part) or {}}
    return {key for key in keys if "nvidia.com/" in key or key.startswith("feature.node.kubernetes.io/")}


def removed(run: Run) -> list[str]:
    """Return the lines of the diff of a run."""
    return [line[1:] for line in run.output.splitlines() if line.startswith(("+delete ", "+take "))]


def test_another_s_installation_is_refused_before_anything_is_deleted(own_lab: Lab, stack: Playbook) -> None:
    with faults.without_release(own_lab):
        lost = stack.run(UNINSTALL, **ALL)
        assert lost.status == 2 and "no record" in lost.message, lost.output
    # As Argo CD writes it, with server-side apply.
    tracked = {"argocd.argoproj.io/tracking-id": "gpus:apps/Deployment:gpu-operator/gpu-operator"}
    metadata = {"name": "gpu-operator", "namespace": "gpu-operator"}
    applied = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    by_argo = ("apply", "--server-side", "--field-manager=argocd-controller", "--validate=false", "--filename=-")
    own_lab.kubectl(*by_argo, stdin=json.dumps({**applied, "metadata": {**metadata, "annotations": tracked}}))
    for playbook in (UNINSTALL, OPERATOR):
        refused = stack.run(playbook, operator_values=VALUES)
        assert refused.status == 2 and "belongs to Argo CD (Application gpus)" in refused.message, refused.output
    assert "clusterpolicy" in found(own_lab, "clusterpolicies") and "gpu-operator" in found(own_lab, "deployments")
    # Argo CD gives the annotation up, and its name as a manager with it.
    own_lab.kubectl(*by_argo, stdin=json.dumps(applied))


def test_a_stack_goes_with_permission_only_and_what_was_cut_off_is_completed(own_lab: Lab, stack: Playbook) -> None:
    for item in (POD, OTHERS):
        own_lab.kubectl("create", "--filename=-", stdin=json.dumps(item))
    own_lab.kubectl("label", "node", "gpu-0000", "nvidia.com/gpu.workload.config=container")
    own_lab.kubectl("wait", "--for=condition=Ready", "pod/train", "--timeout=60s")

    refused = stack.run(UNINSTALL, **ALL)
    assert refused.status == 2 and "1 running pod uses a GPU (default/train)" in refused.message, refused.output
    assert found(own_lab, "clusterpolicies") and "nvidiadriver.nvidia.com/default" in found(own_lab, "nvidiadrivers")

    node = own_lab.kubectl("get", "pod", "train", "--output=jsonpath={.spec.nodeName}")
    faults.upgrading(own_lab, node, note="turn 2026-01-01T00:00:00Z")
    refused = stack.run(UNINSTALL, **ALL)
    assert refused.status == 2 and f"The driver of {node} (wait-for-jobs-required)" in refused.message, refused.output
    predicted = stack.run(UNINSTALL, "--check", "--diff", **ALL, gpuops_check_refusal="warn")
    assert predicted.status == 0 and predicted.changed == 1 and "default/train" in predicted.output, predicted.output
    assert [line for line in removed(predicted) if "cordon" in line and line.endswith(node)], predicted.output
    assert removed(predicted)[:2] == ["delete ClusterPolicy cluster-policy", "delete NVIDIADriver default"]

    allowed = {**ALL, "uninstall_allow_disruption": True}
    cut = subprocess.Popen([sys.executable, "-c", CALL.format(str(own_lab.kubeconfig))], env=stack.environment | PATHS)
    while found(own_lab, "clusterpolicies"):
        assert cut.poll() is None
        time.sleep(0.05)
    cut.kill()
    cut.wait()
    assert found(own_lab, "deployments"), "the call was not cut off in time"

    done = stack.run(UNINSTALL, "--diff", **allowed)
    assert done.status == 0 and done.changed == 1, done.output
    # The namespace has an object of another release, so it stays, and the run says why.
    assert set(removed(done)) <= set(removed(predicted)) and "Namespace gpu-operator" not in str(removed(done))
    assert "It also has monitoring's ConfigMap dashboards" in done.output, done.output
    assert labels(own_lab) == {"nvidia.com/gpu.workload.config"}, labels(own_lab)
    assert own_lab.kubectl("get", "nodes", "--output=jsonpath={.items[*].spec.unschedulable}") == ""
    assert "nvidia.com/gpu.workload.config" in done.output
    assert not [line for line in found(own_lab, "crds").splitlines() if line.endswith((".nvidia.com", "k8s-sigs.io"))]
    assert found(own_lab, "deployments,daemonsets,clusterroles").count("gpu-operator") == 0
    pods = own_lab.kubectl("get", "pods", "--all-namespaces", "--output=name").split()
    assert pods == ["pod/train"], pods

    again = stack.run(UNINSTALL, **allowed)
    assert (again.status, again.changed) == (0, 0), again.output
    own_lab.kubectl("delete", "configmap", "dashboards", "--namespace=gpu-operator")
    last = stack.run(UNINSTALL, **allowed)
    assert (last.status, last.changed) == (0, 1) and "namespace/gpu-operator" not in found(own_lab, "namespaces")


@pytest.mark.wide
def test_a_removal_of_helm_that_was_cut_off_is_completed_without_helm(own_lab: Lab) -> None:
    """Helm sets the status of its record first. kubernetes.core's module then takes the release for gone."""
    ansible = on(own_lab)
    own_lab.kubectl("delete", "pod", "train", "--ignore-not-found", "--grace-period=0", "--namespace=default")
    run = ansible.run(OPERATOR, operator_values=VALUES)
    assert run.status == 0, run.output
    secret = own_lab.kubectl("get", "secret", "--namespace=gpu-operator", "--selector=owner=helm", "--output=name")
    own_lab.kubectl("label", "--overwrite", "--namespace=gpu-operator", secret.strip(), "status=uninstalling")
    own_lab.kubectl("delete", "deployment", "gpu-operator", "--namespace=gpu-operator")
    gone = ansible.run(OPERATOR, operator_state="absent")
    assert gone.status == 0 and gone.changed == 1, gone.output
    assert found(own_lab, "clusterpolicies", "nvidiadrivers", "daemonsets") == ""
    assert "gpu-operator" not in found(own_lab, "clusterroles", "serviceaccounts")
    assert ansible.run(OPERATOR, operator_state="absent").changed == 0
    # Helm 4 applies the CRDs that stayed with its own server-side apply.
    assert "clusterpolicies.nvidia.com" in found(own_lab, "crds")
    own_lab.deploy()
