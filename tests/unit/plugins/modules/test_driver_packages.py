# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import driver_packages
from inline_snapshot import snapshot as wording

from tests.unit.fakes.apt_host import AptHost
from tests.unit.fakes.modules import RunModule

VERSION = "535.261.03-1"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AptHost:
    host = AptHost(tmp_path, {name: [VERSION] for name in ("nvidia-open-kernel-dkms", "nvidia-smi", "libcuda1")})
    monkeypatch.setattr(driver_packages, "Host", lambda: host)
    return host


def test_installs_and_removes_the_driver(host: AptHost, run_module: RunModule) -> None:
    predicted = run_module("driver_packages", _ansible_check_mode=True)
    done = run_module("driver_packages")
    assert predicted.result == done.result and done.result["wanted"]["version"] == "535.261.03"
    assert host.packages["nvidia-smi"] == VERSION
    assert run_module("driver_packages").result["changed"] is False
    assert run_module("driver_packages", state="absent").result["action"] == "remove"
    assert run_module("driver_packages", state="absent").result["changed"] is False


def test_a_refusal_is_one_message_with_the_plan(host: AptHost, run_module: RunModule) -> None:
    failed = run_module("driver_packages", branch="590")
    assert failed.rc == 1 and failed.result["action"] == "install"
    assert failed.result["msg"] == wording(
        "The host's repositories do not offer the driver 590. They offer 535.261.03."
    )


def test_the_way_back_needs_the_former_driver(host: AptHost, run_module: RunModule) -> None:
    failed = run_module("driver_packages", state="restored")
    assert failed.rc == 1 and "former" in failed.result["msg"]
