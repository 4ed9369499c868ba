# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import pcie_acs

from tests.unit.fakes.bridges import put_bridge, setpci
from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.modules import RunModule


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(tmp_path)
    put_bridge(host, "0000:00:01.0", 0x001D)
    monkeypatch.setattr(pcie_acs, "Host", lambda: host)
    return host


def test_predicts_turns_off_and_gives_back(host: FakeHost, run_module: RunModule) -> None:
    setpci(host)
    predicted = run_module("pcie_acs", _ansible_check_mode=True, _ansible_diff=True)
    assert host.ran == []
    done = run_module("pcie_acs", _ansible_diff=True)
    assert predicted.result == done.result and done.result["changed"]
    assert done.result["bridges"] == [{"address": "0000:00:01.0", "control": "0000"}]
    assert not run_module("pcie_acs").result["changed"]
    assert run_module("pcie_acs", state="absent").result["bridges"] == [{"address": "0000:00:01.0", "control": "001d"}]


def test_a_missing_command_is_one_message(host: FakeHost, run_module: RunModule) -> None:
    failed = run_module("pcie_acs")
    assert (failed.rc, failed.result["reason"]) == (1, "NotFound")
