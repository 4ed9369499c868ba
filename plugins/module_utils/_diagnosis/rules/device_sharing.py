# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Sharing that is not in effect: the device plugin, its configuration and MPS."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin/blob/main/"

_MIXED = pattern(
    r"more than one MIG device type present on node"
    r"|all devices on the node must be configured with the same migEnabled value",
    "device",
)

_NO_DEVICES = pattern(
    r"at least one device with migEnabled=true was not configured correctly: .*has no MIG devices configured",
    "has no mig devices configured",
)

_NO_KEY = pattern(r"specified config (?P<key>[\w.-]+) does not exist", "specified config")

_NO_FILES = pattern(r"no configuration files available", "no configuration files available", "pod")

_LINK = pattern(r"error creating symlink: symlink \S+ \S+: file exists", "error creating symlink")

_BAD = pattern(
    r"(?:unable to load config|unable to finalize config|unable to validate flags): (?!\(\d+, \d+\))(?P<why>.{1,240})",
    "unable to ",
    of=("device-plugin", "feature-discovery"),
)
"""The toolkit uses the same words for the configuration of the container runtime."""

_NO_MPS = pattern(
    r"(?P<why>using --mig-strategy=mixed is not supported with MPS|sharing using MPS is not supported for MIG devices"
    r"|MPS sharing is not supported for mig devices)",
    "mps",
)

_NO_DAEMON = pattern(r"error waiting for MPS daemon|MPS daemon is not ready", "mps daemon")

_SERVER_DIES = (
    pattern(r"\bServer encountered a fatal exception\. Shutting down", "server encountered a fatal exception"),
    pattern(r"\bControl +\d+\] Server \d+ exited with status [1-9]", "exited with status"),
    pattern(r"\bLegacy Server +\d+\] Failed to start", "failed to start"),
)

_DAEMON_OR_SERVER = (
    "Run `kubectl get pods -o wide` for the MPS control daemon: if it is not ready, the daemon itself fails; if it is, "
    "its servers do."
)

_CONFIGURED = frozenset(NOT_READY | {"UnhealthyGPUs", "SharingNotInEffect"})


