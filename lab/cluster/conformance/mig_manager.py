# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a MIG manager writes on its node: the same changes for NVIDIA's manager and for the lab's own.

`agents.json` has the facts of nvidia-mig-manager v0.15.0, which ran in a lab with ``--agent mig-manager=...``.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.lab import Lab
from lab.cluster.recorder import Recorder

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
_DEPLOY = "nvidia.com/gpu.deploy."
_PAUSED = "paused-for-mig-change"
Busy = t.Callable[[], t.ContextManager[None]]
"""Lets a process hold a GPU of the node for the duration of a block."""


def perform(lab: Lab, node: str, busy: Busy) -> dict[str, list[list[str]]]:
    """Change the layout of an H100 node in several ways, and return what its manager writes each time."""
    api = Api(str(lab.kubeconfig))
    _until(api, node, ("success",))
    free = contextlib.nullcontext
    steps: tuple[tuple[str, str, str, Busy], ...] = (
        ("unknown layout", "all-9g.10gb", "failed", free),
        ("busy before a success", "all-1g.10gb", "failed", busy),
        ("success", "all-1g.10gb", "success", free),
        ("repeated", "all-1g.10gb", "success", free),
        ("busy after a success", "all-3g.40gb", "failed", busy),
        ("success after a failure", "all-3g.40gb", "success", free),
    )
    found = {}
    for name, layout, end, around in steps:
        with around():
            found[name] = _step(lab, api, node, layout, end)
        _repair(api, node)
    return found


def _step(lab: Lab, api: Api, node: str, layout: str, end: str) -> list[list[str]]:
    path = f"/api/v1/nodes/{node}"
    api.merge(path, {"metadata": {"labels": {CONFIG: None}}})
    time.sleep(2)
    api.merge(path, {"metadata": {"labels": {STATE: None}}})
    recorder = Recorder(api)
    time.sleep(1)
    before = len(recorder.lines)
    api.merge(path, {"metadata": {"labels": {CONFIG: layout}}})
    _until(api, node, (end,))
    time.sleep(1)
    lines = recorder.stop()[before:]
    return [[_short(line["field"]), line["value"]] for line in lines if _is_the_managers(line, node)]


def _is_the_managers(line: Json, node: str) -> bool:
    key = line["field"].removeprefix("label ")
    return bool(line["kind"] == "Node" and line["name"] == node and (key == STATE or key.startswith(_DEPLOY)))


def _short(field: str) -> str:
    return field.removeprefix("label ").removeprefix("nvidia.com/")


def _repair(api: Api, node: str) -> None:
    """Give back the operands that a failure has left paused, and wait for them."""
    labels = (api.get(f"/api/v1/nodes/{node}") or {})["metadata"]["labels"]
    paused = {key: "true" for key, value in labels.items() if value == _PAUSED}
    if paused:
        api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": paused}})
    time.sleep(2)


def _until(api: Api, node: str, states: t.Container[str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while (found := (api.get(f"/api/v1/nodes/{node}") or {})["metadata"]["labels"].get(STATE)) not in states:
        if time.monotonic() > deadline:
            raise TimeoutError(f"The MIG manager of {node} reports {found}.")
        time.sleep(0.1)
