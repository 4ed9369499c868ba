# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import domain_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_request import DomainRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.domains import domain

OPTIONS = {
    "name": "job",
    "namespace": "research",
    "state": "present",
    "num_nodes": None,
    "channel": None,
    "one_clique": True,
    "wait": True,
    "wait_timeout": 600,
    "progress_path": None,
}
Json = dict[str, t.Any]


def request(**options: t.Any) -> DomainRequest:
    return domain_request.request_of({**OPTIONS, **options})


def applied(mode: str) -> Json:
    """Return a ComputeDomain whose allocation mode the module has set."""
    mine = {"f:spec": {"f:channel": {"f:allocationMode": {}}}}
    entry = {"manager": "gpuops.nvidia", "operation": "Apply", "fieldsV1": mine}
    made = domain(managedFields=[entry])
    made["spec"]["channel"]["allocationMode"] = mode
    return made


@pytest.mark.parametrize(
    ("options", "existing", "spec"),
    [
        ({}, None, {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "job"}}}),
        ({}, domain(), {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel"}}}),
        (
            {"num_nodes": 4, "channel": {"template": "x", "allocation_mode": "All"}},
            domain(),
            {"numNodes": 4, "channel": {"resourceClaimTemplate": {"name": "x"}, "allocationMode": "All"}},
        ),
        (
            {},
            applied("All"),
            {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel"}, "allocationMode": "All"}},
        ),
    ],
)
def test_what_is_left_out_stays(options: Json, existing: Json | None, spec: Json) -> None:
    assert domain_request.manifest(request(**options), existing)["spec"] == spec


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, []),
        ({"num_nodes": 2, "channel": {"template": "channel", "allocation_mode": "Single"}}, []),
        ({"num_nodes": 4}, ["num_nodes"]),
        ({"channel": {"template": "x", "allocation_mode": "All"}}, ["channel.template", "channel.allocation_mode"]),
    ],
)
def test_what_a_task_wants_otherwise(options: Json, fields: list[str]) -> None:
    found = domain_request.differences(domain(), domain_request.manifest(request(**options), domain()))
    assert [text.split()[0] for text in found] == fields


def test_a_number_that_is_missing_is_0() -> None:
    existing = domain()
    del existing["spec"]["numNodes"]
    assert domain_request.differences(existing, domain_request.manifest(request(), existing)) == []


@pytest.mark.parametrize("name", ["num_nodes", "wait_timeout"])
def test_numbers_begin_at_0(name: str) -> None:
    assert request(**{name: 0}).is_present and not request(state="absent").is_present
    with pytest.raises(GpuOpsError) as failure:
        request(**{name: -1})
    assert failure.value.reason == "Invalid" and name in failure.value.msg


def test_an_object_without_a_channel_has_no_template() -> None:
    assert domain_request.template_of(None) == domain_request.template_of({"spec": {}}) == ""
