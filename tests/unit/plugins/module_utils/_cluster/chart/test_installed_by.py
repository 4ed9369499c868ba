# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects with the marks and the managedFields that the real tools write."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import installed_by
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import InstalledBy, ReleaseScope
from inline_snapshot import snapshot as wording

OURS = ReleaseScope("gpu-operator", "gpu-operator")
CHART = {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "gpu-operator"}
"""Labels of the chart, which are there whoever renders it."""
HELM = {"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator"}
TRACKED = {"argocd.argoproj.io/tracking-id": "gpus:apps/Deployment:gpu-operator/gpu-operator"}
FLUX_HELM = {"helm.toolkit.fluxcd.io/name": "gpus", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
FLUX_KUSTOMIZE = {"kustomize.toolkit.fluxcd.io/name": "infra", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
APPLIED = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}


def wrote(manager: str, operation: str, hour: int = 1, **more: str) -> dict:
    return {"manager": manager, "operation": operation, "time": f"2026-11-01T{hour:02}:00:00Z", **more}


STATUS = wrote("kube-controller-manager", "Update", 9, subresource="status")


def deployment(labels: dict, annotations: dict, *managers: dict, **more: t.Any) -> dict:
    metadata = {"name": "gpu-operator", "namespace": "gpu-operator", "labels": {**CHART, **labels}, **more}
    return {"metadata": {**metadata, "annotations": annotations, "managedFields": [*managers, STATUS]}}


@pytest.mark.parametrize(
    ("item", "tool", "name"),
    [
        (deployment({}, HELM, wrote("helm", "Apply")), "Helm", "gpu-operator/gpu-operator"),
        (deployment({}, HELM, wrote("helm", "Update"), wrote("kubectl-edit", "Update", 2)), "Helm", "gpu-operator/gpu-operator"),
        (deployment({}, {**HELM, **APPLIED}, wrote("helm", "Update"), wrote("kubectl-client-side-apply", "Update", 2)), "Helm", "gpu-operator/gpu-operator"),
        (deployment({}, {"meta.helm.sh/release-name": "gpu-operator-1764"}, wrote("helm", "Apply")), "Helm", "/gpu-operator-1764"),
        # Argo CD: tracking by annotation, by label, client-side as before, and after Helm
        (deployment({}, TRACKED, wrote("argocd-controller", "Apply")), "Argo CD", "Application gpus"),
        (deployment({}, {**TRACKED, **APPLIED}, wrote("argocd-controller", "Update")), "Argo CD", "Application gpus"),
        (deployment({"app.kubernetes.io/instance": "gpus"}, APPLIED, wrote("argocd-controller", "Update")), "Argo CD", "Application gpus"),
        (deployment({}, APPLIED, wrote("argocd-application-controller", "Update")), "Argo CD", "Application gpu-operator"),
        (deployment({}, {**TRACKED, **HELM}, wrote("helm", "Update")), "Argo CD", "Application gpus"),
        (deployment({}, HELM, wrote("helm", "Apply", 1), wrote("argocd-controller", "Apply", 2)), "Argo CD", "Application gpu-operator"),
        # Helm has taken it over, and the fields of Argo CD are still noted
        (deployment({}, HELM, wrote("helm", "Apply", 3), wrote("argocd-controller", "Apply", 2)), "Helm", "gpu-operator/gpu-operator"),
        # The annotation of another object, copied to this one, which Argo CD ignores
        (deployment({}, {"argocd.argoproj.io/tracking-id": "x:apps/Deployment:y/other", **HELM}), "Helm", "gpu-operator/gpu-operator"),
        (deployment({}, {"argocd.argoproj.io/tracking-id": "x"}), "unknown", ""),
        # Flux
        (deployment(FLUX_HELM, HELM, wrote("helm-controller", "Apply")), "Flux", "HelmRelease flux-system/gpus"),
        (deployment(FLUX_KUSTOMIZE, {}, wrote("kustomize-controller", "Apply")), "Flux", "Kustomization flux-system/infra"),
        (deployment({}, {}, wrote("kustomize-controller", "Apply")), "Flux", ""),
        (deployment({}, HELM, wrote("helm-controller", "Update", 2)), "Flux", ""),
        # OLM
        (deployment({"olm.owner": "gpu-operator-certified.v26.7.0"}, {}), "OLM", "ClusterServiceVersion gpu-operator-certified.v26.7.0"),
        (deployment({}, {}, ownerReferences=[{"kind": "ClusterServiceVersion", "name": "v1"}]), "OLM", "ClusterServiceVersion v1"),
        # kubectl
        (deployment({}, APPLIED, wrote("kubectl-client-side-apply", "Update")), "kubectl", ""),
        (deployment({}, {}, wrote("kubectl", "Apply")), "kubectl", ""),
        (deployment({}, {}, wrote("kubectl-create", "Update")), "kubectl", ""),
        (deployment({}, {}, wrote("kubectl-edit", "Update"), wrote("Terraform", "Apply")), "unknown", ""),
        (deployment({}, {}), "unknown", ""),
    ],
)  # fmt: skip
def test_the_owner_is_told_by_marks_and_managers(item: dict, tool: str, name: str) -> None:
    owner = installed_by.owner_of(item, "Deployment")
    assert (owner.tool, owner.name) == (tool, name) and owner.proof
    assert owner.is_release(OURS) is (name == "gpu-operator/gpu-operator")


def test_a_release_is_told_by_its_name_and_its_namespace() -> None:
    item = deployment({}, HELM)
    assert OURS.has(item) and not OURS.is_others(item) and str(OURS) == "gpu-operator/gpu-operator"
    other = ReleaseScope("gpu-operator", "elsewhere")
    assert other.is_others(item) and not other.has(item)
    assert not OURS.is_others(deployment({}, {}))


FOUND = {
    "Helm": InstalledBy("Helm", "gpus/gpu-operator-1764", "the annotation meta.helm.sh/release-name"),
    "OLM": InstalledBy("OLM", "ClusterServiceVersion gpu-operator.v1", "the label olm.owner"),
    "Argo CD": InstalledBy("Argo CD", "Application gpus", "the annotation argocd.argoproj.io/tracking-id"),
    "Flux": InstalledBy("Flux", "", "the field manager kustomize-controller"),
    "kubectl": InstalledBy("kubectl", "", "the field manager kubectl-client-side-apply"),
    "unknown": InstalledBy("unknown", "", "the field managers Terraform"),
}


@pytest.mark.parametrize("action", ["install", "remove"])
@pytest.mark.parametrize("tool", [*FOUND])
def test_a_refusal_names_the_owner_and_what_can_be_done(tool: str, action: installed_by.Undertaking) -> None:
    error = installed_by.refusal(FOUND[tool], ["Deployment gpu-operator/gpu-operator"], action, OURS)
    assert error.reason == ("OperatorOfOLM" if tool == "OLM" else "OperatorOfOthers")
    assert FOUND[tool].who in error.msg and FOUND[tool].proof in error.msg and "nothing was changed" in error.msg
    remedy = installed_by.remedy(FOUND[tool], action, OURS)
    assert error.msg.endswith(remedy)
    takes = "helm upgrade --install gpu-operator CHART --namespace gpu-operator --take-ownership" in remedy
    assert takes is (tool in ("kubectl", "unknown"))


def test_another_release_is_named_for_the_variables_of_the_role() -> None:
    for action, role in (("install", "operator"), ("remove", "uninstall")):
        remedy = installed_by.remedy(FOUND["Helm"], action, OURS)
        assert "release_name: gpu-operator-1764" in remedy and "release_namespace: gpus" in remedy
        assert f"{role}_release_name and {role}_namespace in the role {role}" in remedy


def test_the_whole_message() -> None:
    error = installed_by.refusal(FOUND["Argo CD"], ["Deployment gpu-operator/gpu-operator"], "remove", OURS)
    assert error.msg == wording(
        "The GPU Operator here belongs to Argo CD (Application gpus): Deployment gpu-operator/gpu-operator has the annotation argocd.argoproj.io/tracking-id. This removal would take the drivers away and leave or lose the rest, so nothing was changed. Remove its Application from Argo CD together with its resources. Then run this for what it leaves."
    )
