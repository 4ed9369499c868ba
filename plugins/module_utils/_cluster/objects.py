# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pure functions about any object of the Kubernetes API: its name, labels, age and quantities."""

from __future__ import annotations

import calendar
import time

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


def last_write(item: Json) -> float:
    """Return when an object was last changed other than by a status update, in seconds since the epoch."""
    writes = [
        timestamp(entry.get("time"))
        for entry in item["metadata"].get("managedFields") or []
        if entry.get("subresource") != "status"
    ]
    return max([*writes, timestamp(item["metadata"].get("creationTimestamp"))])


def timestamp(text: str | None) -> float:
    """Return a time of the API in seconds since the epoch, or 0 without one."""
    return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))) if text else 0.0


def quantity(text: str | int) -> int:
    """Return a whole Kubernetes quantity as a number. The API server writes 1000 shared GPUs as ``1k``."""
    number = str(text)
    return int(number[:-1]) * 1000 if number.endswith("k") else int(number)
