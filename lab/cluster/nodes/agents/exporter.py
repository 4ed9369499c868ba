# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node's DCGM exporter answers: its list of fields, and a series of each field for each GPU.

The form of the series is that of the exporter's ``internal/pkg/rendermetrics/render_metrics.go``: the name of the node
is in ``Hostname`` up to 4.5.3-4.8.2, and in ``hostname`` after it. A GPU that a pod holds has the labels of that pod.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import time
import typing as t

from lab.cluster.api import Json
from lab.cluster.nodes.agents.facts import gpu_uuid, note, pci_address
from lab.cluster.nodes.fleet import MODELS

LIST_KEY = "dcgm-metrics.csv"
_VOLUME = "metrics-config"
RESOURCE = "nvidia.com/gpu"
CLAIMS_VARIABLE = "KUBERNETES_ENABLE_DRA"
JOBS_VARIABLE = "DCGM_HPC_JOB_MAPPING_DIR"


@dataclasses.dataclass(frozen=True)
class Field:
    """A line of the exporter's list."""

    name: str
    kind: str
    help: str


@dataclasses.dataclass(frozen=True)
class _Gpu:
    is_busy: bool
    memory_mib: int
    index: int
    xid: int
    """The last Xid, or 0."""


_Value = t.Callable[[_Gpu], float]

_GAUGES: dict[str, _Value] = {
    "DCGM_FI_DEV_SM_CLOCK": lambda gpu: 1980 if gpu.is_busy else 345,
    "DCGM_FI_DEV_MEM_CLOCK": lambda gpu: 2619,
    "DCGM_FI_DEV_MEMORY_TEMP": lambda gpu: 66 if gpu.is_busy else 40,
    "DCGM_FI_DEV_GPU_TEMP": lambda gpu: 61 + gpu.index if gpu.is_busy else 34,
    "DCGM_FI_DEV_GPU_TEMP_LIMIT": lambda gpu: 26 - gpu.index if gpu.is_busy else 53,
    "DCGM_FI_DEV_POWER_USAGE": lambda gpu: 610 if gpu.is_busy else 72.5,
    "DCGM_FI_DEV_GPU_UTIL": lambda gpu: 97 if gpu.is_busy else 0,
    "DCGM_FI_DEV_MEM_COPY_UTIL": lambda gpu: 41 if gpu.is_busy else 0,
    "DCGM_FI_DEV_FB_FREE": lambda gpu: gpu.memory_mib - (61440 if gpu.is_busy else 512),
    "DCGM_FI_DEV_FB_USED": lambda gpu: 61440 if gpu.is_busy else 512,
    "DCGM_FI_DEV_FB_TOTAL": lambda gpu: gpu.memory_mib,
    "DCGM_FI_DEV_XID_ERRORS": lambda gpu: gpu.xid,
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": lambda gpu: 4 if gpu.is_busy else 1,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda gpu: 0.96 if gpu.is_busy else 0,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": lambda gpu: 0.38 if gpu.is_busy else 0,
    "DCGM_FI_PROF_DRAM_ACTIVE": lambda gpu: 0.44 if gpu.is_busy else 0,
}
_COUNTERS: dict[str, _Value] = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda gpu: int(time.time() * 1000) * (610 if gpu.is_busy else 72),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": lambda gpu: int(time.time() * 1e9) if gpu.is_busy else 0,
}
_ZERO = (
    "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
)  # fmt: skip
_ZERO_COUNTERS = (
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
)  # fmt: skip
_NOT_BY_DEFAULT = ("DCGM_FI_DEV_GPU_TEMP_LIMIT", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
_XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"

BUILT_IN = (
    *(Field(name, "gauge", f"{name}.") for name in (*_GAUGES, *_ZERO) if name not in _NOT_BY_DEFAULT),
    *(Field(name, "counter", f"{name}.") for name in (*_COUNTERS, *_ZERO_COUNTERS)),
    Field("DCGM_FI_DRIVER_VERSION", "label", "Driver version."),
)
"""What the exporter collects without a list of its own."""


def list_of(pod: Json) -> str | None:
    """Return the ConfigMap with the list that a pod of the exporter mounts, or None if it has the built-in list."""
    volumes = pod["spec"].get("volumes") or []
    return next((item["configMap"]["name"] for item in volumes if item["name"] == _VOLUME), None)


def parsed(text: str) -> tuple[Field, ...]:
    """Return the fields of a list. Raise ValueError for what makes the exporter end: not three columns."""
    rows = list(csv.reader(line for line in text.splitlines() if line and not line.startswith("#")))
    wrong = [row for row in rows if len(row) != 3]
    if wrong:
        raise ValueError(f"malformed CSV record: {wrong[0]}")
    return tuple(Field(*(cell.strip() for cell in row)) for row in rows)


def held_gpus(pods: t.Iterable[Json], gpus: int) -> dict[int, Json]:
    """Return the pod that holds each GPU. GPUs are given out in the order of the pods' ages, and shared ones again."""
    held: dict[int, Json] = {}
    taken = 0
    for pod in sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])):
        if (pod.get("status") or {}).get("phase") != "Running":
            continue
        for container in pod["spec"]["containers"]:
            for _ in range(int(((container.get("resources") or {}).get("limits") or {}).get(RESOURCE, 0))):
                if gpus:
                    held.setdefault(taken % gpus, {**pod["metadata"], "container": container["name"]})
                taken += 1
    return held


