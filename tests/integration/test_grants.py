# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For any user, the preflight names exactly those roles of the chart that the API server would refuse."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.grants import KINDS, role_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.manifests import Rendered, parse_manifests
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permission_checks import ungranted

from lab.cluster import Lab, Options
from tests.support.ansible import SITE, on
from tests.support.labs import running_lab

NAMESPACE = "gpu-operator"


@pytest.fixture(scope="module")
def own_lab() -> t.Iterator[Lab]:
    """A lab without an operator, in which users of the group deployers may create any role."""
    with running_lab("grants", Options(nodes=1, operator="none")) as lab:
        if NAMESPACE not in lab.kubectl("get", "namespaces", "--output=name"):
            lab.kubectl("create", "namespace", NAMESPACE)
        lab.kubectl("create", "clusterrole", "deployer", "--verb=create,get,patch", "--resource=clusterroles,roles")
        lab.kubectl("create", "clusterrolebinding", "deployers", "--clusterrole=deployer", "--group=deployers")
        yield lab


@pytest.fixture(scope="module")
def chart(own_lab: Lab) -> Rendered:
    command = [own_lab.helm, "template", "gpu-operator", own_lab.chart, f"--namespace={NAMESPACE}"]
    return parse_manifests(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def roles(chart: Rendered) -> list[dict]:
    return [item for kind in KINDS for item in chart.of_kind(kind)]


def refused(lab: Lab, kubeconfig: Path, chart: Rendered) -> set[str]:
    """Return the roles that the API server does not let the user create."""
    found = set()
    for role in roles(chart):
        place = [f"--namespace={role['metadata'].get('namespace') or NAMESPACE}"] if role["kind"] == "Role" else []
        kubectl = [lab.state.tools["kubectl"], f"--kubeconfig={kubeconfig}"]
        command = [*kubectl, "create", "--dry-run=server", "--filename=-", *place]
        answer = subprocess.run(command, input=json.dumps(role), capture_output=True, text=True, check=False)
        if answer.returncode:
            assert "attempting to grant RBAC permissions not currently held" in answer.stderr, answer.stderr
            found.add(f"{role['kind']} {role['metadata']['name']}")
    return found


def named(kubeconfig: Path, chart: Rendered) -> set[str]:
    """Return the roles that the preflight names."""
    return set(ungranted(Cluster({"kubeconfig": str(kubeconfig)}), NAMESPACE, [role_of(item) for item in roles(chart)]))


def test_a_user_without_rights(own_lab: Lab, chart: Rendered) -> None:
    user = own_lab.kubeconfig_for("nobody", "deployers")
    everything = {f"{item['kind']} {item['metadata']['name']}" for item in roles(chart)}
    assert named(user, chart) == refused(own_lab, user, chart) == everything


def test_a_user_with_some_rights(own_lab: Lab, chart: Rendered) -> None:
    """The user has the rights of one ClusterRole in the cluster, and those of another only in the namespace."""
    second, first = chart.of_kind("ClusterRole")[:2]  # The operator's role covers the other role.
    for item, kind in ((first, "clusterrolebinding"), (second, "rolebinding")):
        held = {
            "apiVersion": item["apiVersion"],
            "kind": "ClusterRole",
            "metadata": {"name": f"held-{kind}"},
            "rules": item["rules"],
        }
        own_lab.kubectl("create", "--filename=-", stdin=json.dumps(held))
        own_lab.kubectl("create", kind, "some", f"--clusterrole=held-{kind}", "--user=some", f"--namespace={NAMESPACE}")
    user = own_lab.kubeconfig_for("some", "deployers")
    assert named(user, chart) == refused(own_lab, user, chart)
    assert f"ClusterRole {first['metadata']['name']}" not in named(user, chart)
    assert f"ClusterRole {second['metadata']['name']}" in named(user, chart)


def test_a_user_who_may_grant_anything_and_an_administrator(own_lab: Lab, chart: Rendered) -> None:
    own_lab.kubectl("create", "clusterrole", "granter", "--verb=escalate,bind", "--resource=clusterroles,roles")
    own_lab.kubectl("create", "clusterrolebinding", "granter", "--clusterrole=granter", "--user=granter")
    for user in (own_lab.kubeconfig_for("granter", "deployers"), own_lab.kubeconfig):
        assert named(user, chart) == refused(own_lab, user, chart) == set()


def test_the_preflight_stops_and_names_the_roles(own_lab: Lab) -> None:
    user = own_lab.kubeconfig_for("stopped", "deployers")
    run = on(own_lab).run(SITE, gpuops_kubeconfig=str(user))
    assert run.status == 2, run.output
    assert "Kubernetes refuses roles" in run.message, run.output
    assert "ClusterRole gpu-operator (create pods/eviction, get events, " in run.message, run.output
    assert "escalate and bind" in run.message, run.output
