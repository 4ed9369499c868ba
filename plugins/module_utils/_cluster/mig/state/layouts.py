# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which layouts each node can have: those of the ConfigMap that its MIG manager reads."""

from __future__ import annotations

import dataclasses
import difflib
import typing as t

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    MIG_DISABLED,
    MIG_LAYOUTS,
    MIG_NODE_LAYOUTS,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted, profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LAYOUTS_KEY = "config.yaml"
"""The MIG manager reads only this key."""

_SHOWN = 12


def text_of(config_map: Json | None) -> str | None:
    """Return the text with the layouts in a ConfigMap, or None if there is no such key."""
    return ((config_map or {}).get("data") or {}).get(LAYOUTS_KEY)


@dataclasses.dataclass(frozen=True)
class Source:
    """The layouts of one ConfigMap, or why nobody can use them."""

    name: str
    layouts: parted.Layouts = dataclasses.field(default_factory=dict)
    problem: str = ""

    def why_not(self, layout: str) -> str:
        """Return why a node cannot have this layout as far as its name goes, or an empty string."""
        if self.problem:
            return f"the ConfigMap {self.name} {self.problem}"
        if layout in self.layouts:
            return ""
        right = None if _is_formed(layout) else profile_names.corrected(layout)
        if right:
            return f"{layout} is no name of a layout. {one_line(right)}"
        near = difflib.get_close_matches(layout, self.layouts, 3)
        known = f"such as {first_few(near)}" if near else f"but {first_few(sorted(self.layouts), _SHOWN)}"
        return f"the ConfigMap {self.name} has no layout {layout}, {known}"


def _is_formed(layout: str) -> bool:
    """Return whether this could be the name of a layout of NVIDIA's."""
    profile = layout.removeprefix(profile_names.LAYOUT_PREFIX)
    return profile != layout and profile_names.parsed(profile_names.undotted(profile)) is not None


class Catalog:
    """The layouts of a fleet. ``maps`` has the text of each ConfigMap by name, None if it lacks the key.

    ``custom`` is the ConfigMap that the ClusterPolicy names: then all nodes use it. Else a node uses its own, which its
    MIG manager has generated, or the one with the layouts of all models. ``edited`` is when somebody last changed the
    custom one, in seconds since the epoch.
    """

    def __init__(self, maps: t.Mapping[str, str | None], custom: str = "", edited: float = 0.0) -> None:
        self._maps, self._custom, self.edited = maps, custom, edited
        self._read: dict[str, tuple[parted.Layouts, str]] = {}

    def of(self, node: str) -> Source:
        """Return the layouts of a node."""
        own = f"{node}{MIG_NODE_LAYOUTS}"
        name = self._custom or (own if own in self._maps else MIG_LAYOUTS)
        if name not in self._maps:
            asked = "which migManager.config.name asks for, " if self._custom else ""
            return Source(name, problem=f"does not exist, {asked}so the MIG manager cannot start")
        text = self._maps[name]
        if text is None:
            return Source(name, problem=f"has no key {LAYOUTS_KEY}, so the MIG manager cannot start")
        layouts, problem = self._parse(text)
        # All nodes with the same trouble are named in one sentence, so it must not contain their names.
        return Source(f"<node>{MIG_NODE_LAYOUTS}" if name == own else name, layouts, problem)

    def _parse(self, text: str) -> tuple[parted.Layouts, str]:
        """Return the layouts in a text, and what is wrong with it. Nodes of one model have the same text."""
        if text not in self._read:
            try:
                self._read[text] = (parted.read(_load(text)), "")
            except GpuOpsError as e:
                refused = f"is refused by the MIG manager as a whole, for all of its layouts: {one_line(e.msg)}"
                self._read[text] = ({}, refused)
        return self._read[text]


def _load(text: str) -> t.Any:
    try:
        return yaml_load(text)
    except Exception as e:  # PyYAML's errors, whose class cannot be named without importing it
        raise GpuOpsError(f"it is no YAML: {one_line(e)}", reason="Invalid") from e


def fitting(source: Source, is_fitting: t.Callable[[str], bool]) -> str:
    """Return the layouts that a node can have instead, for a message."""
    found = [name for name in sorted(source.layouts) if name != MIG_DISABLED and is_fitting(name)]
    return first_few(found, _SHOWN) if found else "none"
