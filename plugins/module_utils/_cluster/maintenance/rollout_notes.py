# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a rollout writes on a node beside its hold: why its change failed, or since when it is done.

The next run reads both from the nodes, so a rollout needs no file to go on from. Pure.
"""

from __future__ import annotations

import typing as t
from datetime import UTC, datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, timestamp
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DONE_PREFIX = "gpuops.nvidia/rollout-done."
"""Prefix of an annotation; a purpose follows. It says when the node was done, until the rollout is finished."""

_REASON_LENGTH = 500


def failure_patch(node: Json, purpose: str, reason: str) -> Json | None:
    """Return the patch that notes why a node stays held, or None if it is held no more or says so already.

    It sets no taint, unlike `hold.Claim.failure`: the operands must be able to start again on the node.
    """
    key, said = hold.FAILED_PREFIX + purpose, one_line(reason)[:_REASON_LENGTH]
    if purpose not in hold.hold_of(node).purposes or annotations_of(node).get(key) == said:
        return None
    return _annotated(node, None, {key: said})


def done_since(node: Json, purpose: str) -> float | None:
    """Return when an unfinished rollout was done with a node, or None. An unreadable time is long ago."""
    text = annotations_of(node).get(DONE_PREFIX + purpose)
    if text is None:
        return None
    try:
        return timestamp(text)
    except ValueError:
        return 0.0


def done_patch(node: Json, patch: Json | None, purpose: str, now: float | None) -> Json | None:
    """Return a patch that also notes since when the change of a node is done. Without a time, the note is removed."""
    key = DONE_PREFIX + purpose
    if now is None:
        return _annotated(node, patch, {key: None}) if key in annotations_of(node) else patch
    return _annotated(node, patch, {key: datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")})


def _annotated(node: Json, patch: Json | None, notes: t.Mapping[str, str | None]) -> Json:
    metadata = (patch or {}).get("metadata") or {"resourceVersion": node["metadata"].get("resourceVersion")}
    annotations = {**(metadata.get("annotations") or {}), **notes}
    return {**(patch or {}), "metadata": {**metadata, "annotations": annotations}}
