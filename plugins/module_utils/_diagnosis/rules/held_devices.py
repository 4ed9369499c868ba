# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""GPUs that pods hold and that their kubelet calls unhealthy, in the status of these pods."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_FIELD = "allocatedResourcesStatus"
"""Where it stands in the status of a pod."""

_KUBERNETES = "https://github.com/kubernetes/"
_DRA = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/"


def _unhealthy(view: View) -> t.Iterator[Sighting]:
    seen = set()
    for node, each in _doubted(view):
        pod = f"pod {each['namespace']}/{each['pod']}"
        key = (pod, each["device"])
        if each["health"] == device_health.UNHEALTHY and key not in seen:
            seen.add(key)
            said = f": {each['message']}" if each["message"] else ""
            text = f"{each['resource']}, device {each['device']}: {each['health']}{said}"
            quote = fact(text, f"{pod}, container {each['container']}, {_FIELD}", node)
            yield Sighting(node, pod, quote, "certain", {"device": each["device"], "said": said})


def _doubted(view: View) -> t.Iterator[tuple[str, Json]]:
    """Yield what kubelets say, each with the node, from the pods that hold GPUs and from those that are read whole."""
    for node, row in view.rows.items():
        for each in row.get("device_health") or []:
            yield node, each
    for pod in view.evidence.pods:
        of_node, namespace = (pod.get("spec") or {}).get("nodeName"), pod["metadata"].get("namespace")
        for found in device_health.doubted(pod):
            yield str(of_node or ""), device_health.row_of(str(namespace or ""), objects.name_of(pod), found)


RULES = (
    Rule(
        code="HeldGPUUnhealthy",
        title="A pod holds a GPU that is unhealthy",
        severity="failure",
        cause="The kubelet says in the status of the pod that its GPU {device} is Unhealthy{said}. Kubernetes leaves "
        "the pod as it is, and the pod keeps the GPU until it ends.",
        remedy="Look for the cause in the other findings about this node, and in journalctl -k on it (Xid). Take the "
        "node out of service (kubectl drain, or the module gpuops.nvidia.node_maintenance), so that the pod's "
        "controller makes one elsewhere, and reset the GPU or reboot the node. NVIDIA's driver for claims calls a GPU "
        "unhealthy until its pod on the node starts again.",
        sources=(
            f"{_KUBERNETES}enhancements/tree/64765b4b0/keps/sig-node/4680-add-resource-health-to-pod-status",
            f"{_KUBERNETES}kubernetes/blob/v1.36.3/pkg/kubelet/cm/dra/manager.go",
            f"{_DRA}blob/46c7cc2591dc37298181a5e11a212db97e931be4/cmd/gpu-kubelet-plugin/device_health_status.go",
        ),
        check=_unhealthy,
    ),
)
