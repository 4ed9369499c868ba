# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.node_view import NodeView

from tests.unit.fakes.api import DAEMONSETS, NODES, FakeApi

Json = dict[str, t.Any]


def second(node: Json) -> Json | None:
    """See only the second node, with another label."""
    return {**node, "seen": True} if node["metadata"]["name"] == "gpu-0001" else None


def test_lists_of_nodes_are_seen_otherwise_and_nothing_else_is(api: FakeApi) -> None:
    cluster = Cluster(api.connection)
    view = NodeView(cluster, second)
    found, version = view.large_list(NODES, lambda node: (node["metadata"]["name"], node["seen"]))
    assert found == [("gpu-0001", True)] and version == cluster.large_list(NODES, lambda node: node)[1]
    assert len(view.large_list(DAEMONSETS, lambda item: item)[0]) == len(api.lists[DAEMONSETS])
    assert cluster.large_list(NODES, lambda node: "seen" in node)[0] == [False, False]


def test_changes_of_hidden_nodes_are_hidden(api: FakeApi, monkeypatch: t.Any) -> None:
    events = [("MODIFIED", item) for item in api.lists[NODES]]
    monkeypatch.setattr(Cluster, "changes", lambda self, path, version, **selectors: (events, "7"))
    view = NodeView(Cluster(api.connection), second)
    found, version = view.changes(NODES, "1")
    assert [(kind, node["metadata"]["name"], node["seen"]) for kind, node in found] == [("MODIFIED", "gpu-0001", True)]
    assert version == "7" and view.changes(DAEMONSETS, "1") == (events, "7")


def test_its_writes_can_be_dry_runs(api: FakeApi) -> None:
    cluster = Cluster(api.connection)
    assert [NodeView(cluster, second, check).check_mode for check in (None, True)] == [False, True]
    assert NodeView(Cluster(api.connection, check_mode=True), second).check_mode and not cluster.check_mode


def test_a_rehearsal_asks_for_no_eviction(api: FakeApi, monkeypatch: t.Any) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Cluster, "evict", lambda self, namespace, pod, uid, grace_period_s: asked.append(pod))
    for check in (True, False):
        NodeView(Cluster(api.connection), second, check).evict("default", f"checks-{check}", "uid")
    assert asked == ["checks-False"]
