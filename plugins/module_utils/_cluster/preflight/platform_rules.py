# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Combinations of a platform and Helm values that are known to break. Data, each with its source and date."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import node_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NVIDIA_DOCS = "https://github.com/NVIDIA/cloud-native-docs at 52dcb7b8, gpu-operator/"
_TALOS_DOCS = "https://github.com/siderolabs/docs at 5debdd92, public/talos/v1.13/.../nvidia-gpu.mdx"
_FLATCAR_DOCS = "https://www.flatcar.org/docs/latest/setup/customization/using-nvidia"
_CHART = "https://github.com/NVIDIA/gpu-operator at v26.7.0, "


@dataclasses.dataclass(frozen=True)
class Combination:
    """Values that do not work on a platform."""

    name: str
    platforms: tuple[str, ...]
    level: Level
    values: t.Callable[[Intent], bool]
    """Whether the values are those that do not work."""
    message: str
    """A sentence about nodes, in which ``{nodes}`` stands for them, such as ``3 nodes with Talos``."""
    remedy: str
    source: str
    date: str
    node: t.Callable[[Json], bool] = lambda node: True
    """Whether a node of the platform is one of those on which they do not work."""
    only_installs: bool = False
    """Whether it is about the chart, which an installation of another owner does not have."""


# ---- what the values ask for --------------------------------------------------------------------------------------


def by_claims(intent: Intent) -> bool:
    """Return whether pods get GPUs by claims: the device plugin and the toolkit do not run then."""
    return bool(intent.value("gpuCluster.deployCR", False))


def has_plugin(intent: Intent) -> bool:
    """Return whether the operator runs its device plugin."""
    return bool(intent.value("devicePlugin.enabled", True)) and not by_claims(intent)


def _toolkit(intent: Intent) -> bool:
    return bool(intent.value("toolkit.enabled", True)) and not by_claims(intent)


def _changes_runtime(intent: Intent) -> bool:
    """Return whether the toolkit changes the configuration of the container runtime. The NRI plugin needs no change.

    Charts before v26.3 ignore the value of the NRI plugin.
    """
    has_nri = intent.value("cdi.nriPluginEnabled", False) and not _is_before(intent.operator_version, (26, 3))
    return _toolkit(intent) and not has_nri


def _toolkit_env(intent: Intent) -> dict[str, str]:
    given = intent.value("toolkit.env", [])
    return {str(item.get("name")): str(item.get("value")) for item in given if isinstance(item, dict)}


def _driver_root(intent: Intent) -> str:
    return str(intent.value("hostPaths.driverInstallDir", "/run/nvidia/driver")).rstrip("/")


def _misses_google_paths(intent: Intent) -> bool:
    toolkit = str(intent.value("toolkit.installDir", "/usr/local/nvidia"))
    writable = not _toolkit(intent) or toolkit.startswith(_GOOGLE)
    return not intent.manages_driver and (_driver_root(intent) != _GOOGLE_DRIVER or not writable)


def _is_before(version: str | None, first: tuple[int, ...]) -> bool:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version or "")[: len(first)])
    return bool(numbers) and numbers < first


_GOOGLE = "/home/kubernetes/bin"
_GOOGLE_DRIVER = f"{_GOOGLE}/nvidia"


# ---- what nodes say -----------------------------------------------------------------------------------------------

GKE_INSTALLERS = ("nvidia-driver-installer", "nvidia-gpu-driver-installer")
"""Parts of the names of the DaemonSets by which Google installs drivers."""
GKE_OPT_OUT = "gke-no-default-nvidia-gpu-device-plugin"
_GKE_GPU = "cloud.google.com/gke-accelerator"
_TALOS_EXTENSION = "extensions.talos.dev/"


def _runs_google_plugin(node: Json) -> bool:
    labels = labels_of(node)
    return _GKE_GPU in labels and labels.get(GKE_OPT_OUT) != "true"


def waits_for_google_driver(node: Json) -> bool:
    """Return whether a GPU node of GKE has no driver from GKE itself.

    Google's DaemonSets are for exactly these nodes: https://github.com/GoogleCloudPlatform/container-engine-accelerators
    at 992db812, nvidia-driver-installer/cos/daemonset-preloaded.yaml (2026-06-11).
    """
    labels = labels_of(node)
    return _GKE_GPU in labels and "cloud.google.com/gke-gpu-driver-version" not in labels


