# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""If a stack does not become ready, the wait says why, even if the operator calls it ready; a later run finishes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, LabError, Options, faults
from tests.support.ansible import OPERATOR, SITE, Playbook, Run, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("waits have to run out, or to see a stack become ready")

IMPATIENT = {"operator_wait_timeout": 10}


def broken(fault: str) -> dict[str, t.Any]:
    """Return Helm values that give every operand a fault.

    The driver is left out until the repair, since its pods are never replaced at once.
    """
    return {"driver": {"enabled": False}, "daemonsets": {"annotations": {"lab.gpuops.nvidia/fault": fault}}}


def not_ready(run: Run, *words: str) -> None:
    """Assert that a run failed with these words in its message, and in a way that stays allowed."""
    assert run.status == 2, run.output
    assert "Traceback" not in run.output, run.output
    assert "Passing `warnings` to" not in run.output, "ansible-core 2.23 no longer takes them"
    for word in words:
        assert word in run.message, run.output


def works(run: Run) -> None:
    """Assert that a run succeeded."""
    assert run.status == 0, run.output


def state_of(lab: Lab) -> str:
    """Return the state in the ClusterPolicy's status."""
    return lab.kubectl("get", "clusterpolicy", "cluster-policy", "--output=jsonpath={.status.state}")


@contextlib.contextmanager
def kubectl_edit(lab: Lab, *arguments: str, undo: t.Sequence[str]) -> t.Iterator[None]:
    """Edit an object by hand, and undo the edit at the end."""
    lab.kubectl(*arguments)
    try:
        yield
    finally:
        lab.kubectl(*undo)


@pytest.fixture(scope="module")
def operator(ansible: Playbook) -> None:
    """Install the operator on the shared lab."""
    ansible.set_up("operator")


@pytest.fixture
def no_operands(operator: None, ansible: Playbook) -> None:
    """Start without operands."""
    works(ansible.module("gpuops.nvidia.clusterpolicy", state="absent", allow_disruption=True))


@pytest.fixture
def finishes(no_operands: None, ansible: Playbook) -> t.Iterator[None]:
    """After the test, a run must succeed, whatever the failed run has left behind."""
    yield
    works(ansible.run(OPERATOR))


# ---- ready only by the status ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_operands")
def test_every_gpu_node_is_tainted(lab: Lab, ansible: Playbook) -> None:
    with kubectl_edit(
        lab, "taint", "nodes", "--all", "dedicated=training:NoSchedule", undo=["taint", "nodes", "--all", "dedicated-"]
    ):
        # The operator must run, and Node Feature Discovery on every node, or no GPU would be found.
        everywhere = {"tolerations": [{"operator": "Exists"}]}
        tolerant = {"operator": everywhere, "node-feature-discovery": {"master": everywhere, "worker": everywhere}}
        run = ansible.run(OPERATOR, operator_values=tolerant, **IMPATIENT)
        assert state_of(lab) == "ready"
    not_ready(run, "taint dedicated=training:NoSchedule is not tolerated", "daemonsets.tolerations")


@pytest.mark.usefixtures("no_operands")
@pytest.mark.wide
def test_operands_switched_off(lab: Lab, ansible: Playbook) -> None:
    label = "nvidia.com/gpu.deploy.operands"
    with kubectl_edit(lab, "label", "nodes", "--all", f"{label}=false", undo=["label", "nodes", "--all", f"{label}-"]):
        run = ansible.run(OPERATOR, **IMPATIENT)
        assert state_of(lab) == "ready"
    not_ready(run, f"label {label}=false")


@pytest.mark.usefixtures("no_operands")
@pytest.mark.wide
def test_no_nvidiadriver_for_the_driver(lab: Lab, ansible: Playbook) -> None:
    values = {"driver": {"nvidiaDriverCRD": {"enabled": True, "deployDefaultCR": False}}}
    run = ansible.run(OPERATOR, operator_values=values, **IMPATIENT)
    not_ready(run, "NVIDIADriver")


@pytest.mark.wide
def test_no_daemonset_controller() -> None:
    """Without a controller there are no pods, and the operator calls DaemonSets without a status ready."""
    with running_lab("nocontroller") as lab:
        ansible = on(lab)
        ansible.set_up("operator")
        lab.component("kube-controller-manager").kill()
        run = ansible.run(OPERATOR, **IMPATIENT)
        assert state_of(lab) == "ready"
        not_ready(run, "not ready after 10 s")
        lab.component("kube-controller-manager").restart()
        works(ansible.run(SITE))


@pytest.mark.wide
def test_no_gpu_nodes() -> None:
    with running_lab("nogpu", Options(fleet="no-gpu")) as lab:
        ansible = on(lab)
        run = ansible.run(SITE, **IMPATIENT)
        assert state_of(lab) == "ready"
        not_ready(run, "has an NVIDIA GPU", "Add a GPU node")


@pytest.mark.wide
def test_no_node_feature_discovery() -> None:
    with running_lab("nonfd", Options(fleet="no-nfd")) as lab:
        ansible = on(lab)
        run = ansible.run(SITE, operator_values={"nfd": {"enabled": False}}, **IMPATIENT)
        not_ready(run, "Node Feature Discovery", "nfd.enabled")


