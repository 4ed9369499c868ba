# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one exception that everything below a module's ``main()`` raises."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _python

# First of all, so that a Python that is too old ends the module with a sentence.
_python.check()

Reason = t.Literal[
    # The Kubernetes API answered with an error, or not at all
    "AlreadyExists",
    "Conflict",
    "Expired",
    "Forbidden",
    "Invalid",
    "NotFound",
    "ServerError",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    # The cluster and what is installed there
    "BadConnectionSettings",
    "CRDMissing",
    "ChartNotFound",
    "ChecksFailed",
    "ClaimsUnreadable",
    "ClusterPolicyPresent",
    "ComputeDomainsPresent",
    "Disruption",
    "GPUClusterPresent",
    "HeldElsewhere",
    "ImagesFailed",
    "ImagesMissing",
    "HelmFailed",
    "HelmMissing",
    "LayoutRefused",
    "LibraryMissing",
    "HelmTooOld",
    "KubernetesVersion",
    "NoGpuNodes",
    "NodeDeleted",
    "NodeReleased",
    "NodesBusy",
    "NodesFailed",
    "NotReady",
    "NotTolerated",
    "OperatorOfOLM",
    "OperatorOfOthers",
    "OwnedByOthers",
    "PluginMissing",
    "PodsInTheWay",
    "PortForwardFailed",
    "ReleaseLocked",
    "SecondClusterPolicy",
    "SkopeoFailed",
    "SkopeoMissing",
    "TooManyNodes",
    "ValuesRefused",
    # Hosts
    "BootLoader",
    "DriverRefused",
    "InUse",
    "KernelRefused",
    "Initramfs",
    "ModuleNotLoaded",
    "NoSpace",
    "NotWritable",
    "PackageManager",
    "Unsupported",
    # Both
    "Interrupted",
    "TimedOut",
]
"""The words by which code distinguishes failures."""

AWAY: tuple[Reason, ...] = ("Unreachable", "ServerError", "TooManyRequests")
"""Failures after which the API server may come back."""


class GpuOpsError(Exception):
    """A failure that a user can act on.

    ``msg`` is one or two plain sentences: what is wrong, and the remedy. ``reason`` is a word by which code
    distinguishes failures. ``reason`` and ``details`` become keys of the module's result, so that a failed module can
    return partial results such as a verdict.
    """

    def __init__(self, msg: str, *, reason: Reason | None = None, **details: t.Any) -> None:
        super().__init__(msg)
        self.msg = msg
        self.details = details if reason is None else {"reason": reason, **details}

    @property
    def reason(self) -> Reason | None:
        """The word for this failure, or None if no code needs to distinguish it."""
        return t.cast("Reason | None", self.details.get("reason"))
