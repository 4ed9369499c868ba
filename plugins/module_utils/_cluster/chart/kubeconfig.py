# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A kubeconfig for Helm, so that it reaches the cluster that the modules reach, as the same user.

Left alone, Helm finds its cluster by other rules: it prefers KUBECONFIG to a pod's service account, and does not know
client certificates, impersonation and proxies that are given as options or as K8S_AUTH_* variables.
"""

from __future__ import annotations

import json
import os
import tempfile

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CONTEXT = "gpuops"


def write(cluster: Cluster, context: str | None) -> Json:
    """Write the connection into a new file that only this user can read; return where, and what it leads to.

    Its context has the name that Helm is asked for by the option ``context`` or by K8S_AUTH_CONTEXT, if there is one.
    """
    name = context or os.environ.get("K8S_AUTH_CONTEXT") or CONTEXT
    try:
        content = json.dumps(cluster.kubeconfig(name))
        handle, path = tempfile.mkstemp(prefix="gpuops-", suffix=".kubeconfig")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
    except OSError as e:
        raise GpuOpsError(f"Cannot write a kubeconfig for Helm: {one_line(e)}.", reason="NotWritable") from e
    return {"changed": False, "kubeconfig": path, "context": name, "server": cluster.host}
