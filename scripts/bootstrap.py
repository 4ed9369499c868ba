# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make .venv: the pinned tools, the Ansible collections that this one needs, and a link to this checkout among them.

The script runs with any Python 3 and needs only the standard library. A second run with unchanged pins ends at once.
Three environment variables replace the pinned versions:

- PYTHON: the interpreter for .venv.
- GPUOPS_ANSIBLE_CORE: the line of ansible-core, such as 2.20; its latest release is installed.
- GPUOPS_DEPENDENCIES=oldest: the oldest supported version of every dependency, helm and Python included. They get an
  environment of their own, .venv-oldest, so that .venv stays as it is.
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
CHOICE = os.environ.get("GPUOPS_DEPENDENCIES", "pinned")
VENV = ROOT / (".venv-oldest" if CHOICE == "oldest" else ".venv")
LOCK = ROOT / "requirements" / "dev.txt"
OLDEST = ROOT / "requirements" / "oldest.txt"
STAMP = VENV / "bootstrap.stamp"
MINIMUM = (3, 11)

# The community package carries the collections on PyPI, for machines that cannot reach a Galaxy server.
# Only that is taken from it, so it does not matter which Python its own ansible-core needs.
COMMUNITY_PACKAGE = "ansible==14.5.0"
# The SHA-256 of each wheel. pip refuses another file, and prints what it found instead.
WHEELS = {
    "ansible==14.5.0": "245623ccc2d31d0f6f4bdb63168d550cad305fb032cc43d96e8f61ce8ab0ba84",
    "ansible==13.7.0": "b3c092ad8cea97c3abd62c3e8ab234ae7f3154b29a40cd826947f1c5d6db92b9",
    "ansible==12.0.0a7": "86506e9ecb6eb1f178e59022eb41d7aed7c39d65def0b87557bc9dc69bf418ec",
}
COMMUNITY_PYTHON = "3.12"
# awx.awx is for examples/awx, and containers.podman for the test hosts. community.general depends on
# library_inventory_filtering_v1.
COLLECTIONS = (
    "kubernetes/core",
    "ansible/posix",
    "awx/awx",
    "community/general",
    "containers/podman",
    "community/library_inventory_filtering_v1",
)
# Collections that the community package has left out since.
FORMER_PACKAGES = {"awx/awx": "ansible==13.7.0"}
# The community package that carries the oldest version that galaxy.yml allows.
OLDEST_COLLECTIONS = {
    "kubernetes/core": "ansible==13.7.0",
    "ansible/posix": "ansible==12.0.0a7",
    "community/general": "ansible==12.0.0a7",
}
OLDEST_HELM = "helm.sh/helm/v3/cmd/helm@v3.12.0"


def main() -> None:
    core = os.environ.get("GPUOPS_ANSIBLE_CORE", "")
    oldest = wants_oldest()
    python = find_python(oldest)
    key = fingerprint(python, core, str(oldest))
    if STAMP.is_file() and STAMP.read_text() == key:
        return
    say(f"Setting up {VENV.name} with {python}")
    shutil.rmtree(VENV, ignore_errors=True)
    run([python, "-m", "venv", str(VENV)], "Python's venv module does not work here: install the package python3-venv.")
    install_locked(LOCK)
    if oldest:
        install_locked(OLDEST)
        add_oldest_helm()
    if core:
        install(f"ansible-core=={core}.*")
    for package, collections in packages_of_collections(oldest).items():
        add_collections(package, collections)
    link_checkout()
    STAMP.write_text(key)


def wants_oldest() -> bool:
    """Return whether the oldest supported dependencies are requested."""
    if CHOICE not in ("pinned", "oldest"):
        sys.exit(f"bootstrap: GPUOPS_DEPENDENCIES is {CHOICE}: set it to pinned or oldest.")
    return CHOICE == "oldest"


def fingerprint(*choices: str) -> str:
    """Return a hash of everything that decides what the environment contains."""
    files = [LOCK.read_bytes(), OLDEST.read_bytes(), pathlib.Path(__file__).read_bytes()]
    return hashlib.sha256(b"\0".join([*files, *(choice.encode() for choice in choices)])).hexdigest()


