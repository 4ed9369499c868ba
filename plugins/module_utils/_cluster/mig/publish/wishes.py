# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Layouts as people declare them: entries as mig-parted knows them, or a target that is worked out per model. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import selector_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted, placement
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Model
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Entries = tuple[LayoutEntry, ...]

_KEYS = ("entries", "fit", "fill", "mig_devices", "balanced", "node_selector")
# A layout's name is the value of a label.
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
# Python's YAML writes such a name without quotes, and that of Go reads it as a number.
_NUMBER = re.compile(r"[0-9][0-9._]*[eE]-?[0-9]+", re.ASCII)
_SLICES = re.compile(r"(\d)g([+-][a-z.]+)?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Wish:
    """A declared layout. ``selector`` None means all nodes whose GPUs MIG can divide."""

    name: str
    selector: dict[str, str] | None
    target: Json

    def entries(self, nodes: t.Sequence[Host]) -> Entries:
        """Return the entries for these nodes."""
        if "entries" in self.target:
            return _declared(self.name, self.target["entries"])
        return _per_model(self, hosts.models(nodes))


def wishes(option: t.Mapping[str, t.Any] | None) -> list[Wish]:
    """Return the option ``layouts`` as layouts that are declared."""
    return [_wish(str(name), value) for name, value in (option or {}).items()]


def _wish(name: str, value: t.Any) -> Wish:
    place = f"layouts.{name}"
    if not _LABEL.fullmatch(name):
        raise _wrong(place, "a layout's name is the value of a label: up to 63 letters, digits and . _ - between them")
    if _NUMBER.fullmatch(name):
        raise _wrong(place, "the MIG manager would read this name as a number")
    target = {"entries": value} if isinstance(value, list) else value
    if not isinstance(target, dict):
        raise _wrong(place, "give a list of entries, or a mapping such as {fit: 2g.20gb}")
    unknown = sorted(set(target) - set(_KEYS))
    if unknown:
        raise _wrong(place, f"there is no field {unknown[0]!r}; the fields are {', '.join(_KEYS)}")
    _refuse_mixture(place, target)
    selector = target.get("node_selector")
    if selector is not None and not isinstance(selector, dict):
        raise _wrong(f"{place}.node_selector", "give labels with their values, such as {pool: a100}")
    return Wish(name, None if selector is None else selector_of(selector), target)


def _refuse_mixture(place: str, target: Json) -> None:
    """Refuse a target that says two things, or nothing."""
    given = [key for key in ("entries", "fit", "balanced", "mig_devices") if key in target]
    if len(given) != 1:
        what = " and ".join(given) if given else "none"
        raise _wrong(place, f"give one of entries, fit, balanced and mig_devices, not {what}")
    if "fill" in target and given != ["mig_devices"]:
        raise _wrong(place, "fill goes with mig_devices: as many as fit beside them")
    if "balanced" in target and target["balanced"] is not True:
        raise _wrong(place, "balanced is true, or left out")


def _wrong(place: str, problem: str) -> GpuOpsError:
    return GpuOpsError(f"{place}: {problem}.", reason="Invalid")


# ---- entries --------------------------------------------------------------------------------------------------------


def _declared(name: str, given: t.Any) -> Entries:
    """Return entries that were declared. Fields may have _ for -, and what is obvious may be left out."""
    entries = [_completed(entry) for entry in given] if isinstance(given, list) else given
    try:
        return parted.read({"version": parted.VERSION, "mig-configs": {name: entries}})[name]
    except GpuOpsError as error:
        raise GpuOpsError(error.msg.replace("mig-configs.", "layouts.", 1), reason="Invalid") from error


def _completed(entry: t.Any) -> t.Any:
    if not isinstance(entry, dict):
        return entry
    fields = {str(key).replace("_", "-"): value for key, value in entry.items()}
    return {"devices": "all", "mig-enabled": "mig-devices" in fields, **fields}


# ---- targets --------------------------------------------------------------------------------------------------------


def _per_model(wish: Wish, found: t.Sequence[Model]) -> Entries:
    """Return an entry for each model, with a filter where they differ."""
    if not found:
        raise _wrong(
            f"layouts.{wish.name}",
            "no node that it is meant for has GPUs whose profiles are known",
        )
    counts = {model.name: _counts(wish, model) for model in found}
    first = counts[found[0].name]
    if all(each == first for each in counts.values()):
        return (LayoutEntry(None, True, first),)
    return tuple(LayoutEntry(None, True, counts[model.name], parted.filter_of(model)) for model in found)


def _counts(wish: Wish, model: Model) -> dict[str, int]:
    place, target = f"layouts.{wish.name}", wish.target
    if "balanced" in target:
        mixture = placement.balanced(model)
        if mixture is None:
            raise _wrong(place, f"NVIDIA has no balanced mixture for {model.name}")
        return mixture
    if "fit" in target:
        return _filled(f"{place}.fit", model, {}, target["fit"])
    if not isinstance(target["mig_devices"], dict):
        raise _wrong(f"{place}.mig_devices", "give profiles with their counts, such as {3g.40gb: 1}")
    fixed = _summed((_profile(model, str(text)), count) for text, count in target["mig_devices"].items())
    return _filled(f"{place}.fill", model, fixed, target["fill"]) if "fill" in target else fixed


def _summed(pairs: t.Iterable[tuple[str, t.Any]]) -> dict[str, t.Any]:
    made: dict[str, t.Any] = {}
    for profile, count in pairs:
        made[profile] = made[profile] + count if profile in made else count
    return made


def _filled(place: str, model: Model, fixed: dict[str, t.Any], text: t.Any) -> dict[str, int]:
    """Return the counts with as many instances of a profile as fit beside the others."""
    if any(not isinstance(count, int) or isinstance(count, bool) or count < 1 for count in fixed.values()):
        raise _wrong(place.rpartition(".")[0] + ".mig_devices", "each count is a whole number from 1")
    profile = _profile(model, str(text))
    placement.profile_of(model, profile)  # refused with the profiles that the model has
    more = placement.as_many(model, profile, fixed)
    if not more:
        beside = f" beside {first_few([f'{count} x {name}' for name, count in fixed.items()])}" if fixed else ""
        raise _wrong(place, f"no {profile} fits on {model.name}{beside}")
    return {**fixed, profile: fixed.get(profile, 0) + more}


def _profile(model: Model, text: str) -> str:
    """Return the model's profile for a short name: ``2g`` is the profile with two compute slices of which most fit."""
    short = _SLICES.fullmatch(text)
    if not short:
        return text
    candidates = [each for each in model.profiles if (each.compute, each.attribute) == (int(short[1]), short[2] or "")]
    return max(candidates, key=lambda each: each.most).name if candidates else text
