# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.gpuops.nvidia.plugins.lookup.control_host import LookupModule
from inline_snapshot import snapshot as wording

GROUPS = {"all": ["bastion", "gpu-0", "gpu-1"], "gpu_hosts": ["gpu-0", "gpu-1"]}


def control_host(name: str | None, limit: str | None = None, groups: t.Any = ..., **options: t.Any) -> str:
    """Return what the lookup returns in a run with this inventory and limit."""
    groups = GROUPS if groups is ... else groups
    variables = {"gpuops_control_host": name, "groups": groups, **({"ansible_limit": limit} if limit else {})}
    found = LookupModule().run([], variables, **options)
    assert len(found) == 1
    return str(found[0])


@pytest.mark.parametrize("name", ["", None])
@pytest.mark.parametrize("groups", [GROUPS, {}, None])
def test_an_empty_answer_means_the_controller(name: str | None, groups: t.Any) -> None:
    assert control_host(name, groups=groups) == "localhost"


def test_a_host_of_the_inventory() -> None:
    assert control_host("bastion") == "bastion"


def test_a_host_that_the_inventory_or_the_slice_lacks() -> None:
    with pytest.raises(AnsibleLookupError) as error:
        control_host("other")
    assert str(error.value) == wording(
        "gpuops_control_host is other, and the inventory of this run has no such host. Correct the name, or add the host. In AWX, do not slice a job that acts on a cluster."
    )


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("", "localhost"),
        ("", "localhost,gpu_hosts"),
        ("bastion", "bastion"),
        ("bastion", "bast*"),
        ("bastion", "all:!gpu_hosts"),
        ("gpu-0", "gpu_hosts:&all"),
        ("bastion", "@/a/file"),
    ],
)
def test_a_limit_with_the_host(name: str, limit: str) -> None:
    assert control_host(name, limit) == (name or "localhost")


@pytest.mark.parametrize(
    ("name", "limit"), [("", "gpu_hosts"), ("", "all"), ("bastion", "gpu_hosts"), ("bastion", "all:!bastion")]
)
def test_a_limit_without_the_host(name: str, limit: str) -> None:
    with pytest.raises(AnsibleLookupError, match=rf"leaves out {name or 'localhost'},"):
        control_host(name, limit)
    assert control_host(name, limit, limited=False) == (name or "localhost")


@pytest.mark.parametrize("limit", ["gpu_hosts", "gpu-1", "localhost", "all"])
def test_a_limit_with_a_host_that_is_enough(limit: str) -> None:
    assert control_host("", limit, or_hosts_of="gpu_hosts") == "localhost"


@pytest.mark.parametrize(("limit", "groups"), [("bastion", GROUPS), ("gpu_hosts", {"all": ["a"], "gpu_hosts": []})])
def test_a_limit_that_leaves_out_the_host_and_the_group(limit: str, groups: t.Any) -> None:
    with pytest.raises(AnsibleLookupError, match=r"leaves out localhost, .*"):
        control_host("", limit, groups, or_hosts_of="gpu_hosts")


def test_a_slice_is_refused() -> None:
    """AWX makes slices jobs of a workflow with the name of their template: create_unified_job in models/jobs.py."""
    job = {"awx_job_template_name": "GPU deploy", "awx_workflow_job_name": "GPU deploy"}
    with pytest.raises(AnsibleLookupError) as error:
        LookupModule().run([], job, limited=False)
    assert str(error.value) == wording(
        "This job is a slice of GPU deploy. Each slice would act on the whole cluster, and hosts would be changed in as many batches at once. Set the template's number of slices to 1. If this is no slice, give the workflow another name than the template's."
    )


@pytest.mark.parametrize("workflow", [{}, {"awx_workflow_job_name": "GPU check, approve, deploy, verify"}])
def test_a_job_and_a_step_of_a_workflow_are_no_slices(workflow: dict[str, str]) -> None:
    assert LookupModule().run([], {"awx_job_template_name": "GPU deploy", **workflow}) == ["localhost"]
