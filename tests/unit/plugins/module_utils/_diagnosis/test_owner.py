# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine, owner
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from inline_snapshot import snapshot as wording

HELM = {"meta.helm.sh/release-name": "ops", "meta.helm.sh/release-namespace": "gpu"}
ARGO = {"argocd.argoproj.io/tracking-id": "gpus:apps/Deployment:gpu/gpu-operator"}
FLUX = {"helm.toolkit.fluxcd.io/name": "gpus", "helm.toolkit.fluxcd.io/namespace": "flux"}


def operator(name: str = "gpu-operator", **metadata: t.Any) -> dict[str, t.Any]:
    return {"metadata": {"name": name, "namespace": "gpu", **metadata}}


def policy(manager: str) -> dict[str, t.Any]:
    return {"metadata": {"name": "cluster-policy", "managedFields": [{"manager": manager, "operation": "Apply"}]}}


def remedy_of(remedy: str, whose: dict[str, t.Any]) -> str:
    rule = Rule("A", "a", "failure", "It is broken.", remedy, (), check=lambda view: [Sighting()])
    return engine.diagnose(Evidence(owner=whose), [rule]).findings[0].remedy


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (
            {"annotations": ARGO},
            wording(
                "The installation belongs to Argo CD (Application gpus): make the change in its Application in Git, since Argo CD puts back what is changed elsewhere."
            ),
        ),
        (
            {"labels": FLUX},
            wording(
                "The installation belongs to Flux (HelmRelease flux/gpus): make the change in Git, since Flux puts back what is changed elsewhere."
            ),
        ),
        (
            {"labels": {"olm.owner": "gpu-operator.v1"}},
            wording(
                "The installation belongs to the Operator Lifecycle Manager (ClusterServiceVersion gpu-operator.v1): change its ClusterPolicy with gpuops.nvidia.clusterpolicy, and the operator with OLM."
            ),
        ),
        (
            {"annotations": HELM},
            wording(
                "The installation belongs to Helm's release gpu/ops: make the change in the values of that release (operator_values, if playbooks/site.yml installs it)."
            ),
        ),
        ({"managedFields": [{"manager": "kubectl", "operation": "Apply"}]}, ""),
        ({}, ""),
    ],
)
def test_a_remedy_that_changes_the_installation_names_its_owner_and_the_place(
    metadata: dict[str, t.Any], said: str
) -> None:
    whose = owner.verdict([operator("other"), operator(**metadata)], [policy("helm")])
    for remedy in (
        "Set driver.version in operator_values.",
        "Correct the ClusterPolicy.",
        "Update DCGM (dcgm.version in the operator's values).",
        "Run playbooks/upgrade_operator.yml.",
    ):
        assert remedy_of(remedy, whose).removeprefix(remedy).strip() == said
    assert remedy_of("Reboot the host.", whose) == "Reboot the host."


def test_what_this_collection_installs_needs_no_owner() -> None:
    mine = operator(annotations=HELM)
    assert owner.verdict([mine], [policy("gpuops.nvidia")]) == {}
    assert owner.verdict([mine], [policy("gpuops.nvidia-driver")])["tool"] == "Helm"
    assert owner.verdict([operator(annotations=ARGO)], [policy("gpuops.nvidia")])["tool"] == "Argo CD"
    assert owner.verdict([], []) == {} and owner.verdict([operator("other", annotations=ARGO)], []) == {}


def test_the_rules_that_change_the_installation_are_recognised() -> None:
    whose = owner.verdict([operator(annotations=ARGO)], [])
    codes = {
        rule.code for rule in RULES if "Argo CD" in remedy_of(rule.remedy.replace("{", "").replace("}", ""), whose)
    }
    assert {"ImageNotFound", "ToolkitSocketWrong", "UpgradeSpecMissing", "MIGLayoutsInvalid"} <= codes
    assert not {"NouveauHoldsGPU", "XidReset", "MIGLayoutUnknown", "HostServiceFails"} & codes
