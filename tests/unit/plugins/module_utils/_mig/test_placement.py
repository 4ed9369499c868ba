# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import collections
import itertools
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import placement, table
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.placement import Placed
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

A30, A100, H100, RTX = (table.named(name) for name in ("A30", "A100-40GB", "H100-80GB", "RTX-PRO-6000"))
GEOMETRIES = {"A30": A30, "H100": H100, "RTX-PRO-6000": RTX}


def named(placed: t.Iterable[Placed] | None) -> list[tuple[str, int]] | None:
    return None if placed is None else [(each.profile.name, each.start) for each in placed]


def at(model: table.Model, *places: tuple[str, int]) -> tuple[Placed, ...]:
    return tuple(Placed(placement.profile_of(model, name), start) for name, start in places)


# ---- everything, by brute force -----------------------------------------------------------------------------------


def fill_in_every_way(model: table.Model) -> set[tuple[tuple[str, int], ...]]:
    """Return every multiset of profiles for which some placement exists: try all subsets of all places, naively."""
    places = [(profile, start) for profile in model.profiles for start in profile.starts]
    found: set[tuple[tuple[str, int], ...]] = set()

    def extend(index: int, used: frozenset[int], chosen: tuple[table.Profile, ...]) -> None:
        found.add(tuple(sorted(collections.Counter(each.name for each in chosen).items())))
        for position in range(index, len(places)):
            profile, start = places[position]
            slots = frozenset(range(start, start + profile.slots))
            more = (*chosen, profile)
            engines = sum(each.media for each in more) <= model.media and sum(each.ofa for each in more) <= 1
            if not used & slots and engines and more.count(profile) <= profile.most:
                extend(position + 1, used | slots, more)

    extend(0, frozenset(), ())
    return found


@pytest.mark.parametrize(("geometry", "ways"), [("A30", 20), ("H100", 128), ("RTX-PRO-6000", 115)])
def test_the_search_agrees_with_a_brute_force_on_every_multiset(geometry: str, ways: int) -> None:
    model = GEOMETRIES[geometry]
    possible = fill_in_every_way(model)
    assert len(possible) == ways
    ranges = [[(profile.name, count) for count in range(profile.most + 1)] for profile in model.profiles]
    for combination in itertools.product(*ranges):
        counts = {name: count for name, count in combination if count}
        if sum(counts.values()) <= model.compute + 1:
            fits = placement.place(model, counts) is not None
            assert fits == (tuple(sorted(counts.items())) in possible), counts
            assert fits == (placement.why_not(model, counts) is None), counts


def mixtures(model: table.Model) -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(st.sampled_from([each.name for each in model.profiles]), st.integers(0, 4), max_size=4)


CASES = st.sampled_from(table.MODELS).flatmap(lambda model: st.tuples(st.just(model), mixtures(model)))


@given(CASES)
@settings(max_examples=150, deadline=None)
def test_what_is_placed_lies_inside_the_gpu_without_overlap(case: tuple[table.Model, dict[str, int]]) -> None:
    model, counts = case
    placed = placement.place(model, counts)
    if placed is None:
        assert placement.why_not(model, counts)
        return
    slots = [slot for each in placed for slot in range(each.start, each.start + each.profile.slots)]
    assert len(slots) == len(set(slots))
    assert all(0 <= slot < model.slots for slot in slots)
    assert all(each.start in each.profile.starts for each in placed)
    assert collections.Counter(each.profile.name for each in placed) == collections.Counter(counts)


@given(CASES, st.data())
@settings(max_examples=100, deadline=None)
def test_a_change_keeps_what_it_says_and_ends_at_what_is_wanted(
    case: tuple[table.Model, dict[str, int]], data: st.DataObject
) -> None:
    model, counts = case
    existing = placement.place(model, data.draw(mixtures(model))) or ()
    change = placement.change(model, existing, counts)
    assert (change is None) == (placement.place(model, counts) is None)
    if change is not None:
        kept = [each for index, each in enumerate(existing) if index not in change.destroy]
        together = [*kept, *change.create]
        assert collections.Counter(each.profile.name for each in together) == collections.Counter(counts)
        assert not any(one.mask & other.mask for one, other in itertools.combinations(together, 2))


# ---- by hand ------------------------------------------------------------------------------------------------------


def test_the_order_of_placing_does_not_matter() -> None:
    """The 3g instance on the left would leave no place for two 1g beside the 2g."""
    counts = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}
    assert named(placement.place(H100, counts)) == [("2g.20gb", 0), ("1g.10gb", 2), ("1g.10gb", 3), ("3g.40gb", 4)]


