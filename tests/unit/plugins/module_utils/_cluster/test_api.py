# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answers of the API server: which requests are sent again, and the message for each refusal."""

from __future__ import annotations

import contextlib
import http.server
import threading
import typing as t
from pathlib import Path
from urllib.parse import urlsplit

import kubernetes
import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as api_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from kubernetes.config import incluster_config

from tests.unit.fakes.api import ALL_PODS, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import Json, workload


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives the answers to the requests after the connection's first, then an empty object forever."""

    answers: t.ClassVar[list[tuple[int, bytes, dict[str, str]]]] = []
    asked: t.ClassVar[list[str]] = []
    headers_seen: t.ClassVar[list[list[tuple[str, str]]]] = []

    def _answer(self) -> None:
        status, body, headers = 200, b'{"kind": "APIGroupList", "groups": []}', {}
        if urlsplit(self.path).path not in ("/api", "/apis", "/version"):
            self.asked.append(f"{self.command} {self.path}")
            self.headers_seen.append([(name.lower(), value) for name, value in self.headers.items()])
            status, body, headers = self.answers.pop(0) if self.answers else (200, b"{}", {})
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(body)), "Date": DATE, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server calls

    def log_message(self, *args: object) -> None:
        pass


DATE = "Sun, 22 Nov 2026 12:00:00 GMT"
BUSY = b'{"message": "storage is (re)initializing"}'


def busy(retry_after: str = "0.01") -> tuple[int, bytes, dict[str, str]]:
    return 429, BUSY, {"Retry-After": retry_after}


@pytest.fixture(autouse=True)
def new_process() -> t.Iterator[None]:
    """A kubeconfig becomes the client library's default. Let no other test see it."""
    yield
    kubernetes.client.Configuration.set_default(None)


@contextlib.contextmanager
def serving() -> t.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[str]:
    for name in ("answers", "asked", "headers_seen"):
        monkeypatch.setattr(Handler, name, [])
    with serving() as address:
        yield address


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


# Who sends the request


def test_a_request_acts_as_the_impersonated_user_with_all_groups(url: str) -> None:
    options = {"host": url, "api_key": "x", "impersonate_user": "ann", "impersonate_groups": ["ml", "ops"]}
    Cluster(options).request("GET", "/thing")
    seen = Handler.headers_seen[-1]
    assert ("impersonate-user", "ann") in seen and ("authorization", "Bearer x") in seen
    assert [value for name, value in seen if name == "impersonate-group"] == ["ml", "ops"]


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


def test_a_proxy_gets_the_login_of_its_url_and_nobody_else_sees_it(url: str) -> None:
    proxy = url.replace("//", "//robot:s3%2Fcret@")
    cluster = Cluster({"host": "http://cluster.example.com", "api_key": "x", "proxy": proxy})
    cluster.request("GET", "/thing")
    assert ("proxy-authorization", "Basic cm9ib3Q6czMvY3JldA==") in Handler.headers_seen[-1]
    assert Handler.asked == ["GET http://cluster.example.com/thing"]
    with pytest.raises(GpuOpsError) as e:
        options = {"host": "http://cluster.example.com", "api_key": "x", "proxy": "http://robot:s3cret@127.0.0.1:1"}
        Cluster(options).request("GET", "/thing")
    assert "Cannot reach the Kubernetes API" in e.value.msg and "s3cret" not in e.value.msg


def test_a_proxy_is_left_out_for_hosts_that_bypass_it(url: str) -> None:
    options = {"host": url, "api_key": "x", "proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"}
    assert "proxy-url" not in Cluster(options).kubeconfig("any")["clusters"][0]["cluster"]


# Which cluster


