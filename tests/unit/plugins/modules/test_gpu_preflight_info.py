# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import cluster_reader, labels
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.checks import CHECKS
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import gpu_preflight_info
from inline_snapshot import snapshot as wording


@pytest.fixture
def info(run_module: t.Callable, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    def run(error: GpuOpsError | None = None, **options: t.Any) -> t.Any:
        def snapshot_of(cluster: object, namespace: str, review: bool, rbac_roles: list[dict]) -> Snapshot:
            if error:
                raise error
            missing = ["list nodes"] if review else []
            return Snapshot(
                "v1.36.3",
                [],
                [],
                [],
                [],
                [],
                None,
                missing,
                {f"{role['kind']} {role['name']}": ["get pods"] for role in rbac_roles},
            )

        monkeypatch.setattr(gpu_preflight_info, "Cluster", lambda options: None)
        monkeypatch.setattr(cluster_reader, "snapshot_of", snapshot_of)
        return run_module("gpu_preflight_info", **options)

    return run


def test_findings_never_fail_the_task(info: t.Callable) -> None:
    run = info()
    assert run.rc == 0 and run.result["changed"] is False and run.warnings == []
    assert run.result["summary"] == {"failures": 2, "warnings": 0, "ok": len(CHECKS) - 2}
    assert run.result["findings"][0]["check"] == "permissions" and run.result["findings"][0]["level"] == "failure"
    assert run.result["facts"]["kubernetes_version"] == "v1.36.3"
    assert run.result["missing_permissions"] == ["list nodes"]


def test_skipped_checks_do_not_run(info: t.Callable) -> None:
    run = info(skip=["permissions", "gpu_nodes"])
    assert run.result["summary"] == {"failures": 0, "warnings": 0, "ok": len(CHECKS) - 2}


def test_the_charts_roles_reach_their_check(info: t.Callable) -> None:
    roles = [{"kind": "Role", "name": "x", "rules": []}]
    found = {finding["check"]: finding for finding in info(roles=roles).result["findings"]}["role_grants"]
    assert found["level"] == "failure" and found["message"].endswith(": Role x (get pods).")
    assert info(roles=roles, skip=["role_grants"]).result["summary"]["failures"] == 2
    assert info(roles=[{"name": "x"}]).rc == 1


def test_options_reach_the_checks(info: t.Callable) -> None:
    run = info(operator_version="v25.10.1", values={"driver": {"enabled": False}}, namespace="other")
    messages = {finding["check"]: finding["message"] for finding in run.result["findings"]}
    assert (
        "25.10" in messages["kubernetes_version"]
        and "installed on the hosts" in messages["operating_system"]
        and "other" in messages["pod_security"]
    )


def test_errors_are_sentences(info: t.Callable) -> None:
    run = info(GpuOpsError("Cannot reach the Kubernetes API.", reason="Unreachable"))
    assert (run.rc, run.result["msg"]) == (1, wording("Cannot reach the Kubernetes API."))
    assert info(skip=["nonsense"]).rc == 1


def test_the_module_waits_for_labels_only_if_asked_to(info: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(labels, "wait_until_labelled", lambda cluster, timeout_s: waits.append(timeout_s))
    info()
    assert waits == []
    assert info(wait_timeout=7).rc == 0 and waits == [7]
    assert info(wait_timeout=-1).result["msg"] == "wait_timeout is -1: give 0 or more."
