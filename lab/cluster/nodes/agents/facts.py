# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's annotations of a node."""

from __future__ import annotations

from lab.cluster.api import Json
from lab.cluster.nodes.fleet import NOTE


def note(item: Json, name: str, default: str = "") -> str:
    """Return one of the lab's annotations."""
    return str((item["metadata"].get("annotations") or {}).get(NOTE + name, default))
