# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures that more than one folder of unit tests uses."""

from __future__ import annotations

import ctypes
import importlib
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting

from lab.nvml import Gpu, build, state
from tests.unit.fakes.answers import Handler
from tests.unit.fakes.answers import serving as answering
from tests.unit.fakes.api import FakeApi, serving
from tests.unit.fakes.stack import ready

SetNvml = t.Callable[..., None]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the fake library and load it, so that pynvml finds it by its name in every child of this process."""
    # A child then need not import pynvml, which takes long on a busy machine.
    importlib.import_module("pynvml")
    library = build(tmp_path_factory.mktemp("nvml"))
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return library


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetNvml:
    """``nvml(gpus, init=18)`` sets what the fake library answers. Without a call, there is no library."""
    path = tmp_path / "nvml.state"
    monkeypatch.setenv("FAKE_NVML_STATE", str(path))

    def set_state(gpus: t.Sequence[Gpu], **system: t.Any) -> None:
        state(path, gpus, **system)

    return set_state


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[FakeApi]:
    """A fake API server with two nodes and a stack that is ready. Waits poll it quickly."""
    # A connection with a kubeconfig, in an earlier test of this process, leaves its certificates behind as defaults.
    monkeypatch.setattr("kubernetes.client.Configuration._default", None)
    monkeypatch.setattr(waiting, "POLL_S", 0.01)
    monkeypatch.setattr(waiting, "POLL_FACTOR", 0)
    with serving(ready(2)) as server:
        yield server


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[str]:
    """The address of a server that gives the answers of `Handler`."""
    # A kubeconfig becomes the client library's default. No other test sees it.
    monkeypatch.setattr("kubernetes.client.Configuration._default", None)
    for name in ("answers", "asked", "headers_seen"):
        monkeypatch.setattr(Handler, name, [])
    with answering() as address:
        yield address