def test_instances_that_are_kept_stay_in_their_places() -> None:
    kept = at(H100, ("1g.10gb", 5))
    assert named(placement.place(H100, {"3g.40gb": 1}, kept)) == [("3g.40gb", 0)]
    assert placement.place(H100, {"3g.40gb": 2}, kept) is None
    assert placement.why_not(H100, {"3g.40gb": 2}, kept) == (
        "2 x 3g.40gb, 1 x 1g.10gb take 9 of the 8 memory slices of H100-80GB"
    )
    assert placement.why_not(H100, {"4g.40gb": 1}, at(H100, ("1g.10gb", 0))) == (
        wording("1 x 4g.40gb find no place on H100-80GB beside 1 x 1g.10gb, though their sizes add up to a GPU or less")
    )


@pytest.mark.parametrize(
    ("model", "counts", "reason"),
    [
        (H100, {"7g.80gb": 9}, "H100-80GB holds at most 1 x 7g.80gb, and 9 are wanted"),
        (H100, {"3g.40gb": 1, "1g.10gb": 5}, "5 x 1g.10gb, 1 x 3g.40gb take 9 of the 8 memory slices of H100-80GB"),
        (
            H100,
            {"3g.40gb": 1, "1g.10gb": 4, "4g.40gb": 0},
            None,
        ),
        (
            H100,
            {"1g.20gb": 1, "1g.10gb": 6},
            None,
        ),
        (
            H100,
            {"2g.20gb": 3, "1g.10gb": 2},
            wording("2 x 1g.10gb, 3 x 2g.20gb find no place on H100-80GB, though their sizes add up to a GPU or less"),
        ),
        (
            A30,
            {"1g.6gb+me": 1, "2g.12gb+me": 1},
            wording("A30 has media extensions for one instance, and 1 x 1g.6gb+me, 1 x 2g.12gb+me want them"),
        ),
        (
            RTX,
            {"1g.24gb+me.all": 1, "1g.24gb": 1},
            "1 x 1g.24gb, 1 x 1g.24gb+me.all want more than the 4 media engines of RTX-PRO-6000",
        ),
        (RTX, {"1g.24gb+me.all": 1, "1g.24gb-me": 3}, None),
        (
            A100,
            {"1g.20gb": 1},
            "1g.20gb is no profile of A100-40GB, which has 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, "
            "3g.20gb, 4g.20gb, 7g.40gb",
        ),
        (
            H100,
            {"3c.4g.40gb": 1},
            wording("3c.4g.40gb is no compute instance of 4g.40gb, which has 1c.4g.40gb, 2c.4g.40gb"),
        ),
        (H100, {"2c.1g.10gb": 1}, wording("2c.1g.10gb is no compute instance of 1g.10gb, which has none")),
        (H100, {"1g.10gb": -1}, "1g.10gb has the count -1: give 0 or more"),
        (H100, {"1c.2g.20gb": 99}, "H100-80GB holds at most 3 x 2g.20gb, and 99 are wanted"),
        (H100, {}, None),
    ],
)
def test_the_reason_is_named(model: table.Model, counts: dict[str, int], reason: str | None) -> None:
    assert placement.why_not(model, counts) == reason


def test_hundreds_of_instances_are_refused_without_a_search() -> None:
    assert placement.place(H100, {"1c.7g.80gb": 10**9}) is None


@pytest.mark.parametrize(
    ("counts", "needed"),
    [
        ({"1c.3g.40gb": 3}, {"3g.40gb": 1}),
        ({"1c.3g.40gb": 1, "2c.3g.40gb": 1}, {"3g.40gb": 1}),
        # Two slices of three begin only at the first.
        ({"2c.3g.40gb": 3}, {"3g.40gb": 3}),
        ({"2c.3g.40gb": 2, "1c.3g.40gb": 2}, {"3g.40gb": 2}),
        ({"1c.2g.20gb": 3, "2g.20gb": 1}, {"2g.20gb": 3}),
        # Two of 3c and one of 1c fill an instance, unless the 2c come first.
        ({"3c.7g.80gb": 1, "2c.7g.80gb": 2}, {"7g.80gb": 1}),
        ({"4c.7g.80gb": 1, "3c.7g.80gb": 1}, {"7g.80gb": 1}),
        ({"4c.7g.80gb": 2}, {"7g.80gb": 2}),
        ({"3c.7g.80gb": 2, "2c.7g.80gb": 4}, {"7g.80gb": 2}),
        ({"1c.3g.40gb": 0}, {}),
    ],
)
def test_compute_instances_share_gpu_instances(counts: dict[str, int], needed: dict[str, int]) -> None:
    assert collections.Counter(each.name for each in placement.instances(H100, counts)) == needed


