# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What to do after one error, taken by itself: NVIDIA's action as one of six outcomes."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import catalogue, nvlink, nvlink5, switches
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.messages import Event

Outcome = t.Literal["nothing", "restart the application", "check the machine", "service", "reset the GPU", "reboot"]
BY_GRAVITY: tuple[Outcome, ...] = t.get_args(Outcome)
"""The outcome that stands later wins if one GPU has several errors at once: what brings it back comes first."""

DISRUPTIVE: frozenset[Outcome] = frozenset({"reset the GPU", "reboot"})

Family = t.Literal[
    "application",
    "cleanup",
    "contained",
    "firmware",
    "memory",
    "nvlink",
    "off the bus",
    "order",
    "other",
    "power",
    "switch",
    "unknown",
]

ORDERS: dict[str, Outcome] = {
    "NONE": "nothing",
    "GPU_RESET": "reset the GPU",
    "NODE_REBOOT": "reboot",
    "DRAIN_P2P": "restart the application",
    "DRAIN_AND_RESET": "reset the GPU",
    "RECOVER_IMEX_DOMAIN": "check the machine",
    "BUS_RESET": "reset the GPU",
    "SYSTEM_REBOOT": "reboot",
}
"""What the driver orders in an Xid 154 and through NVML."""

_BUCKETS: dict[str, Outcome] = {
    "IGNORE": "nothing",
    "RESTART_APP": "restart the application",
    "XID_154_EVAL": "restart the application",
    "CHECK_MECHANICALS": "check the machine",
    "CHECK_COOLING": "check the machine",
    "CHECK_PARTITIONS": "check the machine",
    "CHECK_LINK": "check the machine",
    "UPDATE_SWFW": "check the machine",
    "CONTACT_SUPPORT": "service",
    # CUDA uses unified memory wherever it runs.
    "CHECK_UVM": "reset the GPU",
    "RESET_GPU": "reset the GPU",
    "RESET_ALL": "reset the GPU",
    "WORKFLOW_XID_48": "reset the GPU",
    "RESTART_BM": "reboot",
    "RESTART_VM": "reboot",
}

_FAMILIES: dict[Family, frozenset[int]] = {
    "cleanup": frozenset({catalogue.CLEANUP}),
    "contained": frozenset({63, 94}),
    "memory": frozenset({48, 64, 92, 95, 140, 156, 157, 160, 161, 171, 172}),
    "firmware": frozenset({37, 38, 62, 110, 119, 120, 158, 169}),
    "nvlink": frozenset({74, 136, 137, 155, *catalogue.NVLINK5}),
    "off the bus": frozenset({catalogue.OFF_THE_BUS}),
    "order": frozenset({catalogue.RECOVERY_ACTION_CHANGED}),
    "power": frozenset({54, 162, 163, 164, 165}),
}

_WITHOUT_BUCKET: dict[int, tuple[Outcome, str]] = {
    162: ("nothing", "Power smoothing works again"),
    163: ("check the machine", "Power smoothing is off until the GPU has cooled down: look at the cooling"),
    164: ("check the machine", "The power smoothing circuit will soon be worn out"),
    165: ("check the machine", "The power smoothing circuit is worn out: the GPU works, and its power swings"),
    168: ("reboot", "Memory that the driver needs is bad: with ECC on, the next boot replaces it"),
    171: ("reset the GPU", "An uncorrectable error in the GPU's memory (DRAM)"),
    172: ("reset the GPU", "An uncorrectable error in the GPU's caches (SRAM)"),
}
"""The codes to which the catalog gives an explanation instead of a bucket, and those that belong to Xid 48."""

