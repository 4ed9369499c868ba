# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one rule by which requests are sent again: which, after which answers, when, and for how long."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import answers

THROTTLED_S = 15.0
"""How long to retry when the API server answers 429: it is busy, or its cache of a new CRD is not filled yet."""

FAILING_S = 8.0
"""How long to retry what changes nothing twice when the API server, or something before it, fails: etcd elects a
leader, a server behind a load balancer restarts, a connection is reset."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0

APPLY = "application/apply-patch+yaml"
"""The content type of a server-side apply."""

MERGE = "application/merge-patch+json"
"""The content type of a patch that says what fields become."""

_PASSING = (500, 502, 503, 504)
"""Answers that say nothing about the request. API servers answer 500 for "etcdserver: leader changed"."""

_REVIEWS = "/apis/authorization.k8s.io/"
"""Where a POST asks for permissions and leaves nothing behind."""


class Tries:
    """The tries of one request. An eviction's 429 says that a PodDisruptionBudget forbids it, and is final."""

    def __init__(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, t.Any] | None,
        headers: t.Mapping[str, str],
        body: str | None = None,
    ) -> None:
        self._is_eviction = path.endswith("/eviction")
        self._is_repeatable = _is_repeatable(method, path, query, headers, body or "")
        self._began, self._next_s = time.monotonic(), FIRST_PAUSE_S

    def pause_s(self, status: int | None, retry_after: str | None, now: float) -> float | None:
        """Return how long to wait before the next try, or None for a failure that is final.

        ``status`` is that of the answer, or None if the connection broke.
        """
        patience_s = self._patience_s(status)
        pause_s = answers.pause_s(retry_after, now) if retry_after or status == 429 else self._next_s
        self._next_s = min(2 * self._next_s, LONGEST_PAUSE_S)
        return pause_s if time.monotonic() - self._began + pause_s <= patience_s else None

    def _patience_s(self, status: int | None) -> float:
        if status == 429:
            return 0.0 if self._is_eviction else THROTTLED_S
        return FAILING_S if self._is_repeatable and (status is None or status in _PASSING) else 0.0


def _is_repeatable(
    method: str, path: str, query: t.Mapping[str, t.Any] | None, headers: t.Mapping[str, str], body: str
) -> bool:
    """Return whether a request whose outcome is unknown may be sent again: twice does what once does.

    That is a read, a dry run, a deletion, a server-side apply, and a merge patch for any version of the object. After
    any other write, its author reads again.
    """
    kind = headers.get("Content-Type")
    is_plain = method in ("GET", "DELETE") or bool((query or {}).get("dryRun")) or path.startswith(_REVIEWS)
    return is_plain or kind == APPLY or (kind == MERGE and '"resourceVersion"' not in body)