@pytest.mark.wide
def test_the_first_run_asks_before_it_installs_and_refuses_what_the_second_run_refuses() -> None:
    """Which nodes have GPUs, and that their systems differ, is known only when the release labels them."""
    with running_lab("mixed", Options(fleet="mixed")) as lab:
        ansible = on(lab)
        asked = ansible.run(SITE)
        not_ready(asked, "preflight_tolerate: [gpu_nodes]")
        assert asked.changed == 0, asked.output
        alike: dict[str, t.Any] = {"preflight_tolerate": ["gpu_nodes"]}
        first, second = ansible.run(SITE, **alike), ansible.run(SITE, **alike)
        not_ready(first, "GPU nodes run different operating systems")
        assert not has_policy(lab), "The ClusterPolicy should not have been applied."
        not_ready(second, "GPU nodes run different operating systems")


@pytest.mark.usefixtures("finishes")
@pytest.mark.wide
def test_an_edit_that_the_operator_has_not_seen(lab: Lab, ansible: Playbook) -> None:
    """While the operator is down, the status describes the previous spec."""
    works(ansible.run(OPERATOR))
    lab.component("operator").kill()
    try:
        run = ansible.run(OPERATOR, operator_values={"dcgmExporter": {"version": "4.5.0"}}, **IMPATIENT)
        assert state_of(lab) == "ready"
    finally:
        lab.component("operator").restart()
    not_ready(run, "not ready after 10 s")


# ---- not ready ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("finishes")
@pytest.mark.wide
def test_an_operand_that_can_never_start(lab: Lab, ansible: Playbook) -> None:
    """The wait ends long before its timeout."""
    process = ansible.start(OPERATOR)
    try:
        until(lambda: "nvidia-device-plugin-daemonset" in lab.kubectl("get", "daemonsets", "--all-namespaces"))
        faults.operand(lab, "nvidia-device-plugin-daemonset", "image-pull-backoff")
        run = ansible.finish(process, 100)
    finally:
        faults.clear(lab)
    not_ready(run, "cannot become ready", "ImagePullBackOff")


@pytest.mark.usefixtures("no_operands")
def test_a_timeout_states_what_the_pod_was_doing(ansible: Playbook) -> None:
    run = ansible.run(OPERATOR, operator_values=broken("hang-init"), operator_wait_timeout=20)
    not_ready(run, "not ready after 20 s", "Init:0/1")
    assert set(re.findall(r"not ready after (\d+) s", run.output)) == {"20"}, "The line [ERROR] is of one look only."
    assert re.search(r"^  \[00:\d\d\] .*operands ready", run.output, re.MULTILINE), "No progress was shown."


@pytest.mark.usefixtures("finishes")
@pytest.mark.wide
def test_ctrl_c(lab: Lab, ansible: Playbook) -> None:
    process = ansible.plain.start(OPERATOR, operator_values=broken("hang-init"))
    try:
        wait_for_policy(lab)
        started = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        output = process.communicate(timeout=30)[0]
    finally:
        process.kill()
    assert process.returncode != 0
    assert "Traceback" not in output, output
    assert started, "The module's process was not found."
    until(lambda: not started & running())


def running() -> set[int]:
    """Return the ids of all processes that have not ended."""
    return {pid for pid, (state, dummy) in processes().items() if state != "Z"}


def descendants(pid: int) -> set[int]:
    """Return the ids of the processes that a process has started, and of those that these have started."""
    children = {child for child, (dummy, parent) in processes().items() if parent == pid}
    return children.union(*map(descendants, children))


