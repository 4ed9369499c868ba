# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep the bytecode of the modules that Ansible sends to a host.

Ansible sends a module as a zip file, and Python compiles each file in there twice in every process: to find the file's
name, and again to run it. That takes a third of the processor time of a play on hosts.
"""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path

from lab.hosts import folders

_PYTHON = Path(__file__).parent / "python"
"""A folder for PYTHONPATH. Its sitecustomize.py keeps the bytecode in the folder that `_KEPT_IN` names."""

_KEPT_IN = "GPUOPS_BYTECODE"
_PYTHON_INSIDE, _KEPT_INSIDE = "/opt/bytecode/python", "/opt/bytecode/kept"
_KEPT_FOR_DAYS = 7


@functools.cache
def _folder() -> Path:
    """Return the folder of the bytecode, without what was compiled more than a week ago."""
    folder = folders.cache() / "bytecode"
    folder.mkdir(exist_ok=True)
    oldest = time.time() - _KEPT_FOR_DAYS * 24 * 3600
    for path in folder.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
    return folder


def environment() -> dict[str, str]:
    """Return the variables for programs on this machine."""
    return {"PYTHONPATH": str(_PYTHON), _KEPT_IN: str(_folder())}


def volumes() -> list[str]:
    """Return podman's options for the folders of a container."""
    return [f"--volume={_PYTHON}:{_PYTHON_INSIDE}:ro", f"--volume={_folder()}:{_KEPT_INSIDE}"]


def variables_inside(python_path: str) -> dict[str, str]:
    """Return the variables for programs in a container. ``python_path`` is its PYTHONPATH."""
    return {"PYTHONPATH": os.pathsep.join((python_path, _PYTHON_INSIDE)), _KEPT_IN: _KEPT_INSIDE}
