# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What an answer of the API server says: its JSON object, whose it is, and how long to wait before the next. Pure."""

from __future__ import annotations

import dataclasses
import email.utils
import re
from urllib.parse import urlsplit

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import request_errors
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Listed:
    """A collection that this user may perhaps not read. With a refusal, its objects are unknown, not absent."""

    items: list[Json]
    is_served: bool = True
    """Whether the API server knows the kind."""
    refusal: str = ""
    """The message with which the API server refused the list, or an empty string."""


def pause_s(retry_after: str | None, now: float) -> float:
    """Return the delay that a Retry-After header asks for, in seconds or as a date; without a usable one, a second."""
    if re.fullmatch(r"\d+(\.\d+)?", retry_after or ""):
        return float(retry_after or 1)
    try:
        return max(email.utils.parsedate_to_datetime(str(retry_after)).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return 1.0


def json_object(data: bytes, method: str, path: str) -> Json:
    """Return the JSON object of an answer. A proxy may answer in the API server's place, with a page for people."""
    answer = request_errors.parsed(data.decode("utf-8", "replace"))
    if answer is None:
        said = request_errors.words(data.decode("utf-8", "replace"))
        raise GpuOpsError(
            f"Not the Kubernetes API but something before it answered {method} {urlsplit(path).path}: "
            f"{said}. Check the server's address, the proxy and the load balancer.",
            reason="ServerError",
        )
    return answer


def identity(item: Json) -> str:
    """Return what tells an object from all others."""
    meta = item["metadata"]
    return str(meta.get("uid") or f"{meta.get('namespace')}/{meta['name']}")


def is_managed_by(item: Json, manager: str) -> bool:
    """Return whether a field manager has written fields of an object."""
    return any(entry.get("manager") == manager for entry in item["metadata"].get("managedFields") or [])
