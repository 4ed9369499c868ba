# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host roles on a host of each family, by the molecule scenario host-containers: in check mode on bare hosts, for real, again, and undone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.hosts import UnavailableError, packages

ROOT = Path(__file__).resolve().parents[2]


def test_host_roles_on_each_family() -> None:
    try:
        packages.require("containers")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    binaries = Path(sys.executable).parent
    # The process id keeps its hosts apart from another run's.
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "GPUOPS_HOSTS": f"molecule-{os.getpid()}"}
    command = [binaries / "molecule", "test", "--scenario-name", "host-containers"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20000:]
