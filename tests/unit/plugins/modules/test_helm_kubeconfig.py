# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests.unit.fakes.api import FakeApi


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("K8S_AUTH_CONTEXT", raising=False)
    return tmp_path


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_connection_is_in_a_file_that_only_the_user_can_read(
    run_module: t.Callable, api: FakeApi, temporary_folder: Path, check_mode: bool
) -> None:
    done = run_module("helm_kubeconfig", **api.connection, impersonate_user="ann", _ansible_check_mode=check_mode)
    path = Path(done.result["kubeconfig"])
    assert done.result | {"kubeconfig": "", "invocation": {}} == {
        "changed": False,
        "kubeconfig": "",
        "context": "gpuops",
        "invocation": {},
    }
    assert path.parent == temporary_folder and path.name.startswith("gpuops-") and path.name.endswith(".kubeconfig")
    assert path.stat().st_mode & 0o777 == 0o600
    written = json.loads(path.read_text())
    assert written["clusters"][0]["cluster"] == {"server": api.url}
    assert written["users"][0]["user"] == {"token": "token-of-a-test", "as": "ann"}
    assert "token-of-a-test" not in json.dumps(done.result)


def test_a_connection_that_does_not_work_is_the_message(run_module: t.Callable, temporary_folder: Path) -> None:
    done = run_module("helm_kubeconfig", kubeconfig={"no": "kubeconfig"})
    assert done.rc == 1 and "Check kubeconfig, context" in done.result["msg"]
    assert done.result["reason"] == "BadConnectionSettings" and list(temporary_folder.iterdir()) == []
