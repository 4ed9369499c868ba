# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep what Ansible builds for a module, since building it takes half of the processor time of a run.

For each module, ansible-playbook collects the files that it needs in a zip file, once in a run. Python compiles each
file in there twice in every process: zipimport does it to find the file's name, and again to run it. Users have few
runs, and tests have hundreds. So the tests share the zip files of a session, and the test hosts share the bytecode.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from pathlib import Path

from lab.hosts import folders

PYTHON = Path(__file__).parent / "python"
"""A folder for PYTHONPATH. Its sitecustomize.py keeps the bytecode in the folder that KEPT_IN names."""

KEPT_IN = "GPUOPS_BYTECODE"
KEPT_FOR_DAYS = 7


@functools.cache
def bytecode() -> Path:
    """Return the folder of the bytecode, without what nobody has compiled for a week."""
    folder = folders.cache() / "bytecode"
    folder.mkdir(exist_ok=True)
    oldest = time.time() - KEPT_FOR_DAYS * 24 * 3600
    for path in folder.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
    return folder


@functools.cache
def _zip_files() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for this process, since another one may test other sources."""
    return tempfile.TemporaryDirectory(prefix="gpuops-payloads-")


def environment() -> dict[str, str]:
    """Return the variables for ansible-playbook and for the modules that it runs on this machine."""
    return {
        "PYTHONPATH": str(PYTHON),
        KEPT_IN: str(bytecode()),
        "ANSIBLE_VARS_PLUGINS": str(Path(__file__).parent / "vars_plugins"),
        "GPUOPS_PAYLOADS": _zip_files().name,
    }


def options(folder: str = "/usr/local/lib") -> list[str]:
    """Return podman's options for a host whose Python finds its own modules in ``folder``."""
    site, kept = "/opt/payloads/python", "/opt/payloads/bytecode"
    return [
        f"--volume={PYTHON}:{site}:ro",
        f"--volume={bytecode()}:{kept}",
        f"--env=PYTHONPATH={os.pathsep.join((folder, site))}",
        f"--env={KEPT_IN}={kept}",
    ]
