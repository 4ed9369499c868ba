# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever the connection consists of, the modules and programs like Helm act on the same cluster as the same user.

The witness is kubectl, which shares its client library with Helm: it reads the kubeconfig that Helm would get, and asks
the API server who it is.
"""

from __future__ import annotations

import json
import select
import socket
import socketserver
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from kubernetes.client import Configuration
from kubernetes.config import incluster_config

from lab.cluster import Lab
from tests.support.ansible import OPERATOR, on
from tests.support.kubernetes_client import reads_proxy_url

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Iterator[None]:
    """No connection but that of the test, and none for later tests."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    yield
    Configuration.set_default(None)


def who_am_i(cluster: Cluster) -> tuple[str, list[str]]:
    """Return the user and groups of the modules."""
    user = cluster.ask("POST", WHO, body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    info = user["status"]["userInfo"]
    return info["username"], sorted(info["groups"])


def who_is_helm(lab: Lab, cluster: Cluster, folder: Path) -> tuple[str, list[str]]:
    """Return the user and groups of a program that gets the kubeconfig of the connection."""
    path = folder / "helm.kubeconfig"
    path.write_text(json.dumps(cluster.kubeconfig("gpuops")))
    command = [lab.state.tools["kubectl"], f"--kubeconfig={path}", "auth", "whoami", "--output=json"]
    info = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["status"]["userInfo"]
    return info["username"], sorted(info["groups"])


def same_user(lab: Lab, cluster: Cluster, folder: Path) -> tuple[str, list[str]]:
    found = who_am_i(cluster)
    assert who_is_helm(lab, cluster, folder) == found
    return found


def server(lab: Lab) -> str:
    return f"https://127.0.0.1:{lab.state.ports['kube-apiserver']}"


def with_user(lab: Lab, folder: Path, user: dict[str, t.Any], **cluster: t.Any) -> str:
    """Write a kubeconfig of the lab with another user, and other settings of the cluster; return its path."""
    content = yaml.safe_load(lab.kubeconfig.read_text())
    content["users"][0]["user"] = user
    content["clusters"][0]["cluster"] |= cluster
    (folder / "kubeconfig").write_text(yaml.safe_dump(content))
    return str(folder / "kubeconfig")


def forward_a_port(cluster: Cluster) -> None:
    with cluster.stream("/api/v1/namespaces/default/pods/none/portforward?ports=1", "v4.channel.k8s.io", 10):
        pass


@pytest.mark.parametrize("by", ["options", "variables"])
def test_a_client_certificate(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    pair = lab.authority.client("ann", ["ml"])
    options = {
        "host": server(lab),
        "ca_cert": str(lab.authority.ca.cert),
        "client_cert": str(pair.cert),
        "client_key": str(pair.key),
    }
    if by == "variables":
        for name, option in {"HOST": "host", "SSL_CA_CERT": "ca_cert", "CERT_FILE": "client_cert"}.items():
            monkeypatch.setenv(f"K8S_AUTH_{name}", options[option])
        monkeypatch.setenv("K8S_AUTH_KEY_FILE", options["client_key"])
        options = {}
    assert same_user(lab, Cluster(options), tmp_path) == ("ann", ["ml", "system:authenticated"])


def test_impersonation_with_groups(lab: Lab, tmp_path: Path) -> None:
    options = {"kubeconfig": str(lab.kubeconfig), "impersonate_user": "bob", "impersonate_groups": ["ml", "ops"]}
    assert same_user(lab, Cluster(options), tmp_path) == ("bob", ["ml", "ops", "system:authenticated"])


def test_port_forwarding_acts_as_the_impersonated_user(lab: Lab) -> None:
    """The administrator may forward ports. The user as whom the connection acts may not."""
    cluster = Cluster({"kubeconfig": str(lab.kubeconfig), "impersonate_user": "bob"})
    with pytest.raises(GpuOpsError, match=r'User "bob" cannot (get|create) resource "pods/portforward"') as e:
        forward_a_port(cluster)
    assert e.value.reason == "Forbidden"


def test_a_token_and_an_expired_token_of_an_exec_plugin(lab: Lab, tmp_path: Path) -> None:
    """The plugin's first token has expired, so the client asks it again before it sends a request."""
    calls = tmp_path / "calls"
    tokens = [lab.token(lifetime=-60), lab.token()]
    (tmp_path / "plugin").write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, time\n"
        f"calls = pathlib.Path({str(calls)!r})\n"
        "calls.write_text((calls.read_text() if calls.exists() else '') + 'x')\n"
        "number = min(len(calls.read_text()), 2) - 1\n"
        "expiry = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + (number * 2 - 1) * 3600))\n"
        f"status = dict(token={tokens!r}[number], expirationTimestamp=expiry)\n"
        "print(json.dumps(dict(apiVersion='client.authentication.k8s.io/v1', kind='ExecCredential', status=status)))\n"
    )
    (tmp_path / "plugin").chmod(0o755)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(tmp_path / "plugin"),
        "interactiveMode": "Never",
    }
    cluster = Cluster({"kubeconfig": with_user(lab, tmp_path, {"exec": plugin})})
    user, dummy = same_user(lab, cluster, tmp_path)
    assert user == "system:serviceaccount:default:default"
    assert calls.read_text() == "xx"


