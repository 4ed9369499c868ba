# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.fabric import fabric, fabric_kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section

CONNECTX_7, H100_SWITCH = {"device_id": "15b3:1021"}, {"device_id": "10de:22a3"}


def facts(device_id: str, count: int, switches: t.Sequence[dict[str, str]] = (), **values: t.Any) -> dict[str, t.Any]:
    return {"gpus": [{"device_id": f"10de:{device_id}", **values}] * count, "nvswitches": list(switches)}


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (facts("2330", 8, [H100_SWITCH] * 4), "nvswitch"),
        (facts("2330", 1), "none"),
        (facts("2331", 4), "none"),
        (facts("2901", 8, [CONNECTX_7]), "nvlink5"),
        # A GPU may be missing, and the module of the adapters need not be loaded.
        (facts("2901", 7, [CONNECTX_7]), "nvlink5"),
        (facts("3182", 8), "nvlink5"),
        # A guest with a part of a board
        (facts("2901", 1), "none"),
        (facts("2901", 4), "none"),
        (facts("2941", 4, peer_type="Switch Connected", fabric=None), "nvl72"),
        (facts("31c2", 4), "nvl72"),
        (facts("2941", 4, peer_type=None, fabric=None), "nvl72"),
        # GB200 NVL4
        (facts("2941", 4, peer_type="Direct Connected", fabric=None), "none"),
        (facts("2941", 4, peer_type="Direct Connected", fabric={"state": "Not Started"}), "nvl72"),
        ({"gpus": [{"pci_address": "0000:01:00.0"}], "nvswitches": []}, "none"),
        (facts("27b8", 0), "none"),
    ],
)
def test_the_kind_of_fabric(found: dict[str, t.Any], kind: str) -> None:
    assert fabric_kind(found) == kind


def test_the_fact() -> None:
    found = facts("2330", 8, [H100_SWITCH] * 4)
    assert fabric(Section(found["gpus"]), Section(found["nvswitches"])) == Section(
        {"kind": "nvswitch"}, {"kind": {"source": "gpus, nvswitches", "reason": None}}
    )
