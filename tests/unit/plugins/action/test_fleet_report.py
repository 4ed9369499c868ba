# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The half of fleet_report that runs on the controller: it writes the page, and returns only totals."""

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpuops.nvidia.plugins.action.fleet_report import ActionModule

from tests.support.fleets import H100, data, part, row

Json = dict[str, t.Any]


def run(answer: Json, check_mode: bool = False, **args: t.Any) -> Json:
    """Run the action with a module that answers so."""
    action = ActionModule.__new__(ActionModule)
    action._task = types.SimpleNamespace(args=args, check_mode=check_mode, async_val=0, diff=False)
    action._execute_module = lambda **options: dict(answer)
    action.cleanup = lambda force=False: None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})
        return action.run(None, {})


def picture(held: int = 3, taken: str = "2026-11-23T12:00:00Z") -> Json:
    found = data([row("gpu-0000", H100, part(8, held))], taken=taken)
    return {"changed": False, "picture": found, "invocation": {"module_args": {"hosts": {}}}}


def test_the_page_is_written_and_only_its_totals_return(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "fleet.html"
    result = run(picture(), path=str(path), title="Production")
    assert "<title>Production: The GPU node is in service.</title>" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert result == {
        "changed": True,
        "path": str(path),
        "size": path.stat().st_size,
        "summary": {
            "headline": "The GPU node is in service.",
            "nodes": 1,
            "nodes_in_service": 1,
            "failures": 0,
            "warnings": 0,
            "notes": 0,
            "gaps": 0,
        },
        "changes": [],
        "since": None,
    }


def test_a_second_run_is_a_change_only_if_more_than_the_time_differs(tmp_path: Path) -> None:
    path = str(tmp_path / "fleet.html")
    run(picture(), path=path)
    again = run(picture(taken="2026-11-24T12:00:00Z"), path=path)
    assert again["changed"] is False
    assert "24 November 2026" in Path(path).read_text()
    other = run(picture(held=4, taken="2026-11-25T12:00:00Z"), path=path)
    assert (other["changed"], other["since"]) == (True, "2026-11-24T12:00:00Z")
    assert other["changes"] == ["gpu-0000: GPUs 3 of 8 \u2192 4 of 8."]


def test_check_mode_predicts_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    assert run(picture(), check_mode=True, path=str(path))["changed"] is True
    assert not path.exists()
    run(picture(), path=str(path))
    assert run(picture(), check_mode=True, path=str(path))["changed"] is False


def test_a_module_that_failed_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    failed = {"failed": True, "msg": "Cannot reach the Kubernetes API."}
    assert run(failed, path=str(path)) == failed
    assert not path.exists()


def test_a_page_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnsibleActionFail, match="cannot be written"):
        run(picture(), path=str(tmp_path / "file" / "fleet.html"))
    with pytest.raises(AnsibleActionFail, match="octal number in quotes"):
        run(picture(), path=str(tmp_path / "fleet.html"), mode="384")
