# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether NVIDIA validated the operator with the cluster's Kubernetes, runtimes, operating systems and GPUs."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import GPU_PRODUCT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import kernel_of, os_of, runtime_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._compatibility import MINIMUM_DRIVERS
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_line import Minor, OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import LINES, NEWEST
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_RUNTIMES = ("containerd", "cri-o")
_UNKNOWN = "unknown"
_MAJOR_ONLY = ("rhel", "rocky", "ol")
"""Operating systems for which a driver image is chosen by the major version."""


def _minor_version(version: str) -> Minor | None:
    found = re.search(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def _range(pair: tuple[Minor, Minor]) -> str:
    return " to ".join(f"{major}.{minor}" for major, minor in pair)


def _all_numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


# ---- Kubernetes ---------------------------------------------------------------------------------------------------


def check_kubernetes_version(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Compare the API server and the operator's line with the compatibility data."""
    check, line = "kubernetes_version", intent.line
    if line is None:
        known = f"There is no compatibility data for GPU Operator {intent.operator_version}"
        yield ClusterFinding(check, "warning", f"{known}; known lines are {', '.join(LINES)}.")
        return
    if line.life_cycle != "supported":
        message = f"NVIDIA's status of GPU Operator {line.name} is: {line.life_cycle}."
        yield ClusterFinding(check, "warning", message, f"Plan to move to {NEWEST.name}.")
    yield _kubernetes(snapshot.version, line)


def _kubernetes(running: str, line: OperatorLine) -> ClusterFinding:
    check, version = "kubernetes_version", _minor_version(running)
    oldest, newest = line.kubernetes
    validated = f"NVIDIA validated GPU Operator {line.name} with Kubernetes {_range(line.kubernetes)}"
    validated += f"; this is {running}"
    if version and version < oldest:
        remedy = "Upgrade Kubernetes, or install an older operator."
        return ClusterFinding(check, "failure", f"{validated}, which is older.", remedy)
    if version and version > newest:
        return ClusterFinding(
            check, "warning", f"{validated}, which is newer.", "Use a newer operator once there is one."
        )
    return ClusterFinding(check, "ok", f"{validated}.")


# ---- container runtimes -------------------------------------------------------------------------------------------


def check_container_runtime(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Compare the container runtimes with those that the operator can configure."""
    found = [
        *_unsupported_runtimes(snapshot),
        *_mixed_runtimes(snapshot, intent),
        *_unvalidated_containerd(snapshot, intent),
    ]
    yield from found
    if not found:
        kinds = " and ".join(_runtime_kinds(snapshot))
        yield ClusterFinding("container_runtime", "ok", f"The container runtime is {kinds or 'not known yet'}.")


def _kind_of(node: Json) -> str:
    return runtime_of(node).partition("://")[0]


def _runtime_kinds(snapshot: Snapshot) -> list[str]:
    return sorted({_kind_of(node) for node in snapshot.candidates})


def _runtimes(nodes: list[Json]) -> str:
    return ", ".join(sorted({runtime_of(node) for node in nodes}))


def _unsupported_runtimes(snapshot: Snapshot) -> t.Iterator[ClusterFinding]:
    nodes = [node for node in snapshot.candidates if _kind_of(node) not in _RUNTIMES]
    if nodes:
        message = f"These nodes run {_runtimes(nodes)}; the operator supports containerd and CRI-O."
        remedy = "Move the GPU nodes to containerd."
        yield ClusterFinding("container_runtime", snapshot.severity, message, remedy, **about(nodes))


def _mixed_runtimes(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    kinds = _runtime_kinds(snapshot)
    if _one_runtime_for_all(intent) and len(kinds) > 1:
        message = (
            f"{snapshot.candidates_name} mix container runtimes ({', '.join(kinds)}), "
            "but the operator configures only one."
        )
        remedy = "Use one container runtime on all GPU nodes, or set toolkit.enabled to false and prepare the hosts."
        yield ClusterFinding("container_runtime", snapshot.severity, message, remedy)


def _one_runtime_for_all(intent: Intent) -> bool:
    return bool(intent.value("toolkit.enabled", True))


def _unvalidated_containerd(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    if intent.line is None:
        return
    validated = intent.line.containerd
    nodes = [node for node in snapshot.candidates if not _is_validated_runtime(node, validated)]
    if nodes:
        message = f"NVIDIA validated containerd {_range(validated)}; these nodes run {_runtimes(nodes)}."
        yield ClusterFinding("container_runtime", "warning", message, "Plan to change containerd.", **about(nodes))


def _is_validated_runtime(node: Json, validated: tuple[Minor, Minor]) -> bool:
    version = _minor_version(runtime_of(node).partition("://")[2])
    return _kind_of(node) != "containerd" or version is None or validated[0] <= version <= validated[1]


# ---- operating systems and kernels --------------------------------------------------------------------------------


def os_name(node: Json) -> str:
    """Return a node's operating system and version, for example ``ubuntu 24.04``."""
    return " ".join(os_of(node)).strip()


def check_operating_system(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find what one driver container cannot serve: mixed systems, mixed kernels, unknown systems."""
    if not intent.manages_driver:
        message = "The driver is installed on the hosts, so any operating system works."
        yield ClusterFinding("operating_system", "ok", message)
        return
    found = [
        *_mixed_systems(snapshot, intent),
        *_mixed_kernels(snapshot, intent),
        *_unvalidated_systems(snapshot, intent),
        *_unknown_systems(snapshot, intent),
    ]
    yield from found
    if not found:
        systems = ", ".join(_driver_systems(snapshot))
        yield ClusterFinding("operating_system", "ok", f"There are driver containers for {systems}.")


def _driver_systems(snapshot: Snapshot) -> list[str]:
    """Return the operating systems, with versions as precise as those of driver images."""
    return sorted({_driver_system(*os_of(node)) for node in snapshot.candidates})


def _driver_system(os_id: str, version: str) -> str:
    return f"{os_id} {version.partition('.')[0] if os_id in _MAJOR_ONLY else version}".strip()


def _one_system_for_all(intent: Intent) -> bool:
    return intent.manages_driver and not intent.per_pool_driver


def _one_kernel_for_all(intent: Intent) -> bool:
    return _one_system_for_all(intent) and bool(intent.value("driver.usePrecompiled", False))


def _mixed_systems(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    systems = _driver_systems(snapshot)
    if _one_system_for_all(intent) and len(systems) > 1:
        message = (
            f"{snapshot.candidates_name} run different operating systems ({', '.join(systems)}), "
            "but a ClusterPolicy installs the driver for the first of these systems on all nodes."
        )
        remedy = "Use NVIDIADriver (driver.nvidiaDriverCRD.enabled), or install the driver on the hosts."
        yield ClusterFinding("operating_system", snapshot.severity, message, remedy)


def _mixed_kernels(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    kernels = sorted({kernel_of(node) for node in snapshot.candidates})
    if _one_kernel_for_all(intent) and len(kernels) > 1:
        message = (
            f"{snapshot.candidates_name} run different kernels ({first_few(kernels)}), "
            "but precompiled drivers are built for one kernel."
        )
        remedy = "Use NVIDIADriver (driver.nvidiaDriverCRD.enabled), or run the same kernel on all nodes."
        yield ClusterFinding("operating_system", snapshot.severity, message, remedy)


def _unvalidated_systems(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    if intent.line is None:
        return
    nodes = [node for node in snapshot.candidates if not _is_validated_system(node, intent.line)]
    if nodes:
        systems = ", ".join(sorted({os_name(node) for node in nodes}))
        message = (
            f"NVIDIA did not validate GPU Operator {intent.line.name} on {systems}, "
            "and there may be no driver container for it."
        )
        remedy = "Install the driver on the hosts and set driver.enabled to false."
        yield ClusterFinding("operating_system", "warning", message, remedy, **about(nodes))


def _unknown_systems(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    nodes = [node for node in snapshot.candidates if os_of(node)[0] == _UNKNOWN]
    if nodes:
        message = "The operating system of these nodes is not known, so there may be no driver container for it."
        remedy = "Check that their kubelets run and that Node Feature Discovery labels them."
        yield ClusterFinding("operating_system", "warning", message, remedy, **about(nodes))
    elif not snapshot.candidates:
        yield ClusterFinding(
            "operating_system", "ok", "There are no nodes yet whose operating system could be checked."
        )
    elif intent.line is None:
        systems = ", ".join(_driver_systems(snapshot))
        message = f"Whether there are driver containers for {systems} is not known for this operator."
        yield ClusterFinding("operating_system", "ok", message)


def _is_validated_system(node: Json, line: OperatorLine) -> bool:
    os_id, version = os_of(node)
    if os_id == _UNKNOWN:
        return True
    versions = line.operating_systems.get(os_id)
    return versions is not None and (not versions or version in versions)


# ---- GPUs and the driver ------------------------------------------------------------------------------------------


def check_driver(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find GPUs that the chosen driver is too old for."""
    version = str(intent.value("driver.version", intent.line.driver if intent.line else ""))
    if not intent.manages_driver or not version:
        yield ClusterFinding("driver", "ok", "The operator does not choose the driver.")
        return
    found = list(_gpus_that_need_a_newer_driver(snapshot, version))
    yield from found
    if not found:
        yield ClusterFinding("driver", "ok", f"The driver is {version}.")


def _gpus_that_need_a_newer_driver(snapshot: Snapshot, version: str) -> t.Iterator[ClusterFinding]:
    if not re.match(r"\d+\.\d+", version):  # a digest
        return
    for product, oldest in MINIMUM_DRIVERS.items():
        nodes = [node for node in snapshot.gpu_nodes if labels_of(node).get(GPU_PRODUCT, "").startswith(product)]
        if nodes and _all_numbers(version) < _all_numbers(oldest):
            message = f"{product} needs driver {oldest} or newer, and driver.version is {version}."
            yield ClusterFinding("driver", "failure", message, "Set driver.version to a newer driver.", **about(nodes))


# ---- before the GPU nodes are known -------------------------------------------------------------------------------


def differences(snapshot: Snapshot, intent: Intent) -> list[str]:
    """Return in what the candidates differ although all GPU nodes must be alike."""
    nodes, found = snapshot.candidates, []
    if _one_system_for_all(intent) and len(_driver_systems(snapshot)) > 1:
        found.append(f"operating systems ({', '.join(_driver_systems(snapshot))})")
    if _one_kernel_for_all(intent) and len({kernel_of(node) for node in nodes}) > 1:
        found.append("kernels")
    if _one_runtime_for_all(intent) and len(_runtime_kinds(snapshot)) > 1:
        found.append(f"container runtimes ({', '.join(_runtime_kinds(snapshot))})")
    return found
