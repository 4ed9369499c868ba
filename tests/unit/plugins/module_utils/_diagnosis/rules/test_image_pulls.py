# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The published words are beside those of `starts`, from which these rules have to be told apart."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.image_pulls import RULES

from tests.unit import diagnosed
from tests.unit.plugins.module_utils._diagnosis.rules.test_starts import PUBLISHED

OWN = {rule.code for rule in RULES}


@pytest.mark.parametrize("code", sorted(OWN & PUBLISHED.keys()))
def test_published_words_give_the_code_and_nothing_else(code: str) -> None:
    assert list(diagnosed.found(RULES, diagnosed.event(PUBLISHED[code]))) == [code]


@pytest.mark.parametrize("code", sorted(PUBLISHED.keys() - OWN))
def test_published_words_of_other_rules_give_nothing(code: str) -> None:
    assert list(diagnosed.found(RULES, diagnosed.event(PUBLISHED[code]))) == []
