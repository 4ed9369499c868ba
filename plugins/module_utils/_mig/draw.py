# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Drawn MIG layouts: as text for terminals and reports, and as SVG for the documentation. Pure."""

from __future__ import annotations

import typing as t
from xml.sax.saxutils import escape  # nosec B406 - it writes XML, and reads none

from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.placement import Placed
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Model, Profile

FREE = "free"

# ---- text -----------------------------------------------------------------------------------------------------------


def text(model: Model, placed: t.Sequence[Placed]) -> str:
    """Return a line with the GPU's memory slices from left to right: ``|    2g.20gb    |1g.10gb|  free |``."""
    found = pieces(model, placed)
    cell = max(len(name) // width + 1 for name, width in [*found, (model.profiles[0].name, 1)])
    return "|" + "".join(f"{name.center(width * cell - 1)}|" for name, width in found)


def pieces(model: Model, placed: t.Sequence[Placed]) -> list[tuple[str, int]]:
    """Return what lies on the GPU from left to right, with widths; free slices that touch are one piece."""
    starts = {each.start: each.profile for each in placed}
    found: list[tuple[str, int]] = []
    unit = min(each.slots for each in model.profiles)
    slot = 0
    while slot < model.slots:
        profile = starts.get(slot)
        if profile:
            found.append((profile.name, profile.slots // unit))
        elif found and found[-1][0] == FREE:
            found[-1] = (FREE, found[-1][1] + 1)
        else:
            found.append((FREE, 1))
        slot += profile.slots if profile else unit
    return found


# ---- SVG ------------------------------------------------------------------------------------------------------------

_LEFT, _WIDTH, _ROW, _GAP, _TOP = 130, 560, 26, 6, 46
_STYLE = """<style>
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 15px; }
.small { font-size: 11px; fill: #59636e; }
.slice { fill: none; stroke: #d1d9e0; }
.one { fill: #d5ebc2; stroke: #4d7a00; }
.several { fill: #b7dd8f; stroke: #4d7a00; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .small { fill: #9198a1; } .slice { stroke: #3d444d; }
  .one { fill: #2d4a12; stroke: #8bc34a; } .several { fill: #3f6a18; stroke: #8bc34a; }
}
</style>"""


def profiles_svg(model: Model) -> str:
    """Return a picture of all places that each profile of a model can have: a row for each profile."""
    rows, y = "", _TOP
    for profile in model.profiles:
        boxes = "".join(_box(model, profile, start, y) for start in profile.starts)
        rows += f'<text x="8" y="{y + 18}">{escape(profile.name)}</text>{_slices(model, y)}{boxes}'
        rows += f'<text class="small" x="{_LEFT + _WIDTH + 8}" y="{y + 18}">at most {profile.most}</text>\n'
        y += _ROW + _GAP
    described = "; ".join(
        f"{each.name} from slice {', '.join(map(str, each.starts))}, at most {each.most}" for each in model.profiles
    )
    return _picture(f"MIG profiles of {model.name}, and where they can lie", f"{described}.", rows, y)


def _x(model: Model, slot: int) -> int:
    return _LEFT + slot * _WIDTH // model.slots


def _slices(model: Model, y: int) -> str:
    """Return the empty memory slices of a row."""
    width = _WIDTH // model.slots
    return "".join(
        f'<rect class="slice" x="{_x(model, slot)}" y="{y}" width="{width}" height="{_ROW}"/>'
        for slot in range(model.slots)
    )


def _box(model: Model, profile: Profile, start: int, y: int) -> str:
    left, right = _x(model, start) + 2, _x(model, start + profile.slots) - 2
    kind = "one" if profile.compute == 1 else "several"
    label = profile.name if right - left > 8 * len(profile.name) else f"{profile.compute}g"
    return (
        f'<rect class="{kind}" x="{left}" y="{y + 2}" width="{right - left}" height="{_ROW - 4}" rx="3"/>'
        f'<text x="{(left + right) // 2}" y="{y + 18}" text-anchor="middle">{escape(label)}</text>'
    )


def _picture(title: str, description: str, body: str, height: int) -> str:
    width = _LEFT + _WIDTH + 80
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 6}" role="img" '
        f'aria-labelledby="title desc">\n<title id="title">{escape(title)}</title>\n'
        f'<desc id="desc">{escape(description)}</desc>\n{_STYLE}\n'
        f'<text class="title" x="8" y="22">{escape(title)}</text>\n{body.rstrip()}\n</svg>\n'
    )
