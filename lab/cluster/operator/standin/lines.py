# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between the lines of NVIDIA's operator. The tag of the operator's own image tells which one acts."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from lab.cluster.api import Json


@dataclass(frozen=True)
class Line:
    """The behaviour of a line, in the words of the first one that has it."""

    short_os_tags: t.Mapping[str, int]
    """Systems whose driver images are named without the minor version, each from a major version on."""
    owners: bool
    """Nodes have the label of the NVIDIADriver that owns them, one of which may be the default."""
    own_policies: bool
    """Each NVIDIADriver has its own upgrade policy. Else the ClusterPolicy's holds for all of them."""
    orphans: bool
    """A ClusterPolicy that hands over to NVIDIADrivers leaves its driver pods behind, until each is replaced."""
    restart_only: bool
    """A driver pod whose configuration has not changed is replaced without an eviction."""
    without_drain: bool
    """An upgrade policy without the block `drain` works. Else the controller panics, again and again."""
    counts_updates: bool
    """A DaemonSet is not ready before all of its pods are updated."""
    ignores_policy: bool
    """An NVIDIADriver is deployed also if the ClusterPolicy does not delegate to it."""
    upgrade_watches: t.Literal["labels", "state", "state and skip"]
    """The labels of nodes whose change starts the controller of upgrades.

    Source: ``SetupWithManager`` in controllers/upgrade_controller.go of v25.10.1, v26.3.3 and v26.7.0.
    """


V25_10 = Line({}, False, False, False, False, False, False, True, "labels")
V26_3 = Line({"rocky": 0, "rhel": 10}, False, False, False, False, False, False, False, "state")
V26_7 = Line({"ol": 0, "rocky": 0, "rhel": 0}, True, True, True, True, True, True, False, "state and skip")
_SINCE = (((26, 7), V26_7), ((26, 3), V26_3))


def line_of(deployment: Json) -> Line:
    """Return the line of the operator that a Deployment runs. An image whose tag is not a version has the newest."""
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    found = re.search(r":v(\d+)\.(\d+)", image)
    if found is None:
        return V26_7
    version = (int(found[1]), int(found[2]))
    return next((line for since, line in _SINCE if version >= since), V25_10)
