# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller of the ClusterPolicy."""

from __future__ import annotations

import typing as t

import pytest

from lab.cluster.operator.standin.controllers.policy import Reconciler, oldest
from lab.cluster.operator.standin.render import service_monitor
from tests.lab.cluster.operator.standin.builders import Json, site

MONITORS = "/apis/monitoring.coreos.com/v1/namespaces/gpu-operator/servicemonitors"
ON = {"serviceMonitor": {"enabled": True}}


def test_the_oldest_policy_counts() -> None:
    items = [
        {"metadata": {"name": name, "creationTimestamp": moment}}
        for name, moment in (("c", "2"), ("b", "1"), ("a", "1"))
    ]
    found = oldest(items)
    assert found is not None
    assert found["metadata"]["name"] == "a"


class Monitors:
    """An API with ServiceMonitors, or without that kind. It remembers what is written."""

    def __init__(self, *items: Json, served: bool = True) -> None:
        self._items, self._served = list(items), served
        self.written: list[tuple[str, str, Json | None]] = []

    def get(self, path: str) -> Json | None:
        assert path == MONITORS
        return {"items": self._items} if self._served else None

    def create(self, path: str, body: Json) -> None:
        self.written.append(("POST", path, body))

    def request(self, method: str, path: str, body: Json) -> None:
        self.written.append((method, path, body))

    def delete(self, path: str) -> None:
        self.written.append(("DELETE", path, None))


def kept(spec: Json | None = None, labels: Json | None = None) -> Json:
    """Return the ServiceMonitor as the API has it, after somebody has changed its spec or its labels."""
    made = monitor()
    made["metadata"] |= {"resourceVersion": "7", **({} if labels is None else {"labels": labels})}
    return made if spec is None else {**made, "spec": spec}


def reconcile(api: Monitors, **exporter: t.Any) -> list[tuple[str, str, Json | None]]:
    Reconciler(t.cast(t.Any, api), "gpu-operator", {}, {})._service_monitor(site(dcgmExporter=exporter))
    return api.written


def monitor() -> Json:
    made = service_monitor(site(dcgmExporter=ON))
    assert made is not None
    return made


def test_the_monitor_comes_and_goes_with_the_policy() -> None:
    other = {"metadata": {"name": "other"}}
    assert reconcile(Monitors(other), **ON) == [("POST", MONITORS, monitor())]
    assert reconcile(Monitors(kept()), **ON) == []
    assert reconcile(Monitors(kept())) == [("DELETE", f"{MONITORS}/nvidia-dcgm-exporter", None)]
    assert reconcile(Monitors(other)) == []


@pytest.mark.parametrize("change", [{"spec": {}}, {"labels": {}}])
def test_a_monitor_that_somebody_has_changed_is_put_back(change: Json) -> None:
    wanted = monitor()
    metadata = {**wanted["metadata"], "resourceVersion": "7"}
    path = f"{MONITORS}/nvidia-dcgm-exporter"
    assert reconcile(Monitors(kept(**change)), **ON) == [("PUT", path, {**wanted, "metadata": metadata})]


def test_without_the_kind_nothing_is_written() -> None:
    assert reconcile(Monitors(served=False), **ON) == []