@pytest.fixture
def pod(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this process look like one in a pod whose API server is the handler; return the path for its KUBECONFIG."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("token-of-the-pod")
    (account / "ca.crt").write_text("any")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    host, port = url.removeprefix("http://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    for name in ("KUBECONFIG", "HOST", "CONTEXT"):
        monkeypatch.delenv(f"K8S_AUTH_{name}", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path / "kubeconfig"


def kubeconfig_of(server: str, **cluster: t.Any) -> dict[str, t.Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "mine",
        "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "token-of-a-file"}}],
    }


def test_a_pod_whose_kubeconfig_names_another_cluster_is_refused(pod: Path, url: str) -> None:
    pod.write_text(yaml.safe_dump(kubeconfig_of("https://target.example.com:6443/")))
    with pytest.raises(GpuOpsError) as e:
        Cluster({})
    inside = url.replace("http:", "https:")
    assert e.value.reason == "BadConnectionSettings"
    assert f"leads to the cluster {inside}, and its kubeconfig to https://target.example.com:6443. Set" in e.value.msg
    assert "gpuops_kubeconfig" in e.value.msg


@pytest.mark.parametrize("content", [None, "not: [a kubeconfig", "clusters: []"])
def test_a_pod_without_another_cluster_uses_its_service_account(pod: Path, content: str | None) -> None:
    if content:
        pod.write_text(content)
    with pytest.raises(GpuOpsError) as e:  # The handler speaks no TLS.
        Cluster({})
    assert e.value.reason != "BadConnectionSettings" or "ca.crt" in e.value.msg or "certificate" in e.value.msg


@pytest.mark.parametrize("how", ["option", "variable", "host"])
def test_a_pod_may_choose_another_cluster(pod: Path, url: str, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    pod.write_text(yaml.safe_dump(kubeconfig_of(url)))
    options = {"option": {"kubeconfig": str(pod)}, "host": {"host": url, "api_key": "x"}}.get(how, {})
    if how == "variable":
        monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(pod))
    assert Cluster(options).host == url


@pytest.mark.parametrize(
    "content",
    [
        "just words",
        "clusters: [",
        "- a list",
        "{}",
        "{current-context: a, contexts: {a: b}, clusters: x, users: 1}",
        "current-context: a",
    ],
)
def test_a_kubeconfig_that_is_none_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "kubeconfig").write_text(content)
    with pytest.raises(GpuOpsError) as e:
        Cluster({"kubeconfig": str(tmp_path / "kubeconfig")})
    assert e.value.reason == "BadConnectionSettings" and "Check kubeconfig, context" in e.value.msg


def test_a_kubeconfig_with_a_broken_certificate_is_one_sentence(url: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        Cluster({"kubeconfig": kubeconfig_of("https://127.0.0.1:1", **{"certificate-authority-data": "a"})})
    assert e.value.reason == "BadConnectionSettings"


def test_a_host_that_the_client_would_not_use_is_refused(url: str) -> None:
    """With a token in the kubeconfig, the client goes to the server of the kubeconfig, sooner or later."""
    connection = kubeconfig_of(url)
    with serving() as other, pytest.raises(GpuOpsError) as e:
        Cluster({"kubeconfig": connection, "host": other})
    assert e.value.reason == "BadConnectionSettings"
    assert f"K8S_AUTH_HOST) is {other}, and the kubeconfig leads to {url}, which" in e.value.msg
    assert Cluster({"kubeconfig": connection, "host": f"{url}/"}).host == url


@pytest.mark.parametrize("by", ["option", "variable"])
def test_options_win_over_the_kubeconfig_after_the_token_was_renewed_too(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    (tmp_path / "ca").write_text("the authority")
    connection = kubeconfig_of(url, **{"proxy-url": "http://127.0.0.1:1"})
    given: dict[str, t.Any] = {"proxy": url, "ca_cert": str(tmp_path / "ca")}
    if by == "variable":
        monkeypatch.setenv("K8S_AUTH_PROXY", url)
        monkeypatch.setenv("K8S_AUTH_SSL_CA_CERT", given["ca_cert"])
        given = {}
    cluster = Cluster({"kubeconfig": connection, **given})
    cluster.request("GET", "/thing")
    assert ("authorization", "Bearer token-of-a-file") in Handler.headers_seen[-1]
    assert cluster.kubeconfig("mine")["clusters"][0]["cluster"] == {
        "server": url,
        "proxy-url": url,
        "certificate-authority-data": "dGhlIGF1dGhvcml0eQ==",
    }


@pytest.mark.parametrize(("value", "verified"), [("false", False), ("no", False), ("0", False), ("true", True)])
def test_verification_is_what_the_variable_says(
    url: str, monkeypatch: pytest.MonkeyPatch, value: str, verified: bool
) -> None:
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", value)
    cluster = Cluster({"kubeconfig": kubeconfig_of(url)}).kubeconfig("mine")["clusters"][0]["cluster"]
    assert cluster.get("insecure-skip-tls-verify", False) is not verified


# The connection for other programs


def test_the_kubeconfig_for_other_programs_says_all_that_the_connection_is(url: str, tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).write_text(f"content of the {name}")
    options = {
        "host": url,
        "api_key": "x",
        "validate_certs": False,
        "client_cert": str(tmp_path / "cert"),
        "client_key": str(tmp_path / "key"),
        "impersonate_user": "ann",
        "impersonate_groups": ["ml", "ops"],
        "proxy": url.replace("//", "//robot:s3%2Fcret@"),
    }
    assert Cluster(options).kubeconfig("mine") == {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "mine",
        "contexts": [{"name": "mine", "context": {"cluster": "gpuops", "user": "gpuops"}}],
        "clusters": [
            {
                "name": "gpuops",
                "cluster": {
                    "server": url,
                    "insecure-skip-tls-verify": True,
                    "proxy-url": url.replace("//", "//robot:s3%2Fcret@"),
                },
            }
        ],
        "users": [
            {
                "name": "gpuops",
                "user": {
                    "token": "x",
                    "client-certificate-data": "Y29udGVudCBvZiB0aGUgY2VydA==",
                    "client-key-data": "Y29udGVudCBvZiB0aGUga2V5",
                    "as": "ann",
                    "as-groups": ["ml", "ops"],
                },
            }
        ],
    }


def test_a_verified_connection_keeps_its_certificate_authority(url: str, tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("the authority")
    made = Cluster({"host": url, "api_key": "x", "ca_cert": str(tmp_path / "ca")}).kubeconfig("mine")
    assert made["clusters"][0]["cluster"] == {
        "server": url,
        "certificate-authority-data": "dGhlIGF1dGhvcml0eQ==",
    }
    assert made["users"][0]["user"] == {"token": "x"}


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


@pytest.mark.parametrize(
    ("version", "is_old"), [("28.1.0", True), ("9.0", True), ("29.0.0", False), ("101.0", False), ("dev", False)]
)
def test_a_client_that_is_too_old_is_named(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, version: str, is_old: bool
) -> None:
    monkeypatch.setattr(kubernetes, "__version__", version)
    with pytest.raises(GpuOpsError) if is_old else contextlib.nullcontext() as e:
        Cluster(api.connection)
    if e is not None:
        assert f"kubernetes is {version} here, and this collection needs 29.0.0 or newer" in e.value.msg
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
