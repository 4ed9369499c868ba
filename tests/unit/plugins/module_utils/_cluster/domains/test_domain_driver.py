# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import domain_driver
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_driver import DomainController

from tests.unit.fakes import domains
from tests.unit.fakes.api import NODES, FakeApi
from tests.unit.fakes.domains import Json


def of_image(image: str) -> Json:
    pod = domains.controller()
    pod["spec"]["containers"] = [{"name": "sidecar", "image": "x:v25.1"}, {"name": "compute-domain", "image": image}]
    return pod


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0", True),
        ("mirror:5000/k8s-dra-driver-gpu:25.8.1-ubi9", True),
        ("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.5.0", False),
        ("mirror/dra-driver-nvidia-gpu@sha256:25ab", False),
    ],
)
def test_older_drivers_are_known_by_their_tag(image: str, found: bool) -> None:
    assert DomainController((of_image(image),)).writes_zero is found
    assert (
        not DomainController((of_image(image), domains.controller())).writes_zero
        and not DomainController(()).writes_zero
    )


def test_a_controller_that_is_being_deleted_is_not_ready() -> None:
    pod = domains.controller()
    assert DomainController((pod,)).is_ready
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not DomainController((pod,)).is_ready


@pytest.mark.parametrize("chart", ["dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu"])
def test_the_controller_of_the_drivers_own_chart_is_found(api: FakeApi, chart: str) -> None:
    domains.set_up(api)
    cluster = Cluster(api.connection)
    assert domain_driver.controller(cluster).pods == (domains.controller(),)
    own = domains.of_driver("own", **{f"{chart}-component": "controller"})
    api.lists[domains.ALL_PODS] = [domains.of_driver("p", **{f"{chart}-component": "kubelet-plugin"}), own]
    assert domain_driver.controller(cluster).pods == (own,)


def test_a_daemon_without_a_node_does_not_count(api: FakeApi) -> None:
    domains.set_up(api)
    api.lists[domains.ALL_PODS] += [
        domains.daemon("gpu-0"),
        domains.daemon("gpu-1", is_ready=False),
        domains.daemon(""),
    ]
    found = domain_driver.daemons(Cluster(api.connection), domains.UID)
    assert sorted(found) == ["gpu-0", "gpu-1"] and domain_driver.ready_nodes(found) == {"gpu-0"}


def test_nodes_of_other_domains_are_known(api: FakeApi) -> None:
    domains.set_up(api, 3)
    for number, uid in enumerate((domains.UID, "another")):
        api.lists[NODES][number] = domains.rack_node(number, **{domains.LABEL: uid})
    assert domain_driver.taken_nodes(Cluster(api.connection), domains.UID) == {"gpu-1"}


def test_nodes_are_read_with_what_they_offer(api: FakeApi) -> None:
    domains.set_up(api)
    older = api.lists[domains.SLICES][2]["spec"]["devices"][0]
    older["basic"] = {"attributes": {"gpu.nvidia.com/driverVersion": {"version": "580.95.5"}}}
    del older["attributes"]
    found = domain_driver.nodes(Cluster(api.connection))
    assert [(node.name, node.driver, node.has_channels) for node in found] == [
        ("gpu-0", (580, 95, 5), True),
        ("gpu-1", (580, 95, 5), True),
    ]
    api.lists = {path: items for path, items in api.lists.items() if "resource.k8s.io" not in path}
    assert [node.has_channels for node in domain_driver.nodes(Cluster(api.connection))] == [False, False]
