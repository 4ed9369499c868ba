# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A chart with a GPUCluster, whose GPUs pods get by claims: deployed, waited for, used, and removed."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows, tolerance

from lab.cluster import Lab
from tests.support.ansible import OPERATOR, Playbook

pytestmark = pytest.mark.slow("a stack comes, goes and comes again")

VALUES = {
    "clusterPolicy": {"deployCR": False},
    "gpuCluster": {"deployCR": True},
    "driver": {"nvidiaDriverCRD": {"enabled": True}},
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "claims-a-gpu"},
    "spec": {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
        "tolerations": [{"operator": "Exists"}],
    },
}


def stack(lab: Lab) -> dict[str, t.Any]:
    """Return what gpu_stack_info returns."""
    options = {"namespace": "", "name": "", "allocated": False, **dict.fromkeys(tolerance.SPEC.options)}
    defaults = {name: option.get("default") for name, option in tolerance.SPEC.options.items()}
    return node_rows.fleet_info(Cluster({"kubeconfig": str(lab.kubeconfig)}), {**options, **defaults})


def found(lab: Lab, *kinds: str) -> str:
    return lab.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name").strip()


@pytest.fixture
def released(lab: Lab) -> t.Iterator[None]:
    yield
    # Without the driver's plugin a pod with a claim does not end by itself.
    lab.kubectl("delete", "pod", "--all", "--namespace=default", "--grace-period=0", "--force")
    lab.kubectl("delete", "resourceclaim", "--all", "--namespace=default")


@pytest.mark.usefixtures("clean", "released")
@pytest.mark.wide
def test_a_gpucluster_comes_and_goes(lab: Lab, ansible: Playbook) -> None:
    runs = [ansible.run(OPERATOR, *check, operator_values=VALUES) for check in (["--check"], [], [])]
    assert [run.status for run in runs] == [0, 0, 0], "\n".join(run.output for run in runs)
    assert runs[0].changed == runs[1].changed > 0 and runs[2].changed == 0, runs[0].output + runs[1].output
    seen = stack(lab)
    assert (seen["verdict"]["state"], seen["verdict"]["nodes_ready"]) == ("ready", 4), seen["verdict"]
    assert [row["claimable"] for row in seen["nodes"]] == [True] * 4
    for item in (CLAIM, POD):
        lab.kubectl("create", "--filename=-", "--namespace=default", stdin=json.dumps(item))
    lab.kubectl("wait", "--for=condition=Ready", "pod/claims-a-gpu", "--namespace=default", "--timeout=60s")
    refused = [ansible.run(OPERATOR, *check) for check in (["--check"], [])]
    assert [run.status for run in refused] == [2, 2] and not any(run.changed for run in refused), refused[1].output
    assert "GPUCluster gpu-cluster exists" in refused[1].message
    newer = {**VALUES, "driver": {**VALUES["driver"], "version": "595.58.03"}}
    refused = ansible.run(OPERATOR, operator_values=newer)
    told = "Changing NVIDIADriver default version interrupts 1 GPU pod (default/claims-a-gpu) on 1 node"
    assert refused.status == 2 and told in refused.message, refused.output
    removal = {"operator_values": VALUES, "operator_state": "absent"}
    refused = ansible.run(OPERATOR, **removal)
    assert refused.status == 2 and "default/claims-a-gpu" in refused.message, refused.output
    assert found(lab, "gpuclusters") == "gpucluster.nvidia.com/gpu-cluster"
    gone = ansible.run(OPERATOR, **removal, operator_allow_disruption=True)
    assert gone.status == 0, gone.output
    assert found(lab, "gpuclusters") == ""
    lab.kubectl("wait", "--for=delete", "resourceslices", "--all", "--timeout=60s")
