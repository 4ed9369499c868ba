# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A kubeconfig for Helm, so that it reaches the cluster that the modules reach, as the same user.

Left alone, Helm finds its cluster by other rules: it prefers KUBECONFIG to a pod's service account, and does not know
client certificates, impersonation and proxies that are given as options or as K8S_AUTH_* variables.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import time

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CONTEXT = "gpuops"

_PREFIX, _SUFFIX = "gpuops-", ".kubeconfig"
_MARK = {"name": "gpuops.nvidia/helm-kubeconfig", "extension": {}}
"""What a kubeconfig of ours says of itself."""
LEFT_BEHIND_S = 6 * 3600
"""After this time, no run still uses its kubeconfig: it was killed. Helm's calls take minutes."""


def write(cluster: Cluster, context: str | None) -> Json:
    """Write the connection into a new file that only this user can read; return where, and what it leads to.

    Its context has the name that Helm is asked for by the option ``context`` or by K8S_AUTH_CONTEXT, if there is one.
    """
    name = context or os.environ.get("K8S_AUTH_CONTEXT") or CONTEXT
    try:
        _delete_left_behind(time.time())
        content = json.dumps({**cluster.kubeconfig(name), "extensions": [_MARK]})
        handle, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
    except OSError as e:
        raise GpuOpsError(f"Cannot write a kubeconfig for Helm: {one_line(e)}.", reason="NotWritable") from e
    return {"changed": False, "kubeconfig": path, "context": name}


def _delete_left_behind(now: float) -> None:
    """Delete the kubeconfigs of runs that were killed: old files of this user that bear our mark."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX)]
    for path in found:
        with contextlib.suppress(OSError, ValueError):
            if _is_left_behind(path, now):
                os.unlink(path)


def _is_left_behind(path: str, now: float) -> bool:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or now - status.st_mtime < LEFT_BEHIND_S:
            return False
        content = json.load(file)
    return isinstance(content, dict) and _MARK in (content.get("extensions") or [])
