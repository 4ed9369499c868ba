# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import draw, placement, table

H100, A30, RTX = (table.named(name) for name in ("H100-80GB", "A30", "RTX-PRO-6000"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("model", "counts", "drawn"),
    [
        (
            H100,
            {"3g.40gb": 1, "1g.10gb": 4},
            "|1g.10gb|1g.10gb|1g.10gb|1g.10gb|            3g.40gb            |",
        ),
        (H100, {"1g.10gb": 7}, "|1g.10gb|1g.10gb|1g.10gb|1g.10gb|1g.10gb|1g.10gb|1g.10gb|  free |"),
        (A30, {}, "|            free           |"),
        (A30, {"2g.12gb": 1}, "|   2g.12gb   |     free    |"),
        (RTX, {"1g.24gb+gfx": 1, "2g.48gb": 1}, "|        2g.48gb        |1g.24gb+gfx|    free   |"),
    ],
)
def test_a_layout_is_drawn_as_text(model: table.Model, counts: dict[str, int], drawn: str) -> None:
    placed = placement.place(model, counts)
    assert placed is not None
    assert draw.text(model, placed) == drawn


def boxes(picture: str) -> list[tuple[str, str]]:
    """Return the class and the label of each box; a box without a label has none."""
    root = ET.fromstring(picture)  # the picture is our own
    rects = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") != "slice"]
    labels = [text.text or "" for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert len(rects) == len(labels)
    return [(rect.get("class") or "", label) for rect, label in zip(rects, labels)]


@pytest.mark.parametrize("model", table.MODELS, ids=lambda model: model.name)
def test_the_places_of_a_model_are_drawn_one_box_each(model: table.Model) -> None:
    picture = draw.profiles_svg(model)
    assert len(boxes(picture)) == sum(len(profile.starts) for profile in model.profiles)
    assert all(f"{profile.name} from slice " in picture for profile in model.profiles)
    root = ET.fromstring(picture)  # the picture is our own
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "title desc")
    assert root.findtext(f"{SVG}title").startswith(f"MIG profiles of {model.name}")
    assert "prefers-color-scheme: dark" in picture
    slices = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "slice"]
    assert len(slices) == model.slots * len(model.profiles)


def test_boxes_have_the_name_of_their_profile_or_of_its_slices() -> None:
    found = boxes(draw.profiles_svg(A30))
    assert found == [("one", "1g.6gb")] * 4 + [("one", "1g.6gb+me")] * 4 + [("several", "2g.12gb")] * 2 + [
        ("several", "2g.12gb+me")
    ] * 2 + [("several", "4g.24gb")]
    assert ("one", "1g") in boxes(draw.profiles_svg(H100))
