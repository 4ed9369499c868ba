# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket
import time
import typing as t
from pathlib import Path
from urllib.error import URLError

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import prometheus_api
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.prometheus_api import (
    PrometheusApi,
    PrometheusServer,
    QueryResult,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.prometheus import NOW, FakePrometheus, Reply, failed, serving, succeeded

SECRET = {"Authorization": "Bearer hunter2", "X-Key": "hunter2"}


@pytest.fixture
def fake() -> t.Iterator[FakePrometheus]:
    with serving() as server:
        yield server


def api(fake: FakePrometheus, **settings: t.Any) -> PrometheusApi:
    return PrometheusApi(PrometheusServer(f"{fake.url}/prom/", SECRET, **{"timeout_s": 5, **settings}))


def refused(fake: FakePrometheus, reply: Reply | None = None, **settings: t.Any) -> GpuOpsError:
    if reply:
        fake.answer = lambda kind, asked: reply
    with pytest.raises(GpuOpsError) as error:
        api(fake, **settings).instant("up", NOW)
    assert "hunter2" not in error.value.msg and error.value.msg.endswith(".")
    return error.value


def message(error: GpuOpsError, fake: FakePrometheus) -> str:
    return error.msg.replace(fake.url, "http://prometheus")


def test_queries_reach_the_api_below_the_address(fake: FakePrometheus) -> None:
    fake.now = [({"__name__": "up"}, 1.0)]
    fake.highest = [({"a": "b"}, {NOW: 5.0})]
    fake.warnings = ["one\nline.", "x" * 500]
    mine = api(fake)
    assert mine.now() == NOW
    found = mine.instant('up{a="&b"}', NOW)
    assert found.series == [{"metric": {"__name__": "up"}, "value": [NOW, "1.0"]}]
    assert found.warnings == ["one line", "x" * 300]
    assert mine.steps("max", NOW - 600, NOW, 300).series == [{"metric": {"a": "b"}, "values": [[NOW, "5.0"]]}]
    assert [(kind, asked) for kind, asked, dummy in fake.log] == [
        ("query", {"query": "time()"}),
        ("query", {"query": 'up{a="&b"}', "time": str(NOW)}),
        ("query_range", {"query": "max", "start": str(NOW - 600), "end": str(NOW), "step": "300"}),
    ]
    assert {headers["authorization"] + headers["x-key"] for dummy, asked, headers in fake.log} == {
        "Bearer hunter2hunter2"
    }


def test_warnings_may_be_missing_or_odd(fake: FakePrometheus) -> None:
    assert api(fake).instant("up", NOW) == QueryResult([], [])
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}, "warnings": 5})
    fake.answer = lambda kind, asked: (200, body.encode(), {})
    assert api(fake).instant("up", NOW) == QueryResult([], [])


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "Invalid"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (422, "ServerError"),
        (429, "TooManyRequests"),
        (500, "ServerError"),
        (503, "ServerError"),
    ],
)
def test_a_refusal_is_a_sentence(fake: FakePrometheus, status: int, reason: str) -> None:
    error = refused(fake, failed(status, "query processing would load too many samples\n" + "x" * 500))
    assert (error.reason, error.details["status"]) == (reason, status)
    assert len(error.msg) < 600 and "\n" not in error.msg
    assert refused(fake, (status, b"<html>hunter2</html>", {})).reason == reason


def test_the_words_of_refusals(fake: FakePrometheus) -> None:
    found = {status: message(refused(fake, failed(status, "why")), fake) for status in (400, 401, 403, 404, 422)}
    found |= {status: message(refused(fake, failed(status, "why")), fake) for status in (429, 500, 503)}
    assert found[400] == wording(
        "Prometheus at http://prometheus does not understand the query (why). Check prometheus.match."
    )
    assert found[401] == wording(
        "Prometheus at http://prometheus refuses the credentials. Check prometheus.token, or username and password."
    )
    assert found[403] == wording(
        "Prometheus at http://prometheus does not allow queries (why). Check the rights of the user, and headers of tenants."
    )
    assert found[404] == wording(
        "Prometheus at http://prometheus has no API there. prometheus.url is the address before /api/v1."
    )
    assert found[422] == wording(
        "Prometheus at http://prometheus cannot answer the query (why). Shorten prometheus.range, or narrow prometheus.match."
    )
    assert found[429] == wording("Prometheus at http://prometheus has too many queries. Try again later.")
    assert found[500] == wording("Prometheus at http://prometheus failed with HTTP status 500 (why). Look at its log.")
    assert found[503] == wording(
        "Prometheus at http://prometheus gave the query up (why). Shorten prometheus.range, or try again later."
    )


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Sign in</html>",
        b"",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b"{}",
        b'{"status": "success"}',
        b'{"status": "success", "data": {"resultType": "vector", "result": {}}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": []}}',
        b'{"status": "error", "data": {"resultType": "vector", "result": []}}',
        b'{"status": "success", "data": []}',
    ],
)
def test_what_is_no_prometheus_is_named(fake: FakePrometheus, body: bytes) -> None:
    assert message(refused(fake, (200, body, {})), fake) == wording(
        "http://prometheus does not answer like a Prometheus. prometheus.url is the address before /api/v1, and a page for logging in must not stand before it."
    )


