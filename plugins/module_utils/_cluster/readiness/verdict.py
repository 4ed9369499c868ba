# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The types of the judge's input (an observation) and output (a verdict with reasons)."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Level = t.Literal["failed", "progressing", "note"]
State = t.Literal["ready", "progressing", "failed"]


@dataclasses.dataclass(frozen=True)
class Reason:
    """One cause that keeps the stack from being ready, or (level ``note``) something that a user should know.

    ``failed`` ends a wait at once, because waiting does not help; with ``progressing`` the stack may still become
    ready. ``node`` and ``pod`` are one example; ``count`` of ``total`` nodes are affected. ``nodes`` are all of them
    where they are known. Results of modules leave them out, since a fleet has thousands.
    """

    level: Level
    code: str
    message: str
    remedy: str = ""
    operand: str | None = None
    node: str | None = None
    pod: str | None = None
    count: int | None = None
    total: int | None = None
    nodes: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def as_result(self) -> Json:
        """Return the reason as an element of a module's result."""
        return {name: value for name, value in vars(self).items() if name != "nodes"}


Reasons = t.Iterator[Reason]


@dataclasses.dataclass(frozen=True)
class DaemonSetRollout:
    """Rollout of one DaemonSet, in numbers of nodes. ``state`` is ready, progressing, failed or disabled."""

    operand: str
    daemonset: str | None
    state: str
    expected: int = 0
    desired: int = 0
    updated: int = 0
    available: int = 0
    images: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on the stack. ``message`` is one sentence; in ``reasons``, a cause precedes its consequences."""

    state: State
    message: str
    reasons: tuple[Reason, ...]
    operands: tuple[DaemonSetRollout, ...]
    nodes_ready: int
    nodes_total: int

    def as_result(self) -> Json:
        """Return the keys ``verdict`` and ``operands`` of a module's result."""
        return {
            "verdict": {
                "state": self.state,
                "message": self.message,
                "reasons": [reason.as_result() for reason in self.reasons],
                "nodes_ready": self.nodes_ready,
                "nodes_total": self.nodes_total,
            },
            "operands": [vars(rollout) | {"images": list(rollout.images)} for rollout in self.operands],
        }


_ALTERNATES = {"ErrImagePull": "ImagePullBackOff", "Error": "CrashLoopBackOff"}


@dataclasses.dataclass(frozen=True)
class PodRow:
    """A pod of an operand that is in trouble: one row of the API's pod table.

    A few examples are also read as whole pods. For these, ``cause`` is what holds the pod up, ``message`` all that its
    container says, ``age_s`` the pod's age, and ``current`` says whether the pod has its controller's newest revision.
    An older pod may fail because of a spec that has been corrected since. ``stuck_s`` is how long a wait has seen the
    pod in this trouble.
    """

    name: str
    node: str
    status: str
    restarts: int
    cause: str = ""
    current: bool = False
    message: str = ""
    age_s: float = 0.0
    stuck_s: float = 0.0

    @property
    def trouble(self) -> str:
        """The status, the same one for statuses between which a pod alternates without a change."""
        status = self.status.removeprefix("Init:")
        return _ALTERNATES.get(status, status)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The API server refuses to create pods of a controller: its last Warning event, and the age of that event.

    ``seen_s`` is how long a wait has seen the refusal.
    """

    message: str
    age_s: float = 0.0
    seen_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Marks:
    """The generation of what describes the stack, and the hash of each DaemonSet that the operator has written."""

    generation: int
    hashes: t.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Leader:
    """The lease of the operator that acts: since when it does, and when it was last alive (seconds since the epoch)."""

    acquired: float
    renewed: float


@dataclasses.dataclass(frozen=True)
class Observation:
    """The input of the judge. Lists hold objects as the API sent them.

    ``policies`` is None if the CRD is not installed. ``troubled`` has the operands' pods in trouble, by DaemonSet name,
    ``others`` those of the operator and of Node Feature Discovery, ``refusals`` why pods cannot be created, and
    ``outdated`` the nodes with a pod of an old revision. ``upgrade_failures`` has the operator's words about failed
    driver upgrades, by node. ``offered`` is what NVIDIA's driver for Dynamic Resource Allocation offers.
    ``unreadable`` has the kinds that this user may not list, so that their objects are unknown.

    Only a wait (``waits``) knows how long something lasts: ``waited_s`` is its own length, ``error_lasts_s`` that of
    the same error in the ClusterPolicy's status, and ``before`` is from before its own edit. A single reading lacks all
    of them. ``leader`` is read if it is not clear whether the operator has acted on the last edit.
    """

    name: str
    namespace: str
    policies: list[Json] | None
    gpuclusters: list[Json]
    daemonsets: list[Json]
    operators: list[Json]
    nodes: list[Json]
    now: float
    troubled: t.Mapping[str, tuple[PodRow, ...]] = dataclasses.field(default_factory=dict)
    others: t.Mapping[str, tuple[PodRow, ...]] = dataclasses.field(default_factory=dict)
    refusals: t.Mapping[str, Refusal] = dataclasses.field(default_factory=dict)
    waits: bool = False
    before: Marks | None = None
    leader: Leader | None = None
    waited_s: float = 0.0
    error_lasts_s: float = 0.0
    outdated: t.Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    nvidiadrivers: list[Json] = dataclasses.field(default_factory=list)
    unreadable: tuple[str, ...] = ()
    upgrade_failures: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    offered: Offered = device_reader.NO_DEVICES

    @property
    def policy(self) -> Json | None:
        """The ClusterPolicy with the given name, or None."""
        return next((item for item in self.policies or [] if objects.name_of(item) == self.name), None)

    @property
    def gpucluster(self) -> Json | None:
        """The GPUCluster that the operator serves, or None: beside a ClusterPolicy, it serves none."""
        return self.gpuclusters[0] if self.gpuclusters and not self.policies else None

    @property
    def subject(self) -> Json | None:
        """The custom resource that describes the stack: the ClusterPolicy or the GPUCluster."""
        return self.policy or self.gpucluster

    @property
    def kind(self) -> str:
        """The kind of what describes the stack."""
        return "ClusterPolicy" if self.gpucluster is None else "GPUCluster"

    @property
    def spec(self) -> Json:
        """The ClusterPolicy's spec, or an empty dict if it does not exist. A GPUCluster's is put in the same words.

        A GPUCluster leaves the driver to NVIDIADrivers.
        """
        if self.gpucluster is None:
            return (self.policy or {}).get("spec") or {}
        own = operands.in_words_of_policy(self.gpucluster.get("spec") or {})
        return {**own, "driver": {"enabled": bool(self.nvidiadrivers), "useNvidiaDriverCRD": bool(self.nvidiadrivers)}}

    @property
    def operands(self) -> tuple[operands.Operand, ...]:
        """The operands that the subject can have."""
        if self.gpucluster is not None:
            return operands.DRIVER, *operands.DRA_OPERANDS
        return operands.OPERANDS if self.policy else ()

    @property
    def seconds_since_edit(self) -> float:
        """The age of the last edit of what describes the stack, by the API server's clock."""
        return self.now - objects.last_write(self.subject) if self.subject else 0.0
