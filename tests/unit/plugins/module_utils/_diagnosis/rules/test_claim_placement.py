# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Claims without devices: lines that schedulers and the API server write."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import claim_placement

from tests.unit import diagnosed
from tests.unit.fakes import claimed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/scheduler/framework/plugins/dynamicresources
        (
            "FailedScheduling: 0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 cannot allocate all claims.",
            "ClaimFitsNowhere",
            "likely",
        ),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/scheduler/framework/plugins/dynamicresources
        ("0/3 nodes are available: 3 resourceclaim not available on the node.", "ClaimOnOtherNode", "certain"),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/scheduler/framework/plugins/dynamicresources
        ("request gpu: device class gpu.example.com does not exist", "DeviceClassMissing", "certain"),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/staging/src/k8s.io/dynamic-resource-allocation/structured
        ("claim default/a: selector #0: CEL runtime error: no such key: profile", "ClaimSelectorFails", "certain"),
        # https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/registry/resource/utils.go
        (
            "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace",
            "NamespaceWithoutAdminAccess",
            "certain",
        ),
        # https://github.com/kai-scheduler/KAI-Scheduler/pull/1177
        ("device-plugin GPU requests cannot be scheduled on DRA-only nodes", "SchedulerSeesOnlyClaims", "certain"),
    ],
)
def test_lines_of_schedulers_about_claims(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(claim_placement.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_a_claim_that_waits_names_a_class_that_is_not_there() -> None:
    kinds = {"deviceclasses": [{"metadata": {"name": "gpu.nvidia.com"}}]}
    claims = [claimed.pending("gpus"), claimed.pending("gpu.nvidia.com"), claimed.claim("a", "gpu-0000", "gpu-0")]
    found = diagnosed.found(claim_placement.RULES, objects={**kinds, "resourceclaims": claims})
    assert list(found) == ["DeviceClassMissing"] and "DeviceClass gpus" in found["DeviceClassMissing"].cause
    assert not diagnosed.found(claim_placement.RULES, objects={"resourceclaims": claims})
