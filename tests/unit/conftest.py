# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures that more than one folder of unit tests uses."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import tries
from hypothesis import settings

from tests.support.clock import LeapingClock
from tests.support.mirrors import home, mirror_of, publisher
from tests.support.nvml import SetNvml, nvml, nvml_library
from tests.unit.fakes.answers import Handler
from tests.unit.fakes.answers import serving as answering
from tests.unit.fakes.api import FakeApi, serving
from tests.unit.fakes.modules import run_module
from tests.unit.fakes.stack import ready

__all__ = ["SetNvml", "api", "home", "mirror_of", "nvml", "nvml_library", "publisher", "run_module", "url"]

# The same examples in every run: what one run finds, the next one must find too.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[FakeApi]:
    """A fake API server with two nodes and a stack that is ready. Waits poll it quickly."""
    # A connection with a kubeconfig, in an earlier test of this process, leaves its certificates behind as defaults.
    monkeypatch.setattr("kubernetes.client.Configuration._default", None)
    monkeypatch.setattr(waiting, "POLL_S", 0.01)
    monkeypatch.setattr(waiting, "POLL_FACTOR", 0)
    monkeypatch.setattr(tries, "FAILING_S", 0.0)
    with serving(ready(2)) as server:
        yield server


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[str]:
    """The address of a server that gives the answers of `Handler`."""
    # A kubeconfig becomes the client library's default. No other test sees it.
    monkeypatch.setattr("kubernetes.client.Configuration._default", None)
    monkeypatch.setattr(tries, "FAILING_S", 0.0)
    for name in ("answers", "asked", "headers_seen"):
        monkeypatch.setattr(Handler, name, [])
    with answering() as address:
        yield address


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass between two looks. The test's cluster has a clock of its own."""
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: None)


@pytest.fixture
def leaps(monkeypatch: pytest.MonkeyPatch) -> LeapingClock:
    """A clock for the whole process that leaps over each sleep, so that waits cost no time of the test's."""
    clock = LeapingClock()
    for name in ("monotonic", "time", "sleep"):
        monkeypatch.setattr(time, name, getattr(clock, name))
    return clock
