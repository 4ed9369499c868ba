# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults that a user or a test injects into a lab. `active` lists them, and `clear` removes them all."""

from __future__ import annotations

from lab.cluster.faults import drivers, logs, managers, nodes, operands, refusals, rewrites
from lab.cluster.faults import mig as mig_managers
from lab.cluster.faults.drivers import driver
from lab.cluster.faults.logs import crash, say
from lab.cluster.faults.managers import (
    argocd,
    edit_policy,
    operator_down,
    restart_operator,
    second_policy,
    stale_status,
    stuck_operator,
    upgrading,
    without_release,
)
from lab.cluster.faults.mig import mig
from lab.cluster.faults.nodes import (
    cordon,
    exporter,
    failed_vgpus,
    lost_gpu,
    node,
    silent_driver,
    slices,
    unbound,
    uncordon,
    unhealthy,
    xid,
)
from lab.cluster.faults.operands import operand, slow
from lab.cluster.faults.refusals import refuse
from lab.cluster.faults.rewrites import mirror, sidecar
from lab.cluster.lab import Lab

__all__ = [
    "active", "argocd", "clear", "cordon", "crash", "driver", "edit_policy", "exporter", "failed_vgpus", "lost_gpu",
    "mig", "mirror", "node", "operand", "operator_down", "refuse", "restart_operator", "say", "second_policy",
    "sidecar", "silent_driver", "slices", "slow", "stale_status", "stuck_operator", "unbound", "uncordon", "unhealthy",
    "upgrading", "without_release", "xid",
]  # fmt: skip


def active(lab: Lab) -> list[str]:
    """Return one line for each active fault."""
    parts = (operands, logs, drivers, refusals, rewrites, nodes, mig_managers, managers)
    return [line for part in parts for line in part.active(lab)]


def clear(lab: Lab) -> None:
    """Remove every fault, and replace the pods that have one."""
    logs.clear(lab)
    refusals.clear(lab)
    rewrites.clear(lab)
    operands.clear(lab)
    drivers.clear(lab)
    nodes.clear(lab)
    mig_managers.clear(lab)
    managers.clear(lab)
