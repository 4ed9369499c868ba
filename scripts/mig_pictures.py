# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the pictures of docs/tasks/which_sharing.md: where the MIG profiles of each GPU model can lie.

They come from the table with which layouts are checked. With --check, the script only compares, and the exit status is
1 if a picture is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(f"{sys.prefix}/share")
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import draw, table

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
MODELS = ("A30", "A100-40GB", "H100-80GB", "H200", "B200", "RTX-PRO-6000")


def pictures() -> dict[Path, str]:
    """Return the text of each picture."""
    models = {model.name: model for model in table.MODELS}
    return {IMAGES / f"mig_{name.lower().replace('-', '_')}.svg": draw.profiles_svg(models[name]) for name in MODELS}


def main() -> int:
    wanted = pictures()
    if "--check" in sys.argv:
        outdated = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
        if outdated:
            print(f"scripts/mig_pictures.py has to be run: {', '.join(outdated)}.")
        return bool(outdated)
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
