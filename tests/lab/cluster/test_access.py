# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API server is as strict as a real one: certificates, tokens, RBAC, validation, pod security."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, LabError, Options
from tests.support.labs import running_lab


@pytest.fixture(scope="module")
def lab() -> t.Iterator[Lab]:
    """A lab without an operator, which these tests do not need."""
    with running_lab("access", Options(nodes=1, operator="none")) as lab:
        yield lab


def ask(lab: Lab, kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    command = [lab.state.tools["kubectl"], f"--kubeconfig={kubeconfig}", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return answer.returncode, answer.stdout + answer.stderr


def test_a_user_may_do_what_a_role_binding_says(lab: Lab) -> None:
    bob = lab.kubeconfig_for("bob", "readers")
    assert 'User "bob" cannot list resource "nodes"' in ask(lab, bob, "get", "nodes")[1]
    lab.kubectl("create", "clusterrolebinding", "readers", "--clusterrole=system:node-proxier", "--group=readers")
    assert ask(lab, bob, "get", "nodes")[0] == 0
    assert "cannot delete resource" in ask(lab, bob, "delete", "nodes", "--all")[1]


def test_an_expired_certificate_is_refused(lab: Lab) -> None:
    assert "Unauthorized" in ask(lab, lab.kubeconfig_for("bob", expired=True), "get", "nodes")[1]


def test_tokens(lab: Lab) -> None:
    def whoami(token: str) -> str:
        return ask(lab, lab.kubeconfig_with_token(token), "auth", "whoami")[1]

    assert "system:serviceaccount:default:default" in whoami(lab.token())
    assert "Unauthorized" in whoami(lab.token(lifetime=-60))
    assert "Unauthorized" in whoami("made-up")


def test_a_kubeconfig_can_be_copied_and_is_private(lab: Lab, tmp_path: Path) -> None:
    assert lab.kubeconfig.stat().st_mode & 0o077 == 0
    copy = tmp_path / "kubeconfig"
    copy.write_bytes(lab.kubeconfig.read_bytes())
    assert ask(lab, copy, "get", "nodes")[0] == 0


def test_unknown_fields_are_refused(lab: Lab) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "x", "image": "x", "imagee": "y"}]},
    }
    with pytest.raises(LabError, match=r'unknown field "spec.containers\[0\].imagee"'):
        lab.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(pod))


def test_pod_security_is_enforced(lab: Lab) -> None:
    lab.kubectl("create", "namespace", "guarded")
    lab.kubectl("label", "namespace", "guarded", "pod-security.kubernetes.io/enforce=baseline")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": "guarded"},
        "spec": {"containers": [{"name": "x", "image": "x", "securityContext": {"privileged": True}}]},
    }
    with pytest.raises(LabError, match="violates PodSecurity"):
        lab.kubectl("create", "-f", "-", stdin=json.dumps(pod))


def test_mutating_admission_policies_exist(lab: Lab) -> None:
    """The faults of operands are such policies."""
    group = "--api-group=admissionregistration.k8s.io"
    assert "mutatingadmissionpolicies" in lab.kubectl("api-resources", group, "--output=name")


def test_controllers_that_operands_need(lab: Lab) -> None:
    """The replica set, garbage-collection and disruption controllers run."""
    lab.kubectl("create", "deployment", "web", "--image=web", "--replicas=2")
    lab.kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=2")
    lab.kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=60s")
    lab.kubectl("wait", "poddisruptionbudget/web", "--for=jsonpath={.status.currentHealthy}=2", "--timeout=60s")
    lab.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    assert lab.kubectl("get", "pods", "--selector=app=web", "--output=name") == ""
