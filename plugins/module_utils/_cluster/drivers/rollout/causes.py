# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Why a node's upgrade failed or does not go on: what the operator, the pods and the API server say about it."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_WORDS = {
    "(force permits it)": "(upgrade_policy.pod_deletion.force permits it)",
    "(delete_emptydir_data permits it)": "(upgrade_policy.pod_deletion.deleteEmptyDir permits it)",
}
"""The permissions of node maintenance in the words of the operator's upgrade policy."""

DETAIL_S = 10.0
"""How long a node must have waited before the pods that it waits for are read, and how often they are read."""
DETAILS = 8
"""Of how many nodes at a time they are read."""


def obstacles(pods: list[Json], deletion: Deletion) -> list[str]:
    """Return why the operator may not delete pods from a node."""
    return [in_policy_words(text) for text in eviction.obstacles(pods, deletion.permits)]


def in_policy_words(text: str) -> str:
    """Return a message of node maintenance in the words of the operator's upgrade policy."""
    for ours, theirs in _WORDS.items():
        text = text.replace(ours, theirs)
    return text


class Causes:
    """Asks the cluster why a node does not go on. It changes nothing."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        self._cluster, self._fleet = cluster, fleet
        self._dry = copy.copy(cluster)
        self._dry.check_mode = True

    def of_failure(self, sight: DriverNode, now: float, known: str = "") -> str:
        """Return the cause of a failed upgrade in one or two sentences, without those in ``known``."""
        said = observe.upgrade_failure(self._cluster, sight.name)
        causes = [self.standing(sight, now), "" if sight.is_current and sight.is_proved(now) else self.returning(sight)]
        told = [f"{cause[0].upper()}{cause[1:]}." for cause in causes if cause]
        told = [sentence for sentence in told if one_line(sentence) not in known]
        return " ".join([*told, *([f"The operator says: {said}."] if said else [])])

    def returning(self, sight: DriverNode) -> str:
        """Return which pods with GPUs come back to the node although it is cordoned, or an empty string."""
        found = [pod for pod in self._fleet.pods_on(sight.name) if nodes.ignores_cordons(pod["spec"])]
        if not found or not nodes.is_cordoned(sight.node):
            return ""
        named = first_few(list(map(objects.full_name, found)))
        return f"pods that tolerate {nodes.CORDON['key']} come back to the cordoned node: {named}"

    def standing(self, sight: DriverNode, now: float) -> str:
        """Return what would make the upgrade fail again, or an empty string."""
        if sight.crashes:  # the kubelet's back-off only says that it crashed: whether it would again is not known
            found = self.in_the_way(sight)
            return f"pods are in the way: {found}" if found else ""
        if sight.is_current:
            unwell = [pod for pod in (sight.pod, *sight.validators) if pod and not pod.is_ready]
            if unwell:
                return f"it waits for {unwell[0].trouble(now)}"
            return "it has no validator pod" if sight.stack.validates and not sight.validators else ""
        if not sight.driver.deletion.is_given and sight.driver.automatic:
            return "the upgrade policy has no podDeletion"
        found = self.in_the_way(sight)
        return f"pods are in the way: {found}" if found else ""

    def in_the_way(self, sight: DriverNode) -> str:
        """Return which pods with GPUs stand in the way and why, or an empty string."""
        pods = self._fleet.pods_on(sight.name)
        found = obstacles(pods, sight.driver.deletion)
        refused = [text for pod in pods if (text := self._refused(pod))]
        return first_few([*found, *refused], separator="; ")

    def _refused(self, pod: Json) -> str:
        """Return why the API server would not evict a pod, or an empty string."""
        namespace = pod["metadata"]["namespace"]
        if eviction.is_ending(pod):
            return ""
        try:
            self._dry.evict(namespace, objects.name_of(pod), eviction.uid_of(pod))
            return ""
        except GpuOpsError as e:
            try:
                why = eviction.explain_refusal(e, namespace)
            except GpuOpsError:  # the cause only explains a failure that is reported anyway
                return ""
        return f"{objects.full_name(pod)}: {why}" if why else ""

    def of_wait(self, sight: DriverNode) -> str:
        """Return which pods an upgrade waits for at the moment, or an empty string."""
        if sight.state == names.UPGRADE_JOBS and sight.driver.deletion.jobs:
            query = {"fieldSelector": f"spec.nodeName={sight.name}", "labelSelector": sight.driver.deletion.jobs}
            listed = (self._cluster.get(namespaced("v1", None, "pods"), query) or {}).get("items") or []
            running = [item for item in listed if item["status"].get("phase") in ("Running", "Pending")]
            return first_few(list(map(objects.full_name, running)))
        if sight.state == names.UPGRADE_PODS or (sight.state == names.UPGRADE_DRAIN and sight.driver.deletion.drains):
            pods = self._fleet.pods_on(sight.name)
            told = [self._refused(pod) or objects.full_name(pod) for pod in pods]
            return first_few(told, separator="; ")
        return ""


class WaitDetails:
    """What the nodes in their upgrade wait for, read now and then, and of a few nodes at a time."""

    def __init__(self, causes: Causes, fleet: Fleet) -> None:
        self._causes, self._fleet = causes, fleet
        self._texts: dict[str, str] = {}
        self._read = -DETAIL_S

    def look(self, sights: t.Mapping[str, DriverNode], begun: t.Mapping[str, float], now: float) -> None:
        """Read what nodes wait for, unless that was done a moment ago. ``begun`` says since when each of them waits."""
        if now - self._read >= DETAIL_S:
            self._read = now
            late = [name for name, since in begun.items() if now - since >= DETAIL_S]
            chosen = [name for name in late if name in sights][:DETAILS]
            found = self._fleet.each(lambda name: self._causes.of_wait(sights[name]), chosen)
            self._texts = dict(zip(chosen, found))

    def of(self, name: str) -> str:
        """Return what a node waits for, as far as it was read, or an empty string."""
        return self._texts.get(name, "")
