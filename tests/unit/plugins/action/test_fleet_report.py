# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The half of fleet_report that runs on the controller: it writes the page, and returns only totals."""

from __future__ import annotations

import sys
import types
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpuops.nvidia.plugins.action.fleet_report import ActionModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import picture as source
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.fleets import H100, data, part, row

Json = dict[str, t.Any]


def action(answer: Json | None, task: Json, connection: Json, args: Json) -> ActionModule:
    """Return the action with a module that answers so, or must not run."""
    made = ActionModule.__new__(ActionModule)
    made._load_name = "gpuops.nvidia.fleet_report"
    made._task = types.SimpleNamespace(args=args, **{"check_mode": False, "async_val": 0, "environment": [{}], **task})
    made._connection = types.SimpleNamespace(**{"transport": "local", "become": None, **connection})
    made._templar = types.SimpleNamespace(template=lambda text: text.replace("{{ python }}", sys.executable))
    made._execute_module = lambda **options: dict(answer) if answer else pytest.fail("The module should not run.")
    made.cleanup = lambda force=False: None
    return made


def started(made: ActionModule, python: str) -> Json:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})
        return made.run(None, {"ansible_python_interpreter": python})


def run(answer: Json, check_mode: bool = False, **args: t.Any) -> Json:
    """Run the action with a module that runs elsewhere and answers so."""
    return started(action(answer, {"check_mode": check_mode}, {"transport": "ssh"}, args), sys.executable)


def picture(held: int = 3, taken: str = "2026-11-23T12:00:00Z") -> Json:
    found = data([row("gpu-0000", H100, part(8, held))], taken=taken)
    return {"changed": False, "picture": found, "invocation": {"module_args": {"hosts": {}}}}


def test_the_page_is_written_and_only_its_totals_return(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "fleet.html"
    result = run(picture(), path=str(path), title="Production")
    assert "<title>Production: The GPU node" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert result == {
        "changed": True,
        "path": str(path),
        "size": path.stat().st_size,
        "summary": {
            "headline": wording("The GPU node is in service."),
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


# ---- on this machine ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("python", [sys.executable, "{{ python }}"])
def test_a_module_that_would_run_in_this_python_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    given: list[t.Mapping[str, t.Any]] = []
    monkeypatch.setattr(source, "picture", lambda options: given.append(options) or picture()["picture"])
    here, there = tmp_path / "here.html", tmp_path / "there.html"
    result = started(action(None, {}, {}, {"path": str(here), "max_pods": "7"}), python)
    assert result == {**run(picture(), path=str(there)), "path": str(here)}
    assert here.read_text() == there.read_text()
    assert (given[0]["max_pods"], given[0]["title"]) == (7, "GPU fleet"), "options are checked and have their defaults"


@pytest.mark.parametrize(
    ("task", "connection", "python"),
    [
        ({}, {"transport": "ssh"}, sys.executable),
        ({}, {"become": "sudo"}, sys.executable),
        ({"environment": [{}, {"K8S_AUTH_CONTEXT": "other"}]}, {}, sys.executable),
        ({"async_val": 60}, {}, sys.executable),
        ({}, {}, "/usr/bin/other-python"),
        ({}, {}, ""),
    ],
)
def test_otherwise_it_is(tmp_path: Path, task: Json, connection: Json, python: str) -> None:
    path = tmp_path / "fleet.html"
    assert started(action(picture(), task, connection, {"path": str(path)}), python)["changed"] and path.exists()


def test_a_failure_here_is_that_of_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: t.Mapping[str, t.Any]) -> t.NoReturn:
        raise GpuOpsError(f"Cannot reach \x1b[31m{options['api_key']}", reason="Unreachable")

    monkeypatch.setattr(source, "picture", fail)
    path = tmp_path / "fleet.html"
    result = started(action(None, {}, {}, {"path": str(path), "api_key": "hunter22"}), sys.executable)
    assert result["failed"] and result["reason"] == "Unreachable" and not path.exists()
    assert "hunter22" not in result["msg"] and "\x1b" not in result["msg"], result["msg"]


def test_wrong_options_are_refused_here_too(tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match=r"Unsupported parameters.*colour"):
        started(action(None, {}, {}, {"path": str(tmp_path / "fleet.html"), "colour": "red"}), sys.executable)


def test_a_secret_of_the_prometheus_is_in_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def echoes(options: t.Mapping[str, t.Any]) -> Json:
        said = f"Prometheus refuses {options['prometheus']['token']} of {options['prometheus']['secret_headers']}."
        found: Json = picture()["picture"]
        return {**found, "gaps": [{"what": "how much the GPUs are used", "why": said}]}

    monkeypatch.setattr(source, "picture", echoes)
    path = tmp_path / "fleet.html"
    server = {"url": "https://prometheus.example.com", "token": "hunter22", "secret_headers": {"X-Key": "swordfish"}}
    assert started(action(None, {}, {}, {"path": str(path), "prometheus": server}), sys.executable)["changed"]
    text = path.read_text()
    assert "Prometheus refuses" in text and "hunter22" not in text and "swordfish" not in text