def _is_gke_since_133(node: Json) -> bool:
    return not _is_before(node_info(node, "kubeletVersion") or "v0.0", (1, 33))


def _has_no_talos_driver(node: Json) -> bool:
    """Return whether a node with labels of extensions has none of NVIDIA's. Without any such label it is unknown."""
    names = [key.removeprefix(_TALOS_EXTENSION) for key in labels_of(node) if key.startswith(_TALOS_EXTENSION)]
    return bool(names) and not any("nvidia" in name for name in names)


# ---- the combinations ---------------------------------------------------------------------------------------------

COMBINATIONS = (
    Combination(
        name="no_driver_container",
        platforms=("talos", "flatcar", "bottlerocket", "cos", "amazon_linux"),
        level="failure",
        values=lambda intent: intent.manages_driver,
        message="There is no driver container for {nodes}: the system brings its driver, and has no kernel headers.",
        remedy="Use the preset {preset}, which sets driver.enabled to false.",
        source=_FLATCAR_DOCS + "; " + _TALOS_DOCS + "; https://github.com/NVIDIA/gpu-operator/issues/1492",
        date="2026-11-29",
    ),
    Combination(
        name="driver_in_image",
        platforms=("aks", "dgx_os"),
        level="warning",
        values=lambda intent: intent.manages_driver,
        message="The image of {nodes} contains a driver, unless it was chosen without one.",
        remedy="Use the preset {preset}, or the preset bare_metal if the image has no driver.",
        source=_NVIDIA_DOCS + "microsoft-aks.rst and getting-started.rst",
        date="2026-08-21",
    ),
    Combination(
        name="runtime_of_the_system",
        platforms=("talos", "flatcar", "bottlerocket"),
        level="failure",
        values=_changes_runtime,
        message="The toolkit would change the container runtime of {nodes}, whose configuration belongs to the system.",
        remedy="Use the preset {preset}, which sets toolkit.enabled to false, or set cdi.nriPluginEnabled to true.",
        source=_TALOS_DOCS + "; " + _FLATCAR_DOCS,
        date="2026-11-29",
    ),
    Combination(
        name="toolkit_in_image",
        platforms=("aks", "dgx_os", "amazon_linux"),
        level="warning",
        values=lambda intent: _toolkit(intent) and not intent.manages_driver,
        message="The image of {nodes} has NVIDIA's container toolkit, and a second one would fight over the runtime.",
        remedy="Use the preset {preset}, which sets toolkit.enabled to false.",
        source=_NVIDIA_DOCS + "getting-started.rst; https://docs.aws.amazon.com/eks/latest/userguide/"
        "ml-eks-optimized-ami.html",
        date="2026-08-21",
    ),
    Combination(
        name="socket_of_k3s",
        platforms=("rke2", "k3s"),
        level="warning",
        values=lambda intent: _changes_runtime(intent) and "CONTAINERD_SOCKET" not in _toolkit_env(intent),
        message="k3s and RKE2 have containerd's socket at /run/k3s/containerd/containerd.sock, where the toolkit does "
        "not look for it on {nodes}.",
        remedy="Use the preset {preset}, or set CONTAINERD_SOCKET in toolkit.env.",
        source="https://github.com/rancher/rke2-docs at 9477b7b1, docs/add-ons/gpu_operators.md",
        date="2026-08-20",
    ),
    Combination(
        name="device_plugin_of_gke",
        platforms=("gke",),
        level="failure",
        values=has_plugin,
        node=_runs_google_plugin,
        message=f"GKE runs its own device plugin on {{nodes}}, where the label {GKE_OPT_OUT}=true is missing.",
        remedy="Give the node pool this label (--node-labels), or set devicePlugin.enabled to false.",
        source=_NVIDIA_DOCS + "google-gke.rst",
        date="2026-08-21",
    ),
    Combination(
        name="paths_of_google",
        platforms=("cos",),
        level="failure",
        values=_misses_google_paths,
        message=f"Google's installer puts the driver of {{nodes}} into {_GOOGLE_DRIVER}, and only {_GOOGLE} is "
        "writable there.",
        remedy=f"Use the preset {{preset}}, or set hostPaths.driverInstallDir and toolkit.installDir to "
        f"{_GOOGLE_DRIVER}.",
        source=_NVIDIA_DOCS + "google-gke.rst",
        date="2026-08-21",
    ),
    Combination(
        name="runtime_config_of_gke",
        platforms=("gke",),
        level="failure",
        values=lambda intent: (
            _changes_runtime(intent) and not _toolkit_env(intent).get("RUNTIME_CONFIG_SOURCE", "").startswith("file")
        ),
        node=_is_gke_since_133,
        message="From GKE 1.33 on, the toolkit breaks containerd's configuration on {nodes} unless it reads it from "
        "the file.",
        remedy="Use the preset {preset}, or set RUNTIME_CONFIG_SOURCE=file in toolkit.env.",
        source=_NVIDIA_DOCS + "google-gke.rst",
        date="2026-08-21",
    ),
    Combination(
        name="driver_root_of_talos",
        platforms=("talos",),
        level="failure",
        values=lambda intent: not intent.manages_driver and _driver_root(intent) != "/usr/local",
        message="Talos has the driver of {nodes} in /usr/local, where the operator does not look for it.",
        remedy="Use the preset {preset}, or set hostPaths.driverInstallDir to /usr/local.",
        source=_TALOS_DOCS,
        date="2026-08-19",
    ),
    Combination(
        name="operator_before_talos",
        platforms=("talos",),
        level="failure",
        values=lambda intent: _is_before(intent.operator_version, (26, 3, 1)),
        message="GPU Operators older than v26.3.1 do not find the driver of {nodes}.",
        remedy="Use v26.3.1 or newer, with Talos 1.13 or newer.",
        source=_TALOS_DOCS,
        date="2026-08-19",
    ),
    Combination(
        name="extension_of_talos",
        platforms=("talos",),
        level="failure",
        values=lambda intent: not intent.manages_driver,
        node=_has_no_talos_driver,
        message="The extensions of {nodes} contain no driver of NVIDIA.",
        remedy="Add the extensions nvidia-open-gpu-kernel-modules and nvidia-container-toolkit to their image.",
        source=_TALOS_DOCS,
        date="2026-08-19",
    ),
    Combination(
        name="discovery_of_openshift",
        platforms=("openshift",),
        level="failure",
        values=lambda intent: bool(intent.value("nfd.enabled", True)),
        only_installs=True,
        message="The chart's Node Feature Discovery does not label {nodes} with the version of RHCOS, by which the "
        "operator chooses the driver's build environment.",
        remedy="Install Red Hat's Node Feature Discovery Operator, and use the preset {preset} (nfd.enabled false).",
        source=_CHART + "controllers/object_controls.go (OSTREE_VERSION); "
        "https://github.com/NVIDIA/cloud-native-docs at 52dcb7b8, openshift/install-nfd.rst",
        date="2026-08-21",
    ),
    Combination(
        name="constraints_of_openshift",
        platforms=("openshift",),
        level="failure",
        values=lambda intent: not intent.value("platform.openshift", False),
        only_installs=True,
        message="The operator's pod asks for the security context constraint restricted-readonly, which {nodes} have "
        "only with platform.openshift.",
        remedy="Use the preset {preset}, or let the Operator Lifecycle Manager install the operator.",
        source=_CHART + "deployments/gpu-operator/templates/readonlyfs_scc.openshift.yaml",
        date="2026-08-20",
    ),
    Combination(
        name="driver_toolkit_of_openshift",
        platforms=("openshift",),
        level="warning",
        values=lambda intent: (
            intent.manages_driver
            and not intent.value("operator.use_ocp_driver_toolkit", False)
            and not intent.value("driver.usePrecompiled", False)
        ),
        only_installs=True,
        message="Without OpenShift's driver toolkit, the driver container on {nodes} needs an entitlement to download "
        "kernel headers.",
        remedy="Use the preset {preset}, or set operator.use_ocp_driver_toolkit to true.",
        source=_CHART + "controllers/object_controls.go; openshift/get-entitlement.rst of NVIDIA's documentation",
        date="2026-08-21",
    ),
    Combination(
        name="eks_auto_mode",
        platforms=("eks_auto",),
        level="failure",
        values=lambda intent: intent.manages_driver or _toolkit(intent) or has_plugin(intent),
        message="AWS manages driver, toolkit and device plugin of {nodes}.",
        remedy="Leave these nodes to AWS with the label nvidia.com/gpu.deploy.operands=false in their NodePool, or use "
        "a node group.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/auto-accelerated.html",
        date="2026-11-29",
    ),
)
