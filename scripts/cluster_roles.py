# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the ClusterRoles that ship with the role preflight, from the permissions that the collection needs."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import yaml

sys.path.append(f"{sys.prefix}/share")
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import permissions

FOLDER = Path(__file__).resolve().parent.parent / "roles" / "preflight" / "files"
HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Written by scripts/cluster_roles.py. docs/tasks/connection.md says how to bind them.
---
apiVersion: v1
kind: List
items:
"""


def files() -> dict[str, str]:
    """Return the name and the text of each file."""
    names = permissions.READY
    return {f"cluster_role_{name}.yml": HEAD + "".join(map(text_of, permissions.cluster_roles(name))) for name in names}


def text_of(role: dict[str, t.Any]) -> str:
    """Return a ClusterRole as an item of a YAML list, with one line for each rule."""
    lines = [f"  - apiVersion: {role['apiVersion']}", f"    kind: {role['kind']}", "    metadata:"]
    lines += [f"      name: {role['metadata']['name']}", "    rules:"]
    for rule in role["rules"]:
        lines.append("      - " + yaml.safe_dump(rule, default_flow_style=True, sort_keys=False, width=200).strip())
    return "\n".join(lines).replace("''", '""') + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
