# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print the tests of what changed: the rooms, modules and roles that differ from a commit, by default main.

``make quick`` runs them. On main itself, only what is not committed yet counts. Tests that need a lab or hosts are left
to ``make test``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[1]
UNIT = PurePath("tests/unit")
ALWAYS = (UNIT / "test_walls.py", UNIT / "test_consistency.py", UNIT / "test_habits.py")
"""They compare files with each other, so any change may concern them."""
BY_FOLDER = {
    "docs": UNIT / "test_docs.py",
    "examples": UNIT / "test_docs.py",
    "playbooks": UNIT / "test_roles.py",
    "roles": UNIT / "test_roles.py",
}
"""The tests of folders that are not Python."""


def main(base: str) -> None:
    """Print one path of tests a line."""
    print(*sorted({str(path) for path in tests_of(changed_since(base))}), sep="\n")


def changed_since(base: str) -> list[PurePath]:
    """Return the files that differ from where this branch left ``base``, and new files."""
    fork = _git("merge-base", base, "HEAD") or ["HEAD"]
    return [
        PurePath(name)
        for name in [*_git("diff", "--name-only", fork[0]), *_git("ls-files", "-o", "--exclude-standard")]
    ]


def tests_of(changed: list[PurePath], root: Path = ROOT) -> set[PurePath]:
    """Return the tests of some files: of a room its folder of tests, of anything else the file that tests it."""
    wanted = {test for path in changed for test in _of(path)} | set(ALWAYS)
    existing = {path for path in wanted if (root / path).exists()}
    return {path for path in existing if not any(parent in existing for parent in path.parents)}


def _of(path: PurePath) -> set[PurePath]:
    if path.is_relative_to(UNIT):
        return {path} if path.name.startswith("test_") else {path.parent} - {UNIT}
    if path.is_relative_to("plugins/module_utils") and len(path.parts) > 3:
        return {UNIT / path.parent}
    if path.parts[0] == "plugins":
        return {UNIT / path.with_name(f"test_{path.name.lstrip('_')}")}
    if path.parts[0] in BY_FOLDER:
        return {BY_FOLDER[path.parts[0]]}
    return set()


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["main"]))
