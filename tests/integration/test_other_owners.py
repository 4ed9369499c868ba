# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A chart from an OCI registry, a Node Feature Discovery of somebody else, and an operator of OLM on one lab."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, Options
from tests.support.ansible import OPERATOR, ROOT, SITE, Playbook, on
from tests.support.labs import running_lab
from tests.support.registries import running_registry

pytestmark = [pytest.mark.wide, pytest.mark.slow("a stack comes up, and goes with all that is its own")]

UNINSTALL = ROOT / "playbooks" / "uninstall.yml"
NFD = "node-feature-discovery"


@pytest.fixture(scope="module")
def own_lab() -> t.Iterator[Lab]:
    with running_lab("owners", Options(nodes=2, upgrade_tick=3)) as lab:
        yield lab


@pytest.fixture(scope="module")
def ansible(own_lab: Lab) -> Playbook:
    return on(own_lab)


def helm(lab: Lab, *words: str, folder: Path) -> None:
    environment = os.environ | {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    command = [str(lab.helm), *words]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=90, env=environment)


def found(lab: Lab, *kinds: str) -> list[str]:
    return lab.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name").split()


def test_a_chart_of_a_registry_and_a_node_feature_discovery_of_somebody_else(
    own_lab: Lab, ansible: Playbook, tmp_path: Path
) -> None:
    others = str(Path(own_lab.chart) / "charts" / NFD)
    access = ["--namespace=nfd", "--create-namespace", f"--kubeconfig={own_lab.kubeconfig}"]
    helm(own_lab, "install", "nfd", others, *access, folder=tmp_path)
    before = found(own_lab, "deployments", "daemonsets", "crds")
    assert any(NFD in name for name in before)
    with running_registry("basic") as registry:
        helm(own_lab, "package", own_lab.chart, "--destination", str(tmp_path), folder=tmp_path)
        login = [f"--username={registry.user}", f"--password={registry.password}", "--plain-http"]
        archive = str(tmp_path / "gpu-operator-v26.7.0.tgz")
        helm(own_lab, "push", archive, f"oci://{registry.host}/charts", *login, folder=tmp_path)
        wish = {
            "operator_chart_ref": f"oci://{registry.host}/charts/gpu-operator",
            "operator_chart_version": "v26.7.0",
            "operator_chart_plain_http": True,
            "operator_chart_username": registry.user,
            "operator_chart_password": registry.password,
            "operator_values": {"nfd": {"enabled": False}},
        }
        predicted, run, again = (ansible.run(OPERATOR, *words, **wish) for words in (["--check"], [], []))
        assert [each.status for each in (predicted, run, again)] == [0, 0, 0], run.output
        assert predicted.changed == run.changed > 0 and again.changed == 0, again.output
        assert registry.password not in predicted.output + run.output + again.output
    gone = ansible.run(UNINSTALL, uninstall_remove=["all"], uninstall_allow_disruption=True)
    assert gone.status == 0 and "of another installation" in gone.output, gone.output
    assert found(own_lab, "deployments", "daemonsets", "crds") == before
    labels = json.loads(own_lab.kubectl("get", "node", "gpu-0000", "--output=json"))["metadata"]["labels"]
    assert [name for name in labels if name.startswith("feature.node.kubernetes.io/")]
    assert not [name for name in labels if name.startswith("nvidia.com/gpu.deploy")]
    again = ansible.run(UNINSTALL, uninstall_remove=["all"], uninstall_allow_disruption=True)
    assert (again.status, again.changed) == (0, 0), again.output


def test_an_operator_of_olm_is_left_to_it_by_every_playbook_that_would_change_it(
    own_lab: Lab, ansible: Playbook
) -> None:
    """As OLM makes it: owned by a ClusterServiceVersion, whose label it has."""
    own_lab.kubectl("create", "namespace", "nvidia-gpu-operator")
    owner = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion"}
    owner |= {"name": "gpu-operator-certified.v26.7.0", "uid": "5f1d6f3e-3a5c-4f0e-9d1f-0c9a4f0d7f11"}
    metadata = {
        "name": "gpu-operator",
        "namespace": "nvidia-gpu-operator",
        "labels": {"olm.owner": owner["name"], "olm.owner.namespace": "nvidia-gpu-operator"},
    }
    labels = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
    image = "registry.connect.redhat.com/nvidia/gpu-operator:v26.7.0"
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "gpu-operator", "image": image}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    own_lab.kubectl("create", "--filename=-", stdin=json.dumps(body))
    before = found(own_lab, "deployments", "namespaces", "crds", "secrets", "configmaps")
    there = {"operator_namespace": "nvidia-gpu-operator", "uninstall_allow_disruption": True}
    for playbook, check in ((SITE, []), (SITE, ["--check"]), (OPERATOR, []), (UNINSTALL, []), (UNINSTALL, ["--check"])):
        run = ansible.run(playbook, *check, **there)
        assert run.status == 2 and run.changed == 0, run.output
        assert owner["name"] in run.output and "Operator Lifecycle Manager" in run.output, run.output
    assert found(own_lab, "deployments", "namespaces", "crds", "secrets", "configmaps") == before
