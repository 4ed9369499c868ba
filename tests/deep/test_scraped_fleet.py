# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Prometheus reads the exporters of 200 nodes, with the fields and the alerts that the module sets up."""

from __future__ import annotations

import collections
import json
import time
import typing as t

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_objects import RELABELINGS

from lab import prometheus
from lab.cluster import Options
from lab.errors import UnavailableError
from lab.prometheus import Prometheus
from tests.support.ansible import Playbook, on
from tests.support.labs import running_lab
from tests.support.monitoring import scrape_configuration

pytestmark = pytest.mark.deep

NODES, GPUS = 200, 8
HOLDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "holder", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": str(GPUS)}}}]},
}
"""A pod with all GPUs of a node."""
IDLE_C, BUSY_C = 34, 61
"""Temperatures in the lab: of a GPU in use, that of the first one."""


def answer(ansible: Playbook, module: str, **options: t.Any) -> dict[str, t.Any]:
    run = ansible.module(f"gpuops.nvidia.{module}", **options)
    assert run.status == 0, run.output
    return dict(json.loads(run.output.partition("=> ")[2]))


def until(condition: t.Callable[[], object], timeout: float = 180) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"The condition was not met within {timeout:.0f} s."
        time.sleep(2)


def by_node(server: Prometheus, expression: str) -> dict[str, float]:
    return {each["metric"]["node"]: float(each["value"][1]) for each in server.values(expression)}


@pytest.mark.slow("a stack of 200 nodes comes up, and all exporters are replaced")
def test_a_prometheus_reads_all_exporters_with_all_rules() -> None:
    with running_lab("scraped", Options(nodes=NODES, pods="instant")) as lab:
        lab.deploy(timeout=1200)
        ansible = on(lab)
        lab.kubectl("create", "--filename=-", stdin=json.dumps(HOLDER))
        lab.kubectl("wait", "--for=condition=Ready", "pod/holder", "--timeout=60s")
        holder = lab.kubectl("get", "pod", "holder", "--output=jsonpath={.spec.nodeName}")
        made = answer(ansible, "gpu_monitoring", wait=False)
        # One exporter after the other takes longer than a test may wait for a module.
        lab.kubectl("rollout", "status", "daemonset/nvidia-dcgm-exporter", "--namespace=gpu-operator", timeout=900)
        groups = yaml.safe_load(made["rules"])["groups"]
        configuration = scrape_configuration(lab, RELABELINGS)
        configuration["global"] = {"scrape_interval": "10s", "evaluation_interval": "5s"}
        try:
            with prometheus.running(configuration, {"groups": groups}) as server:
                until(lambda: len(by_node(server, f"gpuops:node_gpus:count == {GPUS}")) == NODES)
                assert_read(server, made, holder)
        except UnavailableError as reason:
            pytest.skip(str(reason))


def assert_read(server: Prometheus, made: dict[str, t.Any], holder: str) -> None:
    """Every target answers, each field has a value for each GPU, values are the lab's, and no rule fails or fires."""
    targets = server.ask("targets")["activeTargets"]
    assert [target["lastError"] for target in targets if target["health"] != "up"] == [] and len(targets) == NODES
    for field in made["metrics"]:
        if not field.startswith("DCGM_EXP_"):
            assert set(by_node(server, f"count by (node) ({field})").values()) == {GPUS}, field
    coldest = by_node(server, "min by (node) (DCGM_FI_DEV_GPU_TEMP)")
    assert coldest.pop(holder) == BUSY_C and collections.Counter(coldest.values()) == {IDLE_C: NODES - 1}
    held = server.values('DCGM_FI_DEV_FB_USED{pod="holder"}')
    assert {(each["metric"]["node"], each["metric"]["namespace"]) for each in held} == {(holder, "default")}
    assert len(held) == GPUS
    rules = [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]
    assert [rule["name"] for rule in rules if rule["health"] != "ok" or rule.get("lastError")] == []
    assert {rule["name"] for rule in rules if rule["type"] == "alerting"} == set(made["alerts"])
    assert server.alerts() == []
