# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The message for each refusal of the API server."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import POLICIES, FakeApi, refusal


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (refusal(401, "Unauthorized"), "Unauthorized", "refused the credentials (401)"),
        (refusal(403, "pods is forbidden"), "Forbidden", "pods is forbidden. Grant"),
        (refusal(409, "exists", "AlreadyExists"), "AlreadyExists", "refused PATCH"),
        (refusal(409, "was modified", "Conflict"), "Conflict", "refused PATCH"),
        (refusal(422, "spec is\n invalid."), "Invalid", "(422): spec is invalid."),
        (refusal(500, "etcdserver: no leader"), "ServerError", "failed on PATCH"),
        ((503, {}), "ServerError", "(503): {}."),
    ],
)
def test_a_refusal_is_one_sentence_with_a_reason(api: FakeApi, answer: t.Any, reason: str, message: str) -> None:
    cluster = Cluster(api.connection)
    api.answer = lambda method, path: answer
    with pytest.raises(GpuOpsError) as e:
        cluster.merge(POLICIES + "/x", {"metadata": {}})
    assert e.value.reason == reason and message in e.value.msg and e.value.details["status"] == answer[0]
