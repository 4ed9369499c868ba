# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from inline_snapshot import snapshot as wording

XID = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_a_file_in_check_mode(run_module: t.Callable, tmp_path: Path) -> None:
    (tmp_path / "dmesg").write_text(f"[   12.123456] \x1b[31m{XID}\n")
    run = run_module("explain", path=str(tmp_path / "dmesg"), _ansible_check_mode=True)
    assert (run.rc, run.result["changed"]) == (0, False)
    assert run.result["findings"][0]["code"] == "XidOffTheBus"
    assert "\x1b" not in run.result["text"] and "gpu" in run.result["text"].lower()


def test_a_path_that_is_missing_fails_with_a_sentence(run_module: t.Callable) -> None:
    run = run_module("explain", path="/nonexistent/x")
    assert (run.rc, run.result["reason"]) == (1, "NotFound")
    assert run.result["msg"] == wording(
        "/nonexistent/x cannot be read: No such file or directory. Set path to a file, a folder or an archive on the controller."
    )


def test_something_to_explain_is_required(run_module: t.Callable) -> None:
    assert "one of the following is required: path, text" in run_module("explain").result["msg"]
