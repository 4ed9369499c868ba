# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.known_platforms import (
    PLATFORM_OF,
    PLATFORMS,
    UNKNOWN_PRESETS,
    Platform,
)

PRESETS = {path.stem for path in (Path(__file__).parents[6] / "roles" / "operator" / "vars" / "presets").glob("*.yml")}


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_a_platform_names_its_source_and_presets_that_exist(platform: Platform) -> None:
    assert platform.source.startswith("https://") and re.fullmatch(r"20\d\d-\d\d-\d\d", platform.date)
    assert set(platform.presets) <= PRESETS
    assert platform.signs and all(sign.patterns for sign in platform.signs)


def test_each_preset_belongs_to_a_platform_or_to_unknown_nodes() -> None:
    assert len(PLATFORM_OF) == len(PLATFORMS)
    assert {name for platform in PLATFORMS for name in platform.presets} | {*UNKNOWN_PRESETS, "immutable_os"} == PRESETS
