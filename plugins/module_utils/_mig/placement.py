# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Where MIG instances lie on a GPU: whether some fit, what could be added, and what must go.

All searches are exhaustive. A GPU holds at most seven instances, so they end in milliseconds.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import COMPUTE_STARTS, Model, Profile
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

Counts = t.Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Placed:
    """A GPU instance at its place."""

    profile: Profile
    start: int

    @property
    def mask(self) -> int:
        """The slots that it takes, as bits."""
        return ((1 << self.profile.slots) - 1) << self.start


@dataclasses.dataclass(frozen=True)
class InstanceChange:
    """How to get from the existing instances to the wanted ones: which must go, by index, and which are new."""

    destroy: tuple[int, ...]
    create: tuple[Placed, ...]


# ---- which GPU instances the counts mean ----------------------------------------------------------------------------


def profile_of(model: Model, text: str) -> Profile:
    """Return the model's profile of which the text names an instance, or a compute instance."""
    name = profile_names.parse(text)
    profile = model.profile(name.instance)
    if profile is None:
        known = first_few([each.name for each in model.profiles], 12)
        raise GpuOpsError(f"{text} is no profile of {model.name}, which has {known}.", reason="Invalid")
    if name.compute is not None and name.compute not in profile.computes:
        sizes = first_few([f"{size}c.{profile.name}" for size in profile.computes if size < profile.compute])
        raise GpuOpsError(
            f"{text} is no compute instance of {profile.name}, which has {sizes or 'none'}.", reason="Invalid"
        )
    return profile


def _pack(sizes: t.Sequence[int], width: int, bins: tuple[int, ...]) -> bool:
    """Return whether compute instances of these sizes fit into GPU instances with these slices taken."""
    if not sizes:
        return True
    for index in {mask: position for position, mask in enumerate(bins)}.values():
        for start in COMPUTE_STARTS[sizes[0]]:
            mask = ((1 << sizes[0]) - 1) << start
            others = (*bins[:index], bins[index] | mask, *bins[index + 1 :])
            if start + sizes[0] <= width and not bins[index] & mask and _pack(sizes[1:], width, others):
                return True
    return False


def compute_places(sizes: t.Sequence[int], width: int, taken: int = 0) -> tuple[int, ...] | None:
    """Return the first compute slice of each compute instance of one GPU instance, or None if they do not fit in it.

    In the order of these places, a driver that takes the first free place comes to the same places.
    """
    if not sizes:
        return ()
    for start in COMPUTE_STARTS.get(sizes[0], (0,)):
        mask = ((1 << sizes[0]) - 1) << start
        if start + sizes[0] <= width and not taken & mask:
            others = compute_places(sizes[1:], width, taken | mask)
            if others is not None:
                return (start, *others)
    return None


def _holders(sizes: t.Sequence[int], width: int) -> int:
    """Return how many GPU instances of so many compute slices hold compute instances of these sizes."""
    least = -(-sum(sizes) // width)
    return next(count for count in itertools.count(least) if _pack(sorted(sizes, reverse=True), width, (0,) * count))


def instances(model: Model, counts: Counts) -> tuple[Profile, ...]:
    """Return the GPU instances that the counts need: compute instances share as few as can hold them."""
    whole: dict[Profile, int] = collections.Counter()
    parts: dict[Profile, list[int]] = collections.defaultdict(list)
    for text, count in counts.items():
        profile, compute = profile_of(model, text), profile_names.parse(text).compute
        if count < 0:
            raise GpuOpsError(f"{text} has the count {count}: give 0 or more.", reason="Invalid")
        if compute is None or count > model.compute * model.compute:
            whole[profile] += count
        else:
            parts[profile] += [compute] * count
    for profile, sizes in parts.items():
        whole[profile] += _holders(sizes, profile.compute)
    return tuple(profile for profile in model.profiles for dummy in range(whole[profile]))


# ---- placing --------------------------------------------------------------------------------------------------------


def _within_limits(model: Model, profiles: t.Sequence[Profile]) -> bool:
    """Return whether the GPU has engines for all, and allows so many instances of each profile."""
    many = collections.Counter(profiles)
    return (
        sum(each.ofa for each in profiles) <= 1
        and sum(each.media for each in profiles) <= model.media
        and all(count <= profile.most for profile, count in many.items())
    )


def _search(profiles: t.Sequence[Profile], taken: int, placed: tuple[Placed, ...]) -> tuple[Placed, ...] | None:
    if not profiles:
        return placed
    for start in profiles[0].starts:
        here = Placed(profiles[0], start)
        # Instances of one profile are alike, so they are placed from left to right.
        ordered = not placed or placed[-1].profile is not here.profile or placed[-1].start < start
        if ordered and not taken & here.mask:
            found = _search(profiles[1:], taken | here.mask, (*placed, here))
            if found is not None:
                return found
    return None


def place_instances(
    model: Model, profiles: t.Sequence[Profile], kept: t.Sequence[Placed] = ()
) -> tuple[Placed, ...] | None:
    """Return a place for each GPU instance beside those that are kept, from left to right; None if they do not fit."""
    taken, slots = 0, sum(each.slots for each in profiles)
    for each in kept:
        taken |= each.mask
    together = [*profiles, *(each.profile for each in kept)]
    if slots > model.slots - bin(taken).count("1") or not _within_limits(model, together):
        return None
    largest_first = sorted(profiles, key=lambda each: (-each.slots, len(each.starts), model.profiles.index(each)))
    found = _search(largest_first, taken, ())
    return None if found is None else tuple(sorted(found, key=lambda each: each.start))


def place(model: Model, counts: Counts, kept: t.Sequence[Placed] = ()) -> tuple[Placed, ...] | None:
    """Return a place for each wanted GPU instance beside those that are kept; None if they do not fit."""
    if sum(counts.values()) > model.compute * model.compute:
        return None
    return place_instances(model, instances(model, counts), kept)


def as_many(model: Model, profile: str, beside: Counts | None = None) -> int:
    """Return how many instances of a profile fit on a GPU beside some others; 0 also if those alone do not fit."""
    other = dict(beside or {})
    count = 0
    while place(model, {**other, profile: other.get(profile, 0) + count + 1}) is not None:
        count += 1
    return count


def addable(model: Model, placed: t.Sequence[Placed]) -> dict[str, int]:
    """Return how many instances of each profile could be added, each profile taken by itself, where any could."""
    room = {}
    for profile in model.profiles:
        fitting = (count for count in range(profile.most, 0, -1) if place_instances(model, [profile] * count, placed))
        count = next(fitting, 0)
        if count:
            room[profile.name] = count
    return room


def balanced(model: Model) -> dict[str, int] | None:
    """Return the mixture that the vendor calls ``all-balanced``, or None where it has none."""
    formula = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}.get(model.compute, {})
    plain = sorted((each for each in model.profiles if not each.attribute), key=lambda each: each.most)
    # Of two profiles with the same compute slices, the later one leaves more room.
    by_compute = {each.compute: each.name for each in plain}
    return {by_compute[compute]: count for compute, count in formula.items()} or None


