# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import catalogue
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.advice import BY_GRAVITY, Advice, advise, family_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import from_lines


def told(message: str, branch: int | None = None) -> Advice:
    (report,) = from_lines("", [f"NVRM: Xid (PCI:0000:9b:00): {message}"])
    return advise(report.event, branch)


def of_switch(message: str) -> Advice:
    (report,) = from_lines("", [f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {message}"])
    return advise(report.event)


@pytest.mark.parametrize(
    ("message", "outcome", "family"),
    [
        ("13, Graphics Exception", "restart the application", "application"),
        ("43, Ch 8", "nothing", "application"),
        ("45, Ch 8", "nothing", "cleanup"),
        ("48, DBE", "reset the GPU", "memory"),
        ("54, power", "check the machine", "power"),
        ("63, Row Remapper", "nothing", "contained"),
        ("64, Row Remapper Error", "reset the GPU", "memory"),
        ("78, vGPU", "check the machine", "other"),
        ("79, GPU has fallen off the bus.", "reboot", "off the bus"),
        ("94, Contained", "restart the application", "contained"),
        ("95, Uncontained", "reset the GPU", "memory"),
        ("119, Timeout", "reset the GPU", "firmware"),
        ("142, NVENC3", "service", "other"),
        ("151, key", "reboot", "other"),
        ("159, CHI", "reset the GPU", "other"),
        ("162, PSHC", "nothing", "power"),
        ("163, PSHC", "check the machine", "power"),
        ("168, WPR", "reboot", "memory"),
        ("171, DRAM", "reset the GPU", "memory"),
        ("56, CMDre", "service", "unknown"),
        ("4711, new", "service", "unknown"),
        ("74, NVLink", "reset the GPU", "nvlink"),
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000082 0x00000001 0x0)", "restart the application", "nvlink"),
        ("145, RLW_NEW Fatal XC0 i0 Link 00 (0x00000082 0x00000001 0x0)", "reset the GPU", "nvlink"),
        ("145, RLW_NEW Nonfatal XC0 i0 Link 00 (0x00000082 0x00000001 0x0)", "restart the application", "nvlink"),
        ("145, something else", "service", "nvlink"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "reboot", "order"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "restart the application", "order"),
        ("154, something new", "service", "order"),
    ],
)
def test_each_kind_of_error_ends_in_nvidias_outcome(message: str, outcome: str, family: str) -> None:
    advice = told(message)
    assert (advice.outcome, advice.family) == (outcome, family)
    assert advice.source.startswith("https://")


@pytest.mark.parametrize(
    ("registers", "outcome"),
    [
        ("0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "nothing"),
        ("0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "check the machine"),
        ("0x10, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "reset the GPU"),
        ("0x0, 0x0, 0x2000, 0x0, 0x0, 0x0, 0x0", "service"),
        ("0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "reset the GPU"),
    ],
)
def test_the_registers_of_an_nvlink_error_decide(registers: str, outcome: str) -> None:
    assert told(f"74, NVLink: fatal error detected on link 10({registers})").outcome == outcome


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("20034, Fatal, Link 30 LTSSM Fault Up", "reset the GPU"),
        ("12020, Fatal, Link 30 sequence", "reboot"),
        ("22013, Non-fatal, Link 57 Minion Link DLREQ interrupt", "nothing"),
        ("20012, Non-fatal, Link 1", "check the machine"),
        ("99999, what", "service"),
    ],
)
def test_the_severity_of_a_switchs_error_decides(message: str, outcome: str) -> None:
    assert of_switch(message).outcome == outcome


@pytest.mark.parametrize("code", sorted(catalogue.XIDS))
def test_every_code_of_the_catalog_ends_in_one_outcome(code: int) -> None:
    advice = told(f"{code}, x")
    assert advice.outcome in BY_GRAVITY
    assert str(code) in advice.why or code == catalogue.RECOVERY_ACTION_CHANGED


def test_every_code_has_a_family() -> None:
    assert (family_of(79), family_of(4711)) == ("off the bus", "other")
