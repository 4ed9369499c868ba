# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.facts import facts

from tests.unit.plugins.module_utils._cluster.preflight.clusters import ON_HOSTS, bare, intent, node, only, snapshot

EKS = {"labels": {"eks.amazonaws.com/nodegroup": "g"}, "provider": "aws:///eu-central-1a/i-0"}

GKE = {"labels": {"cloud.google.com/gke-nodepool": "g"}, "provider": "gce://project/zone/vm"}

AKS = {"labels": {"kubernetes.azure.com/cluster": "g"}, "provider": "azure:///subscriptions/x"}


@pytest.mark.parametrize(
    ("item", "values", "level", "cloud"),
    [
        (node(**EKS), {}, "ok", "eks"),
        (bare(image="Amazon Linux 2023", **EKS), {}, "warning", "eks"),
        (bare(image="Bottlerocket OS 1.30", **EKS), {}, "warning", "eks"),
        (bare(image="Amazon Linux 2023", **EKS), ON_HOSTS, "ok", "eks"),
        (node(**GKE), {}, "warning", "gke"),
        (node(**AKS), {}, "warning", "aks"),
        (node(**AKS), ON_HOSTS, "ok", "aks"),
        (node(provider="aws:///zone/i-1"), {}, "ok", None),
        (node(), {}, "ok", None),
    ],
)
def test_cloud(item: dict, values: dict, level: str, cloud: str | None) -> None:
    found = snapshot(nodes=[item])
    finding = only("cloud", found, intent(**values))
    assert finding.level == level and (cloud or "") in finding.remedy.lower() + finding.message.lower()
    assert facts(found)["cloud"] == cloud
