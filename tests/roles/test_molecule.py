# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All host roles together on a host of each family: the molecule scenario host-containers.

It is in this folder because it runs the same roles on the same kind of hosts as the tests of single roles.
"""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from lab.hosts import UnavailableError, packages

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.deep
def test_host_roles_together_on_each_family() -> None:
    try:
        packages.require("containers")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    binaries = Path(sys.executable).parent
    # The process id keeps the hosts apart from those of another run.
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "GPUOPS_HOSTS": f"molecule-{os.getpid()}"}
    output: dict[str, t.Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [binaries / "molecule", "test", "--scenario-name", "host-containers"]
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, check=False, **output)
    assert done.returncode == 0, done.stdout[-20000:]