def claimed_gpus(exporter: Json, pods: t.Iterable[Json]) -> dict[int, list[Json]]:
    """Return who has each GPU by a claim, if the exporter asks for it: claims for administration are among them."""
    env = exporter["spec"]["containers"][0].get("env") or []
    if all(each["name"] != CLAIMS_VARIABLE for each in env):
        return {}
    held: dict[int, list[Json]] = {}
    for pod in pods:
        for entry in json.loads(note(pod, "devices") or "[]"):
            index = int(entry["device"].split("-")[1])
            held.setdefault(index, []).append({**pod["metadata"], **_claim_labels(entry)})
    return held


def _claim_labels(entry: Json) -> Json:
    """Return a holder with the labels that internal/pkg/transformation/kubernetes.go of the exporter adds."""
    labels = {
        "dra_claim_name": entry["claim"],
        "dra_claim_namespace": entry["namespace"],
        "dra_driver_name": "gpu.nvidia.com",
        "dra_pool_name": entry["pool"],
        "dra_device_name": entry["device"],
    }
    if "profile" in entry:
        labels |= {"dra_mig_profile": entry["profile"], "dra_mig_device_uuid": entry["uuid"]}
    return {"container": entry["container"], "is_busy": not entry["admin"], "claim": labels}


def jobs_of(node: Json, pod: Json) -> dict[int, list[str]]:
    """Return the jobs of each GPU, if the exporter's pod reads the folder with their files.

    The lab keeps them in a note of the node: ``{"0": "4711\\n4712"}`` are the files by name, with their content.
    """
    env = pod["spec"]["containers"][0].get("env") or []
    if all(each["name"] != JOBS_VARIABLE for each in env):
        return {}
    files: dict[str, str] = json.loads(note(node, "jobs") or "{}")
    return {int(name): text.splitlines() for name, text in files.items() if name.isdigit()}


def metrics(
    node: Json,
    fields: t.Iterable[Field] = BUILT_IN,
    held: t.Mapping[int, Json] | None = None,
    image: str = "",
    jobs: t.Mapping[int, t.Sequence[str]] | None = None,
    claimed: t.Mapping[int, list[Json]] | None = None,
) -> str:
    """Return the metrics of a node's exporter, with a line for each field and GPU that it still sees.

    A GPU with claims has a line for each container that has one. Without a GPU there is no text at all, as in https://github.com/NVIDIA/dcgm-exporter/issues/250.
    """
    seen = int(note(node, "exporter-gpus") or note(node, "gpus"))
    fields, held, lines = tuple(fields), held or {}, []
    if not seen:
        return ""
    holders = [(claimed or {}).get(index) or [held.get(index)] for index in range(seen)]
    labels = [[_labels(node, index, fields, each, image) for each in holders[index]] for index in range(seen)]
    memory = MODELS[note(node, "model")].memory_mib
    busy = [any(each and each.get("is_busy", True) for each in mine) for mine in holders]
    gpus = [_Gpu(busy[index], memory, index, int(note(node, "xid") or 0)) for index in range(seen)]
    for field in fields:
        if field.kind == "label":
            continue
        lines += [f"# HELP {field.name} {field.help}", f"# TYPE {field.name} {field.kind}"]
        series = (
            (value, f'{each},hpc_job="{job}"' if job is not None else each)
            for gpu, every in zip(gpus, labels)
            for own in every
            for value, each in _of(field, gpu, own)
            for job in (jobs or {}).get(gpu.index) or (None,)
        )
        lines += [f"{field.name}{{{own}}} {value}" for value, own in series]
    return "\n".join(lines) + "\n"


def _of(field: Field, gpu: _Gpu, labels: str) -> list[tuple[float, str]]:
    """Return the values of a field of a GPU with their labels. Only an Xid that was seen is counted."""
    if field.name == _XID_COUNT:
        return [(1, f'{labels},xid="{gpu.xid}"')] if gpu.xid and gpu.index == 0 else []
    if field.name == "DCGM_FI_DEV_XID_ERRORS" and gpu.index:
        return [(0, labels)]
    value = {**_GAUGES, **_COUNTERS}.get(field.name, lambda gpu: 0)
    return [(value(gpu), labels)]


def _labels(node: Json, index: int, fields: tuple[Field, ...], holder: Json | None, image: str) -> str:
    name = node["metadata"]["name"]
    found = re.search(r":(\d+)\.(\d+)", image)
    host = "hostname" if found and (int(found[1]), int(found[2])) >= (4, 6) else "Hostname"
    labels = {
        "gpu": str(index),
        "UUID": gpu_uuid(name, index),
        "pci_bus_id": f"0000{pci_address(index).upper()}",
        "device": f"nvidia{index}",
        "modelName": MODELS[note(node, "model")].product,
        host: name,
    }
    if any(field.name == "DCGM_FI_DRIVER_VERSION" for field in fields):
        labels["DCGM_FI_DRIVER_VERSION"] = "595.91.07"
    if holder:
        labels |= {"container": holder["container"], "namespace": holder["namespace"], "pod": holder["name"]}
        labels |= holder.get("claim", {})
    return ",".join(f'{key}="{value}"' for key, value in labels.items())
