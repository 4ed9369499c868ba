# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The DaemonSets that the operator writes, and the objects that belong to them."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field

from lab.cluster.nodes.agents.mig import default_map
from lab.cluster.operator.standin.images import KERNEL, ReconcileError, driver_image, image, kernel_suffix
from lab.cluster.operator.standin.mounts import DEFAULT_JOB_FOLDER, METRICS, METRICS_PATH, SHARED_CONFIG, mount
from lab.cluster.operator.standin.operands import VALIDATOR, Init, Json, Operand

HASH = "nvidia.com/last-applied-hash"
DIGEST = "DRIVER_CONFIG_DIGEST"
BUILT_IN_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_ONE_DRIVER = {
    "labelSelector": {
        "matchExpressions": [
            {"key": "app.kubernetes.io/component", "operator": "In", "values": ["nvidia-driver", "nvidia-vgpu-manager"]}
        ]
    },
    "topologyKey": "kubernetes.io/hostname",
}
"""A driver pod waits until the previous driver pod has left the node, whichever object owned it."""
_SIDECARS: tuple[tuple[str, t.Callable[[Json], t.Any], str | None, str], ...] = (
    ("nvidia-peermem-ctr", lambda spec: (spec["driver"].get("rdma") or {}).get("enabled"), None, ""),
    ("nvidia-fs-ctr", lambda spec: (spec.get("gds") or {}).get("enabled"), "gds", "GDS_IMAGE"),
    ("nvidia-gdrcopy-ctr", lambda spec: (spec.get("gdrcopy") or {}).get("enabled"), "gdrcopy", "GDRCOPY_IMAGE"),
)
_PROCESSES = {
    "nvidia-device-plugin": "nvidia-device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "mps-control-daemon-ctr": "/usr/bin/mps-control-daemon",
}
"""The process that a config manager sends a signal to, by the first container of its pod."""
_STARTUP_PROBE = {
    "initialDelaySeconds": 60,
    "failureThreshold": 120,
    "successThreshold": 1,
    "periodSeconds": 10,
    "timeoutSeconds": 60,
}


@dataclass(frozen=True)
class Site:
    """What a rendering depends on besides the spec."""

    namespace: str
    owner: Json
    """The ClusterPolicy, or an NVIDIADriver in the shape of one."""
    env: t.Mapping[str, str] = field(default_factory=dict)
    """The operator's environment, from its Deployment."""
    os_tag: str = ""
    kernels: t.Mapping[str, str] = field(default_factory=dict)
    """The kernels of the GPU nodes, each with its operating system."""
    kind: tuple[str, str] = ("nvidia.com/v1", "ClusterPolicy")
    """The API version and kind of the owner."""

    @property
    def spec(self) -> Json:
        """The owner's spec."""
        return t.cast(Json, self.owner["spec"])

    def metadata(self, name: str, labels: Json | None = None, *, namespaced: bool = True) -> Json:
        """Return the metadata of an object that is removed with its owner."""
        version, kind = self.kind
        owner = {
            "apiVersion": version,
            "kind": kind,
            "name": self.owner["metadata"]["name"],
            "uid": self.owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {
            "name": name,
            "ownerReferences": [owner],
            **({"namespace": self.namespace} if namespaced else {}),
            **({"labels": labels} if labels else {}),
        }


def block(spec: Json, path: str) -> Json:
    """Return the block of the spec at a dotted path; an empty one if it is not set."""
    for key in path.split("."):
        spec = spec.get(key) or {}
    return spec


def daemonsets(operand: Operand, site: Site) -> list[Json]:
    """Return the DaemonSets of an operand: one, or one per kernel for precompiled drivers."""
    if operand.state != "state-driver" or not site.spec["driver"].get("usePrecompiled"):
        return [daemonset(operand, site)]
    for name in ("gds", "gdrcopy"):
        if block(site.spec, name).get("enabled"):
            raise ReconcileError(f"{name} driver is not supported along with pre-compiled NVIDIA drivers")
    return [daemonset(operand, site, kernel) for kernel in sorted(site.kernels)]


def daemonset(operand: Operand, site: Site, kernel: str | None = None) -> Json:
    """Return a DaemonSet with its hash."""
    suffix = f"-{kernel_suffix(kernel)}-{site.kernels[kernel]}" if kernel else ""
    own = dict(operand.selected)
    if operand.state == "state-driver":
        own |= {"app.kubernetes.io/component": "nvidia-driver", "nvidia.com/precompiled": str(bool(kernel)).lower()}
    result: Json = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": site.metadata(operand.daemonset + suffix, {"app": operand.daemonset, **own}),
        "spec": {
            "selector": {"matchLabels": operand.selected},
            "updateStrategy": _strategy(operand, block(site.spec, "daemonsets")),
            "template": {"metadata": _pod_metadata(operand, site.spec, own), "spec": _pod(operand, site, kernel)},
        },
    }
    return hashed(result)