def find_python(oldest: bool) -> str:
    """Return the newest (or the oldest) Python >= 3.11 that really starts: a pyenv shim may exist but fail."""
    chosen = os.environ.get("PYTHON")
    names = [chosen] if chosen else [f"python3.{minor}" for minor in (14, 13, 12, 11)] + ["python3", sys.executable]
    homes = [] if chosen else glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    found = [answer for answer in map(ask_version, [*names, *homes]) if answer and answer[0] >= MINIMUM]
    if not found:
        sys.exit(
            f"bootstrap: no Python {MINIMUM[0]}.{MINIMUM[1]} or newer starts here: "
            "install one (Debian: python3 and python3-venv), or set PYTHON to its path."
        )
    if oldest:
        return min(found)[1]
    # 3.13 before 3.14: not every pinned tool says that it supports 3.14.
    return max(found, key=lambda answer: (answer[0] < (3, 14), answer[0]))[1]


def ask_version(command: str) -> tuple[tuple[int, int], str] | None:
    """Return the version and the path of an interpreter, or None when it does not start."""
    code = "import sys, os; print(*sys.version_info[:2], os.path.realpath(sys.executable))"
    try:
        answer = subprocess.run([command, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return None
    return (int(answer[0]), int(answer[1])), answer[2]


def pip(*arguments: str) -> list[str]:
    """Return a command that runs the pip of the environment."""
    return [str(VENV / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]


def install(*what: str) -> None:
    run(pip("install", *what), f"pip could not install {what[-1]}: see its message above.")


def install_locked(lock: pathlib.Path) -> None:
    """Install exactly what a lock names.

    A lock is complete. An older pip that resolves dependencies takes the newest release for one with an extra, such as
    coverage[toml], and then refuses it because the lock has no hash for it.
    """
    install("--no-deps", "--require-hashes", "--requirement", str(lock))


def packages_of_collections(oldest: bool) -> dict[str, list[str]]:
    """Return the collections to take from each community package."""
    packages: dict[str, list[str]] = {}
    for name in COLLECTIONS:
        newest = FORMER_PACKAGES.get(name, COMMUNITY_PACKAGE)
        package = OLDEST_COLLECTIONS.get(name, newest) if oldest else newest
        packages.setdefault(package, []).append(name)
    return packages


def add_collections(package: str, collections: list[str]) -> None:
    """Unpack collections from a community package into the environment's share."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-deps", "--only-binary=:all:", f"--python-version={COMMUNITY_PYTHON}", f"--dest={folder}"]
        wanted = pathlib.Path(folder) / "requirements.txt"
        wanted.write_text(f"{package} --hash=sha256:{WHEELS[package]}\n")
        remedy = f"pip could not download {package}: see its message above."
        run(pip("download", *options, "--require-hashes", f"--requirement={wanted}"), remedy)
        with zipfile.ZipFile(glob.glob(f"{folder}/*.whl")[0]) as wheel:
            prefixes = tuple(f"ansible_collections/{name}/" for name in collections)
            wheel.extractall(VENV / "share", [name for name in wheel.namelist() if name.startswith(prefixes)])


def add_oldest_helm() -> None:
    """Build helm into the environment's bin, which the Makefile puts first on PATH."""
    remedy = f"Go could not build {OLDEST_HELM}: install Go, or see its message above."
    run(["go", "install", OLDEST_HELM], remedy, {"GOBIN": str(VENV / "bin")})


def link_checkout() -> None:
    """Let Ansible and Python find the checkout as gpuops.nvidia, whatever its path."""
    link = VENV / "share" / "ansible_collections" / "gpuops" / "nvidia"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(ROOT, link.parent), target_is_directory=True)


def run(command: list[str], remedy: str, environment: dict[str, str] | None = None) -> None:
    """Run a command, and end with the remedy if it fails or does not exist."""
    try:
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **(environment or {})}, check=False)
    except FileNotFoundError:
        sys.exit(f"bootstrap: {remedy}")
    if done.returncode:
        sys.exit(f"bootstrap: {remedy}")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
