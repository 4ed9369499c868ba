# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A ComputeDomain on the lab: made, used by pods on two nodes, refused while in use, and removed.

The lab's controller and its daemons are written after the source of NVIDIA's (lab/cluster/nodes/agents/dra/domains.py),
and the CRD is that of the operator's chart v26.7.0. API server, scheduler and DaemonSet controller are real.
"""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest

from lab.cluster import Lab, Options, faults
from tests.integration.test_cluster_roles import FILES, User, bind
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = [pytest.mark.wide, pytest.mark.slow("a stack comes with its controller, which goes and comes again")]

VALUES = (
    "--set=clusterPolicy.deployCR=false",
    "--set=gpuCluster.deployCR=true",
    "--set=driver.nvidiaDriverCRD.enabled=true",
)
RACK = "11111111-2222-3333-4444-555555555555"
NODES = {"gpu-0000": f"{RACK}.1", "gpu-0001": f"{RACK}.1", "gpu-0002": f"{RACK}.2"}
JOB = {"name": "training", "namespace": "default"}
NEW = {**JOB, "num_nodes": 2, "channel": {"template": "training-channel"}}
CONTROLLER = "deployment/nvidia-dra-driver-controller"


class Answer:
    """The result of the module."""

    def __init__(self, result: dict[str, t.Any]) -> None:
        self.result = result

    @property
    def changed(self) -> bool | None:
        """Whether it changed something, or None if it failed."""
        return None if self.result.get("failed") else bool(self.result["changed"])

    @property
    def message(self) -> str:
        """The message of a failure, or that of the verdict."""
        return str(self.result.get("msg") or (self.result.get("verdict") or {}).get("message"))


class Rack:
    """A lab with a GPUCluster, three nodes of two NVLink cliques, and what a test does there."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.kubectl("create", f"--filename={FILES / 'cluster_role_domains.yml'}")
        bind(lab, "domains", "domains")
        self.user = User(lab, "domains")
        for node, clique in NODES.items():
            lab.kubectl("annotate", "node", node, f"lab.gpuops.nvidia/clique={clique}", "--overwrite")
        sees(lambda: all(self.label(node, "nvidia.com/gpu.clique") for node in NODES), 30)

    def module(self, check: bool = False, **options: t.Any) -> Answer:
        """Run the module, and return its result."""
        command = [
            "ansible",
            "localhost",
            "--module-name",
            "gpuops.nvidia.compute_domain",
            "--args",
            json.dumps(options),
        ]
        ansible = self.user.playbook
        run = ansible.finish(ansible.command([*command, *(["--check"] if check else [])]), 120)
        return Answer(json.JSONDecoder().raw_decode(run.output.partition(" => ")[2])[0])

    def label(self, node: str, name: str) -> str:
        return str(json.loads(self.lab.kubectl("get", "node", node, "-o", "json"))["metadata"]["labels"].get(name, ""))

    def found(self, *kinds: str) -> list[str]:
        return self.lab.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name").split()

    def start(self, name: str, node: str) -> None:
        """Create a pod of the job on a node."""
        spec = {
            "resourceClaims": [{"name": "channel", "resourceClaimTemplateName": "training-channel"}],
            "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "channel"}]}}],
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"kubernetes.io/hostname": node},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.lab.kubectl("create", "--filename=-", "--namespace=default", stdin=json.dumps(pod))

    @contextlib.contextmanager
    def without_controller(self) -> t.Iterator[None]:
        """Let the controller be away. The operator would bring it back, so it is down."""
        faults.operator_down(self.lab)
        self._scale(0, "pod", "--selector=app=nvidia-dra-driver-controller", "--for=delete")
        yield
        self._scale(1, CONTROLLER, "--for=condition=Available")
        faults.restart_operator(self.lab)

    def _scale(self, replicas: int, *waits_for: str) -> None:
        self.lab.kubectl("scale", CONTROLLER, f"--replicas={replicas}", "--namespace=gpu-operator")
        self.lab.kubectl("wait", *waits_for, "--namespace=gpu-operator", "--timeout=60s")


@pytest.fixture(scope="module")
def rack() -> t.Iterator[Rack]:
    with running_lab("domains", Options(nodes=3, upgrade_tick=3, audit=True)) as lab:
        lab.deploy(*VALUES, of="gpucluster/gpu-cluster")
        yield Rack(lab)


def test_a_domain_comes_is_used_and_goes(rack: Rack) -> None:
    runs = rack.module(True, **NEW), rack.module(**NEW), rack.module(**NEW)
    assert [run.changed for run in runs] == [True, True, False], [run.result for run in runs]
    assert "no pod uses it" in runs[1].message
    for number, node in enumerate(("gpu-0000", "gpu-0001")):
        rack.start(f"rank-{number}", node)
    ready = rack.module(**JOB, wait_timeout=60)
    assert ready.changed is False, ready.result
    assert f"is ready on the 2 nodes with its pods (NVLink clique {RACK}.1)" in ready.message
    rack.lab.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--namespace=default", "--timeout=60s")
    second = rack.module(**{**NEW, "name": "other", "channel": {"template": "other"}})
    assert "gpu-0000 (is in another ComputeDomain)" in second.message, second.result
    refused = [rack.module(check, **JOB, state="absent").message for check in (True, False)]
    assert refused[0] == refused[1] and "in use by pod default/rank-0, pod default/rank-1, claim" in refused[0]
    rack.lab.kubectl("delete", "pod", "--all", "--namespace=default")
    with rack.without_controller():
        refused = [rack.module(check, **JOB, state="absent").message for check in (True, False)]
    assert refused[0] == refused[1] and "with its finalizer" in refused[0], refused
    gone = [rack.module(check, **JOB, state="absent", wait_timeout=60) for check in (True, False, False)]
    assert [run.changed for run in gone] == [True, True, False], [run.result for run in gone]
    left = rack.found("computedomains", "resourceclaimtemplates")
    assert [name for name in left if "training" in name or "computedomain" in name] == []
    assert [rack.label(node, "resource.nvidia.com/computeDomain") for node in NODES] == [""] * 3
    assert rack.user.unused() == set(), "the ClusterRole grants what this needs, and no more"


def test_what_would_hang_is_refused(rack: Rack) -> None:
    assert "needs 3 free nodes of one NVLink clique" in rack.module(**{**NEW, "num_nodes": 3}).message
    assert "asks for numNodes" in rack.module(**{**NEW, "num_nodes": 0}).message
    assert "There is no namespace nowhere" in rack.module(**{**NEW, "namespace": "nowhere"}).message
    with rack.without_controller():
        assert "controller of ComputeDomains" in rack.module(**NEW).message
    assert rack.found("computedomains") == []


def test_a_removal_goes_on_once_the_controller_is_back(rack: Rack) -> None:
    assert rack.module(**NEW).changed
    assert "num_nodes is 2, not 1" in rack.module(**{**NEW, "num_nodes": 1}).message
    with rack.without_controller():
        # Somebody deletes it, and nobody removes the finalizer.
        rack.lab.kubectl("delete", "computedomain", "training", "--namespace=default", "--wait=false")
        assert "with its finalizer" in rack.module(**JOB, state="absent").message
    gone = rack.module(**JOB, state="absent", wait_timeout=60)
    # The controller may have removed it before.
    assert gone.changed is not None and rack.found("computedomains") == [], gone.result
