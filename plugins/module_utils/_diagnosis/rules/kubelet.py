# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""GPU nodes that run no pods, in the words of their kubelets."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.statuses import NODE_CONDITIONS
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_FOLLOWS = NOT_READY | {"NodesNotReady", "ExporterSilent"}
_CONDITIONS = "https://kubernetes.io/docs/reference/node/node-status/#condition"


def _ready(status: str, view: View) -> t.Iterator[Sighting]:
    """Yield the GPU nodes whose condition Ready has this status."""
    for name in view.rows:
        conditions = (view.nodes.get(name, {}).get("status") or {}).get("conditions") or []
        for condition in conditions:
            if condition.get("type") == "Ready" and condition.get("status") == status:
                message = str(condition.get("message") or condition.get("reason") or "it gives no reason")
                text = f"Ready: {status}, {condition.get('reason') or 'no reason'}: {message}"
                values = {"message": message.rstrip(".")}
                yield Sighting(name, "", fact(text, NODE_CONDITIONS, name), "certain", values)


RULES = (
    Rule(
        code="NodeSilent",
        title="A node has stopped reporting",
        severity="failure",
        cause="The cluster has lost contact with the node's kubelet ({message}). The host is off, hangs, or does "
        "not reach the API server.",
        remedy="Look whether the host answers (ping, or the console of its BMC), and turn it on. If it answers, run "
        "`systemctl status kubelet` on it (k3s and RKE2: k3s-agent, rke2-agent), and `journalctl -e -u kubelet`.",
        sources=(_CONDITIONS, "https://kubernetes.io/docs/concepts/architecture/nodes/#node-heartbeats"),
        check=functools.partial(_ready, "Unknown"),
        explains=_FOLLOWS,
    ),
    Rule(
        code="NodeNotReady",
        title="A node can run no pods",
        severity="failure",
        cause="The node's kubelet says that it can run no pods: {message}.",
        remedy="If it names the container runtime, run `systemctl status containerd` (or crio) and `journalctl -e -u "
        "containerd` on the host. If it names the network plugin, look at that plugin's pod on the node (kubectl get "
        "pods -A -o wide). Otherwise run `journalctl -e -u kubelet`.",
        sources=(_CONDITIONS, "https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/nodestatus/setters.go"),
        check=functools.partial(_ready, "False"),
        explains=_FOLLOWS,
    ),
)
