# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Websockets act as the user of the connection. What they carry is tested with port forwarding."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import streams
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.answers import Handler


def test_a_stream_acts_as_the_impersonated_user_with_all_groups(url: str) -> None:
    """The server knows no websockets, and its refusal is an error like any other."""
    options = {"host": url, "api_key": "x", "impersonate_user": "ann", "impersonate_groups": ["ml", "ops"]}
    cluster = Cluster(options)
    Handler.answers += [(403, b'{"message": "ann may not"}', {})]
    with (
        pytest.raises(GpuOpsError, match="No permission: ann may not"),
        cluster.stream("/thing", "v4.channel.k8s.io", 5),
    ):
        pass
    seen = Handler.headers_seen[-1]
    assert ("impersonate-user", "ann") in seen and ("authorization", "Bearer x") in seen
    assert [value for name, value in seen if name == "impersonate-group"] == ["ml", "ops"]
    assert ("sec-websocket-protocol", "v4.channel.k8s.io") in seen


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_not_followed_because_the_token_would_go_along(url: str, status: int) -> None:
    elsewhere = f"{url.replace('http', 'ws', 1)}/elsewhere"
    Handler.answers += [(status, b"", {"Location": elsewhere, "Content-Length": "0"})]
    before = len(Handler.headers_seen)
    with (
        pytest.raises(OSError),
        Cluster({"host": url, "api_key": "x"}).stream("/thing", "v4.channel.k8s.io", 5) as made,
    ):
        made.receive(5)
    assert len(Handler.headers_seen) == before + 1


def test_a_missing_library_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HAS_WEBSOCKET", False)
    cluster = Cluster({"host": url, "api_key": "x"})
    with pytest.raises(GpuOpsError, match=r"kubernetes >= 29\.0\.0"), cluster.stream("/thing", "v4.channel.k8s.io", 5):
        pass
