# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Requests whose failure is a gap: a kind that this user may not read, an API that hangs, an invalid answer."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, Kept, Listed, Rows, Versioned
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

ANSWER_S = 20
"""How long an answer may take. A LIST of 1,000 nodes takes less than one second."""

_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/v\w+(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)


class GapReader(Cluster):
    """A connection for reading whatever can be read. What cannot is noted in `gaps`, and its answer is empty."""

    def __init__(self, options: t.Mapping[str, t.Any]) -> None:
        super().__init__(options, read_timeout_s=ANSWER_S)
        self._gaps: dict[tuple[str, str | None], Gap] = {}
        self._unread: set[str] = set()

    @property
    def gaps(self) -> list[Gap]:
        """What could not be read: one gap for each collection and kind of failure."""
        return list(self._gaps.values())

    def has_read(self, path: str) -> bool:
        """Return whether no request for this collection, or for an object in it, has failed."""
        return described(path) not in self._unread

    def attempt(self, what: str, ask: t.Callable[[], Kept], otherwise: Kept) -> Kept:
        """Return an answer. If the API refuses or fails, note that ``what`` was not read, and return ``otherwise``."""
        try:
            return ask()
        except GpuOpsError as e:
            self._gaps.setdefault((what, e.reason), Gap(what, one_line(e.msg) + "."))
            return otherwise

    def _tried(self, path: str, ask: t.Callable[[], Kept], otherwise: Kept) -> Kept:
        failed = object()
        answer = self.attempt(described(path), ask, t.cast("Kept", failed))
        if answer is not failed:
            return answer
        self._unread.add(described(path))
        return otherwise

    def get(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> Json | None:
        """Return the object at ``path``, or None."""
        return self._tried(path, lambda: Cluster.get(self, path, query), None)

    def large_list(self, path: str, keep: t.Callable[[Json], Kept], **selectors: str) -> Versioned[Kept]:
        """Return what ``keep`` keeps of every object of a collection."""
        nothing: Versioned[Kept] = ([], "")
        return self._tried(path, lambda: Cluster.large_list(self, path, keep, **selectors), nothing)

    def list_readable(self, path: str, **selectors: str) -> Listed:
        """List a collection, and say so if it could not be read."""
        items = self.list(path, **selectors)
        refused = not self.has_read(path)
        return Listed(items or [], is_served=items is not None or refused, refusal="not readable" if refused else "")

    def table(self, path: str, **selectors: str) -> Rows:
        """Return a collection as the API server's own table."""
        return self._tried(path, lambda: Cluster.table(self, path, **selectors), [])

    def first_page(self, path: str, **selectors: str) -> list[Json]:
        """Return the first objects of a collection that could be large. More than a page is a gap."""
        query = {"limit": api.PAGE, **selectors}
        answer = self.get(path, query) or {}
        if (answer.get("metadata") or {}).get("continue"):
            what = f"all {described(path)}"
            self._gaps.setdefault((what, None), Gap(what, f"There are many: only the first {api.PAGE} were read."))
        return list(answer.get("items") or [])

    def log(self, namespace: str, pod: str, query: t.Mapping[str, t.Any]) -> str:
        """Return a part of a container's log. A log that is gone is empty."""
        path = api.namespaced("v1", namespace, "pods", pod) + "/log"

        def ask() -> str:
            try:
                return self.text(path, query)
            except GpuOpsError as e:
                # A container that has not started yet, or whose former run has been cleaned up.
                if e.reason in ("NotFound", "Invalid"):
                    return ""
                raise

        return self._tried(path, ask, "")


def described(path: str) -> str:
    """Return what a request reads, in words, without names of objects: ``daemonsets in gpu-operator``."""
    found = _PATH.fullmatch(path)
    if not found:
        return path
    kind = "logs of pods" if found["sub"] == "log" else found["plural"]
    return f"{kind} in {found['namespace']}" if found["namespace"] else kind
