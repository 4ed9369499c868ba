# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of the lab form no import cycle."""

from __future__ import annotations

import ast
import graphlib
import typing as t
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
MODULES = {
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (REPOSITORY / "lab").rglob("*.py")
    if "image" not in path.parts  # These files run inside the container hosts.
}


def imports(path: Path) -> t.Iterator[str]:
    """Yield the dotted names that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module(name: str) -> str | None:
    """Return the module of the lab that a dotted name belongs to."""
    parent = name.rpartition(".")[0]
    return next((known for known in (name, parent) if known in MODULES), None)


def test_there_is_no_import_cycle() -> None:
    graph = {name: {module(other) for other in imports(path)} - {None, name} for name, path in MODULES.items()}
    assert graphlib.TopologicalSorter(graph).prepare() is None
