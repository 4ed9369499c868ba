# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the Grafana dashboards that the role monitoring publishes, from their description in scripts/grafana.

With --check, the script only compares, and the exit status is 1 if a dashboard is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

sys.path.append(f"{sys.prefix}/share")
from grafana import fleet, gpu, health, namespaces, node

FOLDER = Path(__file__).resolve().parent.parent / "roles" / "monitoring" / "files" / "dashboards"


def dashboards() -> dict[Path, str]:
    """Return the text of each dashboard."""
    built = {
        each.__name__.rpartition(".")[2]: each.dashboard().build() for each in (fleet, node, gpu, namespaces, health)
    }
    return {FOLDER / f"{name}.json": json.dumps(made, cls=JSONEncoder, indent=2) + "\n" for name, made in built.items()}


def main() -> int:
    wanted = dashboards()
    present = set(FOLDER.glob("*.json"))
    if "--check" in sys.argv:
        outdated = [path.name for path, text in wanted.items() if path not in present or path.read_text() != text]
        outdated += [path.name for path in sorted(present - set(wanted))]
        if outdated:
            print(f"scripts/dashboards.py has to be run: {', '.join(outdated)}.")
        return bool(outdated)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in present - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
