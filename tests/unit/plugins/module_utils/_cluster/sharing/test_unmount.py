# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import unmount
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

PLUGIN = "nvidia-device-plugin-daemonset"
MOUNTED = {"volumes": [{"name": "config", "configMap": {"name": "gpuops-sharing"}}, {"name": "x", "emptyDir": {}}]}


class FakeCluster:
    """DaemonSets and pods of the operator's namespace."""

    def __init__(self, daemonsets: list[dict], pods: list[dict]) -> None:
        self.daemonsets, self.pods = daemonsets, pods

    def list(self, path: str, **selectors: str) -> list[dict]:
        return self.daemonsets if path.endswith("daemonsets") else self.pods


def daemonset(name: str = PLUGIN, spec: dict | None = None) -> dict:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": spec or {}}}}


def pod(number: int, spec: dict | None = None, phase: str = "Running", ends: bool = False) -> dict:
    metadata = {"name": f"{PLUGIN}-{number}", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if ends else {})}
    return {"metadata": metadata, "spec": {"nodeName": f"gpu-{number:04}", **(spec or {})}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("daemonsets", "pods", "left"),
    [
        ([], [], []),
        ([daemonset()], [pod(0)], []),
        ([daemonset("other", MOUNTED)], [pod(0)], []),
        ([daemonset(spec=MOUNTED)], [pod(0)], [f"DaemonSet {PLUGIN}"]),
        ([daemonset()], [pod(0), pod(1, MOUNTED)], [f"pod {PLUGIN}-1 on gpu-0001"]),
        ([daemonset()], [pod(1, MOUNTED, ends=True), pod(2, MOUNTED, "Failed")], []),
    ],
)
def test_only_who_mounts_the_config_map_is_waited_for(daemonsets: list, pods: list, left: list[str]) -> None:
    found = unmount.mounting(t.cast(t.Any, FakeCluster(daemonsets, pods)), "gpu-operator", "gpuops-sharing")
    assert found == left


@pytest.mark.parametrize("stuck", [True, False])
def test_the_pod_that_cannot_end_is_named(leaps: object, monkeypatch: pytest.MonkeyPatch, stuck: bool) -> None:
    monkeypatch.setattr(waiting, "POLL_S", 2.0)
    pods = [pod(0, MOUNTED), *([pod(3, MOUNTED, ends=True)] if stuck else [])]
    scene = types.SimpleNamespace(
        cluster=FakeCluster([daemonset()], pods),
        namespace="gpu-operator",
        store=types.SimpleNamespace(name="gpuops-sharing"),
        request=types.SimpleNamespace(timeout_s=10),
        fleet=types.SimpleNamespace(interruption=types.SimpleNamespace(check=lambda: None)),
    )
    with pytest.raises(GpuOpsError) as error:
        unmount.wait(t.cast(t.Any, scene))
    assert error.value.reason == "TimedOut" and ("gpu-0003" in error.value.msg) is stuck
    if stuck:
        assert error.value.msg == wording(
            "The ConfigMap gpuops-sharing is still mounted after 10 s: pod nvidia-device-plugin-daemonset-0 on gpu-0000. pod nvidia-device-plugin-daemonset-3 on gpu-0003 cannot end, which holds up the others: delete it with --force. Run it again when they have been replaced."
        )


def test_the_wait_ends_when_nobody_mounts_it() -> None:
    scene = types.SimpleNamespace(
        cluster=FakeCluster([], []),
        namespace="gpu-operator",
        store=types.SimpleNamespace(name="gpuops-sharing"),
        request=types.SimpleNamespace(timeout_s=10),
        fleet=types.SimpleNamespace(interruption=types.SimpleNamespace(check=lambda: None)),
    )
    unmount.wait(t.cast(t.Any, scene))
