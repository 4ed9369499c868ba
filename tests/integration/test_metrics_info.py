# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu_metrics_info and the report on the lab: what the exporters say, and what a real Prometheus has of them."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import usage

from lab import prometheus
from lab.cluster import Lab
from lab.errors import UnavailableError
from tests.support.ansible import Playbook
from tests.support.monitoring import scrape_configuration

pytestmark = pytest.mark.slow("a stack comes up, and a Prometheus scrapes it")

MODULE = "gpuops.nvidia.gpu_metrics_info"
REPORT = Path(__file__).resolve().parents[2] / "playbooks" / "report.yml"
HOLDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "holder", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
}
"""A pod with two GPUs."""


@pytest.fixture
def holder(lab: Lab, ansible: Playbook) -> t.Iterator[str]:
    """A stack that is ready, and the node on which a pod holds two GPUs."""
    ansible.set_up("stack")
    lab.kubectl("create", "--filename=-", stdin=json.dumps(HOLDER))
    try:
        lab.kubectl("wait", "--for=condition=Ready", "pod/holder", "--timeout=60s")
        yield lab.kubectl("get", "pod", "holder", "--output=jsonpath={.spec.nodeName}")
    finally:
        lab.kubectl("delete", "pod", "holder", "--wait=false", "--grace-period=0", "--force")


def read(ansible: Playbook, **options: t.Any) -> dict[str, t.Any]:
    run = ansible.module(MODULE, **options)
    assert run.status == 0, run.output
    return dict(json.loads(run.output.partition("=> ")[2]))


def held(result: dict[str, t.Any]) -> list[str]:
    """Return the node of each GPU that the pod holds."""
    return [gpu["node"] for gpu in result["gpus"] if {pod["pod"] for pod in gpu["pods"] or []} == {"holder"}]


def until_named(ansible: Playbook, node: str, **options: t.Any) -> dict[str, t.Any]:
    """Return a result that names the pod and has all nodes.

    The exporters look for pods from time to time, and a Prometheus that has just started scrapes one after the other.
    """
    deadline = time.monotonic() + 30
    while True:
        result = read(ansible, **options)
        is_whole = held(result) == [node, node] and all(row["ok"] for row in result["nodes"])
        if is_whole or time.monotonic() > deadline:
            return result
        time.sleep(0.5)


def page(ansible: Playbook, folder: Path, **variables: t.Any) -> str:
    """Return the report, for which it is known how much the GPUs are used."""
    path = folder / "fleet.html"
    run = ansible.run(REPORT, report_path=str(path), report_price_per_gpu_hour=2, **variables)
    assert run.status == 0, run.output
    text = path.read_text()
    shown, dummy, gaps = text.partition('id="gaps"')
    assert 'id="idle"' in shown and usage.WHAT not in gaps, gaps[:1000]
    return text


def test_what_gpus_do_and_who_holds_them(lab: Lab, ansible: Playbook, holder: str, tmp_path: Path) -> None:
    result = until_named(ansible, holder, price_per_gpu_hour=2, idle_below=100)
    assert [row for row in result["nodes"] if not row["ok"]] == [] and result["summary"]["nodes"] == 4
    assert len(result["gpus"]) == result["summary"]["gpus"] == 32
    assert held(result) == [holder, holder] and result["unnamed_pods"] == []
    assert {"utilisation", "memory_used_mib", "power_w"}.isdisjoint(row["field"] for row in result["unknown"])
    (namespace,) = (row for row in result["namespaces"] if row["namespace"] == "default")
    assert (namespace["gpus"], namespace["idle"]) == (2, 2)
    assert {(row["node"], row["cost_per_hour"]) for row in result["idle_holders"]} == {(holder, 2.0)}
    assert result["idle_holders"][0]["cost"] is None
    assert "Utilisation now" in page(ansible, tmp_path, report_usage=True)

    try:
        with prometheus.running(scrape_configuration(lab, [], honor_labels=False)) as server:
            asked = {"prometheus": {"url": server.url, "range": "5m"}, "price_per_gpu_hour": 12, "idle_below": 100}
            remembered = until_named(ansible, holder, **asked)
            of_past = page(ansible, tmp_path, report_prometheus={"url": server.url, "range": "3h"})
    except UnavailableError as reason:
        pytest.skip(str(reason))
    assert [row for row in remembered["nodes"] if not row["ok"]] == [] and len(remembered["gpus"]) == 32
    # The scraped pod is the exporter's: of the other GPUs, nobody is the holder.
    assert held(remembered) == [holder, holder] and remembered["summary"]["free"] == 30
    assert "Utilisation over 3 hours" in of_past
    assert [(row["hours"], row["cost"]) for row in remembered["idle_holders"]] == [(0.08, 0.96)] * 2
    compared = ("node", "gpu", "uuid", "model", "utilisation_from", "memory_total_mib")
    assert [[row[field] for field in compared] for row in remembered["gpus"]] == [
        [row[field] for field in compared] for row in result["gpus"]
    ]
