# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Labels of nodes that this collection sets, and the mark beside each that says so. Pure.

Everybody may give a node such a label, and a foreign value can look like one of ours. So the mark repeats the value: a
label that somebody else has changed since is theirs.
"""

from __future__ import annotations

import dataclasses
import typing as t
from datetime import UTC, datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
    timestamp,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class OwnLabel:
    """A label of nodes, and the annotation that marks it as ours."""

    label: str
    mark: str

    def value_of(self, node: Json) -> str:
        """Return the value of a node's label, or an empty string."""
        return labels_of(node).get(self.label, "")

    def is_ours(self, node: Json) -> bool:
        """Return whether this collection has set a node's label to the value that it has."""
        value = self.value_of(node)
        return bool(value) and self._parts(node)[0] == value

    def is_young(self, node: Json, now: float, age_s: float) -> bool:
        """Return whether this collection has set a node's label so recently that its effect may be on the way."""
        text = self._parts(node)[1]
        try:
            return self.is_ours(node) and now - timestamp(text) <= age_s
        except ValueError:
            return False

    def metadata(self, value: str | None, now: float | None = None) -> Json:
        """Return the part of a patch that sets the label with its mark, and the time if it counts, or removes both."""
        moment = "" if now is None else f" {datetime.fromtimestamp(now, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"
        made: dict[str, t.Any] = {"labels": {self.label: value}}
        return made | {"annotations": {self.mark: f"{value}{moment}" if value else None}}

    def _parts(self, node: Json) -> tuple[str, str]:
        value, dummy, text = annotations_of(node).get(self.mark, "").partition(" ")
        return value, text


SHARING_LABEL = OwnLabel(names.PLUGIN_CONFIG, "gpuops.nvidia/sharing")
"""The key of the device plugin's configuration, and when this collection has set it."""

LAYOUT_LABEL = OwnLabel(names.MIG_CONFIG, "gpuops.nvidia/mig")
"""The name of the MIG layout."""

KIND_LABEL = OwnLabel(names.WORKLOAD_CONFIG, "gpuops.nvidia/workload-kind")
"""Who gets the node's GPUs, and when this collection has said so."""

OWN_LABELS = (SHARING_LABEL, LAYOUT_LABEL, KIND_LABEL)
