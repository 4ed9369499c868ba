# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Publish build/docs/html as one version of the site: `publish_docs.py VERSION`, with `main` or a release as VERSION.

The branch gh-pages holds the site, which GitHub Pages serves: a folder for each version, the list of versions for the
choice on each page, and a front page that leads to the newest release, or to `main` before the first one. Only the
folder of this version changes.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).parent.parent
BRANCH = "gh-pages"
MAIN = "main"
FRONT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>gpuops.nvidia</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
</head>
<body><a href="{version}/index.html">The documentation of gpuops.nvidia</a></body>
</html>
"""


def release(name: str) -> list[int] | None:
    """Return the numbers of a release, to compare it with others, or nothing for another name."""
    return [int(part) for part in name.split(".")] if re.fullmatch(r"\d+\.\d+\.\d+", name) else None


def versions(site: Path) -> list[str]:
    """Return the versions of a site: the releases, the newest first, and then the main branch."""
    found = {path.name: release(path.name) for path in site.iterdir() if path.is_dir()}
    releases = sorted((numbers, name) for name, numbers in found.items() if numbers)
    return [*(name for dummy, name in reversed(releases)), *([MAIN] if MAIN in found else [])]


def put(pages: Path, site: Path, version: str) -> None:
    """Put the pages of a version into a site, and renew what names all versions."""
    if version != MAIN and release(version) is None:
        sys.exit(f"publish_docs: {version!r} is not a version. Give {MAIN}, or a release such as 1.2.3.")
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.copytree(pages, site / version)
    known = versions(site)
    (site / "versions.json").write_text(json.dumps(known) + "\n")
    (site / "index.html").write_text(FRONT.format(version=known[0]))
    (site / ".nojekyll").touch()  # without it, GitHub leaves out folders that begin with an underscore


def git(*arguments: str, folder: Path, check: bool = True) -> subprocess.CompletedProcess[t.Any]:
    return subprocess.run(["git", *arguments], cwd=folder, check=check)


def publish(root: Path, version: str) -> None:
    """Add the pages to the branch of the site, and push it."""
    site = root / "build" / "site"
    fetched = git("fetch", "--quiet", "--depth=1", "origin", BRANCH, folder=root, check=False).returncode == 0
    git(
        "worktree", "add", "--quiet", "--force", "--detach", str(site), "FETCH_HEAD" if fetched else "HEAD", folder=root
    )
    try:
        if not fetched:
            git("checkout", "--quiet", "--orphan", BRANCH, folder=site)
            git("rm", "-r", "--quiet", "--force", ".", folder=site)
        put(root / "build" / "docs" / "html", site, version)
        git("add", "--all", "--force", ".", folder=site)
        if git("diff", "--cached", "--quiet", folder=site, check=False).returncode:
            git("commit", "--quiet", f"--message=The pages of {version}", folder=site)
            git("push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}", folder=site)
    finally:
        git("worktree", "remove", "--force", str(site), folder=root)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    publish(ROOT, sys.argv[1])
