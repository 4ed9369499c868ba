# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answers of the API server: which requests are sent again, and the message for each refusal."""

from __future__ import annotations

import json
import typing as t

import pytest
import urllib3
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as api_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import tries
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.answers import Handler
from tests.unit.fakes.api import ALL_PODS, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import Json, workload

BUSY = b'{"message": "storage is (re)initializing"}'


def busy(retry_after: str = "0.01") -> tuple[int, bytes, dict[str, str]]:
    return 429, BUSY, {"Retry-After": retry_after}


@pytest.fixture
def cluster(url: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(tries, "FAILING_S", 8.0)
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
    monkeypatch.setattr(tries, "THROTTLED_S", 0.05)
    with pytest.raises(GpuOpsError, match="storage is") as e:
        cluster.request("GET", "/thing")
    assert e.value.reason == "TooManyRequests" and 1 < len(Handler.asked) < 10


def test_the_pause_is_what_the_api_server_asks_for(cluster: Cluster, slept: list[float]) -> None:
    Handler.answers += [busy("Sun, 22 Nov 2026 12:00:03 GMT")]
    cluster.request("GET", "/thing")
    assert slept == [3.0] and len(Handler.asked) == 2


def test_a_pause_that_is_too_long_is_not_taken(cluster: Cluster, slept: list[float]) -> None:
    Handler.answers += [busy("Mon, 23 Nov 2026 12:00:00 GMT")]
    with pytest.raises(GpuOpsError, match="storage is"):
        cluster.request("GET", "/thing")
    assert slept == []


LEADER_CHANGED = b'{"message": "etcdserver: leader changed"}'
APPLY = {"body": {}, "content_type": "application/apply-patch+yaml"}
VERSIONED = {"metadata": {"resourceVersion": "7"}}


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize(
    ("method", "path", "keywords"),
    [
        ("GET", "/thing", {}),
        ("PATCH", "/thing", APPLY),
        ("PATCH", "/thing", {"body": {}, "content_type": "application/merge-patch+json"}),
        ("DELETE", "/thing", {}),
        ("POST", "/thing", {"query": {"dryRun": "All"}}),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {}),
    ],
)
def test_what_changes_nothing_twice_is_sent_again_when_the_api_server_fails(
    cluster: Cluster, slept: list[float], status: int, method: str, path: str, keywords: dict[str, t.Any]
) -> None:
    Handler.answers += [(status, LEADER_CHANGED, {})] * 3
    assert cluster.request(method, path, **keywords) == b"{}"
    assert len(Handler.asked) == 4 and slept == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    ("method", "keywords"),
    [
        ("POST", {"body": {}}),
        ("PATCH", {"body": VERSIONED, "content_type": "application/merge-patch+json"}),
        ("PATCH", {"body": {}, "content_type": "application/json-patch+json"}),
    ],
)
def test_another_write_whose_outcome_is_unknown_is_sent_once(
    cluster: Cluster, slept: list[float], method: str, keywords: dict[str, t.Any]
) -> None:
    Handler.answers += [(500, LEADER_CHANGED, {})]
    with pytest.raises(GpuOpsError, match="leader changed") as raised:
        cluster.request(method, "/thing", **keywords)
    assert raised.value.reason == "ServerError" and len(Handler.asked) == 1 and slept == []


OURS, THEIRS = ({"metadata": {"name": "a", "managedFields": [{"manager": m}]}} for m in ("gpuops.nvidia", "kubectl"))


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        (OURS, ["POST", "GET"]),
        (THEIRS, ["POST", "GET", "POST"]),
        (None, ["POST", "GET", "POST"]),
    ],
)
def test_what_may_have_been_created_is_read_and_created_once(
    cluster: Cluster, slept: list[float], there: dict[str, t.Any] | None, asked: list[str]
) -> None:
    read = (404, b"{}", {}) if there is None else (200, json.dumps(there).encode(), {})
    Handler.answers += [(500, LEADER_CHANGED, {}), read, (201, b'{"metadata": {"name": "a"}}', {})]
    made = cluster.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
    assert made["metadata"]["name"] == "a"
    assert [line.split("?")[0] for line in Handler.asked] == [
        f"{method} /api/v1/namespaces{'/a' if method == 'GET' else ''}" for method in asked
    ]
    Handler.answers.clear()


