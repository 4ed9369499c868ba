# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, TextLine, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View

from tests.unit import diagnosed


def test_a_sighting_knows_the_operand_of_its_line() -> None:
    found = matches.sighting(Hit(diagnosed.event("x", "nvidia-dcgm-exporter-x7k2p"), {"a": "1"}), "likely", b="2")
    assert (found.node, found.operand, found.certainty) == (diagnosed.NODE, "dcgm-exporter", "likely")
    assert found.values == {"a": "1", "b": "2"}
    assert found.quotes[0].text == "x"


def test_a_line_that_is_about_no_pod_concerns_all_operands() -> None:
    assert matches.sighting(Hit(TextLine("x", "kernel", "kernel log", "gpu-0001"), {})).operand == ""


def test_a_line_of_a_pod_s_log_has_the_operand_in_its_source() -> None:
    source = "log of pod gpu-operator/nvidia-dcgm-exporter-x7k2p"
    assert matches.sighting(Hit(TextLine("x", "pod", source), {})).operand == "dcgm-exporter"


def test_a_check_yields_the_matches_of_all_its_patterns() -> None:
    one, other = pattern("one (?P<what>\\w+)", "one"), pattern("two", "two")
    evidence = Evidence(lines=[TextLine("one apple"), TextLine("two"), TextLine("three")])
    found = list(matches.of_operands(one, other, certainty="possible")(View(evidence, (one, other))))
    assert [(each.values, each.certainty) for each in found] == [({"what": "apple"}, "possible"), ({}, "possible")]


def test_a_fact_is_a_quote_of_its_source() -> None:
    (quote,) = matches.fact("mig.mode: on", "facts of the host", "gpu-0001")
    assert (quote.text, quote.source, quote.node) == ("mig.mode: on", "facts of the host", "gpu-0001")