# ---- why not --------------------------------------------------------------------------------------------------------


def _listed(profiles: t.Sequence[Profile]) -> str:
    many = collections.Counter(each.name for each in profiles)
    return first_few([f"{count} x {name}" for name, count in many.items()], 12)


def _too_many(model: Model, profiles: t.Sequence[Profile]) -> str | None:
    for profile, count in collections.Counter(profiles).items():
        if count > profile.most:
            return f"{model.name} holds at most {profile.most} x {profile.name}, and {count} are wanted"
    slots = sum(each.slots for each in profiles)
    if slots > model.slots:
        return f"{_listed(profiles)} take {slots} of the {model.slots} memory slices of {model.name}"
    return None


def _no_engines(model: Model, profiles: t.Sequence[Profile]) -> str | None:
    flow = [each for each in profiles if each.ofa]
    if len(flow) > 1:
        return f"{model.name} has media extensions for one instance, and {_listed(flow)} want them"
    if sum(each.media for each in profiles) > model.media:
        media = [each for each in profiles if each.media]
        return f"{_listed(media)} want more than the {model.media} media engines of {model.name}"
    return None


def why_not(model: Model, counts: Counts, kept: t.Sequence[Placed] = ()) -> str | None:
    """Return why the instances do not fit on a GPU, without a period; None if they do."""
    try:
        wanted = instances(model, counts)
    except GpuOpsError as error:
        return error.msg.rstrip(".")
    together = [*wanted, *(each.profile for each in kept)]
    reason = _too_many(model, together) or _no_engines(model, together)
    if reason is None and place_instances(model, wanted, kept) is None:
        beside = f" beside {_listed([each.profile for each in kept])}" if kept else ""
        reason = f"{_listed(wanted)} find no place on {model.name}{beside}, though their sizes add up to a GPU or less"
    return reason


# ---- changing -------------------------------------------------------------------------------------------------------


def _remaining(wanted: t.Sequence[Profile], kept: t.Sequence[Profile]) -> list[Profile] | None:
    """Return the wanted instances that are not kept, or None if one is kept that nobody wants."""
    left = collections.Counter(wanted)
    left.subtract(kept)
    return None if any(count < 0 for count in left.values()) else list(left.elements())


def change(model: Model, existing: t.Sequence[Placed], counts: Counts) -> InstanceChange | None:
    """Return the change that keeps most of the existing instances; None if the wanted ones do not fit at all."""
    wanted = instances(model, counts)
    everything = range(len(existing))
    for size in range(len(existing), -1, -1):
        for indices in itertools.combinations(everything, size):
            kept = [existing[index] for index in indices]
            new = _remaining(wanted, [each.profile for each in kept])
            created = None if new is None else place_instances(model, new, kept)
            if created is not None:
                return InstanceChange(tuple(index for index in everything if index not in indices), created)
    return None
