# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which modules the running kernel has: loaded, built in, or in a file that modprobe finds."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

State = t.Literal["loaded", "builtin", "available", "missing"]


def folder(host: Host) -> str:
    """Return the folder of the running kernel's modules."""
    return f"/lib/modules/{host.read('/proc/sys/kernel/osrelease')}"


def states(host: Host, names: t.Iterable[str]) -> dict[str, State | None]:
    """Return the state of each module, by its name with underscores, or None where the kernel's lists are missing."""
    texts = {name: host.read(f"{folder(host)}/modules.{name}") for name in ("dep", "builtin")}
    return {name: _state(host, name, texts["dep"], texts["builtin"]) for name in names}


def _state(host: Host, name: str, dep: str | None, builtin: str | None) -> State | None:
    # A module that is built in may have a folder in sysfs, too, but it has no state there.
    if host.exists(f"/sys/module/{name}/initstate"):
        return "loaded"
    if _lists(builtin, name) or host.exists(f"/sys/module/{name}"):
        return "builtin"
    if dep is None:
        return None
    return "available" if _lists(dep, name) else "missing"


def _lists(text: str | None, name: str) -> bool:
    """Return whether a list of module files has a module. File names have dashes where the module's name may not."""
    spelled = name.replace("_", "[-_]")
    return re.search(rf"(?:^|/){spelled}\.ko(\.\w+)?(:|$)", text or "", re.MULTILINE) is not None
