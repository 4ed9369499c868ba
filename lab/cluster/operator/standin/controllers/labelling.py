# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node labels and annotations of the operator, except for the state of an upgrade."""

from __future__ import annotations

import concurrent.futures
import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.controllers.evictions import claims_gpu
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.drivers import OWNER, delegated, owners, upgrade_policy
from lab.cluster.operator.standin.images import ReconcileError
from lab.cluster.operator.standin.lines import V26_7, Line
from lab.cluster.operator.standin.nodes import (
    PLUGIN_LABEL,
    PRESENT,
    STATE,
    UPGRADE_ENABLED,
    annotation_patch,
    claim_label_patch,
    label_patch,
    labels_of,
    swept_claim_labels,
)
from lab.cluster.operator.standin.render import block

_LOOK_AGAIN_S = 30.0
_DELEGATING = {"driver": {"useNvidiaDriverCRD": True}}
"""Without a ClusterPolicy, the drivers are those of NVIDIADrivers."""
WRITERS = 16
"""The number of nodes that are labelled at the same time."""
Patch = t.Mapping[str, str | None]


class Labeller:
    """The controller of node labels."""

    def __init__(self, api: Api, caches: t.Mapping[str, Cache], line: Line = V26_7) -> None:
        self._api = api
        self._caches = caches
        self._line = line
        self._writers = concurrent.futures.ThreadPoolExecutor(WRITERS)

    def __call__(self) -> float | None:
        """Label each node with its operands, then with the owner of its driver, then with a due upgrade."""
        policy, clusters = oldest(self._caches["policies"].items()), self._caches["gpuclusters"].items()
        if policy is None:
            if clusters:
                self._label_for_claims()
            return None
        if clusters:
            raise ReconcileError("both ClusterPolicy and GPUCluster CRs exist; only one may be present at a time")
        spec, nodes = policy["spec"], self._caches["nodes"].items()
        served = {node["metadata"]["name"] for node in nodes if self._serves(node)}
        swept = {name: swept_claim_labels(node, serves=name in served) for name, node in _named(nodes)}
        patches = [(node, {**label_patch(node, spec), **swept[name]}) for name, node in _named(nodes)]
        self._write("labels", patches)
        if any(PRESENT in patch for node, patch in patches):
            # The next steps depend on which nodes have GPUs: the change of these labels starts another run.
            return None
        if delegated(spec) and self._line.owners:
            self._hand_over(nodes)
        self._write("annotations", self._annotations(spec, nodes))
        return _LOOK_AGAIN_S if served else None

    def _serves(self, node: Json) -> bool:
        """Return whether the plugin of a node that has been a GPUCluster's still has claims to take back."""
        if not labels_of(node).get(PLUGIN_LABEL):
            return False
        pods = self._api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node['metadata']['name']}")
        return any(claims_gpu(self._api, pod, admin=True) for pod in pods if not _has_ended(pod))

    def _label_for_claims(self) -> None:
        """Label each node for the operands of a GPUCluster, which leaves drivers to NVIDIADrivers."""
        nodes = self._caches["nodes"].items()
        patches = [(node, claim_label_patch(node)) for node in nodes]
        self._write("labels", patches)
        if not any(PRESENT in patch for node, patch in patches):
            self._hand_over(nodes)
            self._write("annotations", self._annotations(_DELEGATING, nodes))

    def _hand_over(self, nodes: list[Json]) -> None:
        drivers = self._caches["nvidiadrivers"].items()
        wanted = owners(drivers, nodes)
        gpu_nodes = [node for node in nodes if node["metadata"]["name"] in wanted]
        pairs = [(node, wanted[node["metadata"]["name"]]) for node in gpu_nodes]
        changed = [(node, owner) for node, owner in pairs if owner != labels_of(node).get(OWNER)]
        self._write("labels", [(node, {OWNER: owner}) for node, owner in changed])
        self._replace_orphans(drivers, nodes)

    def _replace_orphans(self, drivers: list[Json], nodes: list[Json]) -> None:
        """Request an upgrade of the nodes on which a driver pod without a DaemonSet runs."""
        running = [pod for pod in self._caches["drivers"].items() if pod["status"].get("phase") == "Running"]
        orphaned = {pod["spec"].get("nodeName") for pod in running if orphan(pod)}
        names = {driver["metadata"]["name"] for driver in drivers if not driver["metadata"].get("deletionTimestamp")}
        due = [node for node in nodes if node["metadata"]["name"] in orphaned and _to_be_replaced(node, names)]
        self._write("labels", [(node, {STATE: "upgrade-required"}) for node in due])

    def _annotations(self, spec: Json, nodes: list[Json]) -> list[tuple[Json, Patch]]:
        by_policy = not delegated(spec) or not self._line.own_policies
        if by_policy or block(spec, "sandboxWorkloads").get("enabled"):
            return [(node, annotation_patch(node, spec)) for node in nodes]
        # Nodes that no driver owns keep their annotation.
        automatic = {
            driver["metadata"]["name"]: upgrade_policy(driver)["autoUpgrade"]
            for driver in self._caches["nvidiadrivers"].items()
        }
        found: list[tuple[Json, Patch]] = []
        for node in nodes:
            owner = labels_of(node).get(OWNER)
            value = "true" if automatic.get(owner or "") else None
            present = (node["metadata"].get("annotations") or {}).get(UPGRADE_ENABLED)
            if owner in automatic and present != value:
                found.append((node, {UPGRADE_ENABLED: value}))
        return found

    def _write(self, what: str, patches: t.Iterable[tuple[Json, Patch]]) -> None:
        def write(item: tuple[Json, Patch]) -> None:
            node, patch = item
            self._api.merge(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {what: patch}})

        list(self._writers.map(write, [item for item in patches if item[1]]))


def _named(nodes: list[Json]) -> list[tuple[str, Json]]:
    return [(node["metadata"]["name"], node) for node in nodes]


def _has_ended(pod: Json) -> bool:
    """Return whether a pod has ended by itself. Its claims are taken back then."""
    return pod["status"].get("phase") in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def orphan(pod: Json) -> bool:
    """Return whether a driver pod has lost its DaemonSet."""
    return not pod["metadata"].get("ownerReferences")


def _to_be_replaced(node: Json, drivers: t.Container[str]) -> bool:
    """Return whether an existing driver owns a node, and no upgrade of the node is in progress or has failed."""
    labels = labels_of(node)
    return labels.get(OWNER) in drivers and labels.get(STATE, "") in ("", "upgrade-done")