def test_as_many_as_fit() -> None:
    assert placement.as_many(H100, "2g.20gb") == 3
    assert placement.as_many(H100, "1g.10gb", {"3g.40gb": 1}) == 4
    assert placement.as_many(H100, "1c.3g.40gb") == 6
    assert placement.as_many(H100, "1g.10gb", {"7g.80gb": 1}) == 0
    assert placement.as_many(H100, "1g.10gb", {"7g.80gb": 2}) == 0


def test_what_could_be_added() -> None:
    assert placement.addable(H100, at(H100, ("3g.40gb", 4), ("1g.10gb", 0))) == {
        "1g.10gb": 3,
        "1g.10gb+me": 1,
        "1g.20gb": 1,
        "2g.20gb": 1,
    }
    assert placement.addable(H100, at(H100, ("7g.80gb", 0))) == {}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("A30", {"1g.6gb": 2, "2g.12gb": 1}),
        ("A100-40GB", {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}),
        ("H200", {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1}),
        ("RTX-PRO-6000", {"1g.24gb": 2, "2g.48gb": 1}),
    ],
)
def test_the_balanced_mixture_is_the_vendors(model: str, expected: dict[str, int]) -> None:
    assert placement.balanced(table.named(model)) == expected


def test_a_model_of_another_width_has_no_balanced_mixture() -> None:
    assert placement.balanced(table.Model("two", 2, (table.Profile("2g.2gb", 1, 2, 2, 2, (0,), 1),), ())) is None


def test_a_change_keeps_what_can_stay() -> None:
    existing = at(H100, ("1g.10gb", 0), ("1g.10gb", 3), ("3g.40gb", 4))
    change = placement.change(H100, existing, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1})
    assert change is not None
    assert (change.destroy, named(change.create)) == ((1,), [("2g.20gb", 2)])
    same = placement.change(H100, existing, {"1g.10gb": 2, "3g.40gb": 1})
    assert same == placement.InstanceChange((), ())
    assert placement.change(H100, existing, {"7g.80gb": 2}) is None
    whole = placement.change(H100, existing, {"7g.80gb": 1})
    assert whole is not None
    assert (whole.destroy, named(whole.create)) == ((0, 1, 2), [("7g.80gb", 0)])


def test_an_unknown_profile_is_an_error_where_no_reason_is_asked() -> None:
    with pytest.raises(GpuOpsError) as error:
        placement.place(H100, {"1g.6gb": 1})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "1g.6gb is no profile of H100-80GB, which has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb."
    )


# ---- compute instances --------------------------------------------------------------------------------------------


def first_free(sizes: t.Iterable[int], width: int) -> list[int]:
    """Return where a driver puts compute instances that it creates one after the other, or -1 if it refuses one."""
    taken: set[int] = set()
    places = []
    for size in sizes:
        possible = (start for start in table.COMPUTE_STARTS[size] if start + size <= width)
        places.append(next((start for start in possible if not taken & set(range(start, start + size))), -1))
        taken |= set(range(places[-1], places[-1] + size))
    return places


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
def test_compute_instances_that_fit_in_some_way_get_places_which_a_driver_finds_in_their_order(width: int) -> None:
    sizes = table.COMPUTE_SIZES[width]
    shapes = [each for count in range(width + 1) for each in itertools.combinations_with_replacement(sizes, count)]
    for shape in shapes:
        found = placement.compute_places(sorted(shape, reverse=True), width)
        possible = any(-1 not in first_free(order, width) for order in set(itertools.permutations(shape)))
        assert (found is not None) == possible, shape
        if found is not None:
            ordered = sorted(zip(found, sorted(shape, reverse=True), strict=True))
            assert first_free([size for dummy, size in ordered], width) == sorted(found), shape


def test_the_largest_compute_instance_gives_way_if_the_others_need_its_place() -> None:
    assert placement.compute_places((3, 2, 2), 7) == (4, 0, 2)
    assert first_free((3, 2, 2), 7) == [0, 4, -1]
    assert placement.compute_places((3, 3, 2), 7) is None
    assert placement.compute_places((), 7) == ()
    assert placement.compute_places((2,), 4, taken=0b0011) == (2,)
