# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Operands whose pods run and fail: the validator, the toolkit, the device plugin, the exporter, and licences."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches, order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text import Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_OPERATOR = "https://github.com/NVIDIA/gpu-operator/"
_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin/"
_EXPORTER = "https://github.com/NVIDIA/dcgm-exporter/"

# The validator

_FOUND_HOST_DRIVER = pattern(
    r"NVIDIA GPU driver is already pre-installed on the node|driver is pre-installed on host", "pre-installed"
)
_NO_KERNEL = pattern(
    r"Failed to launch vectorAdd kernel \(error code no kernel image is available for execution on the device\)",
    "no kernel image is available",
)
_INSUFFICIENT = pattern(
    r"Failed to allocate device vector A \(error code CUDA driver version is insufficient for CUDA runtime version\)",
    "cuda driver version is insufficient",
)
_BUSY = pattern(
    r"Failed to allocate device vector A \(error code (?:all )?CUDA-capable devices?(?:\(s\))? (?:is/)?are busy or "
    r"unavailable\)",
    "busy or unavailable",
)
_SYMLINKS = pattern(r"Failed to create symlinks under /dev/char", "failed to create symlinks under /dev/char")
_NOT_SHARED = pattern(
    r"path \\?\"(?P<path>/[\w/.-]+)\\?\" is mounted on \\?\"(?P<mount>/[\w/.-]*)\\?\" but it is not a shared mount",
    "but it is not a shared mount",
)
_WRONG_ROOT = pattern(r"lstat (?P<path>/run/nvidia/driver/\S+): no such file or directory", "lstat /run/nvidia/driver/")

_WHOSE_DRIVER = (
    "Run `nvidia-smi` on the host. If it works, the host has its own driver, and the operator looks for it in the "
    "wrong place. If it does not, the node has no driver."
)
_TRY_RUNTIME = (
    "Run a pod with runtimeClassName nvidia and the command nvidia-smi on the node. If it works, containers get the "
    "driver, and the driver is too old for the test. If it finds no nvidia-smi, the container runtime is the cause."
)
_COUNT_RESTARTS = (
    "Look twice, a minute apart, at RESTARTS of the node's pod nvidia-container-toolkit-daemonset. If the number "
    "grows, the toolkit restarts in a loop. If it does not, the runtime does not use the toolkit's configuration."
)
_WHO_PROFILES = (
    "Run `kubectl get pod <exporter> -o yaml`, and look for SYS_ADMIN in its capabilities. If it is missing, the "
    "privilege is the cause; if it is there, another profiler or the GPU is."
)
_DENIALS = (
    "Run `ausearch -m avc -ts recent` on the host. If it shows denials for the container, SELinux is the cause. If it "
    "shows none, the container did not get the driver's files."
)

_RETRIES = (
    pattern(r"failed to validate the driver, retrying after \d+ seconds", "failed to validate the driver, retrying"),
    pattern(
        r"chroot: failed to run command '?nvidia-smi'?: No such file or directory", "chroot: failed to run command"
    ),
)
_NO_SMI = pattern(r"nvidia-smi\\?\": executable file not found in \$PATH", "nvidia-smi")
_AWAITS_TOOLKIT = pattern(
    r"waiting for nvidia container (?:stack|toolkit) to be setup", "waiting for nvidia container", "pod"
)
_AWAITS_DRIVER = pattern(r"waiting for the driver validations to be ready", "waiting for the driver validations", "pod")


def _in_text(*patterns: Pattern) -> matches.Check:
    """Return a check for lines of which nothing else is known. Where the nodes are known, these say more."""

    def check(view: View) -> t.Iterator[Sighting]:
        found = [hit for each in patterns for hit in view.hits(each)] if not view.rows else []
        first = {hit.line.node: hit for hit in reversed(found)}
        for node in dict.fromkeys(hit.line.node for hit in found):
            yield matches.sighting(first[node])

    return check


def _without_toolkit(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_NO_SMI):
        if "toolkit-validation" in f"{hit.line.source} {hit.line.text}":
            yield matches.sighting(hit, "likely")


