# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet from the device plugin to claims: the playbook beside the steps that an administrator takes by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from lab.cluster import Lab, Options

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = {"driver": {"nvidiaDriverCRD": {"enabled": True}}}
CLAIMS = {"clusterPolicy": {"deployCR": False}, "gpuCluster": {"deployCR": True}, **DRIVERS}
GPU_NODES = "nvidia.com/gpu.present=true"
YES = {"stack_move_accept_preview": True, "stack_move_allow_disruption": True}


def compared(nodes: int) -> dict[str, t.Any]:
    """Compare `to_dra.yml` with the steps by hand, on nodes that each run a pod with all GPUs.

    By hand: `kubectl drain` of all nodes, `kubectl delete` of the ClusterPolicy, `helm upgrade` with the values of the
    new stack, `kubectl uncordon`, and the wait until the GPUCluster is ready and every node has a ResourceSlice. The
    playbook also proves each node by a workload.
    """
    lab = Lab(f"bench-move-{nodes}")
    lab.up(Options(nodes=nodes, pods="instant"))
    try:
        lab.deploy("--set=driver.nvidiaDriverCRD.enabled=true", timeout=600)
        lab.kubectl("create", "--filename=-", "--namespace=default", stdin=json.dumps(_job(nodes)))
        _wait_for_job(lab)
        ours = _playbook(lab, "to_dra", CLAIMS)
        _playbook(lab, "to_device_plugin", DRIVERS)
        _wait_for_job(lab)
        theirs = _by_hand(lab, nodes)
    finally:
        lab.down()
    return {"ours_s": round(ours, 1), "theirs_s": round(theirs, 1), "nodes": nodes}


def _job(nodes: int) -> dict[str, t.Any]:
    container = {"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    spec["tolerations"] = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    labels = {"app": "train"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    job = {"replicas": nodes, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"}, "spec": job}


def _wait_for_job(lab: Lab) -> None:
    waits = ("rollout", "status", "deployment/train", "--namespace=default", "--timeout=300s")
    lab.kubectl(*waits, timeout=310)


def _playbook(lab: Lab, name: str, values: dict[str, t.Any]) -> float:
    """Run a playbook of the collection, and return its seconds."""
    variables = {"gpuops_kubeconfig": str(lab.kubeconfig), "operator_chart_ref": lab.chart, "operator_values": values}
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-e", json.dumps({**variables, **YES})]
    environment = {**os.environ, "PATH": f"{lab.helm.parent}:{os.environ['PATH']}"}
    streams: dict[str, t.Any] = {"capture_output": True, "text": True, "timeout": 1800}
    began = time.monotonic()
    answer = subprocess.run([*command, f"playbooks/{name}.yml"], cwd=ROOT, env=environment, check=False, **streams)
    if answer.returncode:
        raise SystemExit(f"{name} failed:\n{answer.stdout[-3000:]}")
    return time.monotonic() - began


def _by_hand(lab: Lab, nodes: int) -> float:
    began = time.monotonic()
    drain = ("drain", f"--selector={GPU_NODES}", "--pod-selector=app=train", "--ignore-daemonsets", "--timeout=1200s")
    lab.kubectl(*drain, timeout=1210)
    lab.kubectl("delete", "clusterpolicy/cluster-policy", "--timeout=600s", timeout=610)
    values = [f"--set={name}" for name in ("clusterPolicy.deployCR=false", "gpuCluster.deployCR=true")]
    helm = [str(lab.helm), f"--kubeconfig={lab.kubeconfig}", "--namespace=gpu-operator", "upgrade", "gpu-operator"]
    subprocess.run([*helm, str(lab.chart), "--reuse-values", *values], check=True, capture_output=True, timeout=300)
    lab.kubectl("uncordon", f"--selector={GPU_NODES}")
    lab.kubectl(
        "wait", "gpucluster/gpu-cluster", "--for=jsonpath={.status.state}=ready", "--timeout=1200s", timeout=1210
    )
    while len(set(lab.kubectl("get", "resourceslices", "--output=jsonpath={.items[*].spec.nodeName}").split())) < nodes:
        time.sleep(1)
    return time.monotonic() - began
