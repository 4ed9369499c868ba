# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Waiting for the judge's verdict."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation, Verdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def until_ready(cluster: Cluster, namespace: str, name: str, timeout_s: float) -> tuple[Observation, Verdict]:
    """Return what was observed when the verdict became ready.

    Raises `GpuOpsError` with the last verdict as soon as it is failed (reason NotReady), when time is up (TimedOut), or
    when the API server stays away (Unreachable, ServerError or TooManyRequests). If the first look fails, so does the
    wait, without a verdict.
    """
    look = _Look(cluster, namespace, name)
    try:
        found = waiting.until(look, timeout_s, patience=waiting.Patience(reached=False))
    except GpuOpsError as e:
        raise GpuOpsError(e.msg, **{**look.result, **e.details}) from e
    if found is None:
        raise GpuOpsError(waiting.timeout_message(look.message, timeout_s), reason="TimedOut", **look.result)
    if found[1].state == "failed":
        raise GpuOpsError(f"The GPU stack cannot become ready: {look.message}", reason="NotReady", **look.result)
    return found


class _Look:
    """Looks at the stack, and keeps the last verdict: the message, and the keys of the result."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster, self._namespace, self._name = cluster, namespace, name
        self.message = ""
        self.result: Json = {}

    def __call__(self) -> tuple[Observation, Verdict] | None:
        """Return what was observed and a verdict that ends the wait, or None."""
        observation = observe.observe(self._cluster, self._namespace, self._name)
        verdict = judge.judge(observation)
        self.message, self.result = verdict.message, verdict.as_result()
        return None if verdict.state == "progressing" else (observation, verdict)
