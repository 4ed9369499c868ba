# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Troubles of a node's MIG manager. Each acts on the next change of the node's layout and is then gone.

The exception is ``busy``, which lasts until it is cleared, as a process that holds a GPU does.
"""

from __future__ import annotations

from lab.cluster.faults.admission import api_of, note
from lab.cluster.lab import Lab
from lab.cluster.nodes.fleet import NOTE
from lab.errors import LabError

TROUBLES = ("pods-stay", "validator", "busy", "left-paused", "mode", "mode-stays", "lost", "hangs", "no-manager")
_DEPLOY = "nvidia.com/gpu.deploy.mig-manager"
_NODES = "/api/v1/nodes"


def mig(lab: Lab, node: str, trouble: str) -> None:
    """Give a node's MIG manager a trouble, or take the manager away."""
    labels = {_DEPLOY: "false"} if trouble == "no-manager" else {}
    body = {"metadata": {"labels": labels, "annotations": {f"{NOTE}mig-fault": trouble}}}
    if api_of(lab).merge(f"{_NODES}/{node}", body) is None:
        raise LabError(f"There is no node {node!r}.")


def active(lab: Lab) -> list[str]:
    """Return one line for each trouble that has not had its effect yet."""
    items = api_of(lab).list(_NODES)
    return [f"mig {item['metadata']['name']}: {note(item, 'mig-fault')}" for item in items if note(item, "mig-fault")]


def clear(lab: Lab) -> None:
    """Remove these troubles. What they have left behind stays."""
    api = api_of(lab)
    for item in api.list(_NODES):
        trouble = note(item, "mig-fault")
        if trouble:
            labels = {_DEPLOY: "true"} if trouble == "no-manager" else {}
            body = {"metadata": {"labels": labels, "annotations": {f"{NOTE}mig-fault": None}}}
            api.merge(f"{_NODES}/{item['metadata']['name']}", body)
