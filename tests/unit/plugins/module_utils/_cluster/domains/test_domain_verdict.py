# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import domain_verdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_users import DomainUsers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_verdict import DomainView
from inline_snapshot import snapshot as wording

from tests.unit.fakes.domains import domain, status_of, template


def view(*nodes: t.Any, pods: t.Mapping[str, str] | None = None, **changes: t.Any) -> DomainView:
    given = {
        "domain": domain(*nodes),
        "template": template(),
        "users": DomainUsers(pods or {}),
        "daemons": {"gpu-0", "gpu-1"},
    }
    return DomainView(**{**given, **changes})


PODS = {"research/rank-0": "gpu-0", "research/rank-1": "gpu-1"}
BOTH = (status_of("gpu-0"), status_of("gpu-1"))


def test_a_domain_without_pods_is_idle_whatever_its_status_says() -> None:
    verdict = domain_verdict.judge(view())
    assert view().domain["status"]["status"] == "Ready" and verdict.state == "idle"
    assert verdict.message == wording(
        "ComputeDomain research/job has its template channel, and no pod uses it yet. Its daemons come with the pods, so whether nodes reach each other is unknown."
    )


def test_a_domain_is_ready_once_the_daemons_of_its_pods_are() -> None:
    verdict = domain_verdict.judge(view(*BOTH, pods=PODS))
    assert verdict.state == "ready" and verdict.message == wording(
        "ComputeDomain research/job is ready on the 2 nodes with its pods (NVLink clique 1a2b.1)."
    )
    assert verdict.as_result()["nodes"][0] == {
        "name": "gpu-0",
        "clique": "1a2b.1",
        "pods": ["research/rank-0"],
        "reason": "",
    }


def test_daemons_of_nodes_without_pods_do_not_count() -> None:
    verdict = domain_verdict.judge(view(*BOTH, status_of("gpu-2", "NotReady"), pods=PODS))
    assert verdict.state == "ready" and verdict.nodes[2]["reason"] == wording("its daemon is not ready")


def test_one_node_is_one() -> None:
    verdict = domain_verdict.judge(view(*BOTH, pods={"research/rank-0": "gpu-0"}))
    assert "on the 1 node with" in verdict.message


def test_nodes_without_nvlink_are_said() -> None:
    verdict = domain_verdict.judge(view(BOTH[0], status_of("gpu-1", clique=""), pods=PODS))
    assert verdict.state == "ready" and "are in no clique" in verdict.message
    verdict = domain_verdict.judge(view(BOTH[0], status_of("gpu-1", clique="1a2b.2"), pods=PODS))
    assert "2 NVLink cliques" in verdict.message


@pytest.mark.parametrize(
    ("nodes", "daemons", "reason"),
    [
        ([], set[str](), "no daemon has reported"),
        ([], {"gpu-0"}, wording("its daemon is ready, and not in the status yet")),
        ([status_of("gpu-0", "NotReady")], {"gpu-0"}, wording("its daemon is not ready")),
        ([status_of("gpu-0")], set[str](), wording("the pod of its daemon is not ready")),
    ],
)
def test_why_a_node_is_not_ready(nodes: t.Any, daemons: t.Any, reason: str) -> None:
    verdict = domain_verdict.judge(view(*nodes, pods={"research/rank-0": "gpu-0"}, daemons=daemons))
    assert (verdict.state, verdict.nodes[0]["reason"]) == ("progressing", reason)
    assert f"gpu-0 ({reason})" in verdict.message


@pytest.mark.parametrize(
    ("clique", "state", "warned"),
    [("1a2b.1", "Ready", False), ("1a2b.2", "Ready", True), ("", "Ready", True), ("1a2b.2", "NotReady", False)],
)
def test_pods_in_several_cliques_are_a_warning(clique: str, state: str, warned: bool) -> None:
    verdict = domain_verdict.judge(view(BOTH[0], status_of("gpu-1", state, clique), pods=PODS))
    found = domain_verdict.spread("research/job", verdict)
    assert [f"({clique or 'none'}, 1a2b.1)" in text or f"(1a2b.1, {clique})" in text for text in found] == [
        True
    ] * warned


def test_a_node_of_another_domain_is_said() -> None:
    verdict = domain_verdict.judge(view(*BOTH, pods=PODS, taken={"gpu-1"}))
    assert verdict.state == "progressing" and f"gpu-1 ({domain_verdict.IN_ANOTHER})" in verdict.message


def test_a_pod_without_a_node_is_waited_for() -> None:
    verdict = domain_verdict.judge(view(*BOTH, pods={**PODS, "research/rank-2": ""}))
    assert verdict.state == "progressing" and "for a node: research/rank-2" in verdict.message


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"domain": domain(finalizer=False)}, "not put its finalizer"),
        ({"template": None}, "made the template channel"),
        ({"template": template("uid-of-another")}, "another one has"),
        ({"has_controller": False}, "which does not run"),
    ],
)
def test_what_its_controller_has_not_accepted_is_pending(changes: t.Any, why: str) -> None:
    verdict = domain_verdict.judge(view(**changes))
    assert verdict.state == "pending" and why in verdict.message and verdict.state not in domain_verdict.SETTLED


def test_imex_of_the_hosts_is_unknown() -> None:
    verdict = domain_verdict.judge(view(pods=PODS, is_host_managed=True))
    assert verdict.state == "host_managed" and "run IMEX themselves" in verdict.message
