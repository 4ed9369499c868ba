# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plain kubeconfig says is understood as the client library understands it, and all else is left to it.

The library itself is the witness.
"""

from __future__ import annotations

import base64
import http.server
import ssl
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import client, plain
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from lab.cluster.controlplane.pki import Authority
from tests.unit.fakes.answers import Handler

Settings = dict[str, t.Any]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority") / "pki")
    made.create()
    return made


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No connection but that of the test, and none for later tests."""
    monkeypatch.setattr("kubernetes.client.Configuration._default", None)
    for name in ("K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def server(url: str, authority: Authority) -> t.Iterator[str]:
    """The address of a server that asks for a client certificate of the authority."""
    pair = authority.server("kube-apiserver")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca.cert))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(pair.cert, pair.key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.socket = context.wrap_socket(made.socket, server_side=True)
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield f"https://127.0.0.1:{made.server_port}"
        made.shutdown()


def write(folder: Path, cluster: Settings, user: Settings, **more: t.Any) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "mine",
        "contexts": [
            {"name": "mine", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c", "user": "u2"}},
        ],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}, {"name": "u2", "user": {"token": "of-u2"}}],
        **more,
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def both(options: Settings) -> tuple[Settings, Settings]:
    """Return what the connection is for us and for the client, in the words of a kubeconfig."""
    ours, theirs = plain.connect(options), client.connect(options)
    assert ours is not None
    made = [
        {key: value for key, value in {**found.cluster(), **found.user()}.items() if value} for found in (ours, theirs)
    ]
    return made[0], made[1]


def user_of(kind: str, authority: Authority) -> Settings:
    """Return the credentials of a kubeconfig: none, or what the name of their kind lists."""
    pair = authority.client("ann")
    as_data = {"client-certificate-data": data(pair.cert), "client-key-data": data(pair.key)}
    as_files = {"client-certificate": str(pair.cert), "client-key": str(pair.key)}
    return {
        **({"token": "secret"} if "token" in kind else {}),
        **(as_data if "data" in kind else {}),
        **(as_files if "files" in kind else {}),
    }


@pytest.mark.parametrize("kind", ["none", "token", "data", "files", "files and token"])
@pytest.mark.parametrize(
    "more", [{}, {"insecure-skip-tls-verify": True}, {"tls-server-name": "localhost"}, {"extensions": []}]
)
def test_a_plain_kubeconfig_means_what_the_client_reads_in_it(
    server: str, authority: Authority, tmp_path: Path, kind: str, more: Settings
) -> None:
    trust = {} if "insecure-skip-tls-verify" in more else {"certificate-authority-data": data(authority.ca.cert)}
    path = write(tmp_path, {"server": f"{server}/", **trust, **more}, user_of(kind, authority))
    ours, theirs = both({"kubeconfig": path})
    assert ours == theirs and ours["server"] == server
    Cluster({"kubeconfig": path}).request("GET", "/thing")
    seen = dict(Handler.headers_seen[-1])
    assert seen.get("authorization") == ("Bearer secret" if "token" in ours else None)


def test_paths_are_relative_to_the_kubeconfig(server: str, authority: Authority, tmp_path: Path) -> None:
    pair = authority.client("ann")
    for name, file in {"ca": authority.ca.cert, "cert": pair.cert, "key": pair.key}.items():
        (tmp_path / name).write_bytes(Path(file).read_bytes())
    user = {"client-certificate": "cert", "client-key": "key"}
    path = write(tmp_path, {"server": server, "certificate-authority": "ca"}, user)
    ours, theirs = both({"kubeconfig": path})
    assert ours == theirs and ours["client-key-data"] == data(Path(pair.key))


