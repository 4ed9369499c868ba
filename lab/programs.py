# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of Debian's packages. Only their files are needed, without an installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.errors import UnavailableError


def provide(package: str, program: str = "") -> Path:
    """Return the path of a program: from the machine if it is installed, else from its package in the cache.

    Raise UnavailableError on a machine that has neither the program nor apt-get.
    """
    program = program or package
    installed = shutil.which(program)
    if installed:
        return Path(installed)
    kept = _cache() / package / "usr" / "bin" / program
    if not kept.exists():
        _fetch(package, _cache() / package)
    return kept


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuops-lab" / "programs"


def _fetch(package: str, target: Path) -> None:
    """Unpack a package. Several processes may do so at once: the files of the last move win."""
    if sys.platform != "linux" or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError(f"The lab needs {package}, which this machine has no apt-get to download with.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        unpacked = Path(scratch) / "unpacked"
        _run(package, "dpkg-deb", "--extract", str(_download(package, Path(scratch))), str(unpacked))
        for file in [path for path in (unpacked / "usr").rglob("*") if not path.is_dir()]:
            kept = target / file.relative_to(unpacked)
            kept.parent.mkdir(parents=True, exist_ok=True)
            file.replace(kept)


def _download(package: str, folder: Path) -> Path:
    command = ("apt-get", "--quiet", "download", package)
    try:
        _run(package, *command, folder=folder)
    except UnavailableError:
        if os.geteuid() != 0:
            raise
        # A new machine knows no package until it asks for its package lists.
        _run(package, "apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=120", "update")
        _run(package, *command, folder=folder)
    found = next(folder.glob("*.deb"), None)
    if found is None:
        raise UnavailableError(f"The lab needs {package}, and apt-get has downloaded no package.")
    return found


def _run(package: str, *command: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise UnavailableError(f"The lab needs {package}, and {command[0]} failed: {last}")
