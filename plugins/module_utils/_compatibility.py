# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's support matrix: which GPU Operator works with which Kubernetes, operating system, runtime, driver and GPU.

The data comes from the pages "Platform Support" and "Life Cycle" of the GPU Operator's documentation
(https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html, in the repository
https://github.com/NVIDIA/cloud-native-docs) as of each line's revision and date. NVIDIA has not validated anything that
those pages do not list. It may still work, so a finding about it is a warning.
"""

from __future__ import annotations

import dataclasses

Minor = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Line:
    """One release line of the GPU Operator."""

    name: str
    revision: str
    """The commit of NVIDIA/cloud-native-docs that the data comes from."""
    date: str
    kubernetes: tuple[Minor, Minor]
    """The oldest and the newest minor version, on any of the operating systems."""
    operating_systems: dict[str, tuple[str, ...]]
    """The values of NFD's label system-os_release.ID, each with the values of VERSION_ID.

    Red Hat Enterprise Linux CoreOS has no versions here: NVIDIA lists OpenShift versions, which the label lacks.
    """
    containerd: tuple[Minor, Minor]
    """The oldest and the newest minor version. CRI-O is supported too; NVIDIA lists no versions of it."""
    driver: str
    """The chart's default driver in the line's newest patch release."""
    drivers: tuple[str, ...]
    """Other drivers that NVIDIA lists for the line. Any active data centre driver is supported."""


LINES = {
    line.name: line
    for line in (
        Line(
            name="26.7",
            revision="52dcb7b8",
            date="2026-08-21",
            kubernetes=((1, 32), (1, 36)),
            operating_systems={
                "ubuntu": ("22.04", "24.04", "26.04"),
                "rhcos": (),
                "rhel": ("8.8", "8.10", "9.2", "9.4", "9.6", "9.7", "9.8", "10.0", "10.1", "10.2"),
                "rocky": ("8.10", "9.7", "10.1"),
            },
            containerd=((1, 8), (2, 3)),
            driver="595.91.07",
            drivers=("610.57.04", "580.173.02", "535.309.01"),
        ),
        Line(
            name="26.3",
            revision="922e549f",
            date="2026-07-23",
            kubernetes=((1, 32), (1, 36)),
            operating_systems={
                "ubuntu": ("22.04", "24.04"),
                "rhcos": (),
                "rhel": ("8.8", "8.10", "9.2", "9.4", "9.6", "9.7", "9.8", "10.0", "10.1", "10.2"),
                "rocky": ("8.10", "9.7", "10.1"),
            },
            containerd=((1, 7), (2, 2)),
            driver="580.126.20",
            drivers=(
                "595.71.05",
                "595.58.03",
                "590.48.01",
                "580.173.02",
                "580.167.08",
                "580.159.04",
                "580.159.03",
                "570.211.01",
                "535.309.01",
                "535.288.01",
            ),
        ),
        Line(
            name="25.10",
            revision="8246892e",
            date="2026-03-17",
            kubernetes=((1, 30), (1, 35)),
            operating_systems={
                "ubuntu": ("20.04", "22.04", "24.04"),
                "rhcos": (),
                "rhel": ("8.8", "8.10", "9.2", "9.4", "9.6"),
            },
            containerd=((1, 7), (2, 1)),
            driver="580.105.08",
            drivers=(
                "590.48.01",
                "580.126.16",
                "580.126.09",
                "580.95.05",
                "580.82.07",
                "575.57.08",
                "570.211.01",
                "570.195.03",
                "550.163.01",
                "535.288.01",
                "535.274.02",
            ),
        ),
    )
}
"""The release lines, newest first."""

NEWEST = next(iter(LINES.values()))


def line_of(operator_version: str | None) -> Line | None:
    """Return the release line of a version like ``v26.7.0``, the newest line without a version, or None if unknown."""
    if operator_version is None:
        return NEWEST
    return LINES.get(".".join(operator_version.removeprefix("v").split(".")[:2]))


LIFE_CYCLE = {"26.7": "supported", "26.3": "deprecated", "25.10": "end of support"}
"""As of the newest line's date. Deprecated lines get critical fixes only."""

MINIMUM_DRIVERS = {
    "NVIDIA-RTX-PRO-6000": "575.57.08",
    "NVIDIA-B200": "570.133.20",
}
"""Prefixes of GFD's product label, each with the oldest driver for that GPU, from the newest line's page."""


# ---- kernel modules -------------------------------------------------------------------------------------------------

ONLY_PROPRIETARY_MODULES = ("Maxwell", "Pascal", "Volta")
ONLY_OPEN_MODULES = ("Blackwell",)
"""Generations of GPUs that only one type of the driver's kernel modules supports.

Source: NVIDIA's Driver Installation Guide, "Kernel Modules".
"""
PRODUCTS_WITH_ONLY_OPEN_MODULES = ("NVIDIA-GH200",)
"""Prefixes of GFD's product label of other GPUs that need the open modules: Grace Hopper."""

LAST_FOR_OLD_GPUS, FIRST_FOR_BLACKWELL = 580, 570
"""NVIDIA's release notes: 580 is the last branch for Maxwell, Pascal and Volta, and Blackwell came with 570."""

PRECOMPILED_KERNELS = {
    "ubuntu22.04": ("5.15", "6.8"),
    "ubuntu24.04": ("6.8",),
    "ubuntu26.04": ("7.0",),
}
PRECOMPILED_BRANCHES = ("580", "595")
"""Systems, kernels and branches with precompiled driver containers of NVIDIA, from the newest line's page."""
