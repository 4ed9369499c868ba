# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy passes requests on, and answers the chosen ones itself."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import http.server
import json
import subprocess
import threading
import time
import typing as t
from urllib.parse import urlsplit

import pytest

from lab.cluster import Lab, proxy
from lab.cluster.api import Api, ApiError


def kubectl(lab: Lab, between: proxy.Proxy, *words: str) -> subprocess.CompletedProcess[str]:
    command = [lab.state.tools["kubectl"], f"--kubeconfig={between.kubeconfig}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_requests_pass(lab: Lab) -> None:
    with proxy.before(lab) as between:
        assert kubectl(lab, between, "get", "nodes", "--output=name").stdout.splitlines()[0] == "node/gpu-0000"
        made = kubectl(lab, between, "create", "configmap", "proxied", "--namespace=default")
        assert made.stdout == "configmap/proxied created\n"
        assert kubectl(lab, between, "delete", "configmap", "proxied", "--namespace=default").returncode == 0
    assert ("GET", "/api/v1/nodes?limit=500", 200) in between.log


def test_a_watch_yields_events_as_they_come(lab: Lab) -> None:
    with proxy.before(lab) as between:
        words = ("wait", "node/gpu-0000", "--for=jsonpath={.metadata.labels.seen}=yes", "--timeout=30s")
        command = [lab.state.tools["kubectl"], f"--kubeconfig={between.kubeconfig}", *words]
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while not any("watch=true" in target for _method, target, _status in between.log):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        lab.kubectl("label", "node/gpu-0000", "seen=yes")
        assert watch.communicate(timeout=30)[0] == "node/gpu-0000 condition met\n"
        lab.kubectl("label", "node/gpu-0000", "seen-")


def test_chosen_requests_get_another_answer(lab: Lab) -> None:
    with proxy.before(lab) as between:
        api = Api(str(between.kubeconfig))
        between.answer(proxy.too_many_requests(), times=2, method="GET", target="/nodes")
        for _ in range(2):
            with pytest.raises(ApiError, match="429: Too many requests, please try again later"):
                api.list("/api/v1/nodes")
        assert len(api.list("/api/v1/nodes")) == 4
        between.answer(proxy.unavailable(), times=100)
        between.forget()
        assert api.list("/api/v1/namespaces") != []


def test_a_page_in_the_middle_of_a_list_is_too_old(lab: Lab) -> None:
    with proxy.before(lab) as between:
        between.answer(proxy.expired("next"), target="continue=")
        first = Api(str(between.kubeconfig)).request("GET", "/api/v1/nodes", limit=2)
        with pytest.raises(ApiError, match=r"410: The provided continue parameter is too old"):
            Api(str(between.kubeconfig)).request("GET", "/api/v1/nodes", **{"continue": first["metadata"]["continue"]})


class Unchanged(http.server.BaseHTTPRequestHandler):
    """A server whose answer is what the client already has, as for a cached discovery."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(304)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def test_an_answer_without_a_body_leaves_the_connection_usable() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unchanged) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with proxy.before(f"http://127.0.0.1:{server.server_port}") as between:
            url = urlsplit(between.url)
            connection = http.client.HTTPConnection(url.hostname or "", url.port)
            for _ in range(2):
                connection.request("GET", "/apis")
                answer = connection.getresponse()
                assert (answer.status, answer.read()) == (304, b"")
        server.shutdown()


class Counting(http.server.BaseHTTPRequestHandler):
    """A server that counts what it is asked."""

    protocol_version = "HTTP/1.1"
    asked: t.ClassVar[list[str]] = []

    def do_PATCH(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def test_an_answer_can_be_late_or_lost_once_for_each_kind_of_request() -> None:
    def patch(node: str, agent: str = "any") -> int:
        url = urlsplit(between.url)
        with contextlib.closing(http.client.HTTPConnection(url.hostname or "", url.port)) as connection:
            connection.request("PATCH", f"/api/v1/nodes/{node}", headers={"User-Agent": agent})
            return connection.getresponse().status

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with proxy.before(f"http://127.0.0.1:{server.server_port}") as between:
            between.disturb_each_kind(proxy.Passage(is_lost=True))
            assert patch("a", "Helm/4.0.0") == 200
            with pytest.raises(ConnectionResetError):
                patch("a")
            assert patch("b") == 200 and between.disturbed == ["PATCH nodes/NAME"]
            assert Counting.asked == ["/api/v1/nodes/a", "/api/v1/nodes/a", "/api/v1/nodes/b"]
            assert [status for method, target, status in between.log] == [200, -200, 200]
            between.disturb_each_kind(proxy.failed(), proxy.Passage(delay_s=0.3))
            assert patch("a") == 500
            between.answer(proxy.Passage(delay_s=0.3))
            began = time.monotonic()
            assert patch("a") == 200 and time.monotonic() - began >= 0.3
        server.shutdown()


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("GET", "/version", "GET /version"),
        ("GET", "/api/v1/nodes?watch=1", "GET nodes watch"),
        ("POST", "/api/v1/namespaces/default/pods/a/eviction?dryRun=All", "POST pods/NAME/eviction dry run"),
        ("DELETE", "/apis/apps/v1/namespaces/a/daemonsets/b", "DELETE daemonsets/NAME"),
        ("DELETE", "/api/v1/namespaces/a", "DELETE namespaces/NAME"),
        ("GET", "/apis/apps/v1", "GET /apis/apps/v1"),
    ],
)
def test_the_kind_of_a_request_has_no_names(method: str, target: str, kind: str) -> None:
    assert proxy.kind_of(method, target) == kind


def test_the_answers_look_like_the_real_ones() -> None:
    date = proxy.unavailable(60).headers["Retry-After"]
    assert 0 < email.utils.parsedate_to_datetime(date).timestamp() - time.time() <= 60
    assert proxy.unavailable().body.startswith("<html>")
    assert json.loads(proxy.expired("abc").body)["metadata"] == {"continue": "abc"}
    assert json.loads(proxy.expired().body)["reason"] == "Expired"
    assert proxy.too_many_requests("7").headers["Retry-After"] == "7"