def hashed(daemonset: Json) -> Json:
    """Add the hash by which the operator recognizes what it has written."""
    metadata = daemonset["metadata"]
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        HASH: _digest([metadata["labels"], daemonset["spec"]]),
    }
    return daemonset


def _strategy(operand: Operand, common: Json) -> Json:
    if operand.on_delete or common.get("updateStrategy") == "OnDelete":
        return {"type": "OnDelete"}
    most = (common.get("rollingUpdate") or {}).get("maxUnavailable") or "1"
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": int(most) if str(most).isdigit() else most, "maxSurge": 0},
    }


def _pod_metadata(operand: Operand, spec: Json, own: Json) -> Json:
    common = block(spec, "daemonsets")
    kept = {
        key: value
        for key, value in (common.get("labels") or {}).items()
        if key not in ("app", "app.kubernetes.io/part-of")
    }
    annotations = {**(common.get("annotations") or {}), **(block(spec, operand.spec).get("annotations") or {})}
    return {"labels": {**own, **kept}, **({"annotations": annotations} if annotations else {})}


def _pod(operand: Operand, site: Site, kernel: str | None) -> Json:
    spec, own = site.spec, block(site.spec, operand.spec)
    common = block(spec, "daemonsets")
    containers = _containers(operand, site, kernel)
    pod: Json = {
        "serviceAccountName": operand.account,
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        "nodeSelector": {operand.node_label: "true", **dict(operand.needs), **({KERNEL: kernel} if kernel else {})},
        # Tolerations in the spec replace the built-in toleration.
        "tolerations": common.get("tolerations") or [BUILT_IN_TOLERATION],
        "initContainers": [_init(operand, entry, site) for entry in _init_containers(operand, spec)],
        "containers": containers,
    }
    chosen = block(spec, "migManager.config").get("name")
    plugin = block(spec, "devicePlugin.config").get("name") if operand.shares_gpus else None
    named = {"mig-parted-config": chosen} if chosen else {}
    fields = block(spec, "dcgmExporter.config").get("name") if operand.spec == "dcgmExporter" else None
    named |= {METRICS: fields} if fields else {}
    folder = job_folder(spec) if operand.spec == "dcgmExporter" else ""
    return mount(pod | _host_access(operand, own) | _optional(operand, spec), named, plugin, folder)


def job_folder(spec: Json) -> str:
    """Return the folder in which exporters find the jobs of GPUs, or an empty string."""
    mapping = block(spec, "dcgmExporter.hpcJobMapping")
    return str(mapping.get("directory") or DEFAULT_JOB_FOLDER) if mapping.get("enabled") else ""


def _host_access(operand: Operand, own: Json) -> Json:
    access: Json = {}
    if operand.host_pid or own.get("hostPID"):
        access["hostPID"] = True
    if own.get("hostNetwork"):
        access["hostNetwork"] = True
    if own.get("imagePullSecrets"):
        access["imagePullSecrets"] = [{"name": name} for name in own["imagePullSecrets"]]
    return access


