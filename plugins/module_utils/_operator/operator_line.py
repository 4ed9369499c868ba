# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the collection knows of one release line of the GPU Operator."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Minor = tuple[int, int]
Feature = t.Literal["restarts_in_place", "orphans_driver_pods", "default_nvidiadriver", "gpucluster"]
"""What only newer operators do.

- ``restarts_in_place``: a change that does not concern the driver itself restarts its pods without evictions.
- ``orphans_driver_pods``: driver pods stay until their node is upgraded, when NVIDIADrivers take over.
- ``default_nvidiadriver``: an NVIDIADriver says whether it is the default.
- ``gpucluster``: the operator starts only with the definition of GPUClusters.
"""


@dataclasses.dataclass(frozen=True)
class OperatorLine:
    """One release line of the GPU Operator."""

    name: str
    life_cycle: t.Literal["supported", "deprecated", "end of support"]
    """As of the newest line's date. Deprecated lines get critical fixes only."""
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
    brings: tuple[Feature, ...]
    """What this line and all later ones do."""
    major_tags: dict[str, int]
    """Systems whose driver image has the major version alone in its tag, from this major version on."""
    steps: tuple[Json, ...]
    """What is known of the step to this line and of the steps between its releases.

    - ``verdict``: ``safe`` has only the usual restarts. With ``manual``, a person has to check what ``changes`` says.
      ``blocked`` cannot work, and ``unknown`` is not known well enough. A step without a record is refused.
    - ``since``: the first release of the line that the step leads to, with its ``date``. ``last``: its newest release.
    - ``restarts``: what the step restarts. ``driver`` is what the operator does to driver pods that are not kept.
    - ``changes``: what was removed, renamed or changed. One applies if everything under ``when`` holds: ``values`` and
      ``values_unset`` (the user's Helm values have one or none of these), ``values_true`` and ``values_false`` (one of
      these Helm values is true or false), ``systems`` (a GPU node runs one of these) with ``major_below``,
      ``image_tag`` (the tag of the driver's image changes for a node that runs one of these), ``runtimes`` (a GPU node
      runs one of these container runtimes), ``nvidiadrivers`` (NVIDIADriver objects determine the driver now),
      ``driver_below`` (the driver that the nodes keep is older), ``mirrored`` (images come from another registry than
      nvcr.io), ``served`` (the API server serves one of these groups), ``tainted`` (a node has one of these taints).
    - ``back``: the way back to the older line.
    - ``sources``: NVIDIA's release notes and documentation, and differences of the chart's values and CRDs.
    """

    @property
    def number(self) -> Minor:
        """The line as a number that compares: ``(26, 7)``."""
        major, minor = self.name.split(".")
        return int(major), int(minor)
