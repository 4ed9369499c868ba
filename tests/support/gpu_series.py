# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The series of a small fleet, as the exporter, kube-state-metrics and the operator send them.

- a1: 8 GPUs: 4 that train-0 of team-a uses, 2 that notebook of team-b holds idle, 2 that nobody holds
- a2: 2 GPUs whose pods report their own use; two teams share the first; the second has every fault
- m1: 2 GPUs divided by MIG
- v1: a guest with a vGPU, without profiling counters, temperature and power
- b1: 2 GPUs, of which one has fallen off the bus
- x1: a node of whose GPUs none reports
"""

from __future__ import annotations

import dataclasses
import typing as t

NOW = 1_790_000_100
"""The moment of the fleet: a multiple of 5 minutes."""
_RECENTLY = range(NOW - 5400, NOW + 1, 60)
_YESTERDAY = range(NOW - 86400 - 300, NOW - 86400 + 61, 60)

H100, A100, L40S = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA L40S"
Labels = dict[str, str]
Value = t.Callable[[int], float | None]


@dataclasses.dataclass(frozen=True)
class Slot:
    """A GPU or a MIG instance: how active it is, and the namespaces and pods that hold it."""

    activity: float = 0.0
    pods: tuple[str, ...] = ()
    instance: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True)
class Gpu:
    node: str
    number: int
    model: str = H100
    slots: tuple[Slot, ...] = (Slot(),)
    driver: str = "595.71.05"
    is_guest: bool = False
    is_lost: bool = False
    is_faulty: bool = False
    names_sharers: bool = False


def fleet() -> list[Gpu]:
    busy, idle = Slot(0.7, ("team-a/train-0",)), Slot(0.0, ("team-b/notebook",))
    shared, alone = Slot(0.5, ("team-a/share-0", "team-b/share-1")), Slot(0.5, ("team-c/share-2",))
    three = Slot(0.9, ("team-a/mig-0",), ("3g.20gb", "1")), Slot(0.0, ("team-b/mig-1",), ("4g.20gb", "2"))
    small = (
        Slot(0.9, ("team-c/mig-2",), ("1g.5gb", "7")),
        Slot(0.0, (), ("1g.5gb", "8")),
        Slot(0.0, (), ("2g.10gb", "3")),
    )
    return [
        *(Gpu("a1", number, slots=(slot,)) for number, slot in enumerate([*[busy] * 4, *[idle] * 2, Slot(), Slot()])),
        Gpu("a2", 0, slots=(shared,), names_sharers=True),
        Gpu("a2", 1, slots=(alone,), names_sharers=True, is_faulty=True),
        Gpu("m1", 0, A100, three, driver="580.95.05"),
        Gpu("m1", 1, A100, small, driver="580.95.05"),
        Gpu("v1", 0, L40S, (Slot(0.3, ("team-d/infer",)),), is_guest=True),
        Gpu("b1", 0),
        Gpu("b1", 1, is_lost=True),
    ]


_OF_GUESTS = {"DCGM_FI_DEV_FB_FREE": 80000.0, "DCGM_FI_DEV_FB_RESERVED": 600.0}
_STEADY = {
    **{f"DCGM_FI_DEV_{name}": 0.0 for name in ("ENC_UTIL", "DEC_UTIL", "ROW_REMAP_FAILURE")},
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0.0,
    "DCGM_FI_DEV_MEMORY_TEMP": 60.0,
    "DCGM_FI_DEV_GPU_TEMP_LIMIT": 30.0,
    "DCGM_FI_DEV_POWER_USAGE": 500.0,
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": 700.0,
    "DCGM_FI_DEV_SM_CLOCK": 1900.0,
    "DCGM_FI_DEV_MEM_CLOCK": 2600.0,
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 1234.0,
    "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH": 16.0,
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": 5.0,
}
_WITH_FAULT = {
    "DCGM_FI_DEV_XID_ERRORS": (0.0, 95.0),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": (0.0, 1.0),
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": (0.0, 2.0),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": (0.0, 1.0),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": (0.0, 1.0),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": (16.0, 8.0),
    "DCGM_FI_DEV_FABRIC_MANAGER_STATUS": (3.0, 1.0),
}
"""Values of a sound GPU and of one with faults."""
_GROWING = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": (5e5, 5e5),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": (0.0, 0.01),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": (0.0, 0.1),
    "DCGM_FI_DEV_POWER_VIOLATION": (1e8, 1e8),
    **{
        f"DCGM_FI_DEV_{name}_VIOLATION": (0.0, 1e8)
        for name in ("THERMAL", "SYNC_BOOST", "BOARD_LIMIT", "LOW_UTIL", "RELIABILITY")
    },
    **{
        f"DCGM_FI_DEV_NVLINK_{name}_ERROR_COUNT_TOTAL": (0.0, 0.1)
        for name in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
    },
}
"""How fast counters grow per second on a sound GPU and on one with faults."""
_BY_ACTIVITY = {
    **{f"DCGM_FI_PROF_{name}": 1.0 for name in ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")},
    **{f"DCGM_FI_PROF_PCIE_{name}_BYTES": 1e9 for name in ("TX", "RX")},
}


class Series:
    """The series by metric, since OpenMetrics wants those of a metric together."""

    def __init__(self, honor_labels: bool, cluster: str) -> None:
        self._honor_labels = honor_labels
        self._cluster = cluster
        self._metrics: dict[str, list[tuple[str, t.Sequence[int], Value]]] = {}

    def add(self, metric: str, labels: Labels, value: float | Value, times: t.Sequence[int] = _RECENTLY) -> None:
        given = {"cluster": self._cluster, **labels}
        text = ",".join(f'{name}="{each}"' for name, each in given.items() if each)
        found = value if callable(value) else (lambda dummy, steady=value: steady)
        self._metrics.setdefault(metric, []).append((text, times, found))

    def of_workload(self, node: str, pod: str) -> Labels:
        """Return the labels of a pod, beside those of the exporter's own pod where Prometheus keeps these."""
        namespace, dummy, name = pod.partition("/")
        workload = {"namespace": namespace, "pod": name, "container": "main"} if pod else {}
        if self._honor_labels:
            return workload
        own = {"namespace": "gpu-operator", "pod": f"exporter-{node}", "container": "nvidia-dcgm-exporter"}
        return {**own, **{f"exported_{name}": value for name, value in workload.items()}}

    def text(self) -> t.Iterator[str]:
        for metric, every in self._metrics.items():
            yield f"# TYPE {metric} gauge\n"
            for labels, times, value in every:
                samples = ((moment, value(moment)) for moment in times)
                yield "".join(f"{metric}{{{labels}}} {each} {moment}\n" for moment, each in samples if each is not None)
        yield "# EOF\n"


