# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the diagnosis says about drift."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import drift, engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import unlike_machines
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from inline_snapshot import snapshot as wording

# The VBIOS that facebookresearch's health check gives as an example, against the one of gpu_facts' sample.
GPU = {"pci_address": "0000:18:00.0", "product": "NVIDIA H100 80GB HBM3", "vbios": "96.00.74.00.01", "gsp": "580.95.05"}


def fleet() -> dict[str, dict[str, t.Any]]:
    facts = {"gpus": [GPU], "driver": {"version": "580.95.05"}}
    return {f"gpu-{number}": {"facts": copy.deepcopy(facts)} for number in range(6)}


def codes(hosts: dict[str, t.Any]) -> list[str]:
    return [each.code for each in engine.diagnose(Evidence(hosts=hosts), unlike_machines.RULES).findings]


def test_one_finding_names_all_machines_with_the_same_odd_value() -> None:
    hosts = fleet()
    for name in ("gpu-1", "gpu-4"):
        hosts[name]["facts"]["gpus"][0]["vbios"] = "96.00.5E.00.01"
    (finding,) = engine.diagnose(Evidence(hosts=hosts), unlike_machines.RULES).findings
    assert (finding.code, finding.severity, finding.nodes) == ("FleetDriftVBIOS", "warning", ("gpu-1", "gpu-4"))
    assert finding.title == wording("VBIOS unlike that of equal machines")
    assert finding.cause == (
        "The VBIOS is 96.00.5E.00.01, while most GPUs in machines with 1 x NVIDIA-H100-80GB-HBM3 have 96.00.74.00.01."
    )
    assert finding.objects == ("GPU 0000:18:00.0",)
    assert finding.quotes[0].text == "vbios: 96.00.5E.00.01 (usual: 96.00.74.00.01, 4 of 6)"


def test_a_pinned_value_is_named_as_such() -> None:
    evidence = Evidence(hosts=fleet(), pinned=[{"vbios": "96.00.99.00.01"}])
    (finding,) = engine.diagnose(evidence, unlike_machines.RULES).findings
    assert finding.cause == ("The VBIOS is 96.00.74.00.01, while 96.00.99.00.01 is pinned for NVIDIA-H100-80GB-HBM3.")


def test_the_firmware_of_another_driver_is_a_consequence_of_the_driver() -> None:
    hosts = fleet()
    hosts["gpu-2"]["facts"]["driver"]["version"] = hosts["gpu-2"]["facts"]["gpus"][0]["gsp"] = "570.86.15"
    assert codes(hosts) == ["FleetDriftDriver"]


def test_a_uniform_fleet_gives_no_finding() -> None:
    assert codes(fleet()) == []


def test_every_trait_has_a_rule_and_every_rule_a_source() -> None:
    assert len({rule.code for rule in unlike_machines.RULES}) == len(unlike_machines.RULES) == len(drift.TRAITS)
    assert all(rule.code.startswith(unlike_machines.CODE) and rule.sources for rule in unlike_machines.RULES)


@pytest.mark.parametrize("rule", unlike_machines.RULES, ids=lambda rule: rule.code)
def test_a_rule_reads_well(rule: t.Any) -> None:
    assert rule.cause.startswith("The ")
    assert rule.remedy.endswith(".")