def test_the_service_account_of_a_pod(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(lab.token())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(lab.authority.ca.cert))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(lab.state.ports["kube-apiserver"]))
    monkeypatch.setenv("KUBECONFIG", with_user(lab, tmp_path, {"token": "another"}))  # the same server
    assert same_user(lab, Cluster({}), tmp_path)[0] == "system:serviceaccount:default:default"
    monkeypatch.setenv("KUBECONFIG", with_user(lab, tmp_path, {}, server="https://target.example.com"))
    with pytest.raises(GpuOpsError, match=r"and its kubeconfig to https://target\.example\.com"):
        Cluster({})


def test_a_private_authority_that_is_not_given(lab: Lab, tmp_path: Path) -> None:
    options = {"host": server(lab), "api_key": lab.token()}
    with pytest.raises(GpuOpsError, match="certificate verify failed") as e:
        who_am_i(Cluster(options))
    assert e.value.reason == "Unreachable" and "certificate authority" in e.value.msg
    user = same_user(lab, Cluster({**options, "validate_certs": False}), tmp_path)[0]
    assert user == "system:serviceaccount:default:default"


class Tunnel(socketserver.StreamRequestHandler):
    """An HTTPS proxy that wants a login."""

    asked: t.ClassVar[list[str]] = []

    def handle(self) -> None:
        request = self.rfile.readline().decode().split()
        headers = [line.decode().strip().lower() for line in iter(self.rfile.readline, b"\r\n")]
        if not any(line.startswith("proxy-authorization: basic") for line in headers):
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        self.asked.append(request[1])
        host, port = request[1].split(":")
        with socket.create_connection((host, int(port))) as target:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            ends = {self.connection: target, target: self.connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[end].sendall(data)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[str]:
    monkeypatch.setattr(Tunnel, "asked", [])
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as tunnel:
        tunnel.daemon_threads = True
        threading.Thread(target=tunnel.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{tunnel.server_address[1]}"
        tunnel.shutdown()


def test_a_proxy_with_a_login(lab: Lab, tmp_path: Path, proxy: str) -> None:
    """Requests, port forwarding and Helm go through it. Without the login, the message does not show one."""
    address = server(lab).removeprefix("https://")
    cluster = Cluster({"kubeconfig": str(lab.kubeconfig), "proxy": f"http://robot:s3cr%2Fet@{proxy}"})
    who_am_i(cluster)
    with pytest.raises(GpuOpsError, match="not found"):
        forward_a_port(cluster)
    direct = len(Tunnel.asked)
    assert direct >= 2 and set(Tunnel.asked) == {address}
    assert who_is_helm(lab, cluster, tmp_path)[0] == who_am_i(cluster)[0]
    assert len(Tunnel.asked) > direct
    with pytest.raises(GpuOpsError, match="407") as e:
        who_am_i(Cluster({"kubeconfig": str(lab.kubeconfig), "proxy": f"http://{proxy}"}))
    assert e.value.reason == "Unreachable" and "proxy-url" in e.value.msg


@reads_proxy_url
def test_the_login_in_a_kubeconfigs_proxy_url(lab: Lab, tmp_path: Path, proxy: str) -> None:
    config = yaml.safe_load(lab.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["proxy-url"] = f"http://robot:s3cr%2Fet@{proxy}"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    cluster = Cluster({"kubeconfig": str(path)})
    assert who_am_i(cluster)[0] == who_am_i(Cluster({"kubeconfig": str(lab.kubeconfig)}))[0]
    assert set(Tunnel.asked) == {server(lab).removeprefix("https://")}
    assert who_is_helm(lab, cluster, tmp_path)[0] == who_am_i(cluster)[0]


def test_the_role_gives_helm_the_connection_of_the_modules(lab: Lab, tmp_path: Path) -> None:
    """Helm knows neither the variables of the client certificate nor a kubeconfig here, and KUBECONFIG is wrong."""
    pair = lab.authority.client("kubernetes-admin", ["system:masters"])
    playbook = on(lab)
    del playbook.environment["K8S_AUTH_KUBECONFIG"]
    playbook.environment |= {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "KUBECONFIG": "/nonexistent/kubeconfig",
        "HELM_KUBECONTEXT": "another",
        "K8S_AUTH_HOST": server(lab),
        "K8S_AUTH_SSL_CA_CERT": str(lab.authority.ca.cert),
        "K8S_AUTH_CERT_FILE": str(pair.cert),
        "K8S_AUTH_KEY_FILE": str(pair.key),
    }
    run = playbook.run(OPERATOR, operator_state="absent")
    assert run.status == 0, run.output
    assert list(tmp_path.glob("*.kubeconfig")) == []
