# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host paths in the operands' containers. Pod security admission checks them; they are half of a pod's size."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]

_HOST_PATHS = {
    "run-nvidia": "/run/nvidia",
    "run-nvidia-validations": "/run/nvidia/validations",
    "run-nvidia-fabricmanager": "/run/nvidia-fabricmanager",
    "run-nvidia-topologyd": "/run/nvidia-topologyd",
    "driver-install-dir": "/run/nvidia/driver",
    "nv-firmware": "/run/nvidia/driver/lib/firmware",
    "toolkit-root": "/run/nvidia/toolkit",
    "toolkit-install-dir": "/usr/local/nvidia",
    "mps-root": "/run/nvidia/mps",
    "mps-shm": "/run/nvidia/mps/shm",
    "host-root": "/",
    "host-sys": "/sys",
    "host-sys-devices-system": "/sys/devices/system",
    "host-dev-char": "/dev/char",
    "host-os-release": "/etc/os-release",
    "firmware-search-path": "/sys/module/firmware_class/parameters/path",
    "var-log": "/var/log",
    "dev-log": "/dev/log",
    "mlnx-ofed-usr-src": "/run/mellanox/drivers/usr/src",
    "run-mellanox-drivers": "/run/mellanox/drivers",
    "crio-hooks": "/run/containers/oci/hooks.d",
    "cdi-root": "/var/run/cdi",
    "device-plugin": "/var/lib/kubelet/device-plugins",
    "pod-gpu-resources": "/var/lib/kubelet/pod-resources",
    "output-dir": "/etc/kubernetes/node-feature-discovery/features.d",
}
_CONFIG_MAPS = {
    "driver-startup-probe-script": "nvidia-driver-startup-probe",
    "nvidia-container-toolkit-entrypoint": "nvidia-container-toolkit-entrypoint",
    "nvidia-device-plugin-entrypoint": "nvidia-device-plugin-entrypoint",
    "nvidia-mig-manager-entrypoint": "nvidia-mig-manager-entrypoint",
    "gpu-clients": "default-gpu-clients",
    "mig-parted-config": "default-mig-parted-config",
}

METRICS, METRICS_PATH = "metrics-config", "/etc/dcgm-exporter/dcgm-metrics.csv"
"""The volume with the exporter's list of fields, if the ClusterPolicy names one, and where the exporter finds it."""

DEFAULT_JOB_FOLDER = "/var/lib/dcgm-exporter/job-mapping"
"""Where exporters look for the jobs of GPUs if the ClusterPolicy names no folder."""

SHARED_CONFIG = "/available-configs"
"""Where the config manager finds the ConfigMap of the device plugin."""
_READS_CONFIG = ("nvidia-device-plugin", "gpu-feature-discovery", "mps-control-daemon-ctr")

_DOWN, _BOTH = "HostToContainer", "Bidirectional"
_DRIVER_ROOT = ("driver-install-dir", "/driver-root", _DOWN)
_HOST = ("host-root", "/host", _DOWN)
_VALIDATIONS = ("run-nvidia-validations", "/run/nvidia/validations", _BOTH)
_DRIVER_VALIDATION = (
    _VALIDATIONS,
    _HOST,
    ("driver-install-dir", "/run/nvidia/driver", _DOWN),
    ("host-dev-char", "/host-dev-char"),
)
_MELLANOX = ("run-mellanox-drivers", "/run/mellanox/drivers", _DOWN)

_MOUNTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "driver-validation": _DRIVER_VALIDATION,
    "k8s-driver-manager": (("run-nvidia", "/run/nvidia", _BOTH), _HOST, ("host-sys", "/sys"), _MELLANOX),
    "nvidia-driver-ctr": (
        ("run-nvidia", "/run/nvidia", _BOTH),
        ("run-nvidia-fabricmanager", "/run/nvidia-fabricmanager"),
        ("run-nvidia-topologyd", "/run/nvidia-topologyd"),
        ("var-log", "/var/log"),
        ("dev-log", "/dev/log"),
        ("host-os-release", "/host-etc/os-release"),
        ("mlnx-ofed-usr-src", "/run/mellanox/drivers/usr/src", _DOWN),
        _MELLANOX,
        ("host-sys-devices-system", "/sys/devices/system"),
        ("firmware-search-path", "/sys/module/firmware_class/parameters/path"),
        ("nv-firmware", "/lib/firmware"),
        ("driver-startup-probe-script", "/usr/local/bin/startup-probe.sh"),
    ),
    "nvidia-container-toolkit-ctr": (
        ("nvidia-container-toolkit-entrypoint", "/bin/entrypoint.sh"),
        ("toolkit-root", "/run/nvidia/toolkit"),
        _VALIDATIONS,
        ("toolkit-install-dir", "/usr/local/nvidia"),
        ("crio-hooks", "/usr/share/containers/oci/hooks.d"),
        _DRIVER_ROOT,
        _HOST,
        ("cdi-root", "/var/run/cdi"),
    ),
    "nvidia-device-plugin": (
        ("nvidia-device-plugin-entrypoint", "/bin/entrypoint.sh"),
        ("device-plugin", "/var/lib/kubelet/device-plugins"),
        _VALIDATIONS,
        _DRIVER_ROOT,
        _HOST,
        ("cdi-root", "/var/run/cdi"),
        ("mps-shm", "/dev/shm"),
        ("mps-root", "/mps"),
    ),
    "mps-control-daemon-mounts": (("mps-root", "/mps", _BOTH),),
    "mps-control-daemon-ctr": (("mps-shm", "/dev/shm"), ("mps-root", "/mps")),
    "nvidia-dcgm-exporter": (("pod-gpu-resources", "/var/lib/kubelet/pod-resources"), (METRICS, METRICS_PATH)),
    "gpu-feature-discovery": (
        ("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"),
        ("host-sys", "/sys"),
    ),
    "nvidia-mig-manager": (
        ("nvidia-mig-manager-entrypoint", "/bin/entrypoint.sh"),
        _VALIDATIONS,
        ("host-sys", "/sys"),
        _HOST,
        ("gpu-clients", "/gpu-clients"),
        ("mig-parted-config", "/mig-parted-config"),
        _DRIVER_ROOT,
        ("cdi-root", "/var/run/cdi"),
    ),
    "nvidia-node-status-exporter": (("run-nvidia", "/run/nvidia", _DOWN), _HOST),
}
"""By container: volume, mount path, and mount propagation. Other containers mount only the validations."""


def mount(
    pod: Json,
    config_maps: t.Mapping[str, str] | None = None,
    plugin_config: str | None = None,
    job_folder: str = "",
) -> Json:
    """Add mounts and privileges to every container of a pod's spec, and the volumes to the pod.

    ``config_maps`` has the ConfigMaps that a user put in the place of the operator's own, by volume.
    ``plugin_config`` is the ConfigMap of the device plugin; None if the pod does not read it. ``job_folder`` is where
    an exporter finds the jobs of GPUs.
    """
    maps = {**_CONFIG_MAPS, **(config_maps or {})}
    used: dict[str, None] = {}
    for container in [*pod["initContainers"], *pod["containers"]]:
        rows = [row for row in _MOUNTS.get(container["name"], (_VALIDATIONS,)) if row[0] != METRICS or METRICS in maps]
        used |= dict.fromkeys(row[0] for row in rows)
        container["securityContext"] = {"privileged": True}
        container["volumeMounts"] = [
            {
                "name": name,
                "mountPath": path,
                **({"mountPropagation": how[0]} if how else {}),
                **({"subPath": path.rpartition("/")[2]} if path.endswith((".sh", ".csv")) else {}),
            }
            for name, path, *how in rows
        ]
        if plugin_config and container["name"] in (*_READS_CONFIG, "config-manager", "config-manager-init"):
            shared = {plugin_config: SHARED_CONFIG, "config": "/config"}
            container["volumeMounts"] += [{"name": name, "mountPath": path} for name, path in shared.items()]
    volumes = [_volume(name, maps) for name in used]
    if plugin_config:
        volumes += [{"name": plugin_config, "configMap": {"name": plugin_config}}, {"name": "config", "emptyDir": {}}]
    if job_folder:
        jobs = {"name": "hpc-job-mapping", "readOnly": True, "mountPath": job_folder}
        pod["containers"][0]["volumeMounts"].append(jobs)
        folder = {"path": job_folder, "type": "DirectoryOrCreate"}
        volumes.append({"name": "hpc-job-mapping", "hostPath": folder})
    return {**pod, "volumes": volumes}


def _volume(name: str, config_maps: t.Mapping[str, str]) -> Json:
    if name in config_maps:
        return {"name": name, "configMap": {"name": config_maps[name]}}
    return {"name": name, "hostPath": {"path": _HOST_PATHS[name]}}
