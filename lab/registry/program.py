# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry's program: Debian's package docker-registry. Only its file is needed, without an installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.errors import UnavailableError

PACKAGE = "docker-registry"
_PATHS = f"/usr/bin/{PACKAGE}"


def provide() -> Path:
    """Return the path of the program: from the machine if it is installed, else from the package in the cache."""
    installed = shutil.which(PACKAGE)
    if installed:
        return Path(installed)
    kept = _cache() / PACKAGE
    if not kept.exists():
        _fetch(kept)
    return kept


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuops-lab" / "registry"


def _fetch(target: Path) -> None:
    """Take the program out of the package. Several processes may do so at once: the last move wins."""
    if sys.platform != "linux" or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError(f"The registry needs {PACKAGE}, which this machine has no apt-get to download with.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        package = _download(Path(scratch))
        _run("dpkg-deb", "--extract", str(package), scratch)
        (Path(scratch) / _PATHS.lstrip("/")).replace(target)


def _download(folder: Path) -> Path:
    try:
        _run("apt-get", "--quiet", "download", PACKAGE, folder=folder)
    except UnavailableError:
        if os.geteuid() != 0:
            raise
        # A new machine knows no package until it asks for its package lists.
        _run("apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=120", "update")
        _run("apt-get", "--quiet", "download", PACKAGE, folder=folder)
    found = next(folder.glob("*.deb"), None)
    if found is None:
        raise UnavailableError(f"The registry needs {PACKAGE}, and apt-get has downloaded no package.")
    return found


def _run(*command: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise UnavailableError(f"The registry needs {PACKAGE}, and {command[0]} failed: {last}")
