# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.known_platforms import PLATFORM_OF
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import platform_rules
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.platform_rules import Combination

from tests.unit.plugins.module_utils._cluster.preflight.clusters import intent


@pytest.mark.parametrize("combination", platform_rules.COMBINATIONS, ids=lambda each: each.name)
def test_a_combination_names_known_platforms_and_its_source(combination: Combination) -> None:
    assert set(combination.platforms) <= set(PLATFORM_OF)
    assert combination.source.startswith("https://") and re.fullmatch(r"20\d\d-\d\d-\d\d", combination.date)
    assert "{nodes}" in combination.message and combination.remedy.endswith(".")
    needs_preset = "{preset}" in combination.remedy
    assert not needs_preset or all(PLATFORM_OF[name].presets for name in combination.platforms)


def test_the_device_plugin_is_ours_unless_it_is_off_or_pods_use_claims() -> None:
    assert platform_rules.has_plugin(intent())
    assert not platform_rules.has_plugin(intent(devicePlugin={"enabled": False}))
    assert not platform_rules.has_plugin(intent(gpuCluster={"deployCR": True}))
