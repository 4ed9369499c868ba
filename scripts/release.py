# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prepare a release in the working tree, or check that a tagged tree is a release. See RELEASING.md."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
GALAXY = ROOT / "galaxy.yml"
BUNDLE = ROOT / "plugins" / "module_utils" / "_diagnosis" / "bundle" / "pack.py"
CHANGELOG = ROOT / "changelogs" / "changelog.yaml"
FRAGMENTS = ROOT / "changelogs" / "fragments"

UNDO = "To undo the changes: git restore . && git clean --force changelogs"

NEXT_STEPS = """
{version} is prepared, and its archive is in build/archive. Now:

  git diff    (read CHANGELOG.md as a user would)
  git add --all && git commit -m "Release {version}"
  git tag --annotate {version} -m "gpuops.nvidia {version}"
  git push origin HEAD {version}    (the tag starts the workflow Release)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["prepare", "check"])
    parser.add_argument("version")
    options = parser.parse_args()
    if not re.fullmatch(r"\d+\.\d+\.\d+", options.version):
        sys.exit(f"release: VERSION is {options.version!r}: give three numbers, such as VERSION=1.2.3.")
    find_problems = before_release if options.command == "prepare" else after_release
    problems = find_problems(options.version)
    if problems:
        sys.exit("\n".join(f"release: {problem}" for problem in problems))
    if options.command == "prepare":
        prepare(options.version)


def before_release(version: str) -> list[str]:
    """Return everything that prevents this release."""
    problems = []
    if git("status", "--porcelain"):
        problems.append("The working tree has changes: commit or remove them.")
    if git("tag", "--list", version):
        problems.append(f"The tag {version} exists already: choose a new version.")
    if not fragments():
        problems.append("changelogs/fragments is empty: a release needs at least one fragment that says what is new.")
    newest = max(map(numbers, releases()), default=(0, 0, 0))
    if numbers(version) <= newest:
        problems.append(f"{version} is not newer than the last release, {'.'.join(map(str, newest))}.")
    return problems


def after_release(version: str) -> list[str]:
    """Return every difference between the tree and this release."""
    problems = []
    if galaxy_version() != version:
        problems.append(f"galaxy.yml says {galaxy_version()}, and the tag says {version}.")
    if version not in releases():
        problems.append(f"changelogs/changelog.yaml has no release {version}: run `make release VERSION={version}`.")
    if fragments():
        problems.append(f"These fragments are in no release: {', '.join(fragments())}.")
    return problems


def prepare(version: str) -> None:
    """Set the version, write the changelog, and build and import the archive."""
    GALAXY.write_text(re.sub(r"(?m)^version: .*", f"version: {version}", GALAXY.read_text()))
    BUNDLE.write_text(re.sub(r"(?m)^RELEASE = .*", f'RELEASE = "{version}"', BUNDLE.read_text()))
    run(".venv/bin/antsibull-changelog", "lint")
    run(".venv/bin/antsibull-changelog", "release", "--version", version)
    run("scripts/import_check.sh")
    print(NEXT_STEPS.format(version=version))
    print(UNDO)


def fragments() -> list[str]:
    return sorted(path.name for path in FRAGMENTS.glob("*.y*ml"))


def releases() -> t.Collection[str]:
    return t.cast("dict[str, t.Any]", yaml.safe_load(CHANGELOG.read_text())["releases"])


def galaxy_version() -> str:
    return str(yaml.safe_load(GALAXY.read_text())["version"])


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def run(*command: str) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"release: {' '.join(command)} failed. {UNDO}")


if __name__ == "__main__":
    main()
