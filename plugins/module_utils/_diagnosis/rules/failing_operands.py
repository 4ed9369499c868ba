# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Operands whose pods run and fail: the validator, the toolkit, the device plugin, the exporter, and licences."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches, order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_OPERATOR = "https://github.com/NVIDIA/gpu-operator/"
_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin/"
_EXPORTER = "https://github.com/NVIDIA/dcgm-exporter/"

# The validator


TRY_RUNTIME = (
    "Run a pod with runtimeClassName nvidia and the command nvidia-smi on the node. If it works, containers get the "
    "driver, and the driver is too old for the test. If it finds no nvidia-smi, the container runtime is the cause."
)
COUNT_RESTARTS = (
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
        unlike={"ToolkitNotInEffect": COUNT_RESTARTS},
    ),
)

# The device plugin

_CANNOT_REGISTER = pattern(
    r"Could not register device plugin: (?P<why>context deadline exceeded|.*kubelet\.sock.{1,80})",
    "could not register device plugin",
)
_INCOMPATIBLE = (
    pattern(r"Incompatible (?:strategy|platform) detected", "incompatible "),
    pattern(
        r"invalid device discovery strategy|unsupported strategy \W?auto\b",
        "strategy",
        of=("device-plugin", "feature-discovery"),
    ),
    pattern(r"could not load NVML library", "could not load nvml library"),
    pattern(r"Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND", "failed to initialize nvml: error_library"),
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
            f"{_PLUGIN}issues/1470",
            "https://github.com/NVIDIA/gpu-feature-discovery/issues/25",
        ),
        check=matches.of_operands(*_INCOMPATIBLE, certainty="likely"),
        patterns=_INCOMPATIBLE,
        explains=NOT_READY,
        unlike={"ValidatorNewerThanDriver": TRY_RUNTIME, "NVMLPermissionDenied": _DENIALS},
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


_NO_CACHE = pattern(r"CacheManager Init Failed\. Error: (?P<code>-\d+)", "cachemanager init failed")

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
        cause="The exporter's pod is ready, and Prometheus gets no figures of GPU use from it: {why}.",
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
        remedy="GPUs older than Volta lack these metrics, which is normal. For a new GPU, use a newer release of the "
        "operator (playbooks/upgrade_operator.yml). If the log also says that NVML cannot be loaded, the pod does not "
        "run with the NVIDIA runtime.",
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
        code="DCGMDoesNotStart",
        title="DCGM does not start on the node",
        severity="failure",
        cause="DCGM cannot set up its watches of the GPUs (error {code}), so there are no metrics. NVML lists a GPU or "
        "a MIG instance that DCGM cannot open.",
        remedy="Run nvidia-smi -L in the container: it must list each GPU and MIG device without an error. If it does, "
        "run dcgmi discovery -l for the one that DCGM refuses, and use a newer DCGM (playbooks/upgrade_operator.yml). "
        "With MIG, the container also needs the files below /dev/nvidia-caps.",
        sources=(f"{_EXPORTER}issues/443", f"{_EXPORTER}issues/747"),
        patterns=(_NO_CACHE,),
        certainty="likely",
        explains=NOT_READY,
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
        explains=frozenset({"CUDARefusesTest", "OperandWaiting", "DevicesLostAfterReload"}),
    ),
)

RULES = (*_TOOLKIT, *_DEVICES, *_METRICS, *_LICENCES)
