# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import domain_users

from tests.unit.fakes import domains
from tests.unit.fakes.api import FakeApi
from tests.unit.fakes.domains import claim, domain, rank


def test_a_claim_holds_a_channel_from_its_allocation_to_the_end_of_its_pod() -> None:
    uid = domain()["metadata"]["uid"]
    assert domain_users.holds(claim(), uid) and domain_users.holds(claim(pods=()), uid)
    assert domain_users.holds(claim(allocation=None), uid), "reserved"
    assert not domain_users.holds(claim(pods=(), allocation=None), uid)
    assert not domain_users.holds(claim(uid="other"), uid)
    assert not domain_users.holds({**claim(), "spec": {"devices": {}}}, uid)


def test_users_are_pods_of_the_template_and_of_claims() -> None:
    named = {
        **rank(3, "gpu-3"),
        "spec": {"nodeName": "gpu-3", "resourceClaims": [{"resourceClaimName": "rank-0-channel"}]},
    }
    ended = {**named, "metadata": {"namespace": "research", "name": "over"}, "status": {"phase": "Succeeded"}}
    other = {**named, "metadata": {"namespace": "research", "name": "other"}}
    other["spec"] = {"resourceClaims": [{"resourceClaimName": "other"}]}
    pods = [other, rank(0, "gpu-0"), rank(1), rank(2, "gpu-2", phase="Succeeded"), named, ended]
    found = domain_users.found(domain(), pods, [claim(pods=["rank-0", "gone"])])
    assert found.pods == {
        "research/gone": "",
        "research/rank-0": "gpu-0",
        "research/rank-1": "",
        "research/rank-3": "gpu-3",
    }
    assert found.names[-1] == "claim research/rank-0-channel" and found.names[0] == "pod research/gone"


@pytest.mark.parametrize("is_served", [True, False])
def test_pods_and_claims_are_read(api: FakeApi, is_served: bool) -> None:
    domains.set_up(api)
    api.lists[domains.PODS] = [{**rank(0), "status": None}, {"metadata": {"name": "cpu"}, "spec": {}}]
    api.lists[domains.CLAIMS] = [claim(pods=())]
    if not is_served:
        api.lists = {path: items for path, items in api.lists.items() if "resource.k8s.io" not in path}
    found = domain_users.users(Cluster(api.connection), domain())
    assert found.pods == {"research/rank-0": ""}
    assert found.claims == (("research/rank-0-channel",) if is_served else ())
