# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How a node is held for maintenance: for which purposes, by which run, and whether it was cordoned before.

All state is stored on the node, so that anyone can resume or undo an interrupted run. A node can be held for several
purposes at once, and returns to service when the last of them ends: a reboot must not uncordon a node that somebody
else is repairing.
"""

from __future__ import annotations

import dataclasses
import socket
import time
import typing as t
import uuid

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import is_cordoned
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import annotations_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PURPOSE_PREFIX = "gpuops.nvidia/maintenance."
"""Prefix of an annotation; a purpose follows. Its value says since when, from which machine and by which run."""

INITIALLY_CORDONED = "gpuops.nvidia/initial-state.unschedulable"
"""Annotation that says whether the node was cordoned before it was held for the first purpose."""


@dataclasses.dataclass(frozen=True)
class Hold:
    """How a node is held: for which purposes, and whether it was cordoned before the first of them."""

    unschedulable: bool
    purposes: tuple[str, ...]
    initially_cordoned: bool


def hold_of(node: Json) -> Hold:
    """Return how a node is held."""
    notes = annotations_of(node)
    purposes = sorted(key.removeprefix(PURPOSE_PREFIX) for key in notes if key.startswith(PURPOSE_PREFIX))
    return Hold(is_cordoned(node), tuple(purposes), notes.get(INITIALLY_CORDONED) == "true")


def new_stamp() -> str:
    """Return a value for the annotations of one run: since when, from which machine, and which run."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {socket.gethostname()} {uuid.uuid4().hex[:8]}"


def has_stamp(node: Json, purpose: str, stamp: str) -> bool:
    """Return whether the run with this stamp holds the node for the purpose."""
    return annotations_of(node).get(PURPOSE_PREFIX + purpose) == stamp


def hold_patch(node: Json, purpose: str, stamp: str) -> Json | None:
    """Return the patch that cordons a node for a purpose, or None if nothing is left to do."""
    hold = hold_of(node)
    if purpose in hold.purposes and hold.unschedulable:
        return None
    annotations = {PURPOSE_PREFIX + purpose: stamp}
    # If somebody has lifted an earlier cordon, that cordon must not come back at the end.
    if not hold.purposes or not hold.unschedulable:
        annotations[INITIALLY_CORDONED] = "true" if hold.unschedulable else "false"
    return _patch(node, annotations, {"unschedulable": True})


def release_patch(node: Json, purpose: str) -> Json | None:
    """Return the patch that ends a purpose, or None if the node is not held for it.

    The patch for the last purpose restores the node as it was.
    """
    hold = hold_of(node)
    if purpose not in hold.purposes:
        return None
    annotations: dict[str, str | None] = {PURPOSE_PREFIX + purpose: None}
    if hold.purposes != (purpose,):
        return _patch(node, annotations, {})
    spec = {} if hold.initially_cordoned else {"unschedulable": None}
    return _patch(node, annotations | {INITIALLY_CORDONED: None}, spec)


def _patch(node: Json, annotations: t.Mapping[str, str | None], spec: Json) -> Json:
    """Return a merge patch that the API server accepts only for this version of the node."""
    metadata = {"annotations": dict(annotations), "resourceVersion": node["metadata"].get("resourceVersion")}
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def patched(node: Json, patch: Json | None) -> Json:
    """Return a node after a patch, with only the fields that `hold_of` reads."""
    changes = {} if patch is None else patch["metadata"]["annotations"]
    notes = {key: value for key, value in (annotations_of(node) | changes).items() if value is not None}
    return {"metadata": {"annotations": notes}, "spec": node["spec"] | ((patch or {}).get("spec") or {})}