def test_what_has_no_name_of_its_own_is_created_once(cluster: Cluster, slept: list[float]) -> None:
    Handler.answers += [(500, LEADER_CHANGED, {})]
    with pytest.raises(GpuOpsError, match="leader changed"):
        cluster.create("/api/v1/namespaces", {"metadata": {"generateName": "a-"}})
    assert len(Handler.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
def test_an_answer_about_the_request_itself_is_final(cluster: Cluster, slept: list[float], status: int) -> None:
    Handler.answers += [(status, b"{}", {})]
    with pytest.raises(GpuOpsError):
        cluster.request("GET", "/thing")
    assert len(Handler.asked) == 1 and slept == []


def test_a_read_is_not_sent_again_forever(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    Handler.answers += [(500, LEADER_CHANGED, {})] * 1000
    monkeypatch.setattr(tries, "FAILING_S", 0.4)
    with pytest.raises(GpuOpsError, match="leader changed"):
        cluster.request("GET", "/thing")
    assert len(Handler.asked) == 2


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("POST", 1)])
def test_a_connection_that_is_reset_is_opened_again_for_reads(
    cluster: Cluster, slept: list[float], monkeypatch: pytest.MonkeyPatch, method: str, times: int
) -> None:
    sent, real = list[str](), cluster._connection.pool.request

    def request(verb: str, url: str, **options: t.Any) -> t.Any:
        sent.append(verb)
        if len(sent) == 1:
            raise urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset by peer"))
        return real(verb, url, **options)

    monkeypatch.setattr(cluster._connection.pool, "request", request)
    if method == "GET":
        assert cluster.request(method, "/thing") == b"{}"
    else:
        with pytest.raises(GpuOpsError) as raised:
            cluster.request(method, "/thing")
        assert raised.value.reason == "Unreachable"
    assert len(sent) == times


def test_an_address_at_which_nobody_listens_is_told_at_once(slept: list[float]) -> None:
    with pytest.raises(GpuOpsError) as raised:
        Cluster({"host": "http://127.0.0.1:9", "api_key": "x"}).request("GET", "/thing")
    assert raised.value.reason == "Unreachable" and slept == []


def test_a_hidden_value_is_never_written(cluster: Cluster) -> None:
    with pytest.raises(GpuOpsError, match="VALUE_HIDDEN") as raised:
        cluster.apply("/thing", {"spec": {"driver": {"env": [{"name": "A", "value": "VALUE_HIDDEN"}]}}})
    assert raised.value.reason == "Invalid" and Handler.asked == []


# Answers that are not the API server's


PAGE = b"<html><head><title>503 Service\n Temporarily Unavailable</title></head><body><p>nginx</p></body></html>"


def test_a_load_balancers_503_is_one_sentence(cluster: Cluster) -> None:
    Handler.answers += [(503, PAGE, {"Retry-After": "Sun, 22 Nov 2026 13:00:00 GMT"})]
    with pytest.raises(GpuOpsError) as e:
        cluster.get("/thing")
    assert e.value.msg == (
        wording("The Kubernetes API failed on GET /thing (503): 503 Service Temporarily Unavailable.")
    )
    assert e.value.reason == "ServerError" and e.value.details["status"] == 503


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


def test_an_object_that_has_taken_the_place_of_another_is_not_deleted(api: FakeApi) -> None:
    cluster, name = Cluster(api.connection), api.lists[POLICIES][0]["metadata"]["name"]
    api.lists[POLICIES][0]["metadata"]["uid"] = "new"
    with pytest.raises(GpuOpsError) as e:
        cluster.delete(f"{POLICIES}/{name}", uid="old")
    assert e.value.reason == "Conflict" and len(api.lists[POLICIES]) == 1
    assert cluster.delete(f"{POLICIES}/{name}", uid="new") and api.lists[POLICIES] == []


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
    with pytest.raises(GpuOpsError) as e:
        list(Cluster(api.connection).pages(ALL_PODS))
    assert e.value.reason == "Expired"
    assert e.value.msg == wording(
        "The Kubernetes API refused GET /api/v1/pods (410): The provided continue parameter is too old."
    )
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
        ((200, b'{"items": [{"a": 1},', {}), "ServerError", "GET /api/v1/nodes: its answer"),
        ((200, b"<html>", {}), "ServerError", "is no list"),
        ((403, b'{"message": "nodes is forbidden"}', {}), "Forbidden", "nodes is forbidden"),
        ((200, b'{"items": [', {"Content-Length": "1000"}), "Unreachable", "reach the Kubernetes API"),
    ],
)
def test_a_large_list_that_fails_is_one_sentence(
    cluster: Cluster, answer: tuple[int, bytes, dict[str, str]], reason: str, message: str
) -> None:
    Handler.answers += [answer] * 3
    with pytest.raises(GpuOpsError, match=message) as raised:
        cluster.large_list("/api/v1/nodes", lambda item: item)
    assert raised.value.reason == reason


def test_a_large_list_that_breaks_off_begins_again(cluster: Cluster) -> None:
    whole = b'{"metadata": {"resourceVersion": "7"}, "items": [{"a": 1}, {"a": 2}]}'
    Handler.answers += [(200, whole[:60], {"Content-Length": "1000"}), (200, whole[:50], {}), (200, whole, {})]
    assert cluster.large_list("/api/v1/nodes", lambda item: item["a"]) == ([1, 2], "7")


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


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "HAS_URLLIB3", False)
    with pytest.raises(GpuOpsError, match=r"kubernetes >= 29\.0\.0") as e:
        Cluster({"host": "https://cluster.example.com", "api_key": "x"})
    assert e.value.reason == "LibraryMissing"