def _optional(operand: Operand, spec: Json) -> Json:
    fields: Json = {}
    context = block(spec, "daemonsets").get("podSecurityContext")
    if context:
        fields["securityContext"] = context
    if operand.on_delete:
        fields["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_ONE_DRIVER]}}
    if operand.runtime_class and not block(spec, "cdi").get("nriPluginEnabled"):
        fields["runtimeClassName"] = block(spec, "operator").get("runtimeClass") or "nvidia"
    return fields


def _init_containers(operand: Operand, spec: Json) -> t.Iterator[Init]:
    plugin = block(spec, "devicePlugin").get("enabled", True)
    for entry in operand.init:
        if entry.name != "plugin-validation" or plugin:
            yield entry
    if operand.shares_gpus and block(spec, "devicePlugin.config").get("name"):
        yield Init("config-manager-init", None)


def _init(operand: Operand, entry: Init, site: Site) -> Json:
    path = entry.image_of or operand.spec
    env_name = {VALIDATOR: "VALIDATOR_IMAGE", "driver.manager": "DRIVER_MANAGER_IMAGE"}.get(path, operand.image_env)
    source = block(site.spec, path)
    env = [{"name": name, "value": value} for name, value in entry.env]
    if entry.name == "config-manager-init":
        env += _config_manager(site.spec, "")
    part = entry.name.removesuffix("-validation")
    extra = source.get("env") if path.endswith("anager") else block(source, part).get("env")
    return {
        "name": entry.name,
        "image": image(source, env_name, site.env),
        "imagePullPolicy": _pull_policy(source),
        "env": merged(env, extra),
    }


def _containers(operand: Operand, site: Site, kernel: str | None) -> list[Json]:
    spec, own = site.spec, block(site.spec, operand.spec)
    first: Json = {
        "name": operand.container,
        "image": _image(operand, site, kernel),
        "imagePullPolicy": _pull_policy(own),
    }
    first["env"] = merged(_env(operand, spec), own.get("env"))
    for key in ("args", "resources"):
        if own.get(key):
            first[key] = own[key]
    if operand.ports:
        first["ports"] = [{"name": name, "containerPort": port} for name, port in operand.ports]
    containers = [first]
    if operand.shares_gpus and block(spec, "devicePlugin.config").get("name"):
        sidecar = {"name": "config-manager", "env": _config_manager(spec, _PROCESSES[operand.container])}
        containers.append({**sidecar, **{key: first[key] for key in ("image", "imagePullPolicy")}})
    if operand.state == "state-driver":
        first |= _probes(own)
        containers += _sidecars(site, first)
        inputs = [[part.get(key) for key in ("name", "image", "env", "args")] for part in containers]
        first["env"] = merged(first["env"], [{"name": DIGEST, "value": _digest(inputs)}])
    return containers


def _probes(driver: Json) -> Json:
    """Return the probes of the driver container. The startup probe allows 21 minutes for a build."""
    command = {"exec": {"command": ["sh", "/usr/local/bin/startup-probe.sh"]}}
    found: Json = {"startupProbe": {**command, **_STARTUP_PROBE, **(driver.get("startupProbe") or {})}}
    smi = {"exec": {"command": ["sh", "-c", "nvidia-smi"]}}
    return found | {name: {**smi, **driver[name]} for name in ("livenessProbe", "readinessProbe") if driver.get(name)}


def _config_manager(spec: Json, process: str) -> list[Json]:
    """Return the environment of a config manager. The sidecar tells a process when the node's label has changed."""
    values = {
        "ONESHOT": str(not process).lower(),
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": SHARED_CONFIG,
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": block(spec, "devicePlugin.config").get("default") or "",
        "SEND_SIGNAL": str(bool(process)).lower(),
        "SIGNAL": "1" if process else "",
        "PROCESS_TO_SIGNAL": process,
        "FALLBACK_STRATEGIES": "empty",
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _sidecars(site: Site, driver: Json) -> t.Iterator[Json]:
    for name, wanted, path, env_name in _SIDECARS:
        if wanted(site.spec):
            source = block(site.spec, path) if path else site.spec["driver"]
            path_of_image = driver_image(source, env_name, site.env, site.os_tag) if path else driver["image"]
            yield {
                "name": name,
                "image": path_of_image,
                "imagePullPolicy": _pull_policy(source),
                "env": source.get("env") or [],
            }


def _image(operand: Operand, site: Site, kernel: str | None) -> str:
    own = block(site.spec, operand.spec)
    if operand.spec in ("driver", "vgpuManager"):
        return driver_image(own, operand.image_env, site.env, site.os_tag, kernel)
    return image(own, operand.image_env, site.env)


def _env(operand: Operand, spec: Json) -> list[Json]:
    values: dict[str, str] = {}
    if operand.state == "state-driver":
        values["KERNEL_MODULE_TYPE"] = block(spec, "driver").get("kernelModuleType") or "auto"
    if operand.mig_strategy and block(spec, "mig").get("strategy"):
        values["MIG_STRATEGY"] = spec["mig"]["strategy"]
    if operand.state == "state-mig-manager":
        chosen = block(spec, "migManager.config").get("name")
        key = "CONFIG_FILE" if chosen else "DEFAULT_CONFIG_FILE"
        values[key] = f"/mig-parted-config/config{'' if chosen else '-default'}.yaml"
    if operand.shares_gpus and block(spec, "devicePlugin.config").get("name"):
        values["CONFIG_FILE"] = "/config/config.yaml"
    if operand.spec == "dcgmExporter":
        chosen = block(spec, "dcgmExporter.config").get("name")
        values["DCGM_EXPORTER_COLLECTORS"] = METRICS_PATH if chosen else "/etc/dcgm-exporter/dcp-metrics-included.csv"
        if folder := job_folder(spec):
            values["DCGM_HPC_JOB_MAPPING_DIR"] = folder
    return [{"name": name, "value": value} for name, value in sorted(values.items())]


def merged(env: list[Json], extra: list[Json] | None) -> list[Json]:
    """Return environment variables. A later variable replaces an earlier one of the same name."""
    return list({entry["name"]: entry for entry in [*env, *(extra or [])]}.values())


def _pull_policy(source: Json) -> str:
    policy = source.get("imagePullPolicy")
    return policy if policy in ("Always", "Never", "IfNotPresent") else "IfNotPresent"


def _digest(value: t.Any) -> str:
    return str(int.from_bytes(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:4], "big"))


def companions(operand: Operand, site: Site, account: str | None = None) -> list[tuple[str, Json]]:
    """Return the objects that an operand needs besides its DaemonSet, each with the path of its collection."""
    core = f"/api/v1/namespaces/{site.namespace}"
    found = [
        (
            f"{core}/serviceaccounts",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": site.metadata(account or operand.account)},
        )
    ]
    for name in operand.config_maps:
        found.append(
            (
                f"{core}/configmaps",
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata(name), "data": _data(name)},
            )
        )
    if operand.service:
        found.append((f"{core}/services", service(*operand.service, operand.selected, site)))
    return found


