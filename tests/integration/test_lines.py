# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role moves a cluster from one line of the operator to the next and back, and repairs the release on the way."""

from __future__ import annotations

import json
import re
import shutil
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab
from tests.support.ansible import OPERATOR, Playbook, Run

JOB = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "training"},
    "spec": {
        "nodeName": "gpu-0001",
        "containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
}


@pytest.fixture
def old_chart(lab: Lab, tmp_path: Path) -> str:
    """Return a chart like those before v26.7: it always contains the ClusterPolicy, and its CRD is older."""
    chart = tmp_path / "gpu-operator"
    shutil.copytree(lab.chart, chart)
    replace(chart / "Chart.yaml", r"v26\.7\.0", "v26.3.3")
    replace(chart / "values.yaml", r"(?m)^clusterPolicy:\n  deployCR: true\n", "")
    replace(chart / "templates" / "clusterpolicy.yaml", r"\.Values\.clusterPolicy\.deployCR", "true")
    replace(chart / "templates" / "validations.yaml", r"\$v\.clusterPolicy\.deployCR", "true")
    replace(chart / "crds" / "nvidia.com_clusterpolicies.yaml", r" *kubeletRootDir: \{.*\}\n", "")
    return str(chart)


def replace(path: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, path.read_text())
    assert count, f"{path} has no {pattern}."
    path.write_text(changed)


def policy(lab: Lab) -> dict[str, t.Any]:
    text = lab.kubectl("get", "clusterpolicy", "cluster-policy", "--output=json", "--show-managed-fields")
    return t.cast("dict[str, t.Any]", json.loads(text))


def managers(lab: Lab) -> set[str]:
    """Return who owns fields of the ClusterPolicy's spec."""
    entries = policy(lab)["metadata"]["managedFields"]
    return {entry["manager"] for entry in entries if "f:spec" in entry["fieldsV1"]}


def knows_kubelet_root(lab: Lab) -> bool:
    """Return whether the installed CRD has the field that the older chart lacks."""
    return "kubeletRootDir" in lab.kubectl("get", "crd", "clusterpolicies.nvidia.com", "--output=json")


def revisions(lab: Lab) -> int:
    query = ("--namespace=gpu-operator", "--selector=owner=helm", "--output=name")
    return len(lab.kubectl("get", "secret", *query).split())


def converge(ansible: Playbook, **options: t.Any) -> None:
    """The check predicts the run, and the second run changes nothing."""
    runs = [ansible.run(OPERATOR, *check, operator_wait=False, **options) for check in (["--check"], [], [])]
    assert [run.status for run in runs] == [0, 0, 0], "\n".join(run.output for run in runs)
    assert runs[0].changed == runs[1].changed > 0, runs[0].output + runs[1].output
    assert runs[2].changed == 0, runs[2].output


def refused(run: Run, *words: str) -> None:
    assert run.status == 2 and all(word in run.message for word in words), run.output
    assert run.changed == 0, run.output


@pytest.mark.deep
@pytest.mark.usefixtures("clean")
@pytest.mark.wide
def test_up_and_back(lab: Lab, ansible: Playbook, old_chart: str) -> None:
    old: dict[str, t.Any] = {"operator_chart_ref": old_chart}
    assert ansible.run(OPERATOR, operator_wait=False, **old).status == 0
    assert managers(lab) == {"helm"} and not knows_kubelet_root(lab)
    # The operator would evict this pod. Without permission, nothing changes; a check fails, too.
    lab.kubectl("create", "--filename=-", stdin=json.dumps(JOB))
    try:
        refused(ansible.run(OPERATOR, "--check", operator_wait=False), "default/training")
        warned = ansible.run(OPERATOR, "--check", operator_wait=False, gpuops_check_refusal="warn")
        assert warned.status == 0 and "1 GPU pod (default/training) on 1 node (gpu-0001)" in warned.output
        refused(ansible.run(OPERATOR, operator_wait=False), "operator, ", "default/training", "allow_disruption: true")
        assert revisions(lab) == 1 and not knows_kubelet_root(lab) and managers(lab) == {"helm"}
    finally:
        lab.kubectl("delete", "pod", "training", "--force", "--grace-period=0")
    converge(ansible)
    assert managers(lab) == {"gpuops.nvidia"} and knows_kubelet_root(lab) and revisions(lab) == 2
    uid = policy(lab)["metadata"]["uid"]
    # What somebody deleted or edited comes back, without a new revision.
    lab.kubectl("delete", "serviceaccount", "gpu-operator", "--namespace=gpu-operator")
    lab.kubectl("scale", "deployment", "gpu-operator", "--namespace=gpu-operator", "--replicas=0")
    converge(ansible)
    assert lab.kubectl("get", "serviceaccount", "gpu-operator", "--namespace=gpu-operator", "--output=name")
    replicas = ("get", "deployment", "gpu-operator", "--namespace=gpu-operator", "--output=jsonpath={.spec.replicas}")
    assert lab.kubectl(*replicas) == "1" and revisions(lab) == 2
    converge(ansible, **old)
    assert managers(lab) == {"helm"} and not knows_kubelet_root(lab) and revisions(lab) == 3
    assert policy(lab)["metadata"]["uid"] == uid, "The ClusterPolicy should never have been deleted."
