# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_usage import IdleRule
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.metrics_request import (
    MetricsRequest,
    request_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

SERVER = {
    "url": "https://prometheus.example.com:9090/prom/",
    "range": "24h",
    "match": {},
    "token": None,
    "username": None,
    "password": None,
    "headers": {},
    "secret_headers": {},
    "ca_cert": None,
    "validate_certs": True,
    "timeout": 60,
}


def request(prometheus: dict[str, t.Any] | None = None, **options: t.Any) -> MetricsRequest:
    server = None if prometheus is None else {**SERVER, **prometheus}
    given = {"parallel": 1, "timeout": 1, "port": 1, "idle_below": 1.0, "price_per_gpu_hour": None}
    return request_of({**given, "prometheus": server, **options})


def refused(prometheus: dict[str, t.Any] | None = None, **options: t.Any) -> str:
    with pytest.raises(GpuOpsError) as failed:
        request(prometheus, **options)
    assert failed.value.reason == "Invalid" and "hunter2" not in failed.value.msg
    return failed.value.msg


def headers(**given: t.Any) -> t.Mapping[str, str]:
    asked = request(given).prometheus
    assert asked is not None and "hunter2" not in repr(asked)
    return asked.server.headers


def test_without_a_prometheus_there_is_a_rule_alone() -> None:
    assert request(idle_below=5.0, price_per_gpu_hour=2.0) == MetricsRequest(IdleRule(5.0, 2.0), None)


@pytest.mark.parametrize(("option", "value"), [("parallel", 0), ("timeout", 0), ("port", 0)])
def test_numbers_below_one_are_refused(option: str, value: int) -> None:
    assert refused(**{option: value}).startswith(f"{option} is 0:")


@pytest.mark.parametrize("value", [-0.1, 100.1, float("nan"), float("inf")])
def test_idle_below_is_a_percentage(value: float) -> None:
    assert refused(idle_below=value).startswith(f"idle_below is {value}:")
    assert [request(idle_below=bound).rule.below for bound in (0.0, 100.0)] == [0.0, 100.0]


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_price_is_a_number(value: float) -> None:
    assert refused(price_per_gpu_hour=value).startswith(f"price_per_gpu_hour is {value}:")
    assert request(price_per_gpu_hour=0.0).rule.price == 0.0


def test_a_prometheus_with_its_range() -> None:
    asked = request({"match": {"cluster": "a", "shard": 7}, "ca_cert": "/ca", "timeout": 5, "validate_certs": False})
    found = asked.prometheus
    assert found is not None and asked.rule.has_range
    assert (found.match, found.range_s) == ({"cluster": "a", "shard": "7"}, 86400)
    server = found.server
    assert (server.url, server.name) == (SERVER["url"], "https://prometheus.example.com:9090")
    assert (server.ca_path, server.validate_certs, server.timeout_s, server.headers) == ("/ca", False, 5, {})
    assert request({"match": None, "headers": None, "secret_headers": None}).prometheus is not None


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("1h", 3600), ("7d", 604800), ("52w", 52 * 604800), ("300m", 18000)]
)
def test_a_range_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    found = request({"range": text}).prometheus
    assert found is not None and found.range_s == seconds


@pytest.mark.parametrize("text", ["", "4m", "53w", "1", "1y", "1h30m", "-1h", "1.5h", " 1h", "999999d", "\u0661h"])
def test_other_ranges_are_refused(text: str) -> None:
    assert refused({"range": text}).startswith(f"prometheus.range is {text}:")
    assert refused({"range": "5s"}) == wording(
        "prometheus.range is 5s: give 5m to 52w, as a number with m, h, d or w, such as 24h or 7d."
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "prometheus:9090",
        "ftp://prometheus",
        "http://",
        "http://[::1",
        "http://host:port",
        "http://host:0x",
        "http://host:0",
        "http://a b",
        "http://a/\n",
        "http://ä.example.com",
        "file:///etc/hunter2",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    assert refused({"url": url}) == wording(
        "prometheus.url is no address: give one such as https://prometheus.example.com:9090."
    )


def test_an_address_holds_no_login_and_no_query() -> None:
    assert refused({"url": "https://me:hunter2@host"}) == wording(
        "prometheus.url contains a login: give it in prometheus.username and prometheus.password."
    )
    assert refused({"url": "https://hunter2@host"}).startswith("prometheus.url contains")
    assert refused({"url": "https://:hunter2@host"}).startswith("prometheus.url contains")
    assert refused({"url": "https://host/?token=hunter2"}) == wording(
        "prometheus.url has a query: give the address before /api/v1, and labels in prometheus.match."
    )
    assert refused({"url": "https://host/#x"}).startswith("prometheus.url has")
    assert request({"url": "http://[::1]:9090"}).prometheus is not None


def test_a_query_takes_a_second_at_least() -> None:
    assert refused({"timeout": 0}).startswith("prometheus.timeout is 0:")


@pytest.mark.parametrize("name", ["", "a-b", "1a", "__name__", 'a="b",c'])
def test_odd_names_of_labels_are_refused(name: str) -> None:
    assert refused({"match": {name: "x"}}).startswith(f"prometheus.match has {name!r},")


def test_credentials_become_a_header() -> None:
    assert headers(token="hunter2") == {"Authorization": "Bearer hunter2"}
    encoded = base64.b64encode(b"me:hunter2").decode()
    assert headers(username="me", password="hunter2") == {"Authorization": f"Basic {encoded}"}
    assert headers(headers={"X-Scope-OrgID": 7}, secret_headers={"X-Api-Key": "hunter2"}) == {
        "X-Scope-OrgID": "7",
        "X-Api-Key": "hunter2",
    }


@pytest.mark.parametrize("name", ["Authorization", "cookie", "X-Api-Key", "X-Auth-Token", "X-Password"])
def test_a_secret_header_is_given_as_a_secret(name: str) -> None:
    assert refused({"headers": {name: "hunter2"}}).startswith(f"prometheus.headers has {name},")


def test_headers_have_one_line() -> None:
    assert refused({"token": "hunter2\n"}) == wording(
        "The value of prometheus.token has a line break or characters beyond ASCII: remove them."
    )
    assert refused({"secret_headers": {"X-Key": "hunter2\r\nX: y"}}) == wording(
        "The value of header X-Key has a line break or characters beyond ASCII: remove them."
    )
    assert refused({"headers": {"X-Name": "hunter2ü"}}).startswith("The value of header X-Name")
    assert refused({"headers": {"X Name:": "hunter2"}}).startswith("'X Name:' is no name")
    assert refused({"secret_headers": {"Authorization": "hunter2\n"}}).startswith("The value of header Authorization")
