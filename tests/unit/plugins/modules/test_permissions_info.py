# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from tests.unit.fakes.api import POLICIES, FakeApi, refusal

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_everything_that_is_missing_is_named_and_nothing_fails(run_module: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: (201, {"status": {"allowed": False}}) if path == REVIEWS else None
    run = run_module("permissions_info", **api.connection, operations=["quota", "evict"])
    assert (run.rc, run.result["changed"], run.result["namespace"]) == (0, False, "gpu-operator")
    quotas = [f"{verb} resourcequotas in gpu-operator" for verb in ("get", "create", "patch")]
    assert run.result["missing_permissions"] == [*quotas, "create pods/eviction"]
    assert "get, create, patch resourcequotas in gpu-operator; create pods/eviction." in run.result["message"]
    assert {path for dummy, path, query in api.log} == {POLICIES, REVIEWS}


def test_nothing_is_missing_for_an_administrator(run_module: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: (201, {"status": {"allowed": True}}) if path == REVIEWS else None
    run = run_module("permissions_info", **api.connection, operations=["deploy"], namespace="other")
    assert (run.result["missing_permissions"], run.result["message"]) == ([], "")
    assert [path for dummy, path, query in api.log] == [REVIEWS]


def test_an_error_is_a_sentence(run_module: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: refusal(403, "reviews are forbidden", "Forbidden") if path == REVIEWS else None
    run = run_module("permissions_info", **api.connection, operations=["drain"], namespace="other")
    assert run.rc == 1 and run.result["msg"].startswith("No permission: reviews are forbidden.")


def test_an_unknown_operation_is_refused(run_module: t.Callable, api: FakeApi) -> None:
    assert run_module("permissions_info", **api.connection, operations=["conquer"]).rc == 1
