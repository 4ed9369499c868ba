# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A summary of the cluster that the preflight checks looked at."""

from __future__ import annotations

import collections

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.platform_checks import platform_facts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.versions import os_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import kernel_of, runtime_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def facts(snapshot: Snapshot) -> Json:
    """Return the module's result ``facts``."""
    candidates, namespace = snapshot.candidates, snapshot.namespace
    gpu_nodes_known = bool(snapshot.gpu_nodes) or snapshot.nfd_ran
    return {
        "kubernetes_version": snapshot.version,
        "nodes": len(snapshot.nodes),
        "gpu_nodes": [name_of(node) for node in snapshot.gpu_nodes] if gpu_nodes_known else None,
        "container_runtimes": dict(collections.Counter(map(runtime_of, candidates))),
        "operating_systems": dict(collections.Counter(map(os_name, candidates))),
        "kernels": dict(collections.Counter(map(kernel_of, candidates))),
        "nfd": sorted({worker.namespace for worker in nfd.installations(snapshot.daemonsets)}),
        **platform_facts(snapshot),
        "namespace": {"name": name_of(namespace), "labels": labels_of(namespace)} if namespace else None,
    }