def _no_driver(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose operands wait for a driver that no pod shall bring."""
    for found in _in_text(*_RETRIES)(view):
        yield dataclasses.replace(found, certainty="possible", values={"source": "or it has not started yet"})
    for name, row in view.rows.items():
        waiting, source = row.get("waiting_for") or {}, _own_driver(view, name)
        is_waiting = any(
            str(waiting.get(each, "")).startswith("Init:0/") for each in (order.TOOLKIT_NAME, order.VALIDATOR)
        )
        driver = view.facts(name).get("driver")
        if (
            not source
            or not is_waiting
            or order.DRIVER_NAME in waiting
            or (driver is not None and not driver.get("loaded"))
        ):
            continue
        quotes = matches.fact(f"{source}; {waiting}", "the node and the ClusterPolicy", name)
        yield Sighting(name, "", quotes, "likely" if driver else "possible", {"source": source})


def _own_driver(view: View, name: str) -> str:
    """Return what says that the node's host has a driver of its own, or an empty string."""
    label = operands.DRIVER.deploy_label
    value = objects.labels_of(view.nodes.get(name) or {"metadata": {}}).get(label)
    if value == names.PRE_INSTALLED:
        return f"{label}={value}"
    driver = view.evidence.spec.get("driver") or {}
    return "driver.enabled: false" if driver.get("enabled") is False and not driver.get("useNvidiaDriverCRD") else ""


def _stale_label(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes that count as having a driver on the host, and have none."""
    label = operands.DRIVER.deploy_label
    for name in view.rows:
        value = objects.labels_of(view.nodes.get(name) or {"metadata": {}}).get(label)
        driver = view.facts(name).get("driver")
        if value == names.PRE_INSTALLED and driver is not None and not driver.get("loaded"):
            quotes = matches.fact(f"{label}={value}, driver.loaded: {driver.get('loaded')}", "node and host", name)
            yield Sighting(name, "", quotes)


_VALIDATOR = (
    Rule(
        code="ValidatorKnowsNoDriver",
        title="The validator does not find the host's driver",
        severity="failure",
        cause="The operator brings no driver to this node ({source}), and the validator finds none on the host. Either "
        "no driver is loaded, or its files lie where the operator does not look (Talos, NixOS, Gentoo, WSL).",
        remedy="Run `nvidia-smi` on the host. If it fails, install the driver with playbooks/site.yml. If it works, "
        "set hostPaths.driverInstallDir in operator_values to the directory of the driver's files.",
        sources=(f"{_OPERATOR}issues/1687", f"{_OPERATOR}issues/1276", f"{_OPERATOR}issues/487"),
        check=_no_driver,
        patterns=_RETRIES,
        explains=NOT_READY,
        unlike={"DriverRootWrong": _WHOSE_DRIVER},
    ),
    Rule(
        code="WaitsForDriver",
        title="An operand waits for the driver",
        severity="warning",
        cause="The pod waits until the driver is loaded on its node.",
        remedy="Read the log of the node's pod nvidia-driver-daemonset, or run `nvidia-smi` on a host with a driver of "
        "its own.",
        sources=(f"{_OPERATOR}blob/main/assets/state-container-toolkit/0400_configmap.yaml",),
        check=_in_text(_AWAITS_DRIVER),
        patterns=(_AWAITS_DRIVER,),
        explains=frozenset({"WaitsForToolkit"}),
    ),
    Rule(
        code="WaitsForToolkit",
        title="An operand waits for the toolkit",
        severity="warning",
        cause="The pod waits until the toolkit has set up the container runtime of its node.",
        remedy="Read the logs of the node's pods nvidia-container-toolkit-daemonset and nvidia-operator-validator "
        "(`kubectl logs <pod> --all-containers`).",
        sources=(f"{_OPERATOR}blob/main/assets/gpu-feature-discovery/0500_daemonset.yaml", f"{_OPERATOR}issues/378"),
        check=_in_text(_AWAITS_TOOLKIT),
        patterns=(_AWAITS_TOOLKIT,),
    ),
    Rule(
        code="ToolkitNotInEffect",
        title="The validator's container did not get the driver's programs",
        severity="failure",
        cause="The container that tests the toolkit has no nvidia-smi. The container runtime started it without "
        "NVIDIA's runtime, or NVIDIA's runtime did not find the driver.",
        remedy="Delete the node's pod nvidia-container-toolkit-daemonset: a new one configures the runtime again. If "
        "that does not help, look for nvidia in the output of `containerd config dump` (or `crio config`) on the host.",
        sources=(f"{_OPERATOR}issues/1374",),
        check=_without_toolkit,
        patterns=(_NO_SMI,),
        explains=NOT_READY | {"WaitsForToolkit"},
        unlike={"ValidatorNewerThanDriver": _TRY_RUNTIME, "ToolkitRestartsRuntime": _COUNT_RESTARTS},
    ),
    Rule(
        code="PreInstalledLabelStale",
        title="A node is labelled as having its own driver, and has none",
        severity="failure",
        cause=f"The label {operands.DRIVER.deploy_label}={names.PRE_INSTALLED} keeps the operator's driver away, and "
        "the host has no driver loaded.",
        remedy=f"Run `kubectl label node <node> {operands.DRIVER.deploy_label}=true --overwrite`, so that the operator "
        "brings its driver, or install one on the host (role host_driver).",
        sources=(f"{_OPERATOR}issues/398",),
        check=_stale_label,
        explains=NOT_READY,
    ),
    Rule(
        code="DriverOnHostAndInContainer",
        title="The host has a driver, and the operator brings another one",
        severity="warning",
        cause="The operator's driver pod has found a driver on the host, so it installs none there.",
        remedy="If all hosts have a driver, set driver.enabled: false in operator_values. If the operator should bring "
        "the driver, remove that of the host: playbooks/site.yml with gpuops_driver: container and "
        "host_driver_remove: true.",
        sources=(
            f"{_OPERATOR}issues/381",
            "https://github.com/NVIDIA/k8s-driver-manager/blob/main/cmd/driver-manager/main.go",
        ),
        check=matches.of_operands(_FOUND_HOST_DRIVER),
        patterns=(_FOUND_HOST_DRIVER,),
        explains=frozenset({"OperandWaiting", "HostPreflightHostDriver"}),
    ),
    Rule(
        code="ValidatorArchitecture",
        title="The validator's test was not built for this GPU",
        severity="failure",
        cause="The validator's CUDA test does not contain code for this GPU. The GPU is newer or older than those that "
        "this release of the operator supports.",
        remedy="Use a release of the operator that supports the GPU (playbooks/upgrade_operator.yml), or skip the "
        "test with WITH_WORKLOAD=false in validator.cuda.env of operator_values, and run playbooks/site.yml.",
        sources=("https://github.com/NVIDIA/cuda-samples/issues/170", f"{_OPERATOR}issues/2842"),
        check=matches.of_operands(_NO_KERNEL),
        patterns=(_NO_KERNEL,),
        explains=NOT_READY,
    ),
    Rule(
        code="ValidatorNewerThanDriver",
        title="The CUDA test does not work with the driver that it gets",
        severity="failure",
        cause="The driver is older than the CUDA version of the test, or the container got no driver, because it did "
        "not run with the NVIDIA runtime.",
        remedy="Run a pod with runtimeClassName nvidia and the command nvidia-smi on the node. If it works, the driver "
        "is too old: run playbooks/upgrade_driver.yml. If not, delete the node's pod "
        "nvidia-container-toolkit-daemonset, which configures the runtime again.",
        sources=(f"{_OPERATOR}issues/277", f"{_OPERATOR}issues/389", f"{_OPERATOR}pull/1017"),
        check=matches.of_operands(_INSUFFICIENT, certainty="possible"),
        patterns=(_INSUFFICIENT,),
        explains=NOT_READY,
        unlike={"ToolkitNotInEffect": _TRY_RUNTIME, "DevicePluginSeesNoDriver": _TRY_RUNTIME},
    ),
    Rule(
        code="CUDARefusesTest",
        title="CUDA cannot use the GPU for the validator's test",
        severity="failure",
        cause="CUDA reports the GPU as busy or unavailable. A process may have the GPU for itself (compute mode), a "
        "vGPU may have no licence, MIG may be on without MIG devices, or the test may not support so old a GPU.",
        remedy="Run `nvidia-smi` on the host for processes and MIG, `nvidia-smi -q -d COMPUTE` for the compute mode, "
        "and `nvidia-smi -q` for License Status of a vGPU.",
        sources=(f"{_OPERATOR}issues/2842", f"{_OPERATOR}issues/129", "https://github.com/Azure/AKS/issues/4870"),
        check=matches.of_operands(_BUSY, certainty="possible"),
        patterns=(_BUSY,),
        explains=NOT_READY,
    ),
    Rule(
        code="DeviceLinksFail",
        title="The validator cannot create links for the GPU's device files",
        severity="failure",
        cause="The validator cannot create links to the GPU's device files below /dev/char. A container runtime with "
        "systemd cgroups needs them.",
        remedy="Read the rest of this message in the log for the reason. If the runtime uses CDI or cgroupfs, turn "
        "the links off with DISABLE_DEV_CHAR_SYMLINK_CREATION=true in validator.driver.env of operator_values, and run "
        "playbooks/site.yml.",
        sources=(f"{_OPERATOR}issues/430", f"{_OPERATOR}issues/539"),
        check=matches.of_operands(_SYMLINKS),
        patterns=(_SYMLINKS,),
        explains=NOT_READY,
    ),
    Rule(
        code="MountNotShared",
        title="A mount of the host is not shared",
        severity="failure",
        cause="Mounts below {path} must appear in all operands. They do not, because the mount {mount} of the host is "
        "not shared.",
        remedy="Run `mount --make-rshared {mount}` on the host. Do the same at each boot, for example with a systemd "
        "unit before the kubelet.",
        sources=(f"{_OPERATOR}issues/315",),
        check=matches.of_operands(_NOT_SHARED),
        patterns=(_NOT_SHARED,),
        explains=NOT_READY,
    ),
    Rule(
        code="DriverRootWrong",
        title="An operand looks for the driver's files in the wrong place",
        severity="failure",
        cause="{path} does not exist. The operand looks for the operator's driver below /run/nvidia/driver, and "
        "either the host has a driver of its own, or the driver's container has ended.",
        remedy="If `nvidia-smi` works on the host, set driver.enabled: false in operator_values, run "
        "playbooks/site.yml, and delete the node's pod nvidia-container-toolkit-daemonset. Otherwise read the log of "
        "the driver's pod.",
        sources=(f"{_OPERATOR}issues/425",),
        check=matches.of_operands(_WRONG_ROOT, certainty="likely"),
        patterns=(_WRONG_ROOT,),
        explains=NOT_READY,
        unlike={"ValidatorKnowsNoDriver": _WHOSE_DRIVER},
    ),
)

# The toolkit

_TOOLKIT_CONTAINER = "nvidia-container-toolkit-ctr"
_RESTARTS = 3


def _restarting(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose toolkit ends again and again without an error: the restart of the runtime ends it."""
    for pod in view.evidence.pods:
        for container in objects.container_statuses(pod):
            ended = (container.get("lastState") or {}).get("terminated") or {}
            restarts = int(container.get("restartCount") or 0)
            is_clean = ended.get("exitCode") == 0 or ended.get("reason") == "Completed"
            if container["name"] == _TOOLKIT_CONTAINER and restarts >= _RESTARTS and is_clean:
                node, name = str(pod["spec"].get("nodeName") or ""), f"pod {objects.full_name(pod)}"
                quotes = matches.fact(f"restarts: {restarts}, last exit code 0", f"status of {name}", node)
                yield Sighting(node, name, quotes, "likely", {}, order.TOOLKIT_NAME)


_TOOLKIT = (
    Rule(
        code="ToolkitRestartsRuntime",
        title="The toolkit restarts the container runtime in a loop",
        severity="failure",
        cause="The toolkit writes the runtime's configuration and restarts the runtime. The restart ends the toolkit's "
        "own pod, which undoes the configuration and starts again without end.",
        remedy="Update containerd: 1.6.9 to 1.6.11, for example, end all containers when they restart. Or install the "
        "toolkit on the hosts (role host_driver) and set toolkit.enabled: false in operator_values.",
        sources=(f"{_OPERATOR}issues/456", f"{_OPERATOR}issues/432", f"{_OPERATOR}issues/712"),
        check=_restarting,
        explains=NOT_READY,
        unlike={"ToolkitNotInEffect": _COUNT_RESTARTS},
    ),
)

# The device plugin

_CANNOT_REGISTER = pattern(
    r"Could not register device plugin: (?P<why>context deadline exceeded|.*kubelet\.sock.{1,80})",
    "could not register device plugin",
)
_INCOMPATIBLE = (
    pattern(r"Incompatible (?:strategy|platform) detected", "incompatible "),
    pattern(r"could not load NVML library", "could not load nvml library"),
    pattern(r"nvml init failed: ERROR_LIBRARY_NOT_FOUND", "nvml init failed: error_library_not_found"),
    pattern(r"nvml\.Init: error opening libnvidia-ml\.so", "error opening libnvidia-ml.so"),
)
_MARKED = pattern(
    r"XidCriticalError: Xid=(?P<xid>\d+) on Device=(?P<gpu>[\w-]+).{0,4}(?:marking device as unhealthy|the device will "
    r"go unhealthy)",
    "xidcriticalerror",
)
_HEALTH_OFF = pattern(
    r"Failed to start health check: (?P<why>.{1,160}?); continuing with health checks disabled",
    "failed to start health",
)
_DENIED = pattern(
    r"(?:nvml error|Failed to initialize NVML|initialize NVML): insufficient permissions", "insufficient perm"
)

_DEVICES = (
    Rule(
        code="DevicePluginCannotRegister",
        title="The device plugin does not reach the kubelet",
        severity="failure",
        cause="The device plugin cannot register, because no kubelet answers at the socket in the directory "
        "device-plugins that its pod mounts.",
        remedy="If the kubelet's root directory is not /var/lib/kubelet (microk8s, k0s), set hostPaths.kubeletRootDir "
        "in operator_values (from v26.7 on). Otherwise restart the kubelet: `systemctl restart kubelet`.",
        sources=(f"{_PLUGIN}issues/82", "https://github.com/k3s-io/k3s/issues/2664"),
        check=matches.of_operands(_CANNOT_REGISTER),
        patterns=(_CANNOT_REGISTER,),
        explains=NOT_READY,
    ),
    Rule(
        code="DevicePluginSeesNoDriver",
        title="The device plugin's container did not get the driver",
        severity="failure",
        cause="The device plugin, or GPU feature discovery, does not find NVML, a library of the driver. Its container "
        "does not run with the NVIDIA runtime, or the node has no driver.",
        remedy="Run `nvidia-smi` on the host. If it fails, repair the driver first. If it works, check that the pod "
        "has runtimeClassName nvidia, and look for nvidia in `containerd config dump` (or `crio config`) on the host.",
        sources=(
            f"{_PLUGIN}blob/main/internal/plugin/factory.go",
            f"{_PLUGIN}issues/406",
            "https://github.com/NVIDIA/gpu-feature-discovery/issues/25",
        ),
        check=matches.of_operands(*_INCOMPATIBLE, certainty="likely"),
        patterns=_INCOMPATIBLE,
        explains=NOT_READY,
        unlike={"ValidatorNewerThanDriver": _TRY_RUNTIME, "NVMLPermissionDenied": _DENIALS},
    ),
    Rule(
        code="DevicePluginGaveUpGPU",
        title="The device plugin has taken a GPU out of service after an Xid",
        severity="failure",
        cause="GPU {gpu} reported the error Xid {xid}, so the device plugin no longer offers it. It will not offer it "
        "again by itself.",
        remedy="Run playbooks/diagnose.yml with the host in the group gpu_hosts: it says what Xid {xid} demands. When "
        "the GPU is repaired, delete the device plugin's pod of the node.",
        sources=(f"{_PLUGIN}blob/main/internal/rm/health.go", f"{_PLUGIN}issues/189"),
        patterns=(_MARKED,),
        explains=frozenset({"UnhealthyGPUs"}),
    ),
    Rule(
        code="DeviceHealthUnwatched",
        title="The device plugin does not watch the health of the GPUs",
        severity="warning",
        cause="The device plugin could not start its health check ({why}), so it also offers GPUs that have failed.",
        remedy="Run `nvidia-smi` on the host, and repair a GPU that does not answer. Then delete the device plugin's "
        "pod of the node.",
        sources=(f"{_PLUGIN}blob/main/internal/plugin/server.go", f"{_PLUGIN}pull/1641"),
        patterns=(_HEALTH_OFF,),
    ),
    Rule(
        code="NVMLPermissionDenied",
        title="A container may not use the GPU's device files",
        severity="failure",
        cause="A container lacks the permission to use the GPU. Either SELinux denies it, or the container did not get "
        "the device files of the driver.",
        remedy="Run `ausearch -m avc -ts recent` on the host. If it shows denials, install the SELinux policy of the "
        "container runtime (container-selinux). If not, delete the node's pod nvidia-container-toolkit-daemonset, "
        "which configures the runtime again.",
        sources=(
            f"{_OPERATOR}issues/679",
            f"{_OPERATOR}issues/443",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/33",
        ),
        check=matches.of_operands(_DENIED, certainty="possible"),
        patterns=(_DENIED,),
        explains=NOT_READY,
        unlike={"DevicePluginSeesNoDriver": _DENIALS, "SELinuxDenies": _DENIALS},
    ),
)

# Metrics

_PROFILING = (
    pattern(
        r"The third-party Profiling module returned an unrecoverable error|DcgmModuleProfiling failed to initialize",
        "profiling",
    ),
    pattern(
        r"Error watching fields: This request is serviced by a module of DCGM that is not currently loaded",
        "error watching fields",
    ),
)
_NO_ENGINE = (
    pattern(r"Error connecting to nv-hostengine", "error connecting to nv-hostengine"),
    pattern(r"Failed to connect to remote hostengine", "failed to connect to remote hostengine"),
    pattern(r"Both embedded and remote DCGM failed", "both embedded and remote dcgm failed"),
)
_CALLS_ENGINE = (
    pattern(r"Attempting to connect to remote hostengine", "attempting to connect to remote hostengine"),
    pattern(r"msg=\"?Encountered a failure", "encountered a failure"),
)
_ENGINE_ANSWERED = pattern(r"DCGM successfully initialized", "dcgm successfully initialized")


def _no_engine(view: View) -> t.Iterator[Sighting]:
    """Yield the exporters that say so, and those that call DCGM and fail before it answers."""
    yield from matches.of_operands(*_NO_ENGINE)(view)
    said = {seen.text_of(hit) for each in (*_NO_ENGINE, _ENGINE_ANSWERED) for hit in view.hits(each)}
    for hit in seen.together(view, *_CALLS_ENGINE):
        if seen.text_of(hit) not in said:
            yield matches.sighting(hit, "likely")


_NO_PODS = (
    pattern(r"Failed to get pod mappings?", "failed to get pod mapping"),
    pattern(r"failure connecting to '?[\w/.-]*kubelet\.sock", "failure connecting to"),
    pattern(r"No Kubelet socket, ignoring", "no kubelet socket, ignoring"),
    pattern(r"unknown service v1alpha1\.PodResourcesLister", "podresourceslister"),
)
_NO_LABELS = pattern(
    r"Failed to get (?:in-cluster config|clientset), pod labels will not be available",
    "pod labels will not be available",
)
_NO_DCP = pattern(
    r"Not collecting DCP metrics: (?:Error getting supported metrics: )?(?P<why>This request is serviced by a module "
    r"of DCGM that is not currently loaded|Profiling is not supported for this group of GPUs or GPU)",
    "not collecting dcp metrics",
)
_NO_PRIVILEGE = pattern(
    r"doesn't have sufficient privileges to expose profiling metrics", "sufficient privileges to expose profiling"
)


def _silent(view: View) -> t.Iterator[Sighting]:
    """Yield the exporters that are ready and whose metrics lack GPUs of their node."""
    namespace = (view.evidence.stack or {}).get("namespace")
    for row in view.listed("exporters") or []:
        if not row["ok"]:
            name, quotes = f"pod {namespace}/{row['pod']}", matches.fact(row["reason"], "its metrics", row["node"])
            why = row["reason"].rstrip(".")
            yield Sighting(row["node"], name, quotes, "certain", {"why": why}, order.operand_of(name))


_METRICS = (
    Rule(
        code="ExporterSilent",
        title="An exporter is ready, and serves no metrics of its GPUs",
        severity="failure",
        cause="The exporter's pod is ready, and Prometheus gets nothing of its use from it: {why}.",
        remedy="Run `nvidia-smi` on the host. If it hangs or lacks a GPU, repair that first. If it lists all GPUs, "
        "delete the exporter's pod, and read the log of the new one.",
        sources=("https://github.com/NVIDIA/go-dcgm/issues/38", f"{_EXPORTER}issues/250"),
        check=_silent,
    ),
    Rule(
        code="ExporterProfilingFails",
        title="The exporter cannot read profiling metrics",
        severity="failure",
        cause="DCGM's profiling module fails on this node. Another profiler or DCGM uses it, or the GPU, its driver or "
        "its virtual machine does not support it.",
        remedy="Stop another DCGM on the host (`systemctl stop nvidia-dcgm`) and other profilers. If the GPU does not "
        "support it, leave DCGM_FI_PROF_* out with a list of your own metrics (dcgmExporter.config.name in "
        "operator_values, and playbooks/site.yml).",
        sources=(
            f"{_EXPORTER}issues/148",
            f"{_EXPORTER}issues/22",
            "https://github.com/NVIDIA/DCGM/issues/62",
            "https://github.com/NVIDIA/gpu-monitoring-tools/issues/141",
        ),
        check=matches.of_operands(*_PROFILING),
        patterns=_PROFILING,
        explains=NOT_READY | {"ExporterWithoutProfiling"},
        unlike={"ExporterLacksPrivilege": _WHO_PROFILES},
    ),
    Rule(
        code="ExporterWithoutProfiling",
        title="The exporter has no profiling metrics",
        severity="warning",
        cause="DCGM has no profiling metrics on this node, so all DCGM_FI_PROF_* are missing: {why}.",
        remedy="GPUs older than Volta have none: do nothing. For a new GPU, use a newer release of the operator "
        "(playbooks/upgrade_operator.yml). If the log also says that NVML cannot be loaded, the pod does not run with "
        "the NVIDIA runtime.",
        sources=(f"{_EXPORTER}issues/22", f"{_EXPORTER}issues/459", f"{_EXPORTER}issues/707"),
        check=matches.of_operands(_NO_DCP),
        patterns=(_NO_DCP,),
    ),
    Rule(
        code="ExporterLacksPrivilege",
        title="The exporter may not read profiling metrics",
        severity="warning",
        cause="The exporter's container lacks the capability SYS_ADMIN, so it leaves the profiling metrics out.",
        remedy="Find what takes the capability away (an admission policy or a changed DaemonSet) and remove it. Or "
        "leave DCGM_FI_PROF_* out with a list of your own metrics (dcgmExporter.config.name in operator_values, and "
        "playbooks/site.yml).",
        sources=(f"{_EXPORTER}blob/main/internal/pkg/capabilities/capabilities.go",),
        check=matches.of_operands(_NO_PRIVILEGE),
        patterns=(_NO_PRIVILEGE,),
        unlike={"ExporterProfilingFails": _WHO_PROFILES},
    ),
    Rule(
        code="ExporterWithoutDCGM",
        title="The exporter does not reach DCGM",
        severity="failure",
        cause="The exporter must use a DCGM outside its own pod (the pod nvidia-dcgm, or the host), and that DCGM does "
        "not answer.",
        remedy="Read the log of the node's pod nvidia-dcgm, and look for a NetworkPolicy that forbids port 5555. Or "
        "set dcgm.enabled: false in operator_values: then the exporter brings its own DCGM.",
        sources=(f"{_OPERATOR}issues/414", f"{_EXPORTER}issues/61", f"{_OPERATOR}issues/288"),
        check=_no_engine,
        patterns=(*_NO_ENGINE, *_CALLS_ENGINE, _ENGINE_ANSWERED),
        explains=NOT_READY,
        unlike={"HostengineCrashed": seen.DCGM_OR_PATH},
    ),
    Rule(
        code="ExporterWithoutPods",
        title="Metrics do not say which pod uses a GPU",
        severity="warning",
        cause="The exporter cannot ask the kubelet which pod holds which GPU, so its metrics name no pod, namespace or "
        "container.",
        remedy="If the kubelet's root directory is not /var/lib/kubelet, set hostPaths.kubeletRootDir in "
        "operator_values (from v26.7 on). The directory must have the socket pod-resources/kubelet.sock.",
        sources=(f"{_EXPORTER}issues/150", f"{_EXPORTER}blob/main/internal/pkg/transformation/kubernetes.go"),
        check=matches.of_operands(*_NO_PODS),
        patterns=_NO_PODS,
    ),
    Rule(
        code="ExporterWithoutPodLabels",
        title="Metrics lack the labels of pods",
        severity="warning",
        cause="The exporter should add labels of pods to its metrics, and it has no access to the API server.",
        remedy="Run `kubectl rollout restart deployment gpu-operator` in the operator's namespace: the operator then "
        "creates the exporter's service account and role again.",
        sources=(f"{_EXPORTER}blob/main/internal/pkg/transformation/kubernetes.go",),
        check=matches.of_operands(_NO_LABELS),
        patterns=(_NO_LABELS,),
    ),
)

# Memory

_KILLED = pattern(
    r"Memory cgroup out of memory: Killed process \d+ \((?P<container>dcgm-exporter|gpu-operator|nvidia-device-\w*"
    r"|gpu-feature-dis\w*|nvidia-mig-mana\w*|nfd-\w+)\)",
    "memory cgroup out of memory",
)


_KILLED_CONTAINER = pattern(
    r"^OOMKilled: container of the image (?P<image>\S+), memory limit (?P<limit>\S+)$", "oomkilled: container"
)
_KILLED_POD = pattern(r"^OOMKilled: pod (?:[\w.-]+/)?(?P<pod>[\w.-]+)$", "oomkilled: pod")
"""What parts of descriptions and tables of pods say, as explain reads them."""


def _limit(pod: Json, name: str) -> str:
    spec = pod.get("spec") or {}
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        if container["name"] == name:
            return str(((container.get("resources") or {}).get("limits") or {}).get("memory") or "none")
    return "unknown"


def _out_of_memory(view: View) -> t.Iterator[tuple[str, Sighting]]:
    """Yield the containers that were killed for want of memory, each with the code of its rule."""
    for pod in view.evidence.pods:
        for container in objects.container_statuses(pod):
            ends = [(container.get(state) or {}).get("terminated") or {} for state in ("state", "lastState")]
            code = _memory_code(objects.name_of(pod), str(container.get("image") or ""))
            if code and any(end.get("reason") == "OOMKilled" for end in ends):
                yield code, _killed(pod, str(container["name"]))
    for hit in view.hits(_KILLED) if not view.evidence.pods else ():
        process = hit.values["container"]
        yield _memory_code(process, "") or "ContainerOutOfMemory", matches.sighting(hit, limit="see its pod")
    for hit in view.hits(_KILLED_CONTAINER):
        image, code = _program(hit.values["image"]), _memory_code("", hit.values["image"])
        if code:
            yield code, matches.sighting(hit, container=image)
    for hit in view.hits(_KILLED_POD):
        code = _memory_code(hit.values["pod"], "")
        if code:
            yield code, matches.sighting(hit, container=f"of the pod {hit.values['pod']}", limit="see its pod")


def _killed(pod: Json, container: str) -> Sighting:
    name, node = f"pod {objects.full_name(pod)}", str((pod.get("spec") or {}).get("nodeName") or "")
    values = {"container": container, "limit": _limit(pod, container)}
    quotes = matches.fact(f"OOMKilled, memory limit {values['limit']}", f"status of {name}", node)
    return Sighting(node, name, quotes, "certain", values, order.operand_of(name))


def _program(image: str) -> str:
    """Return what an image is: dcgm-exporter of nvcr.io/nvidia/k8s/dcgm-exporter:4.5.1."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _memory_code(pod: str, image: str) -> str:
    """Return the code of the rule for a container by its pod's name and its image. Others' containers have none."""
    program, operand = _program(image), order.operand_of(f"pod {pod}")
    if operand == operands.DCGM_EXPORTER.name or "dcgm-exporter" in (program, pod.rpartition("-")[0], pod):
        return "ExporterOutOfMemory"
    if program == names.OPERATOR or _OPERATOR_POD.fullmatch(pod):
        return "OperatorOutOfMemory"
    is_ours = operand in _OWN or program in _OWN_IMAGES or (pod and not operand)
    return "ContainerOutOfMemory" if is_ours else ""


_OPERATOR_POD = re.compile(rf"{names.OPERATOR}(?:-[0-9a-f]{{6,10}}-[0-9a-z]{{5}})?")
_OWN = {each.name for each in operands.OPERANDS}
_OWN_IMAGES = {
    *("driver", "k8s-driver-manager", "container-toolkit", "gpu-operator-validator", "k8s-device-plugin", "dcgm"),
    *("gpu-feature-discovery", "k8s-mig-manager", "node-feature-discovery", "vgpu-device-manager", "vgpu-manager"),
}


def _memory_rule(code: str, title: str, remedy: str, sources: tuple[str, ...]) -> Rule:
    def check(view: View) -> t.Iterator[Sighting]:
        return (sighting for found, sighting in view.once(_all_out_of_memory) if found == code)

    cause = "The container {container} was killed, because it used more memory than its limit ({limit})."
    explained = NOT_READY | {"OperatorNotAvailable", "OperatorNotUpdated", "OperatorSilent", "DiscoveryNotReady"}
    unlike = {"HostOutOfMemory": seen.HOST_OR_LIMIT}
    patterns = (_KILLED, _KILLED_CONTAINER, _KILLED_POD)
    return Rule(code, title, "failure", cause, remedy, sources, check, patterns, explains=explained, unlike=unlike)


def _all_out_of_memory(view: View) -> list[tuple[str, Sighting]]:
    return list(_out_of_memory(view))


_MEMORY = (
    _memory_rule(
        "OperatorOutOfMemory",
        "The operator needs more memory",
        "Set operator.resources.limits.memory in operator_values to 1Gi and run playbooks/site.yml: 350Mi are too "
        "little from about 300 nodes on.",
        (f"{_OPERATOR}issues/208", f"{_OPERATOR}issues/229"),
    ),
    _memory_rule(
        "ExporterOutOfMemory",
        "The exporter needs more memory",
        "Set dcgmExporter.resources.limits.memory in operator_values to 1Gi and run playbooks/site.yml: 512Mi are too "
        "little for some nodes with 8 GPUs.",
        (f"{_EXPORTER}issues/609", "https://github.com/pytorch/ci-infra/issues/1011"),
    ),
    _memory_rule(
        "ContainerOutOfMemory",
        "A pod of the stack needs more memory",
        "Raise resources.limits.memory of this operand, or of node-feature-discovery, in operator_values and run "
        "playbooks/site.yml.",
        (f"{_OPERATOR}issues/1049",),
    ),
)

# Licences of virtual GPUs

_UNLICENSED = pattern(r"License Status\s*: Unlicensed", "license status")
_GRIDD = pattern(
    r"nvidia-gridd(?:\[\d+\])?: (?:Failed to acquire license|Failed to register client|Valid GRID license not found)",
    "nvidia-gridd",
)

_LICENCES = (
    Rule(
        code="VGPUUnlicensed",
        title="A virtual GPU has no licence",
        severity="failure",
        cause="The virtual GPU has no licence. Its driver works for a while, becomes slow, and then CUDA fails.",
        remedy="Run `journalctl -u nvidia-gridd` on the host, or read the log of the driver's pod: it names the "
        "reason. Check the Secret of driver.licensingConfig (client_configuration_token.tok), and that the node "
        "reaches the licence server.",
        sources=(
            f"{_OPERATOR}issues/220",
            f"{_OPERATOR}issues/663",
            "https://github.com/NVIDIA/nvidia-docker/issues/1787",
        ),
        patterns=(_UNLICENSED, _GRIDD),
        explains=frozenset({"CUDARefusesTest", "OperandWaiting"}),
    ),
)

RULES = (*_VALIDATOR, *_TOOLKIT, *_DEVICES, *_METRICS, *_MEMORY, *_LICENCES)
