# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which component a line is of: by the log that it stands in, and by its own words. Pure.

A diagnosis uses that in two ways. A pattern that belongs to a component takes no line of another one. And an error that
no rule explains is quoted with what is known of the component that wrote it.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components.component import Component
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components.nvidia_components import (
    NVIDIA_COMPONENTS,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components.platform_components import (
    PLATFORM_COMPONENTS,
)

COMPONENTS: tuple[Component, ...] = (*NVIDIA_COMPONENTS, *PLATFORM_COMPONENTS)
"""The more special ones first: of several components whose words a line has, the first one counts."""

BY_KEY: t.Mapping[str, Component] = {each.key: each for each in COMPONENTS}

GENERAL = ("kernel", "kubelet", "containerd", "crio", "nfd", "helm", "kubevirt", "kata", "libvirt", "network-driver")
"""Components that serve more than GPUs, whose lines may be about anything."""

_EVERYWHERE = frozenset({*GENERAL, "cuda-program", "nccl"}) - {"kata", "libvirt", "network-driver"}
_NAMES = tuple((each.key, re.compile(rf"(?:{each.names})")) for each in COMPONENTS)
_MARKS = tuple((each.key, re.compile(each.marks)) for each in COMPONENTS)
_WORDS = re.compile(r"container (?P<container>[\w.-]+)|pod (?:[\w.-]+/)?(?P<pod>[\w.-]+)|journal of (?P<unit>[\w@.-]+)")


@functools.lru_cache(maxsize=4096)
def of_source(source: str) -> str:
    """Return the key of the component whose log this is, by the words for its source, or an empty string.

    A container's name says more than that of its pod: the driver's pods hold the driver manager, too.
    """
    if source == "kernel log":
        return "kernel"
    if source.startswith(("event of ", "verdict")):
        return ""  # about an object, and not by it
    found = [each.groupdict() for each in _WORDS.finditer(source)]
    words = [each[kind] for kind in ("container", "unit", "pod") for each in found if each[kind]]
    return next((key for word in words for key, names in _NAMES if names.match(word)), "")


def of_text(text: str) -> tuple[str, ...]:
    """Return the keys of the components whose own words a line has. A line of the kubelet may quote the toolkit."""
    return tuple(key for key, marks in _MARKS if marks.search(text))


def of_line(text: str, source: str) -> tuple[str, ...]:
    """Return the keys of the components that a line may be of: that whose log it stands in, and those by its words."""
    first = of_source(source)
    return tuple(dict.fromkeys((*((first,) if first else ()), *of_text(text))))


def near(texts: t.Iterable[str]) -> str:
    """Return the key of the one component of GPUs that these lines together name, or an empty string.

    Many programs name themselves in a few lines only, such as the first and the last one.
    """
    found = {*of_text("\n".join(texts))} - _EVERYWHERE
    return found.pop() if len(found) == 1 else ""
