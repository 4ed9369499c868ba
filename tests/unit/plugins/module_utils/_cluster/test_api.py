# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answers of the API server: which requests are sent again, and the message for each refusal."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as api_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.answers import Handler
from tests.unit.fakes.api import ALL_PODS, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import Json, workload

BUSY = b'{"message": "storage is (re)initializing"}'


def busy(retry_after: str = "0.01") -> tuple[int, bytes, dict[str, str]]:
    return 429, BUSY, {"Retry-After": retry_after}


@pytest.fixture
def cluster(url: str) -> Cluster:
    return Cluster({"host": url, "api_key": "x"})


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that the code takes, without taking them."""
    pauses: list[float] = []
    monkeypatch.setattr(api_module.time, "sleep", pauses.append)
    return pauses


# Which requests are sent again


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "PATCH"])
def test_a_throttled_request_is_sent_again(cluster: Cluster, method: str) -> None:
    Handler.answers += [busy(), busy()]
    assert cluster.request(method, "/thing") == b"{}"
    assert Handler.asked == [f"{method} /thing"] * 3


def test_an_eviction_that_a_budget_forbids_is_sent_once(cluster: Cluster) -> None:
    Handler.answers += [busy()]
    with pytest.raises(GpuOpsError, match="storage is") as e:
        cluster.evict("ml", "train-0", "uid-1")
    assert e.value.reason == "TooManyRequests"
    assert Handler.asked == ["POST /api/v1/namespaces/ml/pods/train-0/eviction"]


def test_a_request_is_not_sent_again_forever(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    Handler.answers += [busy()] * 1000
    monkeypatch.setattr(api_module, "THROTTLED_S", 0.05)
    with pytest.raises(GpuOpsError, match="storage is") as e:
        cluster.request("GET", "/thing")
    assert e.value.reason == "TooManyRequests" and 1 < len(Handler.asked) < 10


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("0.5", 0.5),
        ("Sun, 22 Nov 2026 12:00:03 GMT", 3.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
        ("-5", 1.0),
        ("nan", 1.0),
        ("soon", 1.0),
        ("", 1.0),
    ],
)
def test_the_pause_is_what_the_api_server_asks_for_in_any_form(
    cluster: Cluster, slept: list[float], retry_after: str, pause_s: float
) -> None:
    Handler.answers += [busy(retry_after)]
    cluster.request("GET", "/thing")
    assert slept == [pause_s] and len(Handler.asked) == 2


def test_a_pause_that_is_too_long_is_not_taken(cluster: Cluster, slept: list[float]) -> None:
    Handler.answers += [busy("Mon, 23 Nov 2026 12:00:00 GMT")]
    with pytest.raises(GpuOpsError, match="storage is"):
        cluster.request("GET", "/thing")
    assert slept == []


# Answers that are not the API server's


PAGE = b"<html><head><title>503 Service\n Temporarily Unavailable</title></head><body><p>nginx</p></body></html>"


def test_a_load_balancers_503_is_one_sentence(cluster: Cluster) -> None:
    Handler.answers += [(503, PAGE, {"Retry-After": "Sun, 22 Nov 2026 13:00:00 GMT"})]
    with pytest.raises(GpuOpsError) as e:
        cluster.get("/thing")
    assert e.value.msg == ("The Kubernetes API failed on GET /thing (503): 503 Service Temporarily Unavailable.")
    assert e.value.reason == "ServerError" and e.value.details["status"] == 503


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<h1>Sign in</h1> <p>to go on</p>", "Sign in to go on"),
        (b"", "no message"),
        (b"[1]", "[1]"),
        (b"\xff\xfe" + b"x" * 5000, "\ufffd\ufffd" + "x" * 198),
    ],
)
def test_a_page_in_place_of_an_object_is_one_sentence(cluster: Cluster, body: bytes, words: str) -> None:
    Handler.answers += [(200, body, {})]
    with pytest.raises(GpuOpsError) as e:
        cluster.list("/thing")
    assert e.value.reason == "ServerError"
    assert f"something before it answered GET /thing: {words}. Check the server's address, the proxy" in e.value.msg


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster: list(cluster.pages("/thing")),
        lambda cluster: cluster.table("/thing"),
        lambda cluster: cluster.apply("/thing", {}),
        lambda cluster: cluster.create("/thing", {}),
        lambda cluster: cluster.merge("/thing", {}),
    ],
)
def test_no_request_for_an_object_takes_a_page(cluster: Cluster, call: t.Callable[[Cluster], t.Any]) -> None:
    Handler.answers += [(200, PAGE, {})]
    with pytest.raises(GpuOpsError, match="something before it answered"):
        call(cluster)


def test_a_missing_object_is_none(api: FakeApi) -> None:
    cluster = Cluster(api.connection)
    assert cluster.get(POLICIES + "/nothing") is None and cluster.list("/apis/example.com/v1/things") is None
    assert cluster.delete(POLICIES + "/nothing") is False


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


def expired(path: str) -> tuple[int, Json] | None:
    return refusal(410, "The provided continue parameter is too old", "Expired") if path == ALL_PODS else None


def test_pages_that_expire_are_read_again_without_repeats(api: FakeApi) -> None:
    """The second page expires; meanwhile b has gone and d has come. A page may hold an object without a uid."""
    first, again = [workload("a"), workload("b")], [workload("a"), workload("c"), workload("d")]
    answers = [
        (200, {"items": first, "metadata": {"continue": "more"}}),
        expired(ALL_PODS),
        (200, {"items": again[:1], "metadata": {"continue": "rest"}}),
        (200, {"items": again[1:], "metadata": {}}),
    ]
    api.answer = lambda method, path: answers.pop(0) if path == ALL_PODS else None
    read = list(Cluster(api.connection).pages(ALL_PODS))
    assert [item["metadata"]["name"] for item in read] == ["a", "b", "c", "d"]
    queries = [query for dummy, path, query in api.log if path == ALL_PODS]
    assert [query.get("continue") for query in queries] == [None, "more", None, "rest"]


def test_pages_that_always_expire_end_with_the_refusal(api: FakeApi) -> None:
    api.answer = lambda method, path: expired(path)
    with pytest.raises(GpuOpsError, match="continue parameter is too old") as e:
        list(Cluster(api.connection).pages(ALL_PODS))
    assert e.value.reason == "Expired"
    assert len([path for dummy, path, query in api.log if path == ALL_PODS]) == 4


def test_other_refusals_of_a_page_are_final(api: FakeApi) -> None:
    api.answer = lambda method, path: refusal(403, "no") if path == ALL_PODS else None
    with pytest.raises(GpuOpsError) as e:
        list(Cluster(api.connection).pages(ALL_PODS))
    assert e.value.reason == "Forbidden" and [path for dummy, path, query in api.log].count(ALL_PODS) == 1


def test_a_collection_that_may_not_be_read_is_unknown(api: FakeApi) -> None:
    cluster = Cluster(api.connection)
    api.lists[POLICIES] = [workload("a")]
    assert cluster.list_readable(POLICIES) == Listed([workload("a")], is_served=True, refusal="")
    assert cluster.list_readable("/apis/example.com/v1/things") == Listed([], is_served=False, refusal="")
    api.answer = lambda method, path: refusal(403, "pods is forbidden") if path == ALL_PODS else None
    found = cluster.list_readable(ALL_PODS)
    assert found.items == [] and found.is_served and "No permission: pods is forbidden" in found.refusal
    api.answer = lambda method, path: refusal(500, "etcd")
    with pytest.raises(GpuOpsError, match="etcd"):
        cluster.list_readable(ALL_PODS)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("v1", None, "nodes"), "/api/v1/nodes"),
        (("v1", "ml", "pods", "a b"), "/api/v1/namespaces/ml/pods/a%20b"),
        (("v1", "../x", "pods", "../y"), "/api/v1/namespaces/..%2Fx/pods/..%2Fy"),
        (("apps/v1", "gpu-operator", "daemonsets"), "/apis/apps/v1/namespaces/gpu-operator/daemonsets"),
    ],
)
def test_paths(arguments: tuple[t.Any, ...], path: str) -> None:
    assert api_module.namespaced(*arguments) == path


# Large lists and their changes


def test_a_large_list_is_kept_in_parts_and_has_a_version(cluster: Cluster) -> None:
    items = b'[{"metadata": {"name": "a"}, "x": 1}, {"metadata": {"name": "b"}}]'
    body = b'{"metadata": {"resourceVersion": "42"}, "items": ' + items + b"}"
    Handler.answers += [busy(), (200, body, {})]
    kept, version = cluster.large_list("/api/v1/nodes", lambda item: item["metadata"])
    assert (kept, version) == ([{"name": "a"}, {"name": "b"}], "42")
    assert Handler.asked == ["GET /api/v1/nodes?resourceVersion=0"] * 2


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        ((200, b'{"items": [{"a": 1},', {}), "ServerError", "GET /api/v1/nodes: its answer is no list, or broke off"),
        ((200, b"<html>", {}), "ServerError", "is no list"),
        ((403, b'{"message": "nodes is forbidden"}', {}), "Forbidden", "nodes is forbidden"),
        ((200, b'{"items": [', {"Content-Length": "1000"}), "Unreachable", "Cannot reach the Kubernetes API"),
    ],
)
def test_a_large_list_that_fails_is_one_sentence(
    cluster: Cluster, answer: tuple[int, bytes, dict[str, str]], reason: str, message: str
) -> None:
    Handler.answers += [answer]
    with pytest.raises(GpuOpsError, match=message) as raised:
        cluster.large_list("/api/v1/nodes", lambda item: item)
    assert raised.value.reason == reason


def test_the_changes_since_a_version(cluster: Cluster) -> None:
    events = [
        b'{"type": "MODIFIED", "object": {"metadata": {"name": "a", "resourceVersion": "43"}}}',
        b'{"type": "DELETED", "object": {"metadata": {"name": "b", "resourceVersion": "44"}}}',
        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "50"}}}',
    ]
    Handler.answers += [(200, b"\n".join(events) + b"\n", {})]
    changes, version = cluster.changes("/api/v1/nodes", "42")
    assert [(kind, item["metadata"]["name"]) for kind, item in changes] == [("MODIFIED", "a"), ("DELETED", "b")]
    assert version == "50"
    query = "watch=1&resourceVersion=42&timeoutSeconds=1&allowWatchBookmarks=true"
    assert Handler.asked == [f"GET /api/v1/nodes?{query}"]


def test_without_changes_the_version_stays(cluster: Cluster) -> None:
    Handler.answers += [(200, b"", {})]
    assert cluster.changes("/api/v1/nodes", "42") == ([], "42")


@pytest.mark.parametrize(
    "answer",
    [
        (410, b'{"message": "too old resource version"}', {}),
        (200, b'{"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}', {}),
    ],
)
def test_changes_that_the_api_server_no_longer_knows(
    cluster: Cluster, answer: tuple[int, bytes, dict[str, str]]
) -> None:
    Handler.answers += [answer]
    with pytest.raises(GpuOpsError, match="too old resource version") as raised:
        cluster.changes("/api/v1/nodes", "42")
    assert raised.value.reason == "Expired"
