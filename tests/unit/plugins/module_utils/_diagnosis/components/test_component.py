# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a finding says of a component."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import component, whose_line


@pytest.mark.parametrize("each", whose_line.COMPONENTS, ids=lambda each: each.key)
def test_a_component_says_all_that_a_finding_needs(each: component.Component) -> None:
    assert all(text.endswith(".") for text in (each.does, each.awaited, each.look))
    assert len(each.needs) >= 2 and each.source.startswith("https://")
    assert not re.search(r"\b(?:restart|reboot|drain|delete|reset)\b", each.look), "A look interrupts nothing."


def test_its_name_begins_a_sentence_and_its_needs_are_one_text() -> None:
    known = component.Component("x", "the thing", "", "", "It is.", "All wait.", ("a", "b"), "Look.", "https://x")
    assert known.values == {
        "component": "The thing",
        "does": "It is.",
        "awaited": "All wait.",
        "needs": "a; b",
        "look": "Look.",
    }


def test_the_address_of_a_revision() -> None:
    assert component.github("a/b", "1234", "cmd") == "https://github.com/a/b/tree/1234/cmd"
    assert component.github("a/b", "1234") == "https://github.com/a/b/tree/1234"
