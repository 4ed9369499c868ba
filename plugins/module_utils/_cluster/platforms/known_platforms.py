# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The platforms that nodes may belong to, the signs of each, and the presets of the role ``operator`` that fit.

A platform is a system (the image of the node) or a distribution (who provides Kubernetes). A node may be of one of
each, such as Bottlerocket in EKS. The system decides about the preset, because it decides where the driver comes from.
Each platform names where its signs and its presets come from, and when that was read. The published nodes in
tests/unit/fixtures/platforms show the signs, and each of them has to be recognised as what it is.
"""

from __future__ import annotations

import dataclasses
import typing as t

Layer = t.Literal["system", "distribution"]
Field = t.Literal["label", "annotation", "os_image", "kernel", "kubelet", "api_group"]

_NVIDIA_DOCS = "https://github.com/NVIDIA/cloud-native-docs at 52dcb7b8, gpu-operator/"
_RKE2_DOCS = "https://github.com/rancher/rke2-docs at 9477b7b1, docs/add-ons/gpu_operators.md"
"""k3s has the containerd of RKE2, and NVIDIA lists k3s as supported."""
_AWS_AMI = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"


@dataclasses.dataclass(frozen=True, eq=False)
class Sign:
    """Regular expressions for fields of a node. Each of them must be found. A label is written ``key=value``."""

    patterns: t.Mapping[Field, str]


@dataclasses.dataclass(frozen=True, eq=False)
class Platform:
    """A platform, and what is known of it."""

    name: str
    title: str
    layer: Layer
    signs: tuple[Sign, ...]
    """One of them is enough."""
    presets: tuple[str, ...]
    """Presets that fit, the most fitting first. Without any, the operator does not belong on these nodes."""
    source: str
    date: str


def _sign(**patterns: str) -> Sign:
    return Sign(t.cast("dict[Field, str]", patterns))


PLATFORMS = (
    Platform(
        name="eks_auto",
        title="EKS Auto Mode",
        layer="system",
        signs=(
            _sign(label=r"^eks\.amazonaws\.com/compute-type=auto$"),
            _sign(os_image=r"^Bottlerocket \(EKS Auto\b"),
        ),
        presets=(),
        source="https://docs.aws.amazon.com/eks/latest/userguide/auto-accelerated.html",
        date="2026-08-19",
    ),
    Platform(
        name="bottlerocket",
        title="Bottlerocket",
        layer="system",
        signs=(_sign(os_image=r"^Bottlerocket OS "),),
        presets=("bottlerocket",),
        source="https://github.com/bottlerocket-os/bottlerocket-core-kit/pull/914",
        date="2026-04-24",
    ),
    Platform(
        name="talos",
        title="Talos",
        layer="system",
        signs=(_sign(os_image=r"^Talos \("), _sign(kernel=r"-talos$")),
        presets=("talos",),
        source="https://github.com/siderolabs/docs at 5debdd92, public/talos/v1.13/.../nvidia-gpu.mdx",
        date="2026-08-19",
    ),
    Platform(
        name="flatcar",
        title="Flatcar",
        layer="system",
        signs=(_sign(os_image=r"^Flatcar (Container )?Linux"), _sign(kernel=r"-flatcar$")),
        presets=("flatcar",),
        source="https://www.flatcar.org/docs/latest/setup/customization/using-nvidia",
        date="2026-11-29",
    ),
    Platform(
        name="cos",
        title="Container-Optimized OS",
        layer="system",
        signs=(_sign(os_image=r"^Container-Optimized OS from Google"),),
        presets=("gke",),
        source=_NVIDIA_DOCS + "google-gke.rst",
        date="2026-08-21",
    ),
    Platform(
        name="amazon_linux",
        title="Amazon Linux",
        layer="system",
        signs=(_sign(os_image=r"^Amazon Linux\b"),),
        presets=("eks_gpu_image",),
        source=_AWS_AMI,
        date="2026-11-29",
    ),
    Platform(
        # /etc/os-release of DGX OS is Ubuntu's. Its kernel and the name of the machine tell it from a plain Ubuntu. GPU
        # Feature Discovery writes that name, so DGX OS is recognised once the stack runs.
        name="dgx_os",
        title="DGX OS",
        layer="system",
        signs=(_sign(label=r"^nvidia\.com/gpu\.machine=(NVIDIA-)?DGX", os_image=r"^Ubuntu\b", kernel=r"-nvidia$"),),
        presets=("dgx_os", "preinstalled_driver"),
        source=_NVIDIA_DOCS + "getting-started.rst",
        date="2026-08-21",
    ),
    Platform(
        name="openshift",
        title="OpenShift",
        layer="distribution",
        signs=(
            _sign(api_group=r"^config\.openshift\.io$"),
            _sign(label=r"^node\.openshift\.io/os_id="),
            _sign(annotation=r"^machineconfiguration\.openshift\.io/currentConfig="),
            _sign(os_image=r"^Red Hat (Enterprise Linux )?CoreOS\b"),
        ),
        presets=("openshift",),
        source="https://github.com/NVIDIA/gpu-operator at v26.7.0, deployments/gpu-operator/values.yaml",
        date="2026-08-20",
    ),
    Platform(
        name="gke",
        title="GKE",
        layer="distribution",
        signs=(_sign(kubelet=r"-gke\.\d+$"), _sign(label=r"^cloud\.google\.com/gke-nodepool=")),
        presets=("gke", "bare_metal"),
        source=_NVIDIA_DOCS + "google-gke.rst",
        date="2026-08-21",
    ),
    Platform(
        name="aks",
        title="AKS",
        layer="distribution",
        signs=(_sign(label=r"^kubernetes\.azure\.com/(cluster|agentpool|node-image-version)="),),
        presets=("aks", "bare_metal"),
        source=_NVIDIA_DOCS + "microsoft-aks.rst",
        date="2026-08-21",
    ),
    Platform(
        # EKS Anywhere has the number of its distribution in the place of the hash.
        name="eks",
        title="EKS",
        layer="distribution",
        signs=(_sign(kubelet=r"-eks-[0-9a-f]{7}$"), _sign(label=r"^eks\.amazonaws\.com/(nodegroup|compute-type)=")),
        presets=("eks", "bare_metal"),
        source=_NVIDIA_DOCS + "amazon-eks.rst",
        date="2026-08-21",
    ),
    Platform(
        name="rke2",
        title="RKE2",
        layer="distribution",
        signs=(_sign(kubelet=r"\+rke2r\d+$"), _sign(annotation=r"^rke2\.io/node-args=")),
        presets=("rke2",),
        source=_RKE2_DOCS,
        date="2026-08-20",
    ),
    Platform(
        name="k3s",
        title="k3s",
        layer="distribution",
        signs=(
            _sign(kubelet=r"\+k3s"),
            _sign(annotation=r"^k3s\.io/node-args="),
            _sign(label=r"^node\.kubernetes\.io/instance-type=k3s$"),
        ),
        presets=("k3s",),
        source=_RKE2_DOCS,
        date="2026-08-20",
    ),
)

PLATFORM_OF = {platform.name: platform for platform in PLATFORMS}

UNKNOWN_PRESETS = ("bare_metal", "preinstalled_driver")
"""The presets for nodes without a sign. Which fits depends on what their image contains, which no node tells."""
