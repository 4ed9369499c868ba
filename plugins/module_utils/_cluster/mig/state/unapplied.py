# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes a MIG manager divides when it starts again, although nobody drains them. Pure.

A manager applies the label of its node when it starts. It first looks for the layout in its file, and then whether the
GPUs have it already. In both cases it leaves the GPUs alone, and else it divides them, whoever uses them.
Source: NVIDIA/mig-parted v0.13.1 to v0.15.0, ``cmd/nvidia-mig-manager/main.go`` (``ContinuouslySyncMigConfigChanges``)
and ``pkg/mig/reconfigure/reconfigure.go`` (``Run``).
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import offer
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry

SUCCESS = "success"
"""The state after a run that has applied the layout, or has found it in place."""

Entries = t.Sequence[LayoutEntry]


def divides(host: Host, entries: Entries | None, is_same: bool = True) -> bool:
    """Return whether the MIG manager of a node divides its GPUs when it starts again.

    ``entries`` are what its file says about the layout of the node's label, or None if that is unknown. ``is_same`` is
    whether the last run has seen the same: only then does its success speak for them.
    """
    if not host.layout or (is_same and Sight(host.node).state == SUCCESS):
        return False
    return entries is None or not _is_there(host, entries)


def is_same(host: Host, now: Entries | None, then: Entries | None) -> bool:
    """Return whether a layout means the same to a node in two files. What is unknown is not the same."""
    if now is None or then is None:
        return False
    return parted.resolve(now, host.gpus(now)) == parted.resolve(then, host.gpus(then))


def described(host: Host) -> str:
    """Return a node with its layout and what the last run for it has said."""
    return f"{host.name} ({host.layout}, state {Sight(host.node).state or 'unknown'})"


def _is_there(host: Host, entries: Entries) -> bool:
    """Return whether a node offers its layout already, so that its MIG manager has nothing to do."""
    sight, wanted = Sight(host.node), parted.resolve(entries, host.gpus(entries))
    if not wanted or host.count is None or offer.unknown(sight, sight.strategy):
        return False
    offered = offer.offer(wanted, sight.strategy, host.count)
    return not (offer.unlike(sight, wanted, sight.strategy, host.count) or offer.missing(sight, offered))
