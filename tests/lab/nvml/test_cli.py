# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``python -m lab nvml``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.cli import main

SCRIPT = """
import pynvml
pynvml.nvmlInit()
handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
print(*(pynvml.nvmlDeviceGetName(handle) for handle in handles), sep=",")
"""


def test_a_program_sees_the_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nvml", "build", str(tmp_path / "a folder"), "--model", "l4", "--gpus", "2"]) == 0
    command = f'eval "$1"; exec {sys.executable} -c "$2"'
    shell = ["sh", "-ec", command, "sh", capsys.readouterr().out, SCRIPT]
    answer = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert answer == "NVIDIA L4,NVIDIA L4\n"


def test_without_a_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["nvml", "build", str(tmp_path)]) == 3
    assert capsys.readouterr().err == "lab: The simulated NVML needs a C compiler, and there is no cc on PATH.\n"
