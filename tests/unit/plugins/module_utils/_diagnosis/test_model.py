# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding, Quote, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View

LOST = pattern(r"GPU (?P<gpu>\S+) is lost", "is lost")
RULE = Rule(
    "GPULost", "A GPU is lost", "failure", "{gpu} is lost.", "Reboot.", (), patterns=(LOST,), certainty="likely"
)


def test_a_rule_without_a_check_applies_where_its_patterns_match() -> None:
    line = TextLine("GPU 0000:01:00.0 is lost", "kernel", "kernel log", "gpu-1", "GPU 0")
    view = View(Evidence(lines=[line, TextLine("nothing")]), RULE.patterns)
    (found,) = RULE.sightings(view)
    assert found.node == "gpu-1"
    assert found.object == "GPU 0"
    assert found.quotes == (Quote(line.text, "kernel log", "gpu-1"),)
    assert found.certainty == "likely"
    assert found.values == {"gpu": "0000:01:00.0"}


def test_a_rule_with_a_check_decides_by_itself() -> None:
    rule = Rule("Own", "", "ok", "", "", (), check=lambda view: [Sighting("gpu-9")], patterns=(LOST,))
    view = View(Evidence(lines=[TextLine("GPU 0 is lost")]), rule.patterns)
    assert list(rule.sightings(view)) == [Sighting("gpu-9")]


def test_a_finding_leads_to_its_section_of_the_page() -> None:
    finding = Finding("GPULost", "", "failure", "likely", "it is.", "", ("gpu-1",), (), (Quote("a", "b"),))
    result = finding.as_result()
    assert result["url"].endswith("main/reference/findings.html#gpulost")
    assert result["quotes"] == ({"text": "a", "source": "b", "node": ""},)
    assert finding.identity == ("GPULost", "it is.")
