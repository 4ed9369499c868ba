# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make .venv: the pinned tools, the Ansible collections that this one needs, and this checkout in their midst.

Runs with any Python 3 that starts it and needs nothing but the standard library. A second run with unchanged pins does nothing.
"""

from __future__ import annotations

import glob
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements" / "dev.txt"
STAMP = VENV / "bootstrap.stamp"
MINIMUM = (3, 11)

# The community package carries the collections on PyPI, for machines that reach no Galaxy server. Only they are taken from it, so the Python
# that its own ansible-core needs does not matter.
COMMUNITY_PACKAGE = "ansible==14.5.0"
COMMUNITY_PYTHON = "3.12"
# containers.podman is for the test hosts; the last one is what community.general depends on.
COLLECTIONS = (
    "kubernetes/core",
    "ansible/posix",
    "community/general",
    "containers/podman",
    "community/library_inventory_filtering_v1",
)


def main() -> None:
    python = find_python()
    key = hashlib.sha256(LOCK.read_bytes() + pathlib.Path(__file__).read_bytes() + python.encode()).hexdigest()
    if STAMP.is_file() and STAMP.read_text() == key:
        return
    say(f"Setting up .venv with {python}")
    shutil.rmtree(VENV, ignore_errors=True)
    run([python, "-m", "venv", str(VENV)], "Python's venv module does not work here: install the package python3-venv.")
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(
        [*pip, "install", "--requirement", str(LOCK)],
        "pip could not install requirements/dev.txt: see its message above.",
    )
    add_collections(pip)
    link_checkout()
    STAMP.write_text(key)


def find_python() -> str:
    """Return the newest Python >= 3.11 that really starts (a pyenv shim may exist and refuse)."""
    chosen = os.environ.get("PYTHON")
    names = [chosen] if chosen else [f"python3.{minor}" for minor in (14, 13, 12, 11)] + ["python3", sys.executable]
    homes = [] if chosen else glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    found = [answer for answer in map(ask_version, [*names, *homes]) if answer and answer[0] >= MINIMUM]
    if not found:
        wanted = f"Python {MINIMUM[0]}.{MINIMUM[1]}"
        sys.exit(
            f"bootstrap: no {wanted} or newer starts here: install one (Debian: python3 and python3-venv), or set PYTHON to its path."
        )
    # 3.13 before 3.14: not every pinned tool says that it supports 3.14.
    return max(found, key=lambda answer: (answer[0] < (3, 14), answer[0]))[1]


def ask_version(command: str) -> tuple[tuple[int, int], str] | None:
    """Return (version, path of the interpreter) of a command, or None when it does not start."""
    code = "import sys, os; print(*sys.version_info[:2], os.path.realpath(sys.executable))"
    try:
        answer = subprocess.run([command, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return None
    return (int(answer[0]), int(answer[1])), answer[2]


def add_collections(pip: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-deps", "--only-binary=:all:", f"--python-version={COMMUNITY_PYTHON}", f"--dest={folder}"]
        run(
            [*pip, "download", *options, COMMUNITY_PACKAGE],
            f"pip could not download {COMMUNITY_PACKAGE}: see its message above.",
        )
        with zipfile.ZipFile(glob.glob(f"{folder}/*.whl")[0]) as wheel:
            prefixes = tuple(f"ansible_collections/{name}/" for name in COLLECTIONS)
            wheel.extractall(VENV / "share", [name for name in wheel.namelist() if name.startswith(prefixes)])


def link_checkout() -> None:
    """Let Ansible and Python find the checkout as gpuops.nvidia, wherever it lies."""
    link = VENV / "share" / "ansible_collections" / "gpuops" / "nvidia"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(ROOT, link.parent), target_is_directory=True)


def run(command: list[str], remedy: str) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"bootstrap: {remedy}")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