def text(*, honor_labels: bool, cluster: str = "") -> t.Iterator[str]:
    """Return the fleet's series in OpenMetrics."""
    series = Series(honor_labels, cluster)
    for gpu in fleet():
        for slot in gpu.slots:
            _of_slot(series, gpu, slot)
    _of_kubernetes(series)
    _of_operator(series)
    return series.text()


def _of_slot(series: Series, gpu: Gpu, slot: Slot) -> None:
    """Add what the exporter sends of a GPU or instance. What belongs to the whole GPU comes with each instance."""
    times = _YESTERDAY if gpu.is_lost else [*_YESTERDAY, *_RECENTLY]
    labels = {
        "node": gpu.node,
        "gpu": str(gpu.number),
        "UUID": f"GPU-{gpu.node}-{gpu.number}",
        "modelName": gpu.model,
        "hostname": gpu.node,
        "DCGM_FI_DRIVER_VERSION": gpu.driver,
    }
    if slot.instance:
        labels = {**labels, "GPU_I_PROFILE": slot.instance[0], "GPU_I_ID": slot.instance[1]}

    def add(metric: str, value: float | Value, own: bool = False, **more: str) -> None:
        """Add a metric for each pod. ``own``: with the part of each sharer, and beside it the sum without a pod."""
        parts = len(slot.pods) if own and gpu.names_sharers and not callable(value) else 1
        if parts > 1 or (own and gpu.names_sharers):
            series.add(metric, {**labels, **more, **series.of_workload(gpu.node, "")}, value, times)
        for place, pod in enumerate(slot.pods or ("",)):
            share = {"vgpu": str(place)} if gpu.names_sharers else {}
            amount = value if callable(value) else value / parts
            series.add(metric, {**labels, **more, **share, **series.of_workload(gpu.node, pod)}, amount, times)

    _of_device(add, gpu, slot)


def _of_device(add: t.Callable[..., None], gpu: Gpu, slot: Slot) -> None:
    fault = int(gpu.is_faulty)
    add("DCGM_FI_DEV_FB_USED", 1000.0, own=True)
    if not slot.instance:
        add("DCGM_FI_DEV_GPU_UTIL", slot.activity * 100, own=True)
    for metric, value in _OF_GUESTS.items():
        add(metric, value)
    if gpu.is_guest:
        return
    add("DCGM_FI_DEV_GPU_TEMP", 40 + 30 * slot.activity + gpu.number)
    add("DCGM_FI_DEV_MEM_COPY_UTIL", slot.activity * 50)
    for metric, factor in _BY_ACTIVITY.items():
        add(metric, slot.activity * factor)
    for metric, value in _STEADY.items():
        add(metric, value)
    for metric, values in _WITH_FAULT.items():
        more = {"err_code": str(values[fault]), "err_msg": "text"} if "XID" in metric else {}
        add(metric, values[fault], **more)
    for metric, rates in _GROWING.items():
        add(metric, lambda moment, rate=rates[fault]: (moment - NOW + 200_000) * rate)
    _of_events(add, gpu.is_faulty)


