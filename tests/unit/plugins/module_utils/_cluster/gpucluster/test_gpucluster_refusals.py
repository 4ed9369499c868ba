# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import gpucluster_refusals
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

Json = dict[str, t.Any]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, None),
        ({"draDriver": {}}, None),
        ({"draDriver": {"computeDomains": {"enabled": None}}}, None),
        ({"draDriver": {"computeDomains": {"enabled": False}}}, False),
        ({"draDriver": {"computeDomains": {"enabled": True}}}, True),
    ],
)
def test_a_gpucluster_says_whether_it_manages_compute_domains(spec: Json, found: bool | None) -> None:
    assert gpucluster_refusals.has_domains(spec) is found


@pytest.mark.parametrize("spec", [{}, {"draDriver": {"featureGates": None}}, {"draDriver": {"gpus": {}}}])
def test_a_spec_without_gates_is_no_problem(spec: Json) -> None:
    gpucluster_refusals.refuse_gates(spec)
    assert gpucluster_refusals.gates_of(spec) == {}


def test_all_problems_are_in_one_error() -> None:
    spec = {"draDriver": {"featureGates": {"Foo": True, "DeviceMetadata": True}}}
    with pytest.raises(GpuOpsError) as e:
        gpucluster_refusals.refuse_gates(spec)
    assert "Foo" in e.value.msg and "PassthroughSupport" in e.value.msg
