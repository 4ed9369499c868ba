# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's network driver in a container: packages, modules that are in use, and a driver that does not load."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_PACKAGES = (
    pattern(
        r"mlnx-\S+ : Depends: (?P<package>(?:linux|kernel)-\S+?) but it is not (?:installable|going to be installed)",
        "but it is not ",
    ),
    pattern(r"mlnx-\S+.{0,80}nothing provides (?P<package>kernel\S*)", "nothing provides kernel"),
)
_STORAGE = (
    pattern(r"Storage modules are loaded for current driver, terminating", "storage modules are loaded for current"),
    pattern(r"driver reload failure due to UNLOAD_STORAGE_MODULES not set to", "failure due to unload_storage_modules"),
)
_RELOAD = (
    pattern(r"Failed loading kernel module (?P<module>(?:mlx|ib_|rdma)\w+)", "failed loading kernel module "),
    pattern(r"rmmod: ERROR: Module (?P<module>mlx\w+|ib_core|rdma_cm) is in use", "is in use"),
)
_BUILD = pattern(r"Failed to build (?P<package>(?:mlnx|mlx|ofa|mofed|doca)[\w.-]*) (?:DEB|RPM)", "failed to build ")
_BUILDER = "https://github.com/Mellanox/doca-driver-build/"

RULES = (
    Rule(
        code="NetworkDriverPackagesMissing",
        title="The network driver's packages do not fit the kernel",
        severity="failure",
        cause="The container of the network operator's driver installs packages that need {package}, and the archive "
        "that it reaches does not have it. The kernel of the node is too old or too new for the archive.",
        remedy="Run uname -r on the node, and look for {package} in the archive. Bring the node to a kernel that the "
        "archive has (host_kernel_release, and playbooks/upgrade_kernel.yml, which drains the node), or give the "
        "container an archive with the packages (repoConfig of ofedDriver in the NicClusterPolicy).",
        sources=("https://github.com/Mellanox/network-operator/pull/1450",),
        patterns=_PACKAGES,
        certainty="likely",
    ),
    Rule(
        code="NetworkDriverDoesNotBuild",
        title="The network driver does not build for the kernel",
        severity="failure",
        cause="The container of the network operator's driver builds {package} for the kernel of the node, and that "
        "fails: this release of DOCA-OFED does not know the kernel.",
        remedy="Run uname -r on the node, and compare the kernels that the release notes of DOCA-OFED list. Use a "
        "newer image (ofedDriver.version of the NicClusterPolicy), or bring the node to a kernel of the list "
        "(host_kernel_release, and playbooks/upgrade_kernel.yml, which drains the node).",
        sources=("https://github.com/Mellanox/network-operator/issues/1415",),
        patterns=(_BUILD,),
        certainty="likely",
    ),
    Rule(
        code="NetworkDriverKeepsStorage",
        title="Storage over RDMA keeps the network driver from being replaced",
        severity="failure",
        cause="Storage modules (NVMe or NFS over RDMA) use the kernel's own network driver, so the network operator's "
        "driver container does not replace it, and ends.",
        remedy="Run lsmod | grep -E 'rpcrdma|nvme_rdma|ib_isert' on the node. Drain the node and unmount what uses "
        "them, then delete the driver's pod. To let the container unload them itself, set UNLOAD_STORAGE_MODULES to "
        "true in ofedDriver.env of the NicClusterPolicy: mounts over RDMA are interrupted then.",
        sources=(
            "https://support.crusoecloud.com/hc/en-us/articles/"
            "47917278400923-Resolving-MOFED-Storage-Module-Race-Condition-on-CMK-GPU-Nodes",
            f"{_BUILDER}blob/main/entrypoint.sh",
        ),
        patterns=_STORAGE,
    ),
    Rule(
        code="NetworkDriverReloadFails",
        title="The network driver's modules do not load",
        severity="failure",
        cause="The container of the network operator's driver has built its modules, and the kernel does not load or "
        "release {module}. Something uses the former driver, or other modules were built against it.",
        remedy="Read the end of the kernel log (journalctl -k -b -g 'mlx5|ib_core'): it names the symbol or the user. "
        "See that no storage, nvidia-peermem or management network of the node uses the adapter. Then drain the node, "
        "and reboot it.",
        sources=(f"{_BUILDER}issues/52", "https://github.com/Mellanox/network-operator/issues/2176"),
        patterns=_RELOAD,
        certainty="likely",
        explains=frozenset({"GPUDirectModuleFails"}),
    ),
)
