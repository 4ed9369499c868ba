# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import container_runtime

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.modules import RunModule


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(tmp_path, nvidia_ctk="{}\n")
    monkeypatch.setattr(container_runtime, "Host", lambda: host)
    return host


def test_predicts_the_configuration(host: FakeHost, run_module: RunModule) -> None:
    predicted = run_module("container_runtime", name="docker", _ansible_check_mode=True, _ansible_diff=True)
    assert predicted.result["changed"] and predicted.result["diff"][0]["after"] == "{}\n"
    assert host.ran == [["nvidia-ctk", "runtime", "configure", "--runtime=docker", "--dry-run"]]


def test_a_failure_is_one_message(host: FakeHost, run_module: RunModule) -> None:
    failed = run_module("container_runtime", name="docker")
    assert (failed.rc, failed.result["reason"]) == (1, "Unsupported")
