# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether a cluster has the feature gates that NVIDIA's DRA driver needs, by the API server's own answer to a dry run.

An API server drops the fields of a gate that is off, or refuses an object that is empty without them. Seen with
Kubernetes 1.36.3. The scheduler and the kubelets have gates of their own, which no API tells.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_FIELDS: t.Mapping[str, Json] = {
    "DRADeviceTaints": {"devices": [{"name": "x", "taints": [{"key": "example.com/x", "effect": "NoSchedule"}]}]},
    "DRAConsumableCapacity": {"devices": [{"name": "x", "allowMultipleAllocations": True}]},
    "DRAPartitionableDevices": {"sharedCounters": [{"name": "x", "counters": {"x": {"value": "1"}}}]},
    "DRAListTypeAttributes": {"devices": [{"name": "x", "attributes": {"x": {"strings": ["x"]}}}]},
}
"""For each gate, a part of a ResourceSlice that an API server keeps only with it."""

ASKABLE_GATES = tuple(_FIELDS)
"""The gates that can be asked for."""

ProbedGate = t.Literal["on", "off", "unknown"]


def probed(cluster: Cluster, gates: t.Iterable[str]) -> dict[str, ProbedGate]:
    """Return which of the gates are on. One dry run for each gate; nothing is written."""
    version = device_claims.served_version(cluster, "resourceslices")
    return {gate: _probe(cluster, version, _FIELDS[gate]) for gate in gates}


def _probe(cluster: Cluster, version: str | None, fields: Json) -> ProbedGate:
    if version is None:
        return "off"
    if version == "v1beta1" and "devices" in fields:
        name, block = fields["devices"][0]["name"], {**fields["devices"][0]}
        del block["name"]
        fields = {"devices": [{"name": name, "basic": block}]}
    group_version = f"{names.DRA_GROUP}/{version}"
    pool = {"name": "probe", "generation": 1, "resourceSliceCount": 1}
    body = {
        "apiVersion": group_version,
        "kind": "ResourceSlice",
        "metadata": {"generateName": "probe-"},
        "spec": {"driver": "probe.gpuops.nvidia", "allNodes": True, "pool": pool, **fields},
    }
    query = {"dryRun": "All", "fieldManager": FIELD_MANAGER}
    try:
        answer = cluster.ask("POST", namespaced(group_version, None, "resourceslices"), query, body)
    except GpuOpsError as e:
        if e.reason in ("Forbidden", "Invalid"):
            return "unknown" if e.reason == "Forbidden" else "off"
        raise
    return "on" if _keeps(answer["spec"], fields) else "off"


def _keeps(spec: t.Any, wanted: t.Any) -> bool:
    """Return whether the answer still has all that was sent. The API server adds fields of its own."""
    if isinstance(wanted, dict):
        return isinstance(spec, dict) and all(_keeps(spec.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(spec, list) and len(spec) == len(wanted) and all(map(_keeps, spec, wanted))
    return bool(spec == wanted)
