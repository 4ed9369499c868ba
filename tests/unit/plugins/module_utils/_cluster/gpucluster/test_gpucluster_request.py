# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import gpucluster_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

Json = dict[str, t.Any]


def request(**given: t.Any) -> gpucluster_request.GpuClusterRequest:
    blocks = dict.fromkeys(gpucluster_request.GPUCLUSTER_BLOCKS.options)
    limits = {name: option.get("default") for name, option in tolerance.SPEC.options.items()}
    defaults: Json = {
        "state": "present",
        "namespace": "gpu-operator",
        "spec": {},
        "labels": {},
        "annotations": {},
        "purge": False,
        "force": False,
        "allow_disruption": False,
        "check_refusal": "fail",
        "wait": True,
        "wait_timeout": 60,
        "progress_path": None,
    }
    return gpucluster_request.request_of({**defaults, **blocks, **limits, **given})


def test_the_required_block_is_always_there() -> None:
    made = gpucluster_request.manifest(request(), None, "m")
    assert (made["metadata"], made["spec"]) == ({"name": "gpu-cluster"}, {"draDriver": {}})


def test_names_of_fields_are_the_apis() -> None:
    made = request(dra_driver={"feature_gates": {"MPSSupport": True}, "compute_domains": {"enabled": False}})
    assert made.spec == {"draDriver": {"featureGates": {"MPSSupport": True}, "computeDomains": {"enabled": False}}}


def test_a_removal_has_no_spec() -> None:
    made = request(state="absent", dra_driver={"feature_gates": {"x": "y"}})
    assert (made.spec, made.is_present) == ({}, False)


@pytest.mark.parametrize("given", [{"wait_timeout": -1}, {"spec": {"draDriver": 5}}])
def test_what_cannot_be_meant(given: Json) -> None:
    with pytest.raises(GpuOpsError):
        request(**given)
