# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in behaves like the recordings of NVIDIA's operator."""

from __future__ import annotations

import json
import os
import sys
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Options
from lab.cluster.conformance import scenarios
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("what the vendor's operator did is played again at its pace")

TICK = 3
"""Seconds between checks for upgrades, instead of two minutes. The order of events stays the same."""
REPOSITORY = Path(__file__).parents[3]
VENDOR = json.loads((REPOSITORY / "lab/cluster/conformance/vendor.json").read_text())


@pytest.fixture(scope="module")
def performed() -> t.Iterator[dict[str, t.Any]]:
    """Perform the scenarios in the recorded order, and return the facts of each. The first one is the everyday one."""
    chosen = scenarios.SCENARIOS if os.environ.get("GPUOPS_WIDE") else scenarios.SCENARIOS[:1]
    command = f"env PYTHONPATH={REPOSITORY} {sys.executable} -m lab.cluster.operator.standin --upgrade-tick={TICK}"
    with running_lab("conformance", Options(operator="external", operator_command=command)) as lab:
        scenarios.prepare(lab)
        yield {scenario.name: scenarios.perform(lab, scenario, quiet=TICK + 2) for scenario in chosen}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(scenario.name, part, marks=() if scenario is scenarios.SCENARIOS[0] else pytest.mark.wide)
        for scenario in scenarios.SCENARIOS
        for part in scenario.compared
    ],
)
def test_the_facts_match_the_vendors_recordings(performed: dict[str, t.Any], name: str, part: str) -> None:
    assert performed[name][part] == VENDOR[name][part]


MOMENTS = {(moment, scenario.name) for scenario in scenarios.SCENARIOS for moment in scenario.moments}


@pytest.mark.wide
@pytest.mark.parametrize("moment", sorted({moment for moment, _ in MOMENTS}))
def test_misleading_moments_exist(performed: dict[str, t.Any], moment: str) -> None:
    """Each occurs in one of its scenarios at least: in which ones depends on the speed of the machine."""
    found_in = [name for its_moment, name in MOMENTS if its_moment == moment]
    assert all(moment in VENDOR[name]["moments"] for name in found_in)
    assert any(moment in performed[name]["moments"] for name in found_in)
