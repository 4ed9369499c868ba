# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import kernel_packages

from tests.unit.fakes.modules import RunModule
from tests.unit.plugins.module_utils._host.kernel.conftest import NEW, NEWER, OLD, Ubuntu


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ubuntu:
    host = Ubuntu(tmp_path)
    monkeypatch.setattr(kernel_packages, "Host", lambda: host)
    return host


def test_installs_a_kernel_and_goes_back(host: Ubuntu, run_module: RunModule) -> None:
    predicted = run_module("kernel_packages", release=NEW, _ansible_check_mode=True)
    done = run_module("kernel_packages", release=NEW)
    assert done.rc == 0 and predicted.result == done.result and done.result["changed"]
    for check in ({"_ansible_check_mode": True}, {}):
        assert run_module("kernel_packages", release=NEW, **check).result["changed"] is False
    back = run_module("kernel_packages", release=done.result["way_back"], headers="ignored")
    assert (back.result["changed"], back.result["next_boot"]) == (True, OLD)


def test_a_refusal_fails_and_check_mode_tells_it(host: Ubuntu, run_module: RunModule) -> None:
    predicted = run_module("kernel_packages", release=NEWER, _ansible_check_mode=True)
    assert (predicted.rc, predicted.result["changed"]) == (0, False)
    refused = run_module("kernel_packages", release=NEWER)
    assert (refused.rc, refused.result["reason"]) == (1, "KernelRefused")
    assert refused.result["msg"] == predicted.result["refused"] != ""


def test_wrong_options_are_one_sentence(host: Ubuntu, run_module: RunModule) -> None:
    assert run_module("kernel_packages", release=NEW, lock_timeout=-1).result["msg"].startswith("lock_timeout is -1")
    assert "value of headers must be one of" in run_module("kernel_packages", release=NEW, headers="no").result["msg"]
