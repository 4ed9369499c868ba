# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The checks of the preflight on a cluster as it is, with the stack that is installed. Pure."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

ABOUT_INTENT = ("permissions", "role_grants")
"""Checks of what an installation would need."""

OF_THE_JUDGE = ("gpu_nodes", "taints", "node_state")
"""Checks of what the judge reports too, with the nodes by name."""

PROVEN = ("kubernetes_version", "container_runtime", "operating_system", "driver", "platform", "pod_security")
"""Checks of what may not work. A stack that is ready proves that it does."""


def findings(snapshot: Snapshot, namespace: str, spec: Json, is_ready: bool) -> list[Json]:
    """Return what the checks say about the cluster, without what is harmless."""
    unknown = [name for name, check in checks.CHECKS.items() if check.needs & snapshot.unreadable]
    skip = {*ABOUT_INTENT, *OF_THE_JUDGE, *(PROVEN if is_ready else ()), *unknown}
    # Whoever has installed the operator that is diagnosed: only one beside it is another.
    others = [item for item in snapshot.operators if item["metadata"].get("namespace") != namespace]
    seen = dataclasses.replace(snapshot, operators=others)
    found = checks.run_checks(seen, intent_of(snapshot, namespace, spec), skip)
    return [dataclasses.asdict(finding) for finding in found if finding.level != "ok"]


def intent_of(snapshot: Snapshot, namespace: str, spec: Json) -> Intent:
    """Return what is installed, in the words of an intent to install it."""
    own = [item for item in snapshot.operators if item["metadata"].get("namespace") == namespace]
    release = objects.annotations_of(own[0]).get(names.HELM_RELEASE, names.OPERATOR) if own else names.OPERATOR
    workers = nfd.installations(snapshot.daemonsets)
    driver = spec.get("driver") or {}
    values = {
        **spec,
        "driver": {**driver, "nvidiaDriverCRD": {"enabled": bool(driver.get("useNvidiaDriverCRD"))}},
        "nfd": {"enabled": any(worker.belongs_to(release, namespace) for worker in workers)},
        "gpuCluster": {"deployCR": bool(snapshot.gpuclusters) and not snapshot.clusterpolicies},
    }
    return Intent(namespace, release, _version(own), values, installs=False)


def _version(operators: list[Json]) -> str | None:
    """Return the release of the operator that runs, such as ``v26.7.0``, or None."""
    for deployment in operators:
        for container in deployment["spec"]["template"]["spec"].get("containers") or []:
            release = operands.release(str(container.get("image") or "").rpartition(":")[2])
            if release:
                return "v" + ".".join(map(str, release))
    return None
