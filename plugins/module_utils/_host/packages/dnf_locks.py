# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A block in the list of dnf's plugin versionlock that keeps the driver's packages at a version or in a branch.

It is what a pin is for apt. The locks of users and of package_hold stay as they are.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import DRIVER_PACKAGES, matching
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import Request, branch_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.packages import LOCKS

BEGIN, END = "# gpuops.nvidia driver_packages: begin", "# gpuops.nvidia driver_packages: end"
_BLOCK = re.compile(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}\n", re.MULTILINE | re.DOTALL)
# NVLSM's versions are independent of those of the driver, and precompiled modules have theirs in the name.
_OWN_VERSION = re.compile(r"nvlsm$|kmod-.*-\d")
_IN_NO_STREAM = ("nvidia-fabric*", "nvidia-imex*", "libnvidia-nscq*", "libnvsdm*")
_LOCKED = re.compile(r"^!?(?P<name>[\w.+-]+?)-(?:\d+|\*):")


def locked(host: Host) -> set[str]:
    """Return the names of packages that somebody else has locked."""
    others = _BLOCK.sub("", _text(host))
    matches = (_LOCKED.match(line) for line in others.splitlines() if not line.startswith("#"))
    return {match["name"] for match in matches if match}


def pins(
    host: Host, epochs: t.Mapping[str, str], request: Request | None, version: str | None, modular: bool
) -> dict[str, str | None]:
    """Return the list with the block for what is asked for, a version or a branch. Without a request it has no block.

    Without a wish, a module stream keeps the driver in its branch, and the block the packages in no stream.
    """
    names = [name for name in matching(epochs, DRIVER_PACKAGES) if not _OWN_VERSION.match(name)]
    kept = _asked_for(request, version)
    if not kept and request and modular and version:
        kept, names = f"{branch_of(version)}.*", matching(names, _IN_NO_STREAM)
    block = _block([f"{name}-{epochs[name]}:{kept}-*" for name in names]) if kept else ""
    return {LOCKS: _with_block(_text(host), block) or None}


def _with_block(text: str, block: str) -> str:
    """Return the list with the block where the former one was, since others have blocks of their own behind it."""
    return _BLOCK.sub(lambda former: block, text) if _BLOCK.search(text) else text + block


def _block(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in (BEGIN, *lines, END)) if lines else ""


def _asked_for(request: Request | None, version: str | None) -> str:
    """Return the version or the versions of the branch that the user asks for, or an empty string."""
    if request is None or not request.wanted_branch:
        return ""
    return version if request.version and version else f"{request.wanted_branch}.*"


def _text(host: Host) -> str:
    text = host.read(LOCKS)
    return f"{text}\n" if text else ""
