# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the driver's manager waits for, in the init container of the driver's pod.

Source: NVIDIA/k8s-driver-manager ``cmd/driver-manager/main.go``, at bd62ca7d of August 2026. It pauses the operands of
the node, waits five minutes for each to end, evicts GPU pods if it may, and waits without a limit for the network's
driver.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import (
    PREVIOUS,
    Hit,
    Pattern,
    pattern,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_MANAGER = "https://github.com/NVIDIA/k8s-driver-manager/blob/main/cmd/driver-manager/main.go"
_HELD_UP = NOT_READY | {"DriverUpgrade", "DriverUpgradeFailed", "NodesCordoned", "FleetDriftDriver"}

_GAVE_UP = (
    pattern(r"Failed to wait for (?P<app>(?!MOFED)[\w-]+) to shutdown", "failed to wait for "),
    pattern(r"Failed to wait for (?P<app>GPU client pods) to terminate", "failed to wait for gpu client"),
)
_WAITS = pattern(r"Waiting for (?P<app>[\w-]+) to shutdown", " to shutdown")
_NO_MOFED = pattern(r"Waiting for MOFED to be installed\.\.\.", "waiting for mofed")
_NOT_DRAINED = pattern(
    r"cannot proceed until all GPU pods are drained from the node", "cannot proceed until all gpu pods"
)
_WENT_ON = tuple(
    pattern(words, words.lower())
    for words in (
        "Checking if the currently loaded NVIDIA driver",
        "Draining the DRA kubelet-plugin",
        "Cordoning node",
        "Unloading NVIDIA driver kernel modules",
        "Could not unload NVIDIA driver kernel modules",
        "Cleaning up NVIDIA driver",
        "Unmounting NVIDIA driver rootfs",
        "Unbinding vfio-pci driver",
        "Rescheduling all GPU clients",
        "Driver uninstallation completed",
    )
)
"""What the manager says after it has waited."""


def _is_waiting(view: View, node: str) -> bool:
    """Return whether the driver's pod of a node may still wait. A log may be older than the state of the node."""
    row = view.rows.get(node)
    return row is None or operands.DRIVER.name in (row.get("waiting_for") or {})


def _said_last(*wanted: Pattern) -> t.Callable[[View], t.Iterator[Hit]]:
    """Return a function that yields the matches that are the last words of a manager."""

    def last(view: View) -> t.Iterator[Hit]:
        places = {line: number for number, line in enumerate(view.evidence.lines)}
        newest: dict[tuple[str, str], tuple[int, Pattern, Hit]] = {}
        for each in dict.fromkeys((*wanted, _WAITS, _NO_MOFED, _NOT_DRAINED, *_GAVE_UP, *_WENT_ON)):
            for hit in view.hits(each):
                key, place = (hit.line.node, hit.line.source), places.get(hit.line, -1)
                if not hit.line.source.endswith(PREVIOUS) and place > newest.get(key, (-1,))[0]:
                    newest[key] = place, each, hit
        for dummy, said, hit in newest.values():
            if said in wanted:
                yield hit

    return last


def _does_not_end(view: View) -> t.Iterator[Sighting]:
    for hit in (hit for each in _GAVE_UP for hit in view.hits(each)):
        if _is_waiting(view, hit.line.node):
            yield matches.sighting(hit)
    for hit in _said_last(_WAITS)(view):
        # It may have begun to wait a second ago.
        if _is_waiting(view, hit.line.node):
            yield matches.sighting(hit, "possible")


def _no_mofed(view: View) -> t.Iterator[Sighting]:
    return (matches.sighting(hit) for hit in _said_last(_NO_MOFED)(view) if _is_waiting(view, hit.line.node))


def _not_drained(view: View) -> t.Iterator[Sighting]:
    return (matches.sighting(hit) for hit in view.hits(_NOT_DRAINED) if _is_waiting(view, hit.line.node))


RULES = (
    Rule(
        code="OperandDoesNotEnd",
        title="An operand does not end, and the driver waits for it",
        severity="failure",
        cause="Before it changes the driver, the driver's manager waits until {app} has ended on the node.",
        remedy="Look for its pod with `kubectl get pods -A -o wide` and the name of the node. If it has been "
        "Terminating for minutes, the kubelet does not answer or a process hangs: read the kubelet's journal, look for "
        "processes in state D, and reboot the host if there are any. If it is not Terminating, something has reset the "
        f"node's label {names.DEPLOY_PREFIX}* from {names.DRIVER_PAUSED} to true.",
        sources=(_MANAGER,),
        check=_does_not_end,
        patterns=(*_GAVE_UP, _WAITS, *_WENT_ON),
        explains=_HELD_UP,
    ),
    Rule(
        code="DriverWaitsForNetwork",
        title="The driver waits for the driver of the network",
        severity="failure",
        cause="GPUDirect RDMA is on and the node has a network card for it. So the driver's manager waits, without a "
        "limit, for the card's driver (MOFED or DOCA).",
        remedy="If the host has that driver (`lsmod | grep mlx5_core`), set driver.rdma.useHostMofed: true in "
        "operator_values. If NVIDIA's Network Operator brings it, see why its mofed pod of this node is not ready. "
        "Without RDMA, set driver.rdma.enabled: false.",
        sources=(
            _MANAGER,
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html",
        ),
        check=_no_mofed,
        patterns=(_NO_MOFED, *_WENT_ON),
        explains=_HELD_UP,
    ),
    Rule(
        code="GPUPodsNotDrained",
        title="GPU pods do not leave, and the driver waits for them",
        severity="failure",
        cause="The driver's manager could not evict all GPU pods of the node, and it may not drain the node.",
        remedy="Delete the GPU pods of the node (`kubectl get pods -A -o wide`), or let them end. Its log says "
        "which ones a budget, local data or a missing controller protects. It then tries again by itself. "
        "playbooks/upgrade_driver.yml looks for such pods before it begins.",
        sources=(_MANAGER,),
        check=_not_drained,
        patterns=(_NOT_DRAINED,),
        explains=_HELD_UP,
    ),
)
