# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The published words are beside those of `unplaced_pods`, from which these rules have to be told apart."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.refused_pods import RULES

from tests.unit import diagnosed
from tests.unit.plugins.module_utils._diagnosis.rules.test_unplaced_pods import MESSAGES

OWN = {rule.code for rule in RULES}


@pytest.mark.parametrize("code", sorted(OWN & MESSAGES.keys()))
def test_messages_give_the_code_and_nothing_else(code: str) -> None:
    assert list(diagnosed.found(RULES, MESSAGES[code])) == [code]


@pytest.mark.parametrize("code", sorted(MESSAGES.keys() - OWN))
def test_messages_of_other_rules_give_nothing(code: str) -> None:
    assert list(diagnosed.found(RULES, MESSAGES[code])) == []
