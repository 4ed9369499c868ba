# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _python

FILE = Path(_python.__file__)
SENTENCE = (
    "The host's Python is 3.8.18, and gpuops.nvidia needs 3.9 or newer. "
    "Install one and set ansible_python_interpreter, or use a newer release of the operating system."
)
MODULES = FILE.parents[1] / "modules"


@pytest.mark.parametrize("version", [(3, 9, 0), (3, 13, 1)])
def test_newer_pythons(version: tuple[int, ...]) -> None:
    assert _python.refusal(version) == ""


def test_an_older_python() -> None:
    assert _python.refusal((3, 8, 18)) == SENTENCE
    assert _python.refusal((3, 6, 15)).startswith("The host's Python is 3.6.15")


def test_a_module_ends_with_the_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _python.check()
    monkeypatch.setattr(sys, "version_info", (3, 8, 18, "final", 0))
    with pytest.raises(SystemExit) as ended:
        _python.check()
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out) == {"failed": True, "msg": SENTENCE}


def python_3_8() -> str:
    """Return a real Python 3.8, which pyenv may have without having it on PATH."""
    places = glob.glob(os.path.expanduser("~/.pyenv/versions/3.8.*/bin/python3.8"))
    found = next(iter(places), None) or shutil.which("python3.8")
    if found is None:
        pytest.skip("This machine has no Python 3.8.")
    return found


@pytest.mark.parametrize("module", ["gpu_facts", "host_preflight_info", "kernel_args"])
def test_a_real_python_3_8_prints_no_traceback(tmp_path: Path, module: str) -> None:
    # On a host, a module's files are a package of these names. The parts of ansible-core that it uses work with 3.8.
    stub = tmp_path / "ansible/module_utils"
    stub.mkdir(parents=True)
    (stub / "basic.py").write_text("AnsibleModule = None\n")
    folder = tmp_path / "ansible_collections/gpuops/nvidia"
    folder.mkdir(parents=True)
    (folder / "plugins").symlink_to(FILE.parents[1])
    done = subprocess.run(
        [python_3_8(), "-B", str(MODULES / f"{module}.py")],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "gpuops.nvidia needs 3.9 or newer" in json.loads(done.stdout)["msg"]