@pytest.mark.parametrize("result", [[], [None, "1"], ["NaN", "1"], [1e999, "1"], ["x", "1"], [[], "1"]])
def test_a_server_without_a_clock_is_no_prometheus(fake: FakePrometheus, result: list[t.Any]) -> None:
    fake.answer = lambda kind, asked: succeeded("scalar", result)
    with pytest.raises(GpuOpsError, match="like a Prometheus"):
        api(fake).now()


def test_a_long_answer_is_refused(fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "_LONGEST_ANSWER", 2 * 1024**2)
    monkeypatch.setattr(prometheus_api, "_PIECE", 1024)
    error = refused(fake, succeeded("vector", ["x" * 3 * 1024**2]))
    assert message(error, fake) == wording(
        "The answer of Prometheus at http://prometheus is longer than 2 MiB. Choose the series of one cluster in prometheus.match."
    )


def test_a_slow_answer_is_given_up(fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "_PIECE", 10)
    moments = iter([0.0, 1.0, 2.0, 6.0])
    monkeypatch.setattr(prometheus_api.time, "monotonic", lambda: next(moments, 6.0))
    error = refused(fake)
    assert (error.reason, message(error, fake)) == (
        "TimedOut",
        wording(
            "Prometheus at http://prometheus: there was no answer in time. Raise prometheus.timeout, or shorten prometheus.range."
        ),
    )


def test_a_server_that_says_nothing_is_given_up(fake: FakePrometheus) -> None:
    fake.answer = lambda kind, asked: time.sleep(2.5)
    assert refused(fake, timeout_s=1).reason == "TimedOut"


@pytest.mark.parametrize(
    "reply",
    [
        (200, b"\x1f\x8b broken", {"Content-Encoding": "gzip"}),
        (200, succeeded("vector", [])[1][:-9], {"Content-Encoding": "gzip"}),
        (200, b"{}", {"Content-Length": "50"}),
        (302, b"", {"Location": "ftp://elsewhere/"}),
    ],
)
def test_a_broken_answer_is_an_error(fake: FakePrometheus, reply: Reply) -> None:
    assert refused(fake, reply).reason in ("Unreachable", "ServerError")


def test_nobody_there(fake: FakePrometheus) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        fake.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert message(refused(fake), fake) == wording(
            "Prometheus at http://prometheus: the connection is refused. Check prometheus.url."
        )


def test_a_name_that_nobody_knows(fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: t.Any, **settings: t.Any) -> t.NoReturn:
        raise URLError(socket.gaierror(-2, "Name or service not known"))

    monkeypatch.setattr(prometheus_api, "open_url", unknown)
    assert message(refused(fake), fake) == wording(
        "Prometheus at http://prometheus: its name is not known. Check prometheus.url."
    )


def test_a_server_without_tls(fake: FakePrometheus) -> None:
    fake.url = fake.url.replace("http:", "https:")
    error = refused(fake)
    assert message(error, fake).replace("https:", "http:") == wording(
        "Prometheus at http://prometheus: its certificate is not trusted, or it speaks no TLS. Check prometheus.ca_cert."
    )


def test_a_file_of_certificates_that_is_not_there(fake: FakePrometheus, tmp_path: Path) -> None:
    fake.url = fake.url.replace("http:", "https:")
    error = refused(fake, ca_path=str(tmp_path / "none.pem"))
    assert (error.reason, message(error, fake)) == (
        "Invalid",
        wording("Prometheus at http://prometheus: the file of prometheus.ca_cert cannot be read."),
    )


def test_another_server_does_not_see_the_credentials(fake: FakePrometheus) -> None:
    with serving() as other:
        fake.answer = lambda kind, asked: (302, b"", {"Location": f"{other.url}/api/v1/query?query=time()"})
        with pytest.raises(GpuOpsError):
            api(fake).instant("up", NOW)
        ((dummy, asked, headers),) = other.log
        assert asked == {"query": "time()"} and "hunter2" not in str(headers)
