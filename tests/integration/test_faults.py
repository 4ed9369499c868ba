# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After bad input or a refusal by the cluster, one message names the remedy, and nothing is left half done."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lab.cluster import Lab, faults
from tests.support.ansible import SITE, Playbook, Run

pytestmark = pytest.mark.slow("a run has to fail in each way")

SECRET = "s3cret-that-nobody-may-see"


def refused(run: Run, *words: str) -> None:
    """Assert that a run failed with these words in its message, without a traceback, and without showing the secret."""
    assert run.status not in (0, 4), run.output
    assert "Traceback" not in run.output, run.output
    assert SECRET not in run.output, run.output
    for word in words:
        assert word in run.message, run.output


# ---- connection -----------------------------------------------------------------------------------------------------


def test_unreachable_api(lab: Lab, ansible: Playbook, tmp_path: Path) -> None:
    """No server listens on port 1."""
    port = lab.state.ports["kube-apiserver"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(lab.kubeconfig.read_text().replace(f":{port}", ":1"))
    refused(
        ansible.run(SITE, gpuops_kubeconfig=str(kubeconfig)),
        "Kubernetes API",
        "127.0.0.1",
        "Connection refused",
        "Check",
    )


@pytest.mark.wide
def test_expired_token(lab: Lab, ansible: Playbook) -> None:
    token = lab.token(lifetime=-3600)
    run = ansible.run(SITE, gpuops_kubeconfig=str(lab.kubeconfig_with_token(token)))
    refused(run, "refused the credentials (401)", "renew it")
    assert token not in run.output


@pytest.mark.wide
def test_expired_certificate(lab: Lab, ansible: Playbook) -> None:
    run = ansible.run(SITE, gpuops_kubeconfig=str(lab.kubeconfig_for("late", expired=True)))
    refused(run, "401", "expired")


@pytest.mark.wide
def test_wrong_context(ansible: Playbook) -> None:
    refused(ansible.run(SITE, gpuops_context="no-such-context"), "no-such-context", "Check kubeconfig, context")


def test_no_permission(lab: Lab, ansible: Playbook) -> None:
    """The preflight lists the missing permissions before anything is changed."""
    refused(
        ansible.run(SITE, gpuops_kubeconfig=str(lab.kubeconfig_for("nobody"))),
        "not ready",
        "may not",
    )


# ---- input ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("clean")
def test_missing_crd(ansible: Playbook) -> None:
    for name in ("clusterpolicies", "nvidiadrivers", "gpuclusters"):
        run = ansible.module(
            "kubernetes.core.k8s", state="absent", kind="CustomResourceDefinition", name=f"{name}.nvidia.com", wait=True
        )
        assert run.status == 0, run.output
    refused(
        ansible.module("gpuops.nvidia.clusterpolicy", driver={"version": "595.91.07"}, wait=False),
        "CRD",
        "operator_crds",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"spec": {"driver": {"verison": "1"}}}, ["driver.verison"], id="unknown-field"),
        pytest.param(
            {"spec": {"driver": {"enabled": "perhaps"}}},
            ["driver.enabled", "boolean"],
            id="wrong-type",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            {"spec": {"mig": {"strategy": "several"}}},
            ["mig.strategy", "several", "mixed"],
            id="wrong-enum",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            {"mig": {"strategy": "several"}},
            ["strategy", "several", "mixed"],
            id="wrong-choice",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            {"spec": {"driver": {"kernelModuleType": "precompiled"}}},
            ["usePrecompiled"],
            id="precompiled",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            {"spec": {"driver": {"upgradePolicy": {"gpuPodDeletion": {}}}}},
            ["podDeletion"],
            id="gpu-pod-deletion",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_bad_field(crds: None, ansible: Playbook, options: dict[str, object], words: list[str]) -> None:
    refused(ansible.module("gpuops.nvidia.clusterpolicy", wait=False, **options), *words)
    info = ansible.module("gpuops.nvidia.clusterpolicy_info", name="cluster-policy")
    assert 'exists": false' in info.output, "A refused ClusterPolicy was created."


@pytest.mark.wide
def test_a_field_that_argo_cd_keeps(crds: None, lab: Lab, ansible: Playbook) -> None:
    """It puts its fields back by force. A task with other fields gets along with it, and one with the same does not."""
    policy = {"module": "gpuops.nvidia.clusterpolicy", "wait": False}
    assert ansible.module(**policy, spec={}).status == 0
    with faults.argocd(lab, {"mig": {"strategy": "none"}}) as healed:
        refused(ansible.module(**policy, mig={"strategy": "single"}), "spec.mig.strategy (argocd-controller)", "force")
        assert ansible.module(**policy, gfd={"enabled": False}).status == 0
        assert ansible.module(**policy, mig={"strategy": "single"}, force=True).status == 0
        assert healed.wait(10)
        info = ansible.module("gpuops.nvidia.clusterpolicy_info", name="cluster-policy").output
    assert ansible.module(**policy, state="absent").status == 0
    owners = json.loads(info[info.index("{") :])["owners"]
    assert owners["spec.mig.strategy"] == ["argocd-controller"] and owners["spec.gfd.enabled"] == ["gpuops.nvidia"]


@pytest.mark.wide
def test_chart_not_found(ansible: Playbook) -> None:
    refused(ansible.run(SITE, operator_chart_ref="/no/such/chart"), "/no/such/chart", "Give the path")


@pytest.mark.wide
def test_values_that_the_chart_refuses(ansible: Playbook) -> None:
    run = ansible.run(SITE, operator_values={"cdi": {"enabled": False, "nriPluginEnabled": True}})
    refused(run, "Helm values", "cdi.enabled", "Correct them")


def test_a_secret_is_never_shown(lab: Lab, ansible: Playbook) -> None:
    """The secret is hidden with -vvv, in a diff, and when the task fails."""
    secrets = [
        {"name": "not a valid name", "registry": "registry.example.com", "username": "robot", "password": SECRET}
    ]
    run = ansible.run(
        SITE,
        "-vvv",
        "--diff",
        operator_pull_secrets=secrets,
        operator_chart_username="robot",
        operator_chart_password=SECRET,
    )
    assert run.status != 0
    assert SECRET not in run.output
    assert os.fsencode(SECRET) not in b"".join(path.read_bytes() for path in lab.folder.glob("logs/*"))
