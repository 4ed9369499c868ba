# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The published words are beside those of `failing_operands`, from which these rules have to be told apart."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.out_of_memory import RULES

from tests.unit import diagnosed
from tests.unit.plugins.module_utils._diagnosis.rules.test_failing_operands import MEMORY

OWN = {rule.code for rule in RULES}


@pytest.mark.parametrize("code", sorted(OWN & MEMORY.keys()))
def test_pods_give_the_code_and_nothing_else(code: str) -> None:
    assert list(diagnosed.found(RULES, pods=[MEMORY[code]])) == [code]


def test_every_rule_has_a_pod() -> None:
    assert MEMORY.keys() == OWN
