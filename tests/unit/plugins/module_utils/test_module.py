# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cluster or a host says cannot forge lines of a terminal or a log."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

HOSTILE = "\x1b[2K\x1b[1A\x1b[32mok: [localhost] all good"
HARMLESS = "\\x1b[2K\\x1b[1A\\x1b[32mok: [localhost] all good"


def end_of(work: t.Callable[[Module], None], capsys: pytest.CaptureFixture[str]) -> dict[str, t.Any]:
    """Return what a module prints at its end."""
    with patch_module_args({}), pytest.raises(SystemExit):
        work(Module(argument_spec={}))
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
