# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import host_preflight_info

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.modules import RunModule
from tests.unit.plugins.module_utils._host.guests.test_guest_problems import FOR_GUESTS
from tests.unit.plugins.module_utils._host.test_preflight import FACTS


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put("/etc/os-release", "ID=ubuntu\nVERSION_ID=24.04\n")
    monkeypatch.setattr(host_preflight_info, "Host", lambda: host)
    return host


def test_problems_come_first(run_module: RunModule) -> None:
    done = run_module("host_preflight_info", facts={**FACTS, "gpus": []})
    assert (done.rc, done.result["changed"], done.result["summary"]) == (
        0,
        False,
        {"failures": 1, "warnings": 0, "ok": 8},
    )
    assert done.result["findings"][0]["check"] == "host_gpus"


def test_skips_checks(run_module: RunModule) -> None:
    done = run_module("host_preflight_info", facts={**FACTS, "gpus": []}, skip=["host_gpus"])
    assert done.result["summary"] == {"failures": 0, "warnings": 0, "ok": 8}


def test_names_missing_facts(run_module: RunModule) -> None:
    failed = run_module("host_preflight_info", facts={"gpus": []})
    assert failed.rc == 1 and "lack driver, nouveau, kernel, secure_boot" in failed.result["msg"]


def test_a_host_of_virtual_machines(run_module: RunModule) -> None:
    done = run_module("host_preflight_info", facts={**FACTS, **FOR_GUESTS}, workload_kind="vm-passthrough")
    assert done.result["summary"] == {"failures": 0, "warnings": 0, "ok": 11}
    failed = run_module("host_preflight_info", facts=FACTS, workload_kind="vm-passthrough")
    assert failed.rc == 1
    assert "needs the facts iommu, passthrough, acs" in failed.result["msg"]
