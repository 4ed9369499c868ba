# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which cluster the client library reaches, and as whom."""

from __future__ import annotations

import contextlib
import http.server
import tempfile
import threading
import time
import typing as t
from pathlib import Path

import kubernetes
import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import client
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording
from kubernetes.config import incluster_config

from tests.support.kubernetes_client import reads_proxy_url
from tests.unit.fakes.answers import Handler, serving
from tests.unit.fakes.api import FakeApi


def test_a_request_acts_as_the_impersonated_user_with_all_groups(url: str) -> None:
    options = {"host": url, "api_key": "x", "impersonate_user": "ann", "impersonate_groups": ["ml", "ops"]}
    Cluster(options).request("GET", "/thing")
    seen = Handler.headers_seen[-1]
    assert ("impersonate-user", "ann") in seen and ("authorization", "Bearer x") in seen
    assert [value for name, value in seen if name == "impersonate-group"] == ["ml", "ops"]


def test_a_proxy_gets_the_login_of_its_url_and_nobody_else_sees_it(url: str) -> None:
    proxy = url.replace("//", "//robot:s3%2Fcret@")
    cluster = Cluster({"host": "http://cluster.example.com", "api_key": "x", "proxy": proxy})
    cluster.request("GET", "/thing")
    assert ("proxy-authorization", "Basic cm9ib3Q6czMvY3JldA==") in Handler.headers_seen[-1]
    assert Handler.asked == ["GET http://cluster.example.com/thing"]
    with pytest.raises(GpuOpsError) as e:
        options = {"host": "http://cluster.example.com", "api_key": "x", "proxy": "http://robot:s3cret@127.0.0.1:1"}
        Cluster(options).request("GET", "/thing")
    assert (
        e.value.msg
        == wording(
            "Cannot reach the Kubernetes API at http://cluster.example.com: ('Unable to connect to proxy', NewConnectionError(\"HTTPConnection(host='127.0.0.1', port=1): Failed to establish a new connection: [Errno 111] Connection refused\")). Check that the API server runs and that the kubeconfig's server address and certificate authority are right."
        )
        and "s3cret" not in e.value.msg
    )


LOGIN = ("proxy-authorization", "Basic cm9ib3Q6czMvY3JldA==")


@reads_proxy_url
@pytest.mark.parametrize("form", ["file", "dictionary"])
def test_the_proxy_of_a_kubeconfig_gets_the_login_of_its_url(url: str, tmp_path: Path, form: str) -> None:
    config = kubeconfig_of("http://cluster.example.com", **{"proxy-url": url.replace("//", "//robot:s3%2Fcret@")})
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    cluster = Cluster({"kubeconfig": str(path) if form == "file" else config})
    cluster.request("GET", "/thing")
    assert LOGIN in Handler.headers_seen[-1] and Handler.asked[-1] == "GET http://cluster.example.com/thing"


def test_a_proxy_of_an_option_gets_no_login_of_the_kubeconfigs(url: str) -> None:
    connection = kubeconfig_of("http://cluster.example.com", **{"proxy-url": "http://robot:s3cret@127.0.0.1:1"})
    Cluster({"kubeconfig": connection, "proxy": url}).request("GET", "/thing")
    assert "proxy-authorization" not in dict(Handler.headers_seen[-1])


def test_a_kubeconfig_that_is_not_read_gives_no_login(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = kubeconfig_of("http://cluster.example.com", **{"proxy-url": "http://robot:s3cret@127.0.0.1:1"})
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    Cluster({"host": url, "api_key": "x"}).request("GET", "/thing")
    assert "proxy-authorization" not in dict(Handler.headers_seen[-1])


def test_a_proxy_that_asks_for_a_login_is_told_as_that(url: str) -> None:
    Handler.answers += [(407, b"", {})]
    with pytest.raises(GpuOpsError, match="407") as e:
        Cluster({"host": "http://cluster.example.com", "api_key": "x", "proxy": url}).request("GET", "/thing")
    assert e.value.reason == "Unreachable" and "proxy-url" in e.value.msg


def test_a_proxy_is_left_out_for_hosts_that_bypass_it(url: str) -> None:
    options = {"host": url, "api_key": "x", "proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"}
    assert "proxy-url" not in Cluster(options).kubeconfig("any")["clusters"][0]["cluster"]


class Starting(http.server.BaseHTTPRequestHandler):
    """An API server that fails the first requests of the client."""

    answers: t.ClassVar[list[int]] = []
    asked: t.ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = b'{"kind": "APIGroupList", "groups": [], "major": "1", "minor": "35", "message": "leader changed"}'
        self.send_response_only(self.answers.pop(0) if self.answers else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize("status", [429, 500, 503])
def test_the_first_questions_of_the_client_are_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Starting, "answers", [status, status, 200, status])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Starting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host = f"http://127.0.0.1:{server.server_port}"
        assert client.connect({"host": host, "api_key": "x"}).host == host
        monkeypatch.setattr(Starting, "answers", [403])
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "other"))
        (tmp_path / "other").mkdir()
        with pytest.raises(GpuOpsError) as e:
            client.connect({"host": host, "api_key": "y"})
        assert e.value.reason == "Forbidden"
        server.shutdown()


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
    # The client keeps what it has discovered by address, also of another server that had this port before.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
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
    assert inside in e.value.msg and "https://target.example.com:6443" in e.value.msg
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
    assert f"K8S_AUTH_HOST) is {other}" in e.value.msg and url in e.value.msg
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
        assert f"kubernetes is {version}" in e.value.msg and "29.0.0 or newer" in e.value.msg
        assert e.value.reason == "LibraryMissing"


@pytest.mark.parametrize("name", ["authorization", "BearerToken"])
def test_the_token_is_sent_whichever_name_the_client_stores_it_under(url: str, name: str) -> None:
    """Versions 29 to 36 of the client call it ``authorization``, and 37 ``BearerToken``."""
    connection = client.connect({"host": url, "api_key": "x"})
    configuration = connection._configuration
    configuration.api_key, configuration.api_key_prefix = {name: "token-1"}, {name: "Bearer"}
    assert connection.headers()["authorization"] == "Bearer token-1"
    configuration.api_key = {}
    assert "authorization" not in connection.headers()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HAS_KUBERNETES", False)
    with pytest.raises(GpuOpsError, match=r"kubernetes >= 29\.0\.0") as e:
        Cluster({"host": "https://cluster.example.com", "api_key": "x"})
    assert e.value.reason == "LibraryMissing"
