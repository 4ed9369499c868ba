# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import driver_image_info

from tests.unit.fakes.modules import RunModule


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, t.Any]]:
    """The options with which the cluster was looked at."""
    seen: list[dict[str, t.Any]] = []

    def look(cluster: object, options: dict[str, t.Any]) -> dict[str, t.Any]:
        seen.append(options)
        if options["policy_name"] == "none":
            raise GpuOpsError("There is no ClusterPolicy none.", reason="NotFound")
        return {"changed": False, "nodes": {key: {"image": "x"} for key in options["kernels"]}}

    monkeypatch.setattr(driver_image_info, "Cluster", lambda options: None)
    monkeypatch.setattr(kernels, "look", look)
    return seen


def test_options_and_result(asked: list[dict[str, t.Any]], run_module: RunModule) -> None:
    run = run_module("driver_image_info", kernels={"gpu-0": "6.8"}, registry={"mode": "lenient"})
    assert (run.rc, run.result["nodes"], run.result["changed"]) == (0, {"gpu-0": {"image": "x"}}, False)
    assert asked[0]["registry"]["mode"] == "lenient" and asked[0]["registry"]["timeout"] == 10


def test_errors_are_sentences(asked: list[dict[str, t.Any]], run_module: RunModule) -> None:
    failed = run_module("driver_image_info", kernels={}, policy_name="none").result
    assert (failed["msg"], failed["reason"]) == ("There is no ClusterPolicy none.", "NotFound")
    assert "missing required arguments: kernels" in run_module("driver_image_info").result["msg"]
