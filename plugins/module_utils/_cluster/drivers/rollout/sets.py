# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The DaemonSets of a driver: the revision, image and version of each, and whether the operator replaces its pods."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DRIVER,
    POLICY,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.eviction import EvictionPermits
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import driver_reasons
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_VERSION = re.compile(r"(\d+(?:\.\d+)*)(?:-|$)")
"""The beginning of a driver image's tag: a version, or the branch of a precompiled driver."""


UNREADY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of a node that is down. Pods of DaemonSets tolerate them with the effect NoExecute only."""


@dataclasses.dataclass(frozen=True)
class Deletion:
    """Which pods the operator may delete from a node: ``podDeletion`` and ``drain`` of the upgrade policy."""

    is_given: bool = True
    force: bool = False
    delete_emptydir_data: bool = False
    drains: bool = False
    jobs: str = ""
    """The label selector of pods that the operator waits for."""

    @property
    def permits(self) -> EvictionPermits:
        """The same in the words of node maintenance."""
        return EvictionPermits(self.force, self.delete_emptydir_data)


@dataclasses.dataclass(frozen=True)
class DriverSet:
    """One DaemonSet of the driver."""

    name: str
    revision: str = ""
    """The newest revision, or an empty string if this user may not read it."""
    image: str = ""
    desired: int = 0
    is_observed: bool = True
    automatic: bool = True
    """Whether the operator replaces outdated pods by itself."""
    deletion: Deletion = Deletion()
    template: Json = dataclasses.field(default_factory=dict)
    source: str = ""
    """The object that the operator has made it for, such as ``NVIDIADriver a100``."""

    @property
    def version(self) -> str:
        """The driver's version, or its branch, or an empty string for a digest."""
        tag = "" if "@" in self.image else self.image.rpartition("/")[2].partition(":")[2]
        found = _VERSION.match(tag)
        return found[1] if found else ""

    def selects(self, node: Json) -> bool:
        """Return whether a node's labels ask for a pod of this DaemonSet."""
        affinity = (self.template.get("affinity") or {}).get("nodeAffinity") or {}
        is_given = bool(self.template)
        return (
            is_given and nodes.matches(self.template.get("nodeSelector"), node) and nodes.fits_affinity(affinity, node)
        )

    def kept_away_by(self, node: Json) -> list[str]:
        """Return the node's taints that keep the DaemonSet's pod away. It tolerates no unreachable node.

        Nothing is known of a DaemonSet that is not there yet.
        """
        if not self.name:
            return []
        found = nodes.untolerated(node, self.template.get("tolerations") or [])
        unready = [
            each["key"]
            for each in nodes.taints_of(node)
            if each.get("effect") == "NoSchedule" and each["key"] in UNREADY and not self._tolerates(each)
        ]
        return [*(str(each["key"]) for each in found), *unready]

    def _tolerates(self, taint: Json) -> bool:
        return any(nodes.tolerates(each, taint) for each in self.template.get("tolerations") or [])

    def has_version(self, reported: str) -> bool:
        """Return whether a driver with this version is the one of the DaemonSet. A digest has no version to compare."""
        return self.version in ("", reported) or ("." not in self.version and reported.startswith(f"{self.version}."))


def reported_version(node: Json) -> str:
    """Return the driver's version that GPU Feature Discovery reports, or an empty string."""
    labels = objects.labels_of(node)
    parts = [labels.get(key, "") for key in names.DRIVER_VERSION_PARTS]
    return labels.get(names.DRIVER_VERSION) or ".".join(part for part in parts if part)


def driver_sets(
    daemonsets: t.Iterable[Json],
    revisions: t.Mapping[str, str],
    policy: Json,
    nvidiadrivers: t.Iterable[Json],
    policy_name: str = "",
) -> dict[str, DriverSet]:
    """Return the DaemonSets of the driver by name. ``policy`` is the ClusterPolicy's spec."""
    specs = {objects.name_of(item): item["spec"] for item in nvidiadrivers}
    found = {}
    for item in daemonsets:
        if operands.operand_name(item) == operands.DRIVER.name:
            owner = driver_reasons.owner_of(item)
            made = _driver_set(item, revisions, policy, specs.get(owner or ""))
            source = f"{DRIVER} {owner}" if owner else f"{POLICY} {policy_name}"
            found[made.name] = dataclasses.replace(made, source=source)
    return found


def _driver_set(item: Json, revisions: t.Mapping[str, str], policy: Json, own: Json | None) -> DriverSet:
    template, status = item["spec"]["template"]["spec"], item.get("status") or {}
    image = next((each["image"] for each in template["containers"] if each["name"] == operands.DRIVER.container), "")
    return DriverSet(
        name=objects.name_of(item),
        revision=revisions.get(objects.name_of(item), ""),
        image=str(image),
        desired=int(status.get("desiredNumberScheduled") or 0),
        is_observed=int(status.get("observedGeneration") or 0) >= int(item["metadata"].get("generation") or 0),
        automatic=operands.replaces_driver_pods(policy, own),
        deletion=deletion_of(policy, own),
        template={key: template[key] for key in ("nodeSelector", "affinity", "tolerations") if key in template},
    )


def deletion_of(policy: Json, own: Json | None) -> Deletion:
    """Return which pods may be deleted. An NVIDIADriver without these blocks has the operator's defaults."""
    in_policy = ((policy.get("driver") or {}).get("upgradePolicy")) or {}
    is_own = own is not None and ("upgradePolicy" in own or "default" in own)
    blocks = ((own or {}).get("upgradePolicy") or {}) if is_own else in_policy
    pods, drain = blocks.get("podDeletion") or {}, blocks.get("drain") or {}
    return Deletion(
        is_given=is_own or "podDeletion" in blocks,
        force=bool(pods.get("force")),
        delete_emptydir_data=bool(pods.get("deleteEmptyDir")),
        drains=bool(drain.get("enable")),
        jobs=str((blocks.get("waitForCompletion") or {}).get("podSelector") or ""),
    )
