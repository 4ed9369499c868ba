# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a node says about its driver: whether it has the right one, and if not, what it waits for. This file is pure.

The operator's own ``upgrade-done`` proves nothing: right after a change it is still about the driver before. So a node
is done when its driver pod has the newest revision and runs, its validator runs, feature discovery reports the version,
nothing on it is paused, and the operator has finished.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_pods import (
    CRASH_LOOP,
    PodView,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import (
    DriverSet,
    reported_version,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations, hold, marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DRIVER_PURPOSE = "driver-upgrade"
"""What a node is held for if the operator does not upgrade it by itself."""

TICK_TEXT = "the operator looks every two minutes"


@dataclasses.dataclass(frozen=True)
class PolicyDemands:
    """What the ClusterPolicy asks for beside the driver."""

    validates: bool = True
    """Whether the validator has a DaemonSet."""
    discovers: bool = True
    """Whether GPU Feature Discovery runs."""
    has_plugin: bool = True


@dataclasses.dataclass(frozen=True)
class DriverNode:
    """A node and its pods at one look.

    A node on which nothing has changed keeps its sight, and with it what was found out about it. In a fleet, that is
    nearly every node at every look.
    """

    node: Json
    driver: DriverSet
    pod: PodView | None = None
    validators: tuple[PodView, ...] = ()
    stack: PolicyDemands = PolicyDemands()
    wanted_image: str = ""
    """The image that was declared for this node, or an empty string if only the DaemonSet says it."""
    wanted_source: str = ""
    """The object that declares this node's driver, or an empty string if it is not known."""
    blocked: str = ""
    """Why the operator upgrades no node at all, or an empty string."""
    has_acted: bool = True
    """Whether the operator has acted on the last change of the declaration."""
    namespace: str = ""
    """The namespace of the operator."""

    @property
    def name(self) -> str:
        """The node's name."""
        return objects.name_of(self.node)

    @functools.cached_property
    def state(self) -> str:
        """The operator's state of the node's upgrade."""
        return nodes.upgrade_state(self.node)

    @functools.cached_property
    def note(self) -> driver_annotations.Note | None:
        """What a rollout has noted on the node."""
        return driver_annotations.note_of(self.node)

    @property
    def version(self) -> int:
        """The version of the node. An answer that is older than our own patch says nothing."""
        return whole_number(self.node["metadata"].get("resourceVersion")) or 0

    @property
    def is_current(self) -> bool:
        """Whether the driver pod has the newest revision of its DaemonSet."""
        pod, revision = self.pod, self.driver.revision
        return pod is not None and pod.owner == self.driver.name and bool(revision) and pod.revision == revision

    @property
    def has_no_change(self) -> bool:
        """Whether nothing is to be changed on the node: its driver pod is the newest, and no upgrade has begun.

        So it is for a node that joined after the declaration, and for one that is not well.
        """
        is_idle = self.note is None and not self.is_begun and self.state in ("", *names.UPGRADE_FINISHED)
        return is_idle and self.is_current and not any(self._declared())

    @property
    def crashes(self) -> bool:
        """Whether the right driver pod is in the kubelet's back-off, so that only a new pod starts at once."""
        return self.is_current and self.pod is not None and self.pod.waiting == CRASH_LOOP

    @property
    def is_orphaned(self) -> bool:
        """Whether the ClusterPolicy has handed the node over to an NVIDIADriver, and has left its driver pod there.

        A pod that does not run keeps the new one away, too.
        """
        pod = self.pod
        is_handed_over = bool(objects.labels_of(self.node).get(names.DRIVER_OWNER))
        return is_handed_over and pod is not None and not pod.owner and not pod.is_ending

    @functools.cached_property
    def purposes(self) -> tuple[str, ...]:
        """What the node is held for by maintenance of ours."""
        return tuple(hold.hold_of(self.node).purposes)

    @functools.cached_property
    def holders(self) -> list[Holder]:
        """The other maintainers whose marks are on the node itself."""
        return marks.holders(self.node, {})

    @functools.cached_property
    def is_begun(self) -> bool:
        """Whether the node is in its upgrade, by the operator or by a run of ours."""
        return driver_annotations.is_begun(self.node) if self.driver.automatic else DRIVER_PURPOSE in self.purposes

    @property
    def keeps_old_driver(self) -> bool:
        """Whether the driver before still runs, and the operator will not touch it until it is told to."""
        pod, early = self.pod, (names.UPGRADE_REQUIRED, names.UPGRADE_FAILED, names.UPGRADE_CORDON, names.UPGRADE_JOBS)
        is_old = pod is not None and not self.is_current and pod.is_ready and not pod.is_ending
        return is_old and self.state in early

    @functools.cached_property
    def awaits_look(self) -> bool:
        """Whether the operator takes the next step with the node as soon as it looks at it."""
        pod, state = self.pod, self.state
        if not self.driver.automatic or self.blocked or pod is None:
            return False
        if state in names.UPGRADE_FINISHED:
            is_outdated = bool(self.driver.revision) and pod.owner == self.driver.name and not self.is_current
            return is_outdated or self.is_orphaned
        if state in (names.UPGRADE_RESTART, names.UPGRADE_FAILED):
            return self.is_current and pod.is_ready and not pod.is_ending
        if state == names.UPGRADE_VALIDATION:
            return bool(self.validators) and all(each.is_ready for each in self.validators)
        return state == names.UPGRADE_REQUIRED and self.is_begun

    def is_building(self, now: float) -> bool:
        """Return whether the node's driver is being built, which may take long."""
        return self.is_current and self.pod is not None and self.pod.is_building(now)

    @property
    def marks(self) -> tuple[t.Any, ...]:
        """What changes while an upgrade makes progress. A restart of a container does not."""
        pods = tuple((pod.uid, pod.is_ready, pod.is_ending) for pod in (self.pod, *self.validators) if pod)
        labels = objects.labels_of(self.node)
        deploy = tuple(sorted((key, value) for key, value in labels.items() if key.startswith(names.DEPLOY_PREFIX)))
        flags = (nodes.is_cordoned(self.node), nodes.is_ready(self.node), nodes.has_allocatable_gpus(self.node))
        return (self.state, pods, deploy, flags, reported_version(self.node), self.driver.revision)

    # ---- what is missing

    def lacks(self, now: float) -> list[str]:
        """Return what the node waits for before its driver is proved, in the order in which it comes; empty if done."""
        return [each for each in self._missing(now) if each]

    def is_proved(self, now: float) -> bool:
        """Return whether the node waits for nothing any more. It takes much less than to name all that is missing."""
        return not any(self._missing(now))

    def _missing(self, now: float) -> t.Iterator[str]:
        yield from self._declared()
        yield from self._replaced(now)
        yield from self._finished()
        yield from self._serving(now)

    def _declared(self) -> t.Iterator[str]:
        driver, note = self.driver, self.note
        if not self.has_acted and note is not None and note.kind == "held":
            yield "the operator to act on the change of the driver"
        if self.wanted_source and driver.source != self.wanted_source:
            yield f"the operator to give it the driver of {self.wanted_source}"
        if self.wanted_image and driver.image != self.wanted_image:
            yield f"the operator to write {self.wanted_image} into DaemonSet {driver.name}, which has {driver.image}"
        if not driver.is_observed:
            yield f"Kubernetes to notice the change of DaemonSet {driver.name}"
        if not driver.revision:
            yield f"a revision of DaemonSet {driver.name} (list controllerrevisions must be permitted)"

    def _replaced(self, now: float) -> t.Iterator[str]:
        pod = self.pod
        if pod is None:
            yield f"a driver pod of DaemonSet {self.driver.name}"
        elif not self.is_current:
            yield f"pod {pod.name} to be replaced, which has the driver before"
        elif not pod.is_ready or pod.is_ending:
            yield pod.trouble(now)

    def _finished(self) -> t.Iterator[str]:
        if self.state not in names.UPGRADE_FINISHED:
            yield f"the operator to finish (state {self.state}; {TICK_TEXT})"
        paused = driver_annotations.paused_operands(self.node)
        if paused:
            yield f"its operands to come back ({', '.join(sorted(paused))} is paused)"
        note = self.note
        is_ours = note is not None and note.kind == "turn" and note.reason != driver_annotations.WAS_CORDONED
        if is_ours and nodes.is_cordoned(self.node) and self.state in names.UPGRADE_FINISHED:
            yield "its cordon to be lifted"

    def _serving(self, now: float) -> t.Iterator[str]:
        labels = objects.labels_of(self.node)
        if not nodes.is_ready(self.node):
            yield "its kubelet to be Ready"
        if self.stack.validates:
            yield from self._validated(now)
        reported = reported_version(self.node)
        if self.stack.discovers and not self.driver.has_version(reported):
            seen = f"reports {reported}" if reported else "reports no version"
            yield f"feature discovery to report driver {self.driver.version} (it {seen})"
        is_served = self.stack.has_plugin and labels.get(names.DEPLOY_PREFIX + "device-plugin") == "true"
        if is_served and not nodes.has_allocatable_gpus(self.node):
            yield "its GPUs to be allocatable"

    def _validated(self, now: float) -> t.Iterator[str]:
        if not self.validators:
            yield "a validator pod: it has none"
        yield from (pod.trouble(now) for pod in self.validators if not pod.is_ready or pod.is_ending)

    # ---- what an upgrade waits for

    def waits_for(self, now: float) -> str:
        """Return what the node waits for now, in a few words, or an empty string if it is done."""
        lacks = self.lacks(now)
        if not lacks:
            return ""
        told = _IN_STATE.get(self.state)
        if self.blocked and (self.state not in names.UPGRADE_FINISHED or not self.is_current):
            return f"the operator, which upgrades no node while {self.blocked}"
        if self.state == names.UPGRADE_RESTART:
            return next(self._replaced(now), f"the operator to continue ({TICK_TEXT})")
        if self.state == names.UPGRADE_VALIDATION:
            validated = next(self._validated(now), "") if self.stack.validates else ""
            return validated or f"the operator to notice that its validator runs ({TICK_TEXT})"
        return told or lacks[0]


_IN_STATE = {
    names.UPGRADE_REQUIRED: f"the operator to begin ({TICK_TEXT})",
    names.UPGRADE_CORDON: "the operator to cordon it",
    names.UPGRADE_JOBS: "jobs to end",
    names.UPGRADE_PODS: "pods with GPUs to leave",
    names.UPGRADE_DRAIN: "pods to leave",
    names.UPGRADE_UNCORDON: "the operator to uncordon it",
}
