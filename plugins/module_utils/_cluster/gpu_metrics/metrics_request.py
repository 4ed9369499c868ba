# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of gpu_metrics_info ask for, checked. Pure."""

from __future__ import annotations

import dataclasses
import math
import re
import typing as t
from urllib.parse import urlsplit

from ansible_collections.gpuops.nvidia.plugins.module_utils import _secret_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec, Option
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_usage import IdleRule
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.prometheus_api import (
    PrometheusServer,
    basic,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
_RANGE = re.compile(r"([0-9]{1,5})([mhdw])")
_SHORTEST_S, _LONGEST_S = 300, 366 * 86400
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TEXT = re.compile(r"[\x20-\x7e]*")

_SERVER: dict[str, Option] = {
    "url": {"type": "str", "required": True},
    "range": {"type": "str", "default": "24h"},
    "match": {"type": "dict", "default": {}},
    "token": {"type": "str", "no_log": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "headers": {"type": "dict", "default": {}},
    "secret_headers": {"type": "dict", "default": {}, "no_log": True},
    "ca_cert": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 60},
}

USAGE = ArgumentSpec(
    {
        "idle_below": {"type": "float", "default": 1.0},
        "price_per_gpu_hour": {"type": "float"},
        "prometheus": ArgumentSpec(
            _SERVER,
            mutually_exclusive=[("token", "username")],
            required_together=[("username", "password")],
        ).as_dict(),
    },
)
"""Where metrics come from, what counts as idle, and what it costs. The documentation fragment is ``usage``."""

OPTIONS = ArgumentSpec(
    {
        "namespace": {"type": "str", "default": "gpu-operator"},
        "label_selector": {"type": "str", "default": "app=nvidia-dcgm-exporter"},
        "port": {"type": "int", "default": 9400},
        "nodes": {"type": "list", "elements": "str"},
        "parallel": {"type": "int", "default": 20},
        "timeout": {"type": "int", "default": 15},
        "allocated": {"type": "bool", "default": True},
    },
).including(USAGE)


def defaults() -> Json:
    """Return the options' values for a caller that has only some of them."""
    return {name: option.get("default") for name, option in OPTIONS.options.items()}


@dataclasses.dataclass(frozen=True)
class PrometheusRequest:
    """The Prometheus to ask, the labels that its series have, and the length of the time range."""

    server: PrometheusServer
    match: t.Mapping[str, str]
    range_s: int


@dataclasses.dataclass(frozen=True)
class MetricsRequest:
    """Where the metrics come from, and what counts as idle."""

    rule: IdleRule
    prometheus: PrometheusRequest | None


def request_of(options: t.Mapping[str, t.Any]) -> MetricsRequest:
    """Return what a module's options ask for. Raise for a value that cannot be meant."""
    refuse_below(options, parallel=1, timeout=1, port=1)
    below, price = options["idle_below"], options["price_per_gpu_hour"]
    if not 0 <= below <= 100:
        raise _invalid(f"idle_below is {below}: give a percentage from 0 to 100.")
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise _invalid(f"price_per_gpu_hour is {price}: give a number that is not negative.")
    server = options["prometheus"]
    rule = IdleRule(below, price, has_range=server is not None)
    return MetricsRequest(rule, None if server is None else _prometheus(server))


def _prometheus(given: Json) -> PrometheusRequest:
    if given["timeout"] < 1:
        raise _invalid(f"prometheus.timeout is {given['timeout']}: give 1 or more.")
    match = {str(name): str(value) for name, value in (given["match"] or {}).items()}
    odd = next((name for name in match if not _LABEL.fullmatch(name) or name == "__name__"), None)
    if odd is not None:
        raise _invalid(f"prometheus.match has {odd!r}, which is no name of a label: use letters, digits and _.")
    server = PrometheusServer(
        _url(given["url"]), _headers(given), given["validate_certs"], given["ca_cert"], given["timeout"]
    )
    return PrometheusRequest(server, match, _range_s(given["range"]))


def _url(text: str) -> str:
    """Return the address of a Prometheus. It is not in any message: it may hold a password."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not _TEXT.fullmatch(text) or " " in text:
        raise _invalid("prometheus.url is no address: give one such as https://prometheus.example.com:9090.")
    if parts.username is not None or parts.password is not None:
        raise _invalid("prometheus.url contains a login: give it in prometheus.username and prometheus.password.")
    if parts.query or parts.fragment:
        raise _invalid("prometheus.url has a query: give the address before /api/v1, and labels in prometheus.match.")
    return text


def _headers(given: Json) -> dict[str, str]:
    """Return the headers of each request. No message contains a value of theirs."""
    plain, secret = given["headers"] or {}, given["secret_headers"] or {}
    for name in plain:
        if str(name).lower() in ("authorization", "cookie") or _secret_names.is_secret(str(name)):
            raise _invalid(f"prometheus.headers has {name}, which is secret: give it in prometheus.secret_headers.")
    headers = {str(name): str(value) for name, value in {**plain, **secret}.items()}
    if given["token"] is not None:
        headers["Authorization"] = f"Bearer {given['token']}"
    if given["username"] is not None:
        headers["Authorization"] = basic(given["username"], given["password"])
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise _invalid(f"{name!r} is no name of a header: use letters, digits and -.")
        if not _TEXT.fullmatch(value):
            where = "prometheus.token" if name == "Authorization" and given["token"] is not None else f"header {name}"
            raise _invalid(f"The value of {where} has a line break or characters beyond ASCII: remove them.")
    return headers


def _range_s(text: str) -> int:
    found = _RANGE.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise _invalid(f"prometheus.range is {text}: give 5m to 52w, as a number with m, h, d or w, such as 24h or 7d.")
    return seconds


def _invalid(message: str) -> GpuOpsError:
    return GpuOpsError(message, reason="Invalid")
