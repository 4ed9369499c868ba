# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every module runs alike, and what a cluster or a host says cannot forge lines of a terminal or a log."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module, run, with_warnings
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

HOSTILE = "\x1b[2K\x1b[1A\x1b[32mok: [localhost] all good"
HARMLESS = "\\x1b[2K\\x1b[1A\\x1b[32mok: [localhost] all good"


def end_of(work: t.Callable[[Module], None], capsys: pytest.CaptureFixture[str]) -> dict[str, t.Any]:
    """Return what a module prints at its end."""
    with patch_module_args({}), pytest.raises(SystemExit):
        work(Module(ArgumentSpec({})))
    return dict(json.loads(capsys.readouterr().out))


def test_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    end = end_of(lambda module: module.exit_json(changed=False, pods=[{"message": HOSTILE}]), capsys)
    assert end["pods"] == [{"message": HARMLESS}]


def test_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    end = end_of(lambda module: module.fail_json(msg=HOSTILE, reason="NotReady", said=HOSTILE), capsys)
    assert (end["failed"], end["msg"], end["reason"], end["said"]) == (True, HARMLESS, "NotReady", HARMLESS)


def test_a_warning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    monkeypatch.setattr(basic.AnsibleModule, "warn", lambda self, text, **options: heard.append(text))

    def work(module: Module) -> None:
        module.warn(HOSTILE)
        module.exit_json()

    end_of(work, capsys)
    assert heard == [HARMLESS]


# ---- a run --------------------------------------------------------------------------------------------------------

SPEC = ArgumentSpec({"count": {"type": "int", "default": 1}, "values": {"type": "dict", "default": {}}})


def ran(
    work: t.Callable[[Module], Json], capsys: pytest.CaptureFixture[str], given: Json | None = None, **options: t.Any
) -> tuple[object, dict[str, t.Any]]:
    """Return the exit code of a module that does this work, and what it prints."""
    with patch_module_args({"_ansible_tracebacks_for": [], **(given or {})}), pytest.raises(SystemExit) as ended:
        run(SPEC, work, **options)
    return ended.value.code, dict(json.loads(capsys.readouterr().out))


def raising(error: BaseException) -> t.Callable[[Module], Json]:
    def work(module: Module) -> Json:
        raise error

    return work


def test_a_run_ends_with_the_result_of_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = ran(lambda module: {"changed": True, "count": module.params["count"]}, capsys, {"count": 3})
    assert (code, result["changed"], result["count"]) == (0, True, 3)


def test_a_result_without_changed_is_one_that_only_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(lambda module: {"seen": 1}, capsys)[1]["changed"] is False


def test_check_mode_is_supported_and_known_to_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = ran(lambda module: {"checks": module.check_mode}, capsys, {"_ansible_check_mode": True})
    assert (code, result["checks"]) == (0, True) and "skipped" not in result


def test_warnings_are_shown_and_leave_the_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(basic.AnsibleModule, "warn", lambda self, text, **options: heard.append(text))
    code, result = ran(lambda module: with_warnings({"changed": False}, iter(["one", HOSTILE])), capsys)
    assert (code, heard) == (0, ["one", HARMLESS]) and "warnings" not in result


def test_an_error_becomes_the_failure_with_its_details(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = ran(raising(GpuOpsError("It is full.", reason="NoSpace", left=7)), capsys)
    assert (code, result["failed"], result["msg"], result["reason"], result["left"]) == (
        1, True, "It is full.", "NoSpace", 7,
    )  # fmt: skip


def test_an_interruption_is_a_failure_of_the_modules_that_have_a_sentence_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, result = ran(raising(KeyboardInterrupt()), capsys, interrupted="Run it again.")
    assert (code, result["msg"], result["reason"]) == (1, "Run it again.", "Interrupted")
    with patch_module_args({}), pytest.raises(KeyboardInterrupt):
        run(SPEC, raising(KeyboardInterrupt()))


def test_numbers_below_their_minimum_are_refused_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = ran(raising(AssertionError("too far")), capsys, {"count": 0}, minimums={"count": 1})
    assert (code, result["msg"], result["reason"]) == (1, "count is 0: give 1 or more.", "Invalid")


def test_a_missing_library_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    needed = {"json": True, "PyYAML": False}
    code, result = ran(raising(AssertionError("too far")), capsys, libraries=needed)
    assert (code, result["msg"]) == (1, wording("This module needs PyYAML on the machine that runs it."))


def test_secrets_in_the_named_options_are_masked_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"values": {"env": [{"name": "NGC_API_KEY", "value": "correct-horse-battery"}]}}
    code, result = ran(lambda module: {"said": "correct-horse-battery"}, capsys, given, secrets=["values"])
    assert (code, result["said"]) == (0, "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER")
    assert ran(lambda module: {"said": "correct-horse-battery"}, capsys, given)[1]["said"] == "correct-horse-battery"
