# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of KubeVirt that a lab gets, and what its nodes offer. Nothing runs machines: who asks is what counts."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from lab.cluster.lab import Lab

Json = dict[str, t.Any]

CRDS = Path(__file__).with_name("crds.yaml")
NAMESPACE = "kubevirt"


def deploy(lab: Lab, configuration: Json, version: str = "v1.9.0") -> None:
    """Make KubeVirt's kinds, and a KubeVirt with this configuration that is deployed."""
    lab.kubectl("apply", "--server-side", f"--filename={CRDS}")
    lab.kubectl("wait", "--for=condition=Established", f"--filename={CRDS}", "--timeout=30s")
    kubevirt: Json = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": NAMESPACE},
        "spec": {"configuration": configuration},
    }
    namespace: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for item in (namespace, kubevirt):
        lab.kubectl("create", "--filename=-", stdin=json.dumps(item))
    status = json.dumps({"status": {"phase": "Deployed", "observedKubeVirtVersion": version}})
    where = ["kubevirt", "kubevirt", f"--namespace={NAMESPACE}"]
    lab.kubectl("patch", *where, "--subresource=status", "--type=merge", f"--patch={status}")


def offer(lab: Lab, node: str, kind: str, **resources: int) -> None:
    """Let a node offer resources of nvidia.com to virtual machines: ``offer(lab, node, "vm-passthrough", GPU=4)``."""
    lab.kubectl("label", "node", node, f"nvidia.com/gpu.workload.config={kind}", "--overwrite")
    listed = {f"nvidia.com/{name}": str(number) for name, number in resources.items()}
    status = json.dumps({"status": {"capacity": listed, "allocatable": listed}})
    lab.kubectl("patch", "node", node, "--subresource=status", "--type=merge", f"--patch={status}")


def remove(lab: Lab) -> None:
    """Remove everything of KubeVirt's. What nodes offered stays with 0, as a kubelet leaves it."""
    lab.kubectl("delete", f"--filename={CRDS}", "--ignore-not-found")
    lab.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
    for node in json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]:
        name, left = node["metadata"]["name"], node["status"].get("allocatable") or {}
        gone = {each: "0" for each in left if each.startswith("nvidia.com/") and not each.startswith("nvidia.com/gpu")}
        status = json.dumps({"status": {"capacity": gone, "allocatable": gone}})
        lab.kubectl("label", "node", name, "nvidia.com/gpu.workload.config-")
        lab.kubectl("patch", "node", name, "--subresource=status", "--type=merge", f"--patch={status}")
