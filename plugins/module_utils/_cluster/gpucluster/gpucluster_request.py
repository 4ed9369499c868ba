# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of the module gpucluster ask for, normalised once, and the GPUCluster to apply for it. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership, spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_DRA_DRIVER = ArgumentSpec(
    {
        "repository": {"type": "str"},
        "image": {"type": "str"},
        "version": {"type": "str"},
        "feature_gates": {"type": "dict"},
        "gpus": {"type": "dict"},
        "compute_domains": {"type": "dict"},
    }
)
GPUCLUSTER_BLOCKS = ArgumentSpec(
    {
        "dra_driver": _DRA_DRIVER.as_dict(),
        "dcgm": spec.COMPONENT_BLOCK.as_dict(),
        "dcgm_exporter": spec.COMPONENT_BLOCK.as_dict(),
        "daemonsets": spec.DAEMONSETS_BLOCK.as_dict(),
    }
)
"""The blocks that have typed options. Any other field goes into the option ``spec``."""


@dataclasses.dataclass(frozen=True)
class GpuClusterRequest:
    """What the options ask for, as every later step takes it."""

    namespace: str
    is_present: bool
    spec: Json
    """The fields that are given, in the API's spelling."""
    labels: Json
    annotations: Json
    purges: bool
    forces: bool
    allows_disruption: bool
    only_warns: bool
    """Whether a check warns where a run would refuse."""
    tolerated: tolerance.Tolerance
    waits: bool
    timeout_s: int
    progress_path: str | None


def request_of(options: t.Mapping[str, t.Any]) -> GpuClusterRequest:
    """Return what the options ask for. Raises `GpuOpsError` for what cannot be meant, whatever the cluster is like."""
    refuse_below(options, wait_timeout=0)
    is_present = options["state"] == "present"
    return GpuClusterRequest(
        namespace=options["namespace"],
        is_present=is_present,
        spec=_spec(options) if is_present else {},
        labels=options["labels"],
        annotations=options["annotations"],
        purges=options["purge"],
        forces=options["force"],
        allows_disruption=options["allow_disruption"],
        only_warns=_check_refusal.only_warns(options, check_mode=True),
        tolerated=tolerance.of_options(options) if is_present else tolerance.NOTHING,
        waits=options["wait"],
        timeout_s=options["wait_timeout"],
        progress_path=options["progress_path"],
    )


def _spec(options: t.Mapping[str, t.Any]) -> Json:
    made = spec.merged_spec(options, GPUCLUSTER_BLOCKS.options)
    gates = (made.get("draDriver") or {}).get("featureGates") or {}
    for name, value in gates.items():
        if value is not None and not isinstance(value, bool):
            raise GpuOpsError(
                f"draDriver.featureGates.{name} is {value!r}. Give true or false, without quotes.", reason="Invalid"
            )
    return made


def manifest(request: GpuClusterRequest, existing: Json | None, manager: str) -> Json:
    """Return the object to apply: what is given, and what the manager set earlier unless it purges."""
    kept = {} if request.purges or existing is None else ownership.applied_by(existing, manager)
    metadata, wanted = spec.with_kept(kept, request.spec, request.labels, request.annotations)
    return {
        "apiVersion": names.GPUCLUSTER_API,
        "kind": "GPUCluster",
        "metadata": {"name": names.GPUCLUSTER, **metadata},
        "spec": {"draDriver": {}, **wanted},
    }
