# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages that say how long something took, which differs from run to run."""

from __future__ import annotations

import re


def measured(message: str) -> str:
    """Return a message with ``N s`` for each time in seconds."""
    return re.sub(r"\b\d+ s\b", "N s", message)
