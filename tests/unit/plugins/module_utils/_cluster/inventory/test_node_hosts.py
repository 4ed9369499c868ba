# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.inventory import node_hosts

from tests.unit.fakes.api import ALL_PODS, NODES, FakeApi
from tests.unit.fakes.health import with_health
from tests.unit.fakes.stack import Json, cpu_node, node, workload

UPGRADE, MIG, PAUSE = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/mig.config.state", "nvidia.com/gpu.deploy.dcgm"
ADDRESSES = ("InternalIP", "Hostname")


@pytest.mark.parametrize(
    ("labels", "change", "state"),
    [
        ({}, {}, "ready"),
        ({UPGRADE: "upgrade-required"}, {}, "ready"),
        ({UPGRADE: "drain-required"}, {"cordoned": True}, "upgrading"),
        ({UPGRADE: "upgrade-failed"}, {"cordoned": True}, "failed"),
        ({MIG: "pending"}, {}, "dividing"),
        ({MIG: "failed"}, {}, "failed"),
        ({PAUSE: "paused-for-mig-change"}, {}, "dividing"),
        ({}, {"cordoned": True}, "cordoned"),
        ({}, {"allocatable": "0"}, "without_gpus"),
        ({}, {"allocatable": "7"}, "degraded"),
        ({UPGRADE: "drain-required"}, {"ready": "Unknown"}, "down"),
    ],
)
def test_the_state_of_a_node_in_one_word(labels: dict[str, str], change: Json, state: str) -> None:
    made = node()
    made["metadata"]["labels"] |= labels
    made["spec"]["unschedulable"] = change.get("cordoned", False)
    made["status"]["allocatable"]["nvidia.com/gpu"] = change.get("allocatable", "8")
    made["status"]["conditions"][0]["status"] = change.get("ready", "True")
    assert node_hosts.state_of(made) == state


def test_a_host_has_what_its_node_says() -> None:
    made = node()
    labels = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}
    made["metadata"]["labels"] |= {**labels, "node.kubernetes.io/instance-type": "p5"}
    made["status"]["addresses"] = [
        {"type": "Hostname", "address": "gpu-0000.example.com"},
        {"type": "InternalIP", "address": "192.0.2.7"},
        {"type": "InternalIP", "address": "2001:db8::7"},
    ]
    host = node_hosts.host_of(made, ADDRESSES)
    row = host["variables"]["gpu_node"]
    assert (host["name"], host["variables"]["ansible_host"]) == ("gpu-0000", "192.0.2.7")
    assert (row["zone"], row["region"], row["instance_type"]) == ("a", "r", "p5")
    assert (row["product"], row["gpus"], row["driver"]) == ("NVIDIA-H100-80GB-HBM3", 8, "595.91.07")
    assert row["addresses"] == {"Hostname": ["gpu-0000.example.com"], "InternalIP": ["192.0.2.7", "2001:db8::7"]}
    assert "waiting_for" not in row and row["labels"]["nvidia.com/gpu.present"] == "true"
    assert node_hosts.host_of(made, ["Hostname"])["variables"]["ansible_host"] == "gpu-0000.example.com"
    assert "ansible_host" not in node_hosts.host_of(made, [])["variables"]


def names_of(hosts: t.Iterable[Json]) -> list[str]:
    return [host["name"] for host in hosts]


def read(
    api: FakeApi, free: bool = False, has_gpus: bool = True, said: list[str] | None = None, **selector: t.Any
) -> list[Json]:
    warn = said.append if said is not None else unexpected
    return node_hosts.hosts(Cluster(api.connection), selector, has_gpus, free, ADDRESSES, warn)


def unexpected(sentence: str) -> None:
    raise AssertionError(sentence)


def rows_of(hosts: t.Iterable[Json]) -> list[Json]:
    return [host["variables"]["gpu_node"] for host in hosts]


def test_one_request_reads_all_nodes(api: FakeApi) -> None:
    api.lists[NODES].append(cpu_node())
    assert names_of(read(api)) == ["gpu-0000", "gpu-0001"]
    assert [path for dummy, path, dummy in api.log if not path.startswith("/apis/resource.k8s.io")] == [NODES]
    assert names_of(read(api, has_gpus=False))[0] == "cpu-0000"
    read(api, pool="a", spot=True)
    assert api.log[-1][2]["labelSelector"] == "pool=a,spot=true"


def test_free_gpus_are_those_that_no_pod_holds_on_nodes_in_service(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 0), workload("train-1", 1)]
    api.lists[NODES][1]["spec"]["unschedulable"] = True
    rows = rows_of(read(api, free=True))
    held = rows[0]["allocated"]["nvidia.com/gpu"]
    assert held > 0 and rows[0]["free"] == {"nvidia.com/gpu": 8 - held}
    assert rows[1]["allocated"] and rows[1]["free"] == {}


def test_a_node_with_an_unhealthy_gpu_that_a_pod_holds_is_degraded_once_pods_are_read(api: FakeApi) -> None:
    sick = with_health(workload("train-0", 0), "nvidia.com/gpu", ("GPU-0", "Unhealthy"))
    api.lists[ALL_PODS] = [sick, with_health(workload("train-1", 1), "nvidia.com/gpu", ("GPU-0", "Unknown"))]
    assert [(row["state"], row["device_health"]) for row in rows_of(read(api))] == [("ready", None)] * 2
    first, second = rows_of(read(api, free=True))
    assert (first["state"], second["state"]) == ("degraded", "ready")
    assert [each["pod"] for row in (first, second) for each in row["device_health"]] == ["train-0", "train-1"]
    api.lists[NODES][0]["spec"]["unschedulable"] = True
    assert rows_of(read(api, free=True))[0]["state"] == "cordoned"
