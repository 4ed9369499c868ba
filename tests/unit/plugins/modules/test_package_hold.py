# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import package_hold

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.modules import RunModule
from tests.unit.plugins.module_utils._host.settings.test_packages import debian


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = debian(tmp_path)
    monkeypatch.setattr(package_hold, "Host", lambda: host)
    return host


def test_predicts_holds_and_releases(host: FakeHost, run_module: RunModule) -> None:
    predicted = run_module("package_hold", packages=["linux-*"], _ansible_check_mode=True, _ansible_diff=True)
    assert not host.exists("/holds")
    done = run_module("package_hold", packages=["linux-*"], _ansible_diff=True)
    assert predicted.result == done.result and done.result["diff"] == {
        "before": "",
        "after": "linux-image-6.8.0-60-generic\n",
    }
    assert not run_module("package_hold", packages=["linux-*"]).result["changed"]
    assert run_module("package_hold", state="absent").result["held"] == []


def test_a_host_without_a_package_manager_is_one_message(host: FakeHost, run_module: RunModule) -> None:
    host.commands = {}
    failed = run_module("package_hold", packages=["linux-*"])
    assert (failed.rc, failed.result["reason"]) == (1, "Unsupported")
