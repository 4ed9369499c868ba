# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answers of the API server: which requests are sent again, and the message for each refusal."""

from __future__ import annotations

import http.server
import threading
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as api_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import ALL_PODS, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import Json, workload


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the first ``refusals`` requests for /thing with 429."""

    refusals = 0
    asked: t.ClassVar[list[str]] = []

    def _answer(self) -> None:
        status, body = 200, b'{"kind": "APIGroupList", "groups": []}'
        if self.path == "/thing":
            self.asked.append(self.command)
            if len(self.asked) <= self.refusals:
                status, body = 429, b'{"message": "storage is (re)initializing"}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "0.01")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Cluster]:
    monkeypatch.setattr(Handler, "asked", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Cluster({"host": f"http://127.0.0.1:{server.server_port}", "api_key": "x"})
        server.shutdown()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_throttled_request_is_sent_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(Handler, "refusals", 2)
    assert b"groups" in cluster.request(method, "/thing")
    assert Handler.asked == [method] * 3


def test_a_post_is_sent_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "refusals", 1)
    with pytest.raises(GpuOpsError, match="storage is") as e:
        cluster.request("POST", "/thing", body={})
    assert e.value.reason == "TooManyRequests" and Handler.asked == ["POST"]


def test_a_request_is_not_sent_again_forever(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "refusals", 1000)
    monkeypatch.setattr(api_module, "THROTTLED_S", 0.05)
    with pytest.raises(GpuOpsError, match="storage is") as e:
        cluster.request("GET", "/thing")
    assert e.value.reason == "TooManyRequests" and 1 < len(Handler.asked) < 10


# Messages for refusals


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (refusal(401, "Unauthorized"), "Unauthorized", "refused the credentials (401)"),
        (refusal(403, "pods is forbidden"), "Forbidden", "No permission: pods is forbidden. Grant it to this user"),
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


def test_a_missing_object_is_none(api: FakeApi) -> None:
    cluster = Cluster(api.connection)
    assert cluster.get(POLICIES + "/nothing") is None and cluster.list("/apis/example.com/v1/things") is None
    assert cluster.delete(POLICIES + "/nothing") is False


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "HAS_KUBERNETES", False)
    with pytest.raises(GpuOpsError, match=r"kubernetes >= 29\.0\.0") as e:
        Cluster({})
    assert e.value.reason == "LibraryMissing"


def test_large_collections_are_read_in_pages(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        {"items": [workload("a"), workload("b")], "metadata": {"continue": "more"}},
        {"items": [workload("c")], "metadata": {}},
    ]
    api.answer = lambda method, path: (200, pages.pop(0)) if path == ALL_PODS else None
    read: list[Json] = list(Cluster(api.connection).pages(ALL_PODS))
    assert [item["metadata"]["name"] for item in read] == ["a", "b", "c"]
    queries = [query for dummy, path, query in api.log if path == ALL_PODS]
    assert [query.get("continue") for query in queries] == [None, "more"]
    assert {query["limit"] for query in queries} == {str(api_module.PAGE)}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("v1", None, "nodes"), "/api/v1/nodes"),
        (("v1", "ml", "pods", "a b"), "/api/v1/namespaces/ml/pods/a%20b"),
        (("apps/v1", "gpu-operator", "daemonsets"), "/apis/apps/v1/namespaces/gpu-operator/daemonsets"),
    ],
)
def test_paths(arguments: tuple[t.Any, ...], path: str) -> None:
    assert api_module.namespaced(*arguments) == path


@pytest.mark.parametrize("name", ["authorization", "BearerToken"])
def test_the_token_is_sent_whichever_name_the_client_stores_it_under(cluster: Cluster, name: str) -> None:
    """Versions 29 to 36 of the client call it ``authorization``, and 37 ``BearerToken``."""
    configuration = cluster._api.configuration
    configuration.api_key, configuration.api_key_prefix = {name: "token-1"}, {name: "Bearer"}
    assert cluster._token() == {"authorization": "Bearer token-1"}
    configuration.api_key = {}
    assert cluster._token() == {}