def _of_events(add: t.Callable[..., None], is_faulty: bool) -> None:
    """Add the exporter's own metrics. A GPU without an Xid has one series without a code."""
    if is_faulty:
        add("DCGM_EXP_XID_ERRORS_COUNT", lambda moment: 2.0 if moment > NOW - 300 else None, xid="95")
        add("DCGM_EXP_XID_ERRORS_COUNT", lambda moment: 1.0 if moment > NOW - 300 else None, xid="13")
    else:
        add("DCGM_EXP_XID_ERRORS_COUNT", 0.0)
    add("DCGM_EXP_CLOCK_EVENTS_COUNT", 4.0, clock_event="hw_thermal" if is_faulty else "gpu_idle")
    for part in ("ALL", "MEM", "PCIE"):
        failed = is_faulty and part == "MEM"
        code = "DCGM_FR_PENDING_ROW_REMAP" if failed else "DCGM_FR_OK"
        add("DCGM_EXP_GPU_HEALTH_STATUS", 20.0 if failed else 0.0, health_watch=part, health_error_code=code)


_DEVICES = (
    ("a1", "nvidia_com_gpu", 8, 8), ("a2", "nvidia_com_gpu", 4, 3), ("m1", "nvidia_com_mig_3g_20gb", 1, 1),
    ("m1", "nvidia_com_mig_4g_20gb", 1, 1), ("v1", "nvidia_com_gpu", 1, 1), ("b1", "nvidia_com_gpu", 2, 1),
    ("x1", "nvidia_com_gpu", 8, 8),
)  # fmt: skip
"""Node, resource, capacity, and what is allocatable of it."""
_PODS = (
    ("team-a/train-0", "a1", "nvidia_com_gpu", 4, "Running"), ("team-b/notebook", "a1", "nvidia_com_gpu", 2, "Running"),
    ("team-a/share-0", "a2", "nvidia_com_gpu", 1, "Running"), ("team-b/share-1", "a2", "nvidia_com_gpu", 1, "Running"),
    ("team-a/mig-0", "m1", "nvidia_com_mig_3g_20gb", 1, "Running"),
    ("team-a/done", "a1", "nvidia_com_gpu", 8, "Succeeded"), ("team-e/waits", "", "nvidia_com_gpu", 8, "Pending"),
)  # fmt: skip


def _of_kubernetes(series: Series) -> None:
    for node, resource, capacity, allocatable in _DEVICES:
        for metric, value in {"capacity": capacity, "allocatable": allocatable}.items():
            series.add(f"kube_node_status_{metric}", {"node": node, "resource": resource}, float(value))
    for node in sorted({row[0] for row in _DEVICES}):
        series.add("kube_node_spec_unschedulable", {"node": node}, float(node == "a2"))
        kind = {"label_node_kubernetes_io_instance_type": "p5"} if node.startswith("a") else {}
        series.add("kube_node_labels", {"node": node, **kind}, 1.0)
    for pod, node, resource, count, phase in _PODS:
        namespace, dummy, name = pod.partition("/")
        labels = {"namespace": namespace, "pod": name}
        wanted = {**labels, "node": node, "container": "main", "resource": resource}
        series.add("kube_pod_container_resource_requests", wanted, float(count))
        for each in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            series.add("kube_pod_status_phase", {**labels, "phase": each}, float(each == phase))
    for namespace, team in {"team-a": "vision", "team-b": "language", "team-c": "", "team-d": ""}.items():
        series.add("kube_namespace_labels", {"namespace": namespace, "label_team": team}, 1.0)
        series.add("kube_namespace_status_phase", {"namespace": namespace, "phase": "Active"}, 1.0)
        series.add("kube_namespace_status_phase", {"namespace": namespace, "phase": "Terminating"}, 0.0)


def _of_operator(series: Series) -> None:
    of_fleet = {
        "gpu_nodes_total": 6, "reconciliation_status": 1, "reconciliation_last_success_ts_seconds": NOW - 60,
        "driver_auto_upgrade_enabled": 1, "nodes_upgrades_in_progress": 1, "nodes_upgrades_pending": 2,
        "nodes_upgrades_done": 3, "nodes_upgrades_failed": 0, "nodes_upgrades_available": 1,
    }  # fmt: skip
    for metric, value in of_fleet.items():
        series.add(f"gpu_operator_{metric}", {}, float(value))
    for node in sorted({row[0] for row in _DEVICES}):
        for part in ("driver", "toolkit", "plugin", "cuda"):
            ready = float((node, part) != ("a2", "cuda"))
            series.add(f"gpu_operator_node_{part}_ready", {"node": node}, ready)
