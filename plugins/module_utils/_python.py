# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Ends a module with one sentence if the host's Python is too old for the rest of the collection.

Every module imports the errors first, which call ``check``. Other files fail with a traceback on such a Python when
they are imported. ansible-core 2.19 still starts modules with Python 3.8.
"""

from __future__ import annotations

import json
import sys

OLDEST = (3, 9)


def refusal(version: tuple[int, ...]) -> str:
    """Return why a Python is refused, or an empty string."""
    if version >= OLDEST:
        return ""
    found, needed = ".".join(map(str, version[:3])), ".".join(map(str, OLDEST))
    return (
        f"The host's Python is {found}, and gpuops.nvidia needs {needed} or newer. "
        "Install one and set ansible_python_interpreter, or use a newer release of the operating system."
    )


def check() -> None:
    """End the module if Python is too old."""
    reason = refusal(tuple(sys.version_info[:3]))
    if reason:
        sys.stdout.write(json.dumps({"failed": True, "msg": reason}) + "\n")
        raise SystemExit(1)
