# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the ClusterPolicy or the GPUCluster asks for, who owns each field, and whether the stack is ready."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import changes, ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe, tolerance, wait
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Marks,
    Observation,
    Verdict,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def clusterpolicy_info(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Read and judge the ClusterPolicy, after a wait if the options request one. Return the module's result."""
    observation, verdict = judged(cluster, options["name"], options)
    policy = observation.policy
    return {"clusterpolicy": changes.strip_managed(policy) if policy else {}, **described(policy, verdict)}


def judged(cluster: Cluster, name: str, options: t.Mapping[str, t.Any]) -> tuple[Observation, Verdict]:
    """Return what was observed and the verdict, after a wait if the options request one.

    ``name`` is that of the ClusterPolicy; an empty one means the only ClusterPolicy, or the GPUCluster.
    """
    refuse_below(options, wait_timeout=0)
    namespace, limits = options["namespace"], tolerance.of_options(options)
    if options["wait"] and not cluster.check_mode:
        timeout_s, progress_path = options["wait_timeout"], options["progress_path"]
        try:
            return wait.until_ready(cluster, namespace, name, timeout_s, progress_path, limits)
        except GpuOpsError as e:
            raise for_a_person(e) from e
    observation = observe.observe(cluster, namespace, name, limits)
    return observation, judge.judge(observation, limits)


class Awaited(t.Protocol):
    """What a request says about the wait that follows a change."""

    @property
    def namespace(self) -> str: ...
    @property
    def tolerated(self) -> tolerance.Tolerance: ...
    @property
    def waits(self) -> bool: ...
    @property
    def timeout_s(self) -> int: ...
    @property
    def progress_path(self) -> str | None: ...


def after(cluster: Cluster, name: str, request: Awaited, result: Json, before: Marks | None) -> Json:
    """Return the result of a change with the verdict that follows, after a wait if the request asks for one.

    ``before`` shows whether the operator has acted on the change. A wait that fails says what was changed.
    """
    namespace, limits = request.namespace, request.tolerated
    try:
        if request.waits:
            timeout_s, progress_path = request.timeout_s, request.progress_path
            verdict = wait.until_ready(cluster, namespace, name, timeout_s, progress_path, limits, before)[1]
        else:
            verdict = judge.judge(observe.observe(cluster, namespace, name, limits), limits)
    except GpuOpsError as e:
        raise for_a_person(e, changed=result["changed"]) from e
    return {**result, **verdict.as_result()}


def described(item: Json | None, verdict: Verdict) -> Json:
    """Return who owns the fields of what describes the stack, what the operator says of it, and the verdict."""
    status = (item or {}).get("status") or {}
    return {
        "exists": item is not None,
        "owners": ownership.owners_of(item) if item else {},
        "state": status.get("state", ""),
        "conditions": status.get("conditions") or [],
        "versions": {rollout.operand: version_of(rollout.images[0]) for rollout in verdict.operands if rollout.images},
        **verdict.as_result(),
    }


def for_a_person(error: GpuOpsError, **more: t.Any) -> GpuOpsError:
    """Return a failed wait with its reasons and without the table of operands: Ansible prints the whole result."""
    details = {key: value for key, value in error.details.items() if key != "operands"}
    return GpuOpsError(error.msg, **more, **details)


def version_of(image: str) -> str:
    """Return an image's digest or tag."""
    if "@" in image:
        return image.rpartition("@")[2]
    return image.rpartition("/")[2].partition(":")[2]
