# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of another form cost the fleet no more than the host that they come from."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine, odd_hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from inline_snapshot import snapshot as wording

NOUVEAU = {"facts": {"nouveau": {"loaded": True}}}
"""A host with a finding."""


def codes(hosts: dict[str, t.Any], **more: t.Any) -> tuple[set[str], list[str], set[str]]:
    evidence, found = odd_hosts.diagnosed(Evidence(hosts=hosts, **more), RULES)
    return {each.code for each in found.findings}, [gap.what for gap in found.gaps], set(evidence.hosts)


@pytest.mark.parametrize(
    "odd",
    [
        {"facts": {"nouveau": "loaded"}},
        {"facts": {"nouveau": ["loaded"]}},
        {"facts": {"gpus": {"a": 1}}},
        {"facts": {"driver": 7}},
        {"state": {"services": "x", "runtimes": 7}},
        "facts",
    ],
)
def test_an_odd_host_is_a_gap_and_the_others_have_their_findings(odd: t.Any) -> None:
    assert codes({"gpu-1": odd, "gpu-2": NOUVEAU}) == ({"NouveauHoldsGPU"}, ["the host gpu-1"], {"gpu-2"})


def test_the_gap_says_what_to_do() -> None:
    assert odd_hosts.gap("gpu-1").why == wording(
        "Its facts have another form than a diagnosis knows, so it was left out. Run gpu_facts on it alone to see them."
    )


def test_hosts_of_the_known_form_stay_together() -> None:
    assert codes({"gpu-1": NOUVEAU, "gpu-2": NOUVEAU}) == ({"NouveauHoldsGPU"}, [], {"gpu-1", "gpu-2"})


def test_a_cluster_of_another_form_costs_no_host() -> None:
    found, gaps, hosts = codes({"gpu-2": NOUVEAU}, objects={"events": [], "daemonsets": [{"odd": 1}]})
    assert found == {"NouveauHoldsGPU"} and hosts == {"gpu-2"}
    assert gaps and all(gap.startswith("what the rule") for gap in gaps)


def test_lines_without_text_are_told_as_they_were_without_hosts_to_leave_out() -> None:
    line = TextLine(t.cast("str", None), "kernel", "kernel log", "gpu-2")
    with pytest.raises(engine.ODD):
        odd_hosts.diagnosed(Evidence(lines=[line]), RULES)
