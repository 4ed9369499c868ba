# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""What a driver upgrade or a MIG change has left behind on nodes: paused operands, and notes of a cordon."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_LIBRARY = "https://github.com/NVIDIA/k8s-operator-libs/blob/main/pkg/upgrade/"
UNDER_WAY = (
    f"Look at `kubectl get nodes -L {names.UPGRADE_STATE}` and at the driver's pod of the node. If the state is empty, "
    f"{names.UPGRADE_DONE} or {names.UPGRADE_FAILED}, and the pod is Running, the operands were left paused. Otherwise "
    "the change of the driver is still under way and pauses them."
)
_PAUSE = pattern(
    rf"{re.escape(names.DEPLOY_PREFIX)}[\w-]+[=:] ?\"?(?P<label>[\w-]*{names.PAUSED}(?:driver-upgrade|mig-change))",
    names.PAUSED,
    "text",
)


def _left_paused(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose operands are paused although neither a driver upgrade nor a MIG change runs."""
    for name, row in view.rows.items():
        node = view.nodes.get(name)
        is_idle = (row.get("upgrade_state") or "") in names.UPGRADE_ENDED
        if node is None or not is_idle or row["mig"]["state"] in names.MIG_CHANGING or not nodes.is_paused(node):
            continue
        labels = objects.labels_of(node).items()
        paused = sorted(f"{key}={value}" for key, value in labels if _is_pause(key, value))
        if not (row.get("waiting_for") or {}).get(operands.DRIVER.name):
            quote = matches.fact(paused[0], "labels of the node", name)
            yield Sighting(name, "", quote, "likely", {"label": paused[0].partition("=")[2]})

    for hit in () if view.rows else view.hits(_PAUSE):
        yield matches.sighting(hit, "possible")


def _stale_note(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes that are in service, and noted as cordoned since before a driver upgrade. None runs there."""
    for name, row in view.rows.items():
        node = view.nodes.get(name) or {"metadata": {}}
        value = objects.annotations_of(node).get(names.UPGRADE_FOUND_CORDONED)
        if value is not None and not row["cordoned"] and (row.get("upgrade_state") or "") in names.UPGRADE_FINISHED:
            text = f"{names.UPGRADE_FOUND_CORDONED}={value}, unschedulable: false"
            yield Sighting(name, "", matches.fact(text, "annotations of the node", name))


def _is_pause(key: str, value: str) -> bool:
    return key.startswith(names.DEPLOY_PREFIX) and names.PAUSED in value


RULES = (
    Rule(
        code="UpgradeWouldLeaveCordoned",
        title="The next driver upgrade would leave the node cordoned",
        severity="warning",
        cause="A note on the node says that it was cordoned before a driver upgrade began. It is not cordoned now, and "
        "no upgrade runs there. The operator believes the note, and would not uncordon the node after the next one.",
        remedy=f"Run `kubectl annotate node <node> {names.UPGRADE_FOUND_CORDONED}-`.",
        sources=(f"{_LIBRARY}common_manager.go",),
        check=_stale_note,
    ),
    Rule(
        code="OperandsLeftPaused",
        title="Operands stay paused until someone resumes them",
        severity="failure",
        cause="The node's labels have the value {label}, which keeps operands away during a driver upgrade or a MIG "
        "change. Both have ended there, so the labels stay until someone resets them.",
        remedy=f"Set each label {names.DEPLOY_PREFIX}* of the node that has this value to true: `kubectl label node "
        "<node> <label>=true --overwrite`. After a MIG change, playbooks/mig.yml does it.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/316",
            "https://github.com/NVIDIA/gpu-operator/issues/2833",
        ),
        check=_left_paused,
        patterns=(_PAUSE,),
        explains=frozenset({"OperandsPaused", "NoAllocatableGPUs", "NotScheduled", "StateNotReady"}),
        unlike=dict.fromkeys(
            ("DriverStillInUse", "UpgradeDrainFailed", "UpgradeNeedsForce", "UpgradeKeepsLocalData"), UNDER_WAY
        ),
    ),
)
