# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1g.10gb", profile_names.Name(None, 1, 10)),
        ("7g.80gb", profile_names.Name(None, 7, 80)),
        ("1g.10gb+me", profile_names.Name(None, 1, 10, "+me")),
        ("1g.24gb-me", profile_names.Name(None, 1, 24, "-me")),
        ("1g.24gb+me.all", profile_names.Name(None, 1, 24, "+me.all")),
        ("1c.2g.20gb", profile_names.Name(1, 2, 20)),
        ("2c.2g.20gb", profile_names.Name(None, 2, 20)),
        ("1g.10gb+gfx,me", profile_names.Name(None, 1, 10, "+gfx,me")),
    ],
)
def test_a_profile_is_taken_apart(text: str, name: profile_names.Name) -> None:
    assert profile_names.parse(text) == name


def test_a_name_is_put_together_again() -> None:
    assert profile_names.parse("1c.3g.40gb+me").text == "1c.3g.40gb+me"
    assert profile_names.parse("1c.3g.40gb+me").instance == "3g.40gb+me"
    assert profile_names.parse("3c.3g.40gb").text == "3g.40gb"


FIELDS = ("", "banana", "1g.10", "1g10gb", " 1g.10gb", "1g.10gb ", "c.1g.10gb", "1g.-10gb", "\u0661g.10gb")
WORDS = ("+", "+me-me", "+.me", "+me.", "+me,me", "+1x", "+m e", "+me,", "+\u00e9")


@pytest.mark.parametrize("text", [*FIELDS, *(f"1g.10gb{word}" for word in WORDS)])
def test_anything_else_is_no_profile(text: str) -> None:
    assert profile_names.parsed(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("banana", wording("'banana' is no MIG profile. Write a profile such as 1g.10gb, 1g.10gb+me or 1c.2g.20gb.")),
        (
            "1g.10gb.me",
            wording(
                "'1g.10gb.me' is no MIG profile. "
                "The profile is 1g.10gb+me, and the layout of all GPUs with it is all-1g.10gb.me."
            ),
        ),
    ],
)
def test_a_wrong_profile_is_refused_with_the_right_form(text: str, message: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        profile_names.parse(text)
    assert (error.value.msg, error.value.reason) == (message, "Invalid")


PROFILES = st.builds(
    "{}{}g.{}gb{}".format,
    st.sampled_from(["", "1c.", "2c."]),
    st.integers(1, 7),
    st.integers(1, 300),
    st.sampled_from(["", "+me", "+gfx", "+me.all", "-me"]),
)


@given(PROFILES)
def test_names_of_resources_lead_back_to_the_profile(profile: str) -> None:
    assert profile_names.undotted(profile_names.dotted(profile)) == profile
    assert "+" not in profile_names.dotted(profile)


ONE = "A layout has one name: publish a layout with the mig_devices {{{}}}, and name that."
ALL = "The profile is {0}, and the layout of all GPUs with it is all-{1}."


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("1g.10gb-2,3g.40gb-1", ONE.format("1g.10gb: 2, 3g.40gb: 1")),
        ("1g.10gb, 3g.40gb", ONE.format("1g.10gb: 1, 3g.40gb: 1")),
        ("2x1g.10gb", ONE.format("1g.10gb: 2")),
        ("1g.10gb:2", ONE.format("1g.10gb: 2")),
        ("1g.10gb+me=1,2 * 2g.20gb", ONE.format("1g.10gb+me: 1, 2g.20gb: 2")),
        ("1g.10gb", ALL.format("1g.10gb", "1g.10gb")),
        ("1x1g.10gb", None),
        ("nvidia.com/mig-1g.10gb.me", ALL.format("1g.10gb+me", "1g.10gb.me")),
        ("MIG 1g.10gb", ALL.format("1g.10gb", "1g.10gb")),
        ("ALL-1G.10GB+ME", ALL.format("1g.10gb+me", "1g.10gb.me")),
        ("1g.10g", ALL.format("1g.10gb", "1g.10gb")),
        ("1g.24gb-me", ALL.format("1g.24gb-me", "1g.24gb-me")),
        ("1g.10gb-2,banana", None),
        ("banana", None),
        ("", None),
    ],
)
def test_wrong_forms_are_recognised(text: str, right: str | None) -> None:
    assert profile_names.corrected(text) == right
