# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake API server has the whole cluster: the operator's release, and Node Feature Discovery."""

from __future__ import annotations

import pytest

from tests.unit.fakes.api import DAEMONSETS, DEPLOYMENTS, FakeApi
from tests.unit.fakes.stack import NAMESPACE

ALL_DAEMONSETS = "/apis/apps/v1/daemonsets"


@pytest.fixture(autouse=True)
def release(api: FakeApi) -> None:
    """Complete the stack with what only the checks of the whole cluster look at."""
    for item in api.lists[DEPLOYMENTS]:
        item["metadata"] |= {"namespace": NAMESPACE}
        item["spec"]["template"]["spec"] = {"containers": [{"image": "nvcr.io/nvidia/gpu-operator:v26.7.0"}]}
    for item in api.lists[DAEMONSETS]:
        item["metadata"]["namespace"] = NAMESPACE
        item["metadata"]["ownerReferences"][0] |= {"kind": "ClusterPolicy", "apiVersion": "nvidia.com/v1"}
    container = {"name": "worker", "image": "registry.k8s.io/nfd/node-feature-discovery:v0.18.3"}
    annotations = {"meta.helm.sh/release-name": "gpu-operator"}
    worker = {
        "metadata": {"name": "nfd-worker", "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"template": {"spec": {"containers": [container]}}},
        "status": {},
    }
    api.lists[ALL_DAEMONSETS] = [*api.lists[DAEMONSETS], worker]
