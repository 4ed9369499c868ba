# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts whose nodes offer GPUs by claims, from the API to the variables."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.inventory import node_hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import claimed
from tests.unit.fakes.api import ALL_PODS, NODES, FakeApi, refusal
from tests.unit.fakes.stack import Json, workload


def unexpected(sentence: str) -> None:
    raise AssertionError(sentence)


def rows(api: FakeApi, free: bool = False, said: list[str] | None = None) -> list[Json]:
    """Return the variables of the hosts. Without a list for them, warnings are errors."""
    warn = unexpected if said is None else said.append
    made = node_hosts.hosts(Cluster(api.connection), {}, True, free, ("InternalIP",), warn)
    return [host["variables"]["gpu_node"] for host in made]


@pytest.fixture
def by_claims(api: FakeApi) -> FakeApi:
    """Two nodes that offer their GPUs by claims. On the second one, a GPU is divided."""
    divided = (claimed.gpu(0), claimed.mig(1, 0), claimed.mig(1, 4))
    api.lists[NODES] = [claimed.claim_node(number) for number in range(2)]
    api.lists |= {
        claimed.SLICES: [claimed.slice_of(0), claimed.slice_of(1, *divided)],
        claimed.CLAIMS: [],
        ALL_PODS: [],
    }
    return api


def test_what_is_offered_by_claims_stands_beside_what_a_device_plugin_offers(by_claims: FakeApi) -> None:
    whole, divided = rows(by_claims)
    assert (whole["product"], whole["gpus"], whole["memory_mib"]) == ("NVIDIA-H100-80GB-HBM3", 2, 81559)
    assert whole["capacity"] == whole["allocatable"] == {"gpu.nvidia.com": 2}
    assert divided["allocatable"] == {"gpu.nvidia.com": 1, "mig.nvidia.com": 2} and divided["gpus"] == 2
    assert [(each["type"], each["profile"]) for each in divided["devices"]] == [
        ("gpu", None), ("mig", "1g.10gb"), ("mig", "1g.10gb"),
    ]  # fmt: skip
    assert whole["claimable"] and whole["state"] == divided["state"] == "ready"
    assert [
        path for dummy, path, dummy in by_claims.log if path.startswith("/apis/resource.k8s.io") and path.count("/") > 3
    ] == [claimed.SLICES]


def test_claims_hold_devices_and_the_others_are_free(by_claims: FakeApi) -> None:
    by_claims.lists[claimed.CLAIMS] = [
        claimed.claim("a", "gpu-0000", "gpu-1", pods=["train"]),
        claimed.claim("monitor", "gpu-0000", "gpu-0", admin=True),
        claimed.claim("b", "gpu-0001", "gpu-1-mig-1g10gb-19-4", pods=["notebook"]),
    ]
    whole, divided = rows(by_claims, free=True)
    assert (whole["allocated"], whole["free"]) == ({"gpu.nvidia.com": 1}, {"gpu.nvidia.com": 1})
    assert divided["allocated"] == {"gpu.nvidia.com": 0, "mig.nvidia.com": 1}
    assert divided["free"] == {"gpu.nvidia.com": 1, "mig.nvidia.com": 1}
    assert [claim["pods"] for claim in whole["devices"][1]["claims"]] == [["train"]]


def test_a_pod_with_a_claim_counts_once(by_claims: FakeApi) -> None:
    pod = workload("train", 0)
    pod["spec"] |= {"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}]}
    by_claims.lists[ALL_PODS] = [pod]
    by_claims.lists[claimed.CLAIMS] = [claimed.claim("a", "gpu-0000", "gpu-0", pods=["train"])]
    assert rows(by_claims, free=True)[0]["allocated"] == {"gpu.nvidia.com": 1}


def test_taints_of_devices_count_against_a_node(by_claims: FakeApi) -> None:
    sick = {**claimed.gpu(0), "taints": [claimed.taint()]}
    by_claims.lists[claimed.SLICES] = [claimed.slice_of(0, sick, claimed.gpu(1)), claimed.slice_of(1, sick)]
    some, none = rows(by_claims, free=True)
    assert (some["state"], some["allocatable"], some["free"]) == (
        "degraded",
        {"gpu.nvidia.com": 1},
        {"gpu.nvidia.com": 1},
    )
    assert (none["state"], none["claimable"], none["free"]) == ("without_gpus", False, {"gpu.nvidia.com": 0})
    assert none["devices"][0]["taints"] == ["gpu.nvidia.com/xid=79:NoSchedule"]


def test_a_cordoned_node_gives_no_claim_a_device(by_claims: FakeApi) -> None:
    by_claims.lists[NODES][0]["spec"]["unschedulable"] = True
    assert rows(by_claims, free=True)[0]["free"] == {}


def test_products_that_differ_are_no_product_of_the_node(by_claims: FakeApi) -> None:
    by_claims.lists[claimed.SLICES] = [claimed.slice_of(0, claimed.gpu(0), claimed.gpu(1, productName="NVIDIA L4"))]
    row = rows(by_claims)[0]
    assert (row["product"], [each["product"] for each in row["devices"]]) == (
        None,
        ["NVIDIA H100 80GB HBM3", "NVIDIA L4"],
    )


def test_the_labels_of_a_node_with_a_device_plugin_count(api: FakeApi) -> None:
    api.lists[claimed.SLICES] = [claimed.slice_of(0, claimed.gpu(0, productName="NVIDIA L4"))]
    row = rows(api)[0]
    assert (row["product"], row["gpus"], row["state"]) == ("NVIDIA-H100-80GB-HBM3", 8, "ready")
    assert row["allocatable"] == {"nvidia.com/gpu": 8, "gpu.nvidia.com": 1}


@pytest.mark.parametrize("free", [False, True])
def test_without_the_right_to_list_slices_the_rest_is_read_as_before(by_claims: FakeApi, free: bool) -> None:
    by_claims.answer = lambda method, path: refusal(403, "no slices") if path == claimed.SLICES else None
    said: list[str] = []
    row = rows(by_claims, free, said=said)[0]
    assert (row["state"], row["claimable"], row["devices"], row["allocatable"]) == ("without_gpus", None, None, {})
    assert len(said) == 1 and "no slices" in said[0]


def test_a_cluster_whose_nodes_have_other_gpus_gets_no_warning(api: FakeApi) -> None:
    api.lists[claimed.SLICES] = []
    api.answer = lambda method, path: refusal(403, "no slices") if path == claimed.SLICES else None
    assert rows(api, free=True)[0]["free"] == {"nvidia.com/gpu": 8}


def test_without_the_right_to_list_claims_no_device_is_free(by_claims: FakeApi) -> None:
    by_claims.answer = lambda method, path: refusal(403, "no claims") if path == claimed.CLAIMS else None
    said: list[str] = []
    row = rows(by_claims, free=True, said=said)[0]
    assert (row["free"], row["allocated"], row["devices"][0]["claims"]) == ({}, {}, None)
    assert len(said) == 1 and "no claims" in said[0]


def test_an_error_of_the_api_server_is_an_error(by_claims: FakeApi) -> None:
    by_claims.answer = lambda method, path: refusal(422, "odd") if path == claimed.CLAIMS else None
    with pytest.raises(GpuOpsError):
        rows(by_claims, free=True)