def _not_shared(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes whose configuration asks for shares, and that offer whole GPUs."""
    source = ((view.evidence.spec.get("devicePlugin") or {}).get("config")) or {}
    maps = {objects.name_of(item): item.get("data") or {} for item in view.listed("configmaps") or []}
    texts = maps.get(source.get("name") or "")
    for name, row in view.rows.items() if texts else ():
        key = row["sharing"]["config"] or source.get("default") or ""
        shares = _shares(texts.get(key) or "") if texts else None
        offered = max((part["replicas"] or 1 for part in row["slices"]), default=None)
        if (
            shares
            and offered == 1
            and not row["waiting_for"]
            and not any(".shared" in each for each in row["allocatable"])
        ):
            quotes = matches.fact(f"configuration {key} asks for {shares} replicas, replicas: 1", "labels", name)
            yield Sighting(name, "", quotes, "likely", {"key": key, "name": str(source["name"])})


def _shares(text: str) -> str:
    """Return the number of shares that a configuration of the device plugin asks for, without a YAML library."""
    lines = [line.strip() for line in text.splitlines() if not line.strip().startswith("#")]
    if not any(line in ("sharing:", "timeSlicing:", "mps:") for line in lines):
        return ""
    found = [line.removeprefix("- ").removeprefix("replicas:").strip() for line in lines if "replicas:" in line]
    return next((number for number in found if number.isdecimal() and int(number) > 1), "")


RULES = (
    Rule(
        code="MIGMixedUnderSingle",
        title="The MIG devices of a node differ, and the strategy is single",
        severity="failure",
        cause="With mig.strategy single, all GPUs of a node must have the same MIG devices, or none. Those of this "
        "node differ, so the device plugin offers no GPU.",
        remedy="Apply one layout to all GPUs of the node with playbooks/mig.yml, or set mig.strategy: mixed in "
        "operator_values and run playbooks/site.yml. With mixed, pods ask for nvidia.com/mig-<profile>.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/460",
            f"{_PLUGIN}internal/rm/device_map.go",
        ),
        patterns=(_MIXED,),
        explains=NOT_READY | {"MIGInvalid", "UnhealthyGPUs"},
    ),
    Rule(
        code="MIGDevicesMissing",
        title="The device plugin finds a GPU in MIG mode without MIG devices",
        severity="failure",
        cause="MIG is on for a GPU of this node, and it has no MIG devices, so the device plugin offers no GPU.",
        remedy=f"Apply a layout with playbooks/mig.yml, or {names.MIG_CONFIG}={names.MIG_DISABLED} to turn MIG off.",
        sources=(f"{_PLUGIN}internal/rm/device_map.go",),
        patterns=(_NO_DEVICES,),
        explains=NOT_READY | {"MIGInvalid", "UnhealthyGPUs"},
    ),
    Rule(
        code="PluginConfigMissing",
        title="A configuration of the device plugin does not exist",
        severity="failure",
        cause=f"The node's label {names.PLUGIN_CONFIG} (or devicePlugin.config.default) names the configuration "
        "{key}, and the device plugin's ConfigMap does not have it.",
        remedy="Add it to sharing_configs and run playbooks/sharing.yml, or correct the label.",
        sources=(f"{_PLUGIN}cmd/config-manager/main.go",),
        patterns=(_NO_KEY,),
        explains=_CONFIGURED,
    ),
    Rule(
        code="PluginConfigEmpty",
        title="The device plugin's ConfigMap has no configuration",
        severity="failure",
        cause="The ConfigMap that devicePlugin.config.name of the ClusterPolicy names is empty.",
        remedy="Write configurations in sharing_configs and run playbooks/sharing.yml, or remove "
        "devicePlugin.config.name from operator_values and run playbooks/site.yml.",
        sources=(f"{_PLUGIN}cmd/config-manager/main.go",),
        patterns=(_NO_FILES,),
        explains=_CONFIGURED,
    ),
    Rule(
        code="PluginConfigStuck",
        title="The device plugin's pod cannot change its configuration",
        severity="failure",
        cause="The pod holds a link to its former configuration and cannot replace it, so it keeps the former one.",
        remedy="Delete the pod with `kubectl delete pod`. Its DaemonSet creates a new one, which reads the new "
        "configuration.",
        sources=("https://github.com/NVIDIA/k8s-device-plugin/issues/364", f"{_PLUGIN}cmd/config-manager/main.go"),
        patterns=(_LINK,),
        explains=_CONFIGURED,
    ),
    Rule(
        code="PluginConfigInvalid",
        title="The device plugin refuses its configuration",
        severity="failure",
        cause="The device plugin and GPU Feature Discovery cannot read their configuration, so they end: {why}.",
        remedy="Correct it in sharing_configs and run playbooks/sharing.yml, which checks it first. Without our "
        "playbook, correct the ConfigMap that devicePlugin.config.name names.",
        sources=(f"{_PLUGIN}api/config/v1/config.go", f"{_PLUGIN}api/config/v1/replicas.go"),
        patterns=(_BAD,),
        explains=_CONFIGURED,
    ),
    Rule(
        code="MPSNotSupported",
        title="MPS does not work with MIG",
        severity="failure",
        cause="The device plugin's configuration shares GPUs by MPS, and that does not work with MIG: {why}.",
        remedy="Use time-slicing instead of MPS for these nodes (sharing_configs of playbooks/sharing.yml), or turn "
        "MIG off there with playbooks/mig.yml.",
        sources=(f"{_PLUGIN}cmd/nvidia-device-plugin/main.go", f"{_PLUGIN}internal/lm/nvml.go"),
        patterns=(_NO_MPS,),
        explains=_CONFIGURED | {"PluginConfigInvalid", "MPSDaemonMissing"},
    ),
    Rule(
        code="MPSDaemonMissing",
        title="The device plugin waits for the MPS daemon",
        severity="failure",
        cause="The configuration shares GPUs by MPS, and the pod of the MPS control daemon is not ready on the node.",
        remedy="Find the pod nvidia-device-plugin-mps-control-daemon of this node with `kubectl get pods -o wide`, and "
        "read its log. See devicePlugin.mps.root in the ClusterPolicy, too: the chart does not set it.",
        sources=(f"{_PLUGIN}internal/plugin/server.go",),
        check=matches.of_operands(_NO_DAEMON, certainty="likely"),
        patterns=(_NO_DAEMON,),
        explains=_CONFIGURED,
        unlike={"MPSServerDies": _DAEMON_OR_SERVER},
    ),
    Rule(
        code="MPSServerDies",
        title="The MPS server ends as soon as a program uses it",
        severity="failure",
        cause="The MPS control daemon runs, and each server that it starts for a program ends at once. So programs on "
        "shared GPUs hang, or see no GPU.",
        remedy="Read server.log beside control.log of the daemon (below the MPS root, /run/nvidia/mps): its last line "
        "before the end says why. Often an MPS daemon of the host or an older one still holds the GPU (pgrep -a "
        "nvidia-cuda-mps), the GPU is in an exclusive compute mode (nvidia-smi -q -d COMPUTE), or the pods of the "
        "programs do not share the host's IPC and /dev/shm with the daemon. Time-slicing (playbooks/sharing.yml) needs "
        "no such server.",
        sources=(
            "https://github.com/NVIDIA/k8s-device-plugin/issues/1094",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/685",
            "https://docs.nvidia.com/deploy/mps/index.html",
        ),
        patterns=_SERVER_DIES,
        certainty="likely",
        unlike={"MPSDaemonMissing": _DAEMON_OR_SERVER},
    ),
    Rule(
        code="SharingNotInEffect",
        title="A node does not share its GPUs, although its configuration says so",
        severity="warning",
        cause="The configuration {key} of ConfigMap {name} asks for shares, and the node offers whole GPUs. The device "
        "plugin has not read the configuration since it was changed.",
        remedy="Run playbooks/sharing.yml, which makes the device plugin read it. Or delete the pods of the device "
        "plugin and of GPU Feature Discovery on this node.",
        sources=(f"{_PLUGIN}cmd/config-manager/main.go",),
        check=_not_shared,
    ),
)
