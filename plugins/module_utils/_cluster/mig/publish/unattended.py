# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes a publication changes although nobody drains them, and the refusal of that.

Another ConfigMap in the ClusterPolicy lets the operator replace all MIG managers. A layout that becomes valid only by
an edit is applied at the manager's next start, whenever that is.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish.book import Sources
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import unapplied
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import Layouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few


def concerned(
    all_hosts: t.Sequence[Host], before: Sources, after: t.Callable[[Host], Layouts], restarts: bool
) -> list[Host]:
    """Return the nodes whose MIG manager changes the GPUs without being asked, now or at its next start.

    ``restarts`` says whether all MIG managers start again. A layout that is in use keeps its meaning.
    """
    return [
        host
        for host in all_hosts
        if host.layout in after(host)
        and (restarts or host.layout not in before(host.name).layouts)
        and unapplied.divides(host, after(host)[host.layout])
    ]


def in_service(some: t.Sequence[Host], running: t.Sequence[GpuPod]) -> list[str]:
    """Return which of these nodes take pods, or have pods on their GPUs."""
    busy = {pod.node for pod in running}
    return [host.name for host in some if host.name in busy or not Sight(host.node).is_cordoned]


def refuse(some: t.Sequence[Host], running: t.Sequence[GpuPod]) -> None:
    """Raise an error if one of these nodes is in service."""
    named = set(in_service(some, running))
    if named:
        which = list(map(unapplied.described, some))
        pods = [f"{pod.namespace}/{pod.name}" for pod in running if pod.node in named]
        used = f", which {first_few(pods)} use" if pods else ""
        raise GpuOpsError(
            f"This would let the MIG managers divide the GPUs of {first_few(which)}{used}. Drain these nodes first "
            "(role mig, which does so, or node_maintenance with purpose: mig), or remove their label.",
            reason="NodesBusy",
            nodes=sorted(named),
        )
