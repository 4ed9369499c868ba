# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The names of MIG profiles and layouts: reading them, and the right form for those that people write by mistake."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

LAYOUT_PREFIX = "all-"

_PROFILE = re.compile(r"(?:(\d{1,4})c\.)?(\d{1,4})g\.(\d{1,6})gb([+-][A-Za-z][A-Za-z0-9.,]*)?", re.ASCII)
_DOTTED = re.compile(r"((?:\d+c\.)?\d+g\.\d+gb)\.([A-Za-z].*)", re.ASCII)
_FORM = "such as 1g.10gb, 1g.10gb+me or 1c.2g.20gb"


@dataclasses.dataclass(frozen=True)
class Name:
    """A profile's name, taken apart: ``1c.3g.40gb+me`` has one compute slice of three."""

    compute: int | None
    slices: int
    memory: int
    attribute: str = ""

    @property
    def instance(self) -> str:
        """The name of the GPU instance profile, without the part of a compute instance."""
        return f"{self.slices}g.{self.memory}gb{self.attribute}"

    @property
    def text(self) -> str:
        """The name as NVIDIA writes it: a compute instance that takes all slices is not mentioned."""
        return self.instance if self.compute is None else f"{self.compute}c.{self.instance}"


def _attributes(text: str) -> bool:
    """Return whether the attributes are well formed: different words, without a dot at their ends or a digit first."""
    words = text[1:].split(",")
    shaped = all(re.fullmatch(r"[A-Za-z]([A-Za-z0-9.]*[A-Za-z0-9])?", word, re.ASCII) for word in words)
    return shaped and len(set(words)) == len(words)


def parsed(text: str) -> Name | None:
    """Return a profile's name taken apart, or None if no GPU could have such a profile."""
    found = _PROFILE.fullmatch(text)
    if not found or not _attributes(found[4] or "+x"):
        return None
    compute, slices = found[1] and int(found[1]), int(found[2])
    return Name(None if compute in (None, slices) else int(compute), slices, int(found[3]), found[4] or "")


def parse(text: str) -> Name:
    """Return a profile's name taken apart."""
    name = parsed(text)
    if name is None:
        hint = corrected(text) or f"Write a profile {_FORM}."
        raise GpuOpsError(f"{text!r} is no MIG profile. {hint}", reason="Invalid")
    return name


def dotted(profile: str) -> str:
    """Return the profile as it appears in names of resources and layouts: ``1g.10gb.me`` for ``1g.10gb+me``."""
    return profile.replace("+", ".")


def undotted(text: str) -> str:
    """Return the profile that appears so in names of resources and layouts: ``1g.10gb+me`` for ``1g.10gb.me``."""
    found = _DOTTED.fullmatch(text)
    return f"{found[1]}+{found[2]}" if found else text


_COUNT_BEHIND = re.compile(r"(?P<profile>.+gb[a-z+.]*?)\s*[-:=*x]\s*(?P<count>\d+)", re.ASCII)
_COUNT_BEFORE = re.compile(r"(?P<count>\d+)\s*[x*]\s*(?P<profile>\d.*)", re.ASCII)


def _counted(text: str) -> tuple[str, int] | None:
    """Return profile and count of ``1g.10gb-2``, ``1g.10gb:2`` or ``2x1g.10gb``; None for anything else."""
    found = _COUNT_BEHIND.fullmatch(text) or _COUNT_BEFORE.fullmatch(text)
    profile = undotted(found["profile"].strip()) if found else text
    if parsed(profile) is None:
        return None
    return profile, int(found["count"]) if found else 1


def _tidy(text: str) -> str:
    """Return the text in lower case without blanks, NVIDIA's prefixes of resources, and ``MIG``."""
    return re.sub(r"^(nvidia\.com/)?mig[-_ ]", "", re.sub(r"\s+", " ", text.strip().lower())).replace(" ", "")


def corrected(text: str) -> str | None:
    """Return what to write in place of a wrong name of a layout or profile, as a sentence; None without an idea."""
    tidy = _tidy(text)
    counts = [_counted(part) for part in tidy.split(",")]
    if len(counts) > 1 or any(pair and pair[1] > 1 for pair in counts):
        known = [pair for pair in counts if pair]
        if len(known) != len(counts):
            return None
        listed = ", ".join(f"{profile}: {count}" for profile, count in known)
        return f"A layout has one name: publish a layout with the mig_devices {{{listed}}}, and name that."
    profile = undotted(tidy.removeprefix(LAYOUT_PREFIX))
    name = parsed(profile) or parsed(re.sub(r"(\d)g$", r"\1gb", re.sub(r"[_-](?=\d+g)", ".", profile)))
    if name is None:
        return None
    return f"The profile is {name.text}, and the layout of all GPUs with it is {LAYOUT_PREFIX}{dotted(name.text)}."
