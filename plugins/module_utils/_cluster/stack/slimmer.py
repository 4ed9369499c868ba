# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Nodes without the parts that this collection leaves unread: a fleet of them takes little memory."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_UNREAD_ANNOTATIONS = "nfd.node.kubernetes.io/"
"""Annotations in which Node Feature Discovery lists all its labels once more."""


class Slimmer:
    """Reduces nodes to the parts that this collection reads, about an eighth, in which equal texts are one.

    The version stays, by which an old answer is recognised, and with which a patch is for this node as it was read. The
    images, the managers of fields and Node Feature Discovery's annotations are left out. Ansible replaces
    ``sys.intern`` with a slower function, so the texts are kept here.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def __call__(self, node: Json) -> Json:
        """Return the parts of a node."""
        metadata, spec = node["metadata"], node.get("spec") or {}
        annotations = annotations_of(node)
        return {
            "metadata": {
                "name": metadata["name"],
                "resourceVersion": metadata.get("resourceVersion"),
                "labels": self._shared(labels_of(node)),
                "annotations": {
                    key: text for key, text in annotations.items() if not key.startswith(_UNREAD_ANNOTATIONS)
                },
            },
            "spec": {key: spec[key] for key in ("unschedulable", "taints") if key in spec},
            "status": self._status(node.get("status") or {}),
        }

    def _status(self, status: Json) -> Json:
        info, conditions = status.get("nodeInfo") or {}, status.get("conditions") or []
        return {
            "conditions": [
                {"type": "Ready", "status": item["status"]} for item in conditions if item["type"] == "Ready"
            ],
            "capacity": self._shared(status.get("capacity") or {}),
            "allocatable": self._shared(status.get("allocatable") or {}),
            "nodeInfo": self._shared({key: text for key, text in info.items() if isinstance(text, str)}),
        }

    def _shared(self, texts: t.Mapping[str, str]) -> dict[str, str]:
        """Return a mapping with texts that all mappings share."""
        one, values = self._texts.setdefault, texts.values()
        return dict(zip(map(one, texts, texts), map(one, values, values)))