def service_monitor(site: Site) -> Json | None:
    """Return the ServiceMonitor of the exporters, or None if the ClusterPolicy has none of it."""
    own, app = block(site.spec, "dcgmExporter.serviceMonitor"), "nvidia-dcgm-exporter"
    if not own.get("enabled"):
        return None
    metadata = site.metadata(app)
    metadata["labels"] = {**metadata.get("labels", {}), "app": app, **(own.get("additionalLabels") or {})}
    endpoint: Json = {"port": "gpu-metrics", "path": "/metrics", "honorLabels": bool(own.get("honorLabels"))}
    endpoint |= {"interval": own["interval"]} if own.get("interval") else {}
    endpoint |= {"relabelings": own["relabelings"]} if own.get("relabelings") else {}
    spec = {
        "jobLabel": "app",
        "endpoints": [endpoint],
        "selector": {"matchLabels": {"app": app}},
        "namespaceSelector": {"matchNames": [site.namespace]},
    }
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": metadata, "spec": spec}


def _data(config_map: str) -> dict[str, str]:
    """Return the content of a ConfigMap of the operator, if somebody reads it."""
    return {"config.yaml": default_map()} if config_map == "default-mig-parted-config" else {}


def service(name: str, port: int, selector: Json, site: Site) -> Json:
    """Return a Service with one port."""
    ports = [{"name": "metrics", "port": port, "targetPort": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": site.metadata(name, {"app": name}),
        "spec": {"selector": selector, "ports": ports},
    }


def runtime_classes(site: Site) -> dict[str, Json | None]:
    """Return the RuntimeClasses by name; None for one to remove."""
    name = block(site.spec, "operator").get("runtimeClass") or "nvidia"
    cdi = block(site.spec, "cdi")
    nri = cdi.get("nriPluginEnabled", False)
    extra = cdi.get("enabled", True) and not nri

    def made(handler: str) -> Json:
        labels = {"app.kubernetes.io/component": "gpu-operator"}
        metadata = site.metadata(handler, labels, namespaced=False)
        return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": metadata, "handler": handler}

    return {
        name: None if nri else made(name),
        "nvidia-cdi": made("nvidia-cdi") if extra else None,
        "nvidia-legacy": made("nvidia-legacy") if extra else None,
    }
