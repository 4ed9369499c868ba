# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role host_change leaves on a host and on its node while it changes them."""

from __future__ import annotations

import json
import typing as t

from lab.cluster import Lab
from lab.hosts.containers.hosts import ContainerHost
from lab.hosts.vm.hosts import VmHost

RECORD = "/var/lib/gpuops/change.json"
DRAINED = (True, [f"gpuops.nvidia/{name}" for name in ("initial-state.unschedulable", "maintenance.change")])
HELD = (True, sorted([*DRAINED[1], "gpuops.nvidia/failed.change"]))
IN_SERVICE: tuple[bool, list[str]] = (False, [])


def record_of(host: ContainerHost | VmHost) -> dict[str, t.Any]:
    """Return what the role has recorded on a host, or an empty dict."""
    return dict(json.loads(host.shell(f"cat {RECORD} 2>/dev/null || echo {{}}")))


def node(lab: Lab, name: str) -> tuple[bool, list[str]]:
    """Return whether a node is cordoned, and its annotations from this collection."""
    found = json.loads(lab.kubectl("get", "node", name, "--output=json"))
    return bool(found["spec"].get("unschedulable")), sorted(
        key for key in found["metadata"]["annotations"] if key.startswith("gpuops.nvidia/")
    )


def taints(lab: Lab, name: str) -> dict[str, str]:
    """Return the values of a node's taints, without those of Kubernetes itself."""
    found = json.loads(lab.kubectl("get", "node", name, "--output=json"))["spec"].get("taints") or []
    return {taint["key"]: taint.get("value", "") for taint in found if "kubernetes.io" not in taint["key"]}