FOLLOWERS = frozenset({43, 45, 63, 137, 154, 160})
"""Codes that come with another error, and then have no meaning of their own."""


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to do after an error: the outcome, what the error is about, why, and where that is published."""

    outcome: Outcome
    family: Family
    why: str
    source: str = catalogue.CATALOG_PAGE
    known: bool = True


def advise(event: Event, branch: int | None = None) -> Advice:
    """Return what to do after an error, taken by itself. ``branch`` is that of the driver."""
    if event.kind == "sxid":
        return _of_switch(event)
    if event.code == catalogue.RECOVERY_ACTION_CHANGED:
        return _of_order(event)
    if event.code == 74:
        return _of_nvlink(event)
    if event.code in catalogue.NVLINK5:
        return _of_nvlink5(event, branch)
    return _of_catalogue(event)


def family_of(code: int) -> Family:
    """Return what an Xid is about."""
    return next((family for family, codes in _FAMILIES.items() if code in codes), "other")


def _of_catalogue(event: Event) -> Advice:
    row, family = catalogue.XIDS.get(event.code), family_of(event.code)
    if row is None:
        return Advice("service", "unknown", f"NVIDIA's catalog has no Xid {event.code}", known=False)
    name = f"Xid {event.code} ({row.meaning})"
    if event.code in _WITHOUT_BUCKET:
        told, why = _WITHOUT_BUCKET[event.code]
        return Advice(told, "memory" if told in DISRUPTIVE else family, f"{name}: {why}")
    if event.code == catalogue.CLEANUP:
        return Advice("nothing", "cleanup", f"{name}: the driver ended an application's work on the GPU")
    outcome = _BUCKETS.get(row.action or "")
    if outcome is None:
        return Advice("service", "unknown", f"NVIDIA's catalog has no action for {name}", known=False)
    if family == "other" and outcome in ("nothing", "restart the application"):
        family = "application"
    return Advice(outcome, family, f"{name}: NVIDIA's action is {row.action}")


def _of_order(event: Event) -> Advice:
    order = event.recovery_action or ""
    return Advice(ORDERS.get(order, "service"), "order", f"The driver orders {order or 'an action that is not known'}")


def _of_nvlink5(event: Event, branch: int | None) -> Advice:
    decoded, name = nvlink5.decode(event.code, event.message, branch), f"Xid {event.code} ({event.meaning})"
    if decoded:
        return Advice(
            _BUCKETS[decoded.action], "nvlink", f"{name}: NVIDIA's table of its registers says {decoded.action}"
        )
    if event.severity:
        outcome: Outcome = "reset the GPU" if event.severity == "fatal" else "restart the application"
        return Advice(outcome, "nvlink", f"{name}: the message says {event.severity}")
    return Advice("service", "nvlink", f"{name}: its registers are not in NVIDIA's table", known=False)


_BY_SIGN: tuple[tuple[nvlink.Sign, Outcome, str], ...] = (
    ("mechanical", "check the machine", "check the connections of the link"),
    ("signal", "check the machine", "the signal is weak: check the connections of the link"),
    ("bug", "service", "these bits are not expected in production"),
    ("unknown", "service", "its bits are not in NVIDIA's workflow"),
    ("parity", "reset the GPU", "an error of ECC or parity; more than two on one link mean broken hardware"),
    ("diagnose", "reset the GPU", "if it comes again, run the field diagnostics"),
    ("repeated bug", "reset the GPU", "if it comes again, report it"),
    ("secondary", "reset the GPU", "it mostly follows another error"),
    ("harmless", "nothing", "its bits can be ignored"),
)


def _of_nvlink(event: Event) -> Advice:
    signs = nvlink.decode(event.message).signs
    name = f"Xid 74 ({event.meaning})"
    for sign, outcome, why in _BY_SIGN:
        if sign in signs:
            return Advice(outcome, "nvlink", f"{name}: {why}")
    return Advice("reset the GPU", "nvlink", f"{name}: a reset of the GPU or a reboot is needed to clear it")


def _of_switch(event: Event) -> Advice:
    row, action = switches.SXIDS.get(event.code), switches.action(event.code, event.severity)
    name = f"SXid {event.code} ({row.meaning})" if row else f"SXid {event.code}"
    if action is None:
        why = f"{name}: NVIDIA's guide does not know it, and its message has no severity"
        return Advice("service", "unknown", why, switches.GUIDE_PAGE, known=False)
    severity = event.severity or (row.severity if row else "")
    return Advice(_BUCKETS[action], "switch", f"{name}, {severity}: {_SWITCH_WORDS[action]}", switches.GUIDE_PAGE)


_SWITCH_WORDS = {
    "IGNORE": "no action is needed",
    "RESTART_APP": "the applications that used the link have ended",
    "RESET_ALL": "all GPUs and NVSwitches of the machine must be reset together",
    "RESTART_BM": "it is fatal to the whole fabric",
    "CHECK_COOLING": "the NVSwitch is too hot",
    "CHECK_PARTITIONS": "the fabric manager's partitions are wrong",
    "CHECK_LINK": "check the connections of the link, unless a machine or a GPU was just turned off",
}