def test_data_wins_over_a_file(server: str, authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("an old authority")
    trust = {"certificate-authority": "old", "certificate-authority-data": data(authority.ca.cert)}
    ours, theirs = both({"kubeconfig": write(tmp_path, {"server": server, **trust}, {"token": "x"})})
    assert ours == theirs and ours["certificate-authority-data"] == data(authority.ca.cert)


@pytest.mark.parametrize("by", ["option", "variable"])
def test_the_context_that_is_asked_for(
    server: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    trust = {"certificate-authority-data": data(authority.ca.cert)}
    options = {"kubeconfig": write(tmp_path, {"server": server, **trust}, {"token": "x"}), "context": "other"}
    if by == "variable":
        for name, value in options.items():
            monkeypatch.setenv(f"K8S_AUTH_{name.upper()}", value)
        options = {}
    ours, theirs = both(options)
    assert ours == theirs and ours["token"] == "of-u2"


@pytest.mark.parametrize("where", ["KUBECONFIG", "home"])
def test_without_an_option_the_kubeconfig_of_kubectl_is_used(
    server: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    trust = {"certificate-authority-data": data(authority.ca.cert)}
    (tmp_path / ".kube").mkdir()
    path = write(tmp_path / ".kube", {"server": server, **trust}, {"token": "x"})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", path)
    if where == "home":
        monkeypatch.delenv("KUBECONFIG")
        path = str(tmp_path / ".kube" / "config")
        (tmp_path / ".kube" / "kubeconfig").rename(path)
    found = plain.connect({})
    assert found is not None and found.host == server
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert plain.connect({}) is None and plain.connect({"kubeconfig": path}) is not None


def test_a_plain_connection_does_not_load_the_client(server: str, authority: Authority, tmp_path: Path) -> None:
    """Loading it takes longer than most tasks."""
    trust = {"certificate-authority-data": data(authority.ca.cert)}
    path = write(tmp_path, {"server": server, **trust}, user_of("data", authority))
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster\n"
        f"Cluster({{'kubeconfig': {path!r}}}).request('GET', '/thing')\n"
        "print(sorted({'kubernetes', 'requests', 'pydantic', 'websocket'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"
    assert Handler.asked == ["GET /thing"]


def test_an_unknown_server_is_not_trusted(server: str, tmp_path: Path) -> None:
    other = Authority(tmp_path / "pki")
    other.create()
    trust = {"certificate-authority-data": data(other.ca.cert)}
    with pytest.raises(GpuOpsError, match="reach the Kubernetes API") as e:
        Cluster({"kubeconfig": write(tmp_path, {"server": server, **trust}, {"token": "x"})}).get("/thing")
    assert e.value.reason == "Unreachable" and Handler.asked == []


def test_the_name_in_the_certificate_is_checked(server: str, authority: Authority, tmp_path: Path) -> None:
    trust = {"certificate-authority-data": data(authority.ca.cert), "tls-server-name": "another.example.com"}
    with pytest.raises(GpuOpsError, match=r"another\.example\.com"):
        Cluster({"kubeconfig": write(tmp_path, {"server": server, **trust}, {"token": "x"})}).get("/thing")


# What is left to the client


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"proxy-url": "http://127.0.0.1:1"}, {}),
        ({}, {"exec": {"command": "get-token"}}),
        ({}, {"auth-provider": {"name": "oidc"}}),
        ({}, {"tokenFile": "/token"}),
        ({}, {"username": "ann", "password": "secret"}),
        ({}, {"as": "bob"}),
        ({"server": "http://127.0.0.1:1"}, {}),
        ({"certificate-authority-data": None}, {}),
        ({"certificate-authority-data": "a"}, {}),
        ({"certificate-authority-data": "bm90IGEgY2VydGlmaWNhdGU="}, {}),
        ({"certificate-authority-data": None, "certificate-authority": "/none"}, {}),
        ({}, {"client-certificate-data": "bm90aGluZw==", "client-key-data": "bm90aGluZw=="}),
    ],
)
def test_what_is_less_plain_is_left_to_the_client(
    authority: Authority, tmp_path: Path, cluster: Settings, user: Settings
) -> None:
    trust = {"server": "https://127.0.0.1:1", "certificate-authority-data": data(authority.ca.cert)}
    settings = {key: value for key, value in {**trust, **cluster}.items() if value}
    assert plain.connect({"kubeconfig": write(tmp_path, settings, user)}) is None


@pytest.mark.parametrize(
    "more",
    [
        {"current-context": "none"},
        {"contexts": []},
        {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}] * 2},
        {"users": "x"},
        {"clusters": None},
    ],
)
def test_a_kubeconfig_that_looks_wrong_is_left_to_the_client(
    authority: Authority, tmp_path: Path, more: Settings
) -> None:
    trust = {"server": "https://127.0.0.1:1", "certificate-authority-data": data(authority.ca.cert)}
    assert plain.connect({"kubeconfig": write(tmp_path, trust, {}, **more)}) is None


@pytest.mark.parametrize("content", [b"[", b"words", b"", b"\xff\xfe"])
def test_a_file_that_is_no_kubeconfig_is_left_to_the_client(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kubeconfig").write_bytes(content)
    assert plain.connect({"kubeconfig": str(tmp_path / "kubeconfig")}) is None


def test_an_encrypted_key_asks_nobody_for_its_password(authority: Authority, tmp_path: Path) -> None:
    pair = authority.client("ann")
    command = ["openssl", "pkey", "-in", str(pair.key), "-aes256", "-passout", "pass:secret"]
    encrypted = subprocess.run(command, check=True, capture_output=True).stdout
    user = {"client-certificate": str(pair.cert), "client-key-data": base64.b64encode(encrypted).decode()}
    trust = {"server": "https://127.0.0.1:1", "certificate-authority-data": data(authority.ca.cert)}
    assert plain.connect({"kubeconfig": write(tmp_path, trust, user)}) is None


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ({"impersonate_user": "bob"}, {}),
        ({"host": "https://127.0.0.1:1"}, {}),
        ({"validate_certs": False}, {}),
        ({}, {"K8S_AUTH_IMPERSONATE_USER": "bob"}),
        ({}, {"K8S_AUTH_PROXY": "http://127.0.0.1:1"}),
        ({}, {"HTTPS_PROXY": "http://127.0.0.1:1"}),
        ({}, {"https_proxy": "http://127.0.0.1:1"}),
    ],
)
def test_other_options_and_variables_are_left_to_the_client(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Settings, variables: Settings
) -> None:
    trust = {"server": "https://127.0.0.1:1", "certificate-authority-data": data(authority.ca.cert)}
    path = write(tmp_path, trust, {"token": "x"})
    assert plain.connect({"kubeconfig": path}) is not None
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert plain.connect({"kubeconfig": path, **options}) is None


def test_two_kubeconfigs_and_a_mapping_are_left_to_the_client(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust = {"server": "https://127.0.0.1:1", "certificate-authority-data": data(authority.ca.cert)}
    path = write(tmp_path, trust, {"token": "x"})
    assert plain.connect({"kubeconfig": yaml.safe_load(Path(path).read_text())}) is None
    monkeypatch.setenv("KUBECONFIG", f"{path}:{path}")
    assert plain.connect({}) is None


def test_without_the_libraries_it_is_left_to_the_client(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust = {"server": "https://127.0.0.1:1", "certificate-authority-data": data(authority.ca.cert)}
    monkeypatch.setattr(plain, "HAS_LIBRARIES", False)
    assert plain.connect({"kubeconfig": write(tmp_path, trust, {"token": "x"})}) is None
