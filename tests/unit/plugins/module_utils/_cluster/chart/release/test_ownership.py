# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import ownership

OURS = {"manager": "gpuops.nvidia", "operation": "Apply", "fieldsV1": {"f:spec": {"f:driver": {"f:version": {}}}}}
HELMS = {"manager": "helm", "operation": "Update", "fieldsV1": {"f:spec": {"f:driver": {"f:env": {}}}}}
STATUS = {"manager": "helm", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}
ADMINS = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:mig": {}}}}
OF_HELM = {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "ns"}


def policy(**metadata: object) -> dict:
    return {"metadata": {"name": "cluster-policy", "resourceVersion": "7", **metadata}}


def test_an_annotation_says_that_helm_owns_an_object() -> None:
    assert ownership.belongs_to_helm(policy(annotations=OF_HELM))
    assert not ownership.belongs_to_helm(policy(annotations={"helm.sh/resource-policy": "keep"}))
    assert not ownership.belongs_to_helm(policy())


def test_an_annotation_says_that_helm_keeps_an_object() -> None:
    assert ownership.is_kept(policy(annotations={"helm.sh/resource-policy": "keep"}))
    assert not ownership.is_kept(policy(annotations={"helm.sh/resource-policy": "delete"}))
    assert not ownership.is_kept(policy(annotations=OF_HELM))


def test_the_fields_of_several_managers_become_one_apply() -> None:
    assert ownership.moved([ADMINS, OURS, STATUS, HELMS], ("gpuops.nvidia", "helm"), "helm") == [
        {
            "manager": "helm",
            "operation": "Apply",
            "fieldsV1": {"f:spec": {"f:driver": {"f:version": {}, "f:env": {}}}},
        },
        ADMINS,
        STATUS,
    ]
    assert OURS["fieldsV1"] == {"f:spec": {"f:driver": {"f:version": {}}}}, "The argument should stay as it is."


def test_without_their_fields_nothing_moves() -> None:
    assert ownership.moved([ADMINS, STATUS], ("gpuops.nvidia", "helm"), "helm") == [ADMINS, STATUS]


def test_helm_can_import_what_was_handed_over() -> None:
    labels, annotations = {"team": "ml"}, {"note": "x", "helm.sh/resource-policy": "keep"}
    live = policy(labels=labels, annotations=annotations, managedFields=[OURS])
    assert json.loads(ownership.hand_to_helm(live, "gpuops.nvidia", "r", "ns")) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/annotations", "value": {"note": "x", **OF_HELM}},
        {"op": "add", "path": "/metadata/labels", "value": {"team": "ml", "app.kubernetes.io/managed-by": "Helm"}},
        {"op": "add", "path": "/metadata/managedFields", "value": [{**OURS, "manager": "helm"}]},
    ]