def processes() -> dict[int, tuple[str, int]]:
    """Return the state and the parent of each process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            found[int(path.parent.name)] = (state, int(parent))
    return found


# ---- a stack that was ready ------------------------------------------------------------------------------------------

EXPORTER, PLUGIN = "nvidia-dcgm-exporter", "nvidia-device-plugin-daemonset"


@pytest.fixture(scope="module")
def stack(ansible: Playbook) -> None:
    """Bring the stack to readiness on the shared lab."""
    ansible.set_up("stack")


@pytest.fixture
def healed(stack: None, lab: Lab) -> t.Iterator[None]:
    """Start with a stack that was ready, and remove all faults after the test."""
    yield
    faults.clear(lab)


def awaited(ansible: Playbook, timeout: int) -> Run:
    """Wait for the stack, and do nothing else."""
    return ansible.module("gpuops.nvidia.clusterpolicy_info", wait=True, wait_timeout=timeout)


@pytest.mark.usefixtures("healed")
@pytest.mark.wide
def test_a_new_operator_that_does_not_start(lab: Lab, ansible: Playbook) -> None:
    """The old one stays available, and the ClusterPolicy ready."""
    faults.stuck_operator(lab)
    run = awaited(ansible, 3)
    assert state_of(lab) == "ready"
    not_ready(run, "pod gpu-operator-", "ImagePullBackOff")
    assert "OperatorNotUpdated" in run.output


@pytest.mark.usefixtures("healed")
@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("pod-security", "violates PodSecurity"),
        pytest.param("kyverno", "denied the request", marks=pytest.mark.wide),
    ],
)
@pytest.mark.wide
def test_pods_that_the_api_server_refuses(lab: Lab, ansible: Playbook, by: str, words: str) -> None:
    faults.refuse(lab, PLUGIN, by)
    run = awaited(ansible, 3)
    not_ready(run, "refuses to create pods: ", words, "Exempt namespace gpu-operator from the policy")
    assert "PodsRefused" in run.output


@pytest.mark.wide
@pytest.mark.usefixtures("healed")
def test_rewritten_images_and_injected_sidecars(lab: Lab, ansible: Playbook) -> None:
    faults.mirror(lab, "mirror.example", EXPORTER, controllers=True)
    faults.sidecar(lab, EXPORTER)
    run = awaited(ansible, 60)
    works(run)
    assert "OtherRegistry" in run.output and "dcgm-exporter: mirror.example/" in run.output, run.output


@pytest.mark.usefixtures("stack")
@pytest.mark.wide
def test_an_edit_that_a_daemonset_shows(lab: Lab, ansible: Playbook) -> None:
    """The wait ends with the rollout, and not before."""
    env = [{"name": "DCGM_EXPORTER_INTERVAL", "value": "12345"}]
    began = time.monotonic()
    works(ansible.module("gpuops.nvidia.clusterpolicy", dcgm_exporter={"env": env}, wait_timeout=100))
    assert time.monotonic() - began < 60, "The wait was longer than the rollout."
    values = "{.items[*].spec.containers[*].env[?(@.name=='DCGM_EXPORTER_INTERVAL')].value}"
    pods = lab.kubectl("get", "pods", "--all-namespaces", f"--selector=app={EXPORTER}", f"--output=jsonpath={values}")
    assert pods.split() == ["12345"] * 4


@pytest.mark.usefixtures("healed")
@pytest.mark.wide
def test_an_edit_that_no_daemonset_shows(lab: Lab, ansible: Playbook) -> None:
    """It counts as done after a minute. Pods that are in trouble until then do not end the wait."""
    nodes = lab.kubectl("get", "nodes", "--selector=nvidia.com/gpu.present", "--output=name").split()
    faults.operand(lab, PLUGIN, "image-pull-backoff", node=nodes[0].removeprefix("node/"), heals_after=40)
    faults.operand(lab, EXPORTER, "image-rate-limited", heals_after=40)
    began = time.monotonic()
    policy = {"upgrade_policy": {"max_parallel_upgrades": 2}}
    works(ansible.module("gpuops.nvidia.clusterpolicy", driver=policy, wait_timeout=100))
    assert time.monotonic() - began > 59


@pytest.mark.usefixtures("clean")
@pytest.mark.wide
def test_helm_that_was_killed(lab: Lab, ansible: Playbook) -> None:
    """Its lock on the release is removed with permission, and not while Helm could still be running."""
    options = ["--namespace=gpu-operator", "--create-namespace", "--wait", f"--kubeconfig={lab.kubeconfig}"]
    helm = [str(lab.helm), "install", "gpu-operator", lab.chart, *options]
    selector = "--selector=owner=helm,status=pending-install"
    pending = ["get", "secret", "--namespace=gpu-operator", selector, "--output=name"]
    with kubectl_edit(lab, "cordon", "--selector=kubernetes.io/os", undo=["uncordon", "--selector=kubernetes.io/os"]):
        process = ansible.command(helm)
        until(lambda: bool(lab.kubectl(*pending)))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert lab.kubectl(*pending)
    killed = time.monotonic()
    not_ready(
        ansible.run(OPERATOR, operator_break_lock=True), "pending-install of revision 1 began", "Wait until it ends"
    )
    time.sleep(max(0.0, killed + 33 - time.monotonic()))
    not_ready(ansible.run(OPERATOR, operator_helm_timeout="1s"), "Set break_lock: true")
    assert lab.kubectl(*pending)
    works(ansible.run(OPERATOR, operator_helm_timeout="1s", operator_break_lock=True))
    assert lab.kubectl(*pending) == ""


@pytest.mark.wide
def test_the_api_dies_during_a_wait() -> None:
    with running_lab("apidies") as lab:
        ansible = on(lab)
        process = ansible.start(OPERATOR, operator_values=broken("hang-init"), operator_wait_timeout=12)
        wait_for_policy(lab)
        lab.component("kube-apiserver").kill()
        run = ansible.finish(process, 120)
        lab.component("kube-apiserver").restart()
        not_ready(run, "Kubernetes API", "Check")
        works(ansible.run(SITE))


def wait_for_policy(lab: Lab) -> None:
    """Wait until a run has created the ClusterPolicy and waits for it."""
    until(lambda: has_policy(lab), 180)
    time.sleep(2)


def has_policy(lab: Lab) -> bool:
    """Return whether the ClusterPolicy exists; False without its CRD."""
    try:
        return "cluster-policy" in lab.kubectl("get", "clusterpolicies", "--output=name")
    except LabError:
        return False


def until(condition: t.Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"The condition was not met within {timeout:.0f} s."
        time.sleep(0.2)
