# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pure functions about any object of the Kubernetes API: its name, labels, age and quantities."""

from __future__ import annotations

from datetime import datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def name_of(item: Json) -> str:
    """Return an object's name."""
    return str(item["metadata"]["name"])


def full_name(item: Json) -> str:
    """Return an object's name with its namespace, if it has one: ``gpu-operator/nvidia-dcgm``."""
    namespace = item["metadata"].get("namespace")
    return f"{namespace}/{name_of(item)}" if namespace else name_of(item)


def labels_of(item: Json) -> dict[str, str]:
    """Return an object's labels."""
    return item["metadata"].get("labels") or {}


def annotations_of(item: Json) -> dict[str, str]:
    """Return an object's annotations."""
    return item["metadata"].get("annotations") or {}


def version_of(item: Json) -> int:
    """Return an object's version as a number, or 0. The API server counts all changes upwards."""
    return whole_number(item["metadata"].get("resourceVersion")) or 0


def last_write(item: Json, part: str = "spec") -> float:
    """Return when a part of an object was last written, in seconds since the epoch, whoever wrote the rest later."""
    writes = [
        timestamp(entry.get("time"))
        for entry in item["metadata"].get("managedFields") or []
        if entry.get("subresource") != "status" and f"f:{part}" in entry.get("fieldsV1", (f"f:{part}",))
    ]
    return max([*writes, timestamp(item["metadata"].get("creationTimestamp"))])


def seniority(item: Json) -> tuple[str, str]:
    """Return a key that sorts objects by age, the oldest first, and objects of the same second by name."""
    return str(item["metadata"].get("creationTimestamp") or ""), name_of(item)


def timestamp(text: str | None) -> float:
    """Return a time of the API in seconds since the epoch, or 0 without one."""
    # Twenty times as fast as time.strptime: a rollout reads the times on all nodes at every look.
    return datetime.fromisoformat(f"{text[:19]}+00:00").timestamp() if text else 0.0


def quantity(text: str | int) -> int:
    """Return a whole Kubernetes quantity as a number. The API server writes 1000 shared GPUs as ``1k``."""
    number = str(text)
    return int(number[:-1]) * 1000 if number.endswith("k") else int(number)


def container_statuses(pod: Json) -> list[Json]:
    """Return the statuses of a pod's containers in the order in which they start."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
