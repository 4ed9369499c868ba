# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests of the module node_maintenance, and nodes that are held."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold import INITIALLY_CORDONED, Claim
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold_stamp import PURPOSE_PREFIX, Stamp
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
    request_of,
)
from ansible_collections.gpuops.nvidia.plugins.modules.node_maintenance import SPEC

from tests.unit.fakes.stack import node

DEFAULTS: dict[str, t.Any] = {name: option.get("default") for name, option in SPEC.options.items()} | {
    "state": "drained",
    "purpose": "reboot",
}


NOW = 1_795_255_200.0
"""2026-11-21T10:00:00Z, when the run of these tests has begun."""
MINE = Stamp("2026-11-21T10:00:00Z", "bastion", "00000001")


def claim(purpose: str = "reboot", **changes: t.Any) -> Claim:
    return Claim(**{"purpose": purpose, "stamp": MINE, "now": NOW, "lease_s": 3600.0, **changes})


def asked(**changes: t.Any) -> MaintenanceRequest:
    """Return what these options and the defaults of the module ask for."""
    return request_of({**DEFAULTS, **changes})


def held(number: int = 0, *, cordoned: bool = True, initially: str | None = "false", **purposes: str) -> dict:
    made = node(number)
    notes = {PURPOSE_PREFIX + purpose: stamp for purpose, stamp in purposes.items()} | (
        {INITIALLY_CORDONED: initially} if initially else {}
    )
    made["metadata"] |= {"annotations": notes, "resourceVersion": "7"}
    made["spec"] = {"unschedulable": True} if cordoned else {}
    return made
