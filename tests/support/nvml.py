# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures for tests on the simulated NVML."""

from __future__ import annotations

import ctypes
import importlib
import typing as t
from pathlib import Path

import pytest

from lab.nvml import Gpu, build, state

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
