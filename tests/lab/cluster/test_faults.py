# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every fault has its effect where a user would see it, and ends when it is cleared."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab import cli
from lab.cluster import Lab, LabError, Options, faults
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("each fault has to show in the objects of a cluster")

DAEMONSET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "thing", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "thing"}},
        "template": {
            "metadata": {"labels": {"app": "thing"}},
            "spec": {
                "initContainers": [{"name": "first", "image": "x"}],
                "containers": [{"name": "main", "image": "nvcr.io/nvidia/thing:v1"}],
            },
        },
    },
}


@pytest.fixture(scope="module")
def lab() -> t.Iterator[Lab]:
    """A lab with two nodes, a DaemonSet, and a process in place of the operator."""
    options = Options(nodes=2, operator="external", operator_command="sleep 1000", pods="live")
    with running_lab("faults", options) as lab:
        lab.kubectl("create", "-f", "-", stdin=json.dumps(DAEMONSET))
        lab.kubectl("rollout", "status", "daemonset/thing", "--timeout=60s")
        yield lab


@pytest.fixture(autouse=True)
def cleared(lab: Lab) -> t.Iterator[None]:
    yield
    faults.clear(lab)
    assert faults.active(lab) == []
    lab.kubectl("rollout", "status", "daemonset/thing", "--timeout=60s")


def until(lab: Lab, expected: str, *get: str) -> None:
    deadline = time.monotonic() + 30
    while (found := lab.kubectl("get", *get)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("fault", "path", "reason"),
    [
        ("image-pull-backoff", "{.items[*].status.containerStatuses[*].state.waiting.reason}", "ImagePullBackOff"),
        pytest.param(
            "crash-loop",
            "{.items[*].status.containerStatuses[*].state.waiting.reason}",
            "CrashLoopBackOff",
            marks=pytest.mark.wide,
        ),
        ("hang-init", "{.items[*].status.initContainerStatuses[*].state.running}", None),
    ],
)
def test_an_operand_on_one_node(lab: Lab, fault: str, path: str, reason: str | None) -> None:
    faults.operand(lab, "thing", fault, node="gpu-0001")
    assert faults.active(lab) == [f"operand thing on gpu-0001: fault {fault}"]
    until(lab, "1", "daemonset/thing", "--output=jsonpath={.status.numberUnavailable}")
    pods = ("pods", "--selector=app=thing", "--field-selector=spec.nodeName=gpu-0001", f"--output=jsonpath={path}")
    if reason:
        until(lab, reason, *pods)
    else:
        assert "startedAt" in lab.kubectl("get", *pods)


@pytest.mark.parametrize(("container", "ready"), [("main", "Running"), ("first", "Pending")])
@pytest.mark.wide
def test_a_container_that_says_why_and_crashes(lab: Lab, container: str, ready: str) -> None:
    name = faults.crash(lab, "thing", "gpu-0001", container, ["one", "the last word"])
    assert faults.active(lab) == [f"log of thing on gpu-0001, container {container}"]
    for options in ((), ("--previous",)):
        assert lab.kubectl("logs", name, f"--container={container}", *options) == "one\nthe last word\n"
    assert lab.kubectl("get", "pod", name, "--output=jsonpath={.status.phase}") == ready
    assert "CrashLoopBackOff" in lab.kubectl("get", "pod", name)
    until(lab, "1", "daemonset/thing", "--output=jsonpath={.status.numberUnavailable}")


@pytest.mark.wide
def test_a_container_says_something_by_command(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--name", lab.name, "say", "thing", "gpu-0000", "main", "hello", "world") == 0
    assert capsys.readouterr().out == "log of thing on gpu-0000, container main\n"
    pod = lab.kubectl("get", "pods", "--field-selector=spec.nodeName=gpu-0000", "--output=name").strip()
    assert lab.kubectl("logs", pod, "--container=main") == "hello\nworld\n"
    with pytest.raises(LabError, match="no container 'other': choose from first, main"):
        faults.crash(lab, "thing", "gpu-0000", "other", [])
    with pytest.raises(LabError, match="No pod with the label app=none is on gpu-0000"):
        faults.say(lab, "none", "gpu-0000", "main", [])


def run(*arguments: str) -> int:
    """Run a command in this process."""
    given = cli.parser().parse_args(["cluster", "fault", *arguments])
    return int(given.run(given))


@pytest.mark.wide
def test_an_operand_on_all_nodes_by_command(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("operand", "thing", "hang-init", "--name", lab.name) == 0
    assert capsys.readouterr().out == "operand thing: fault hang-init\n"
    until(lab, "2", "daemonset/thing", "--output=jsonpath={.status.numberUnavailable}")
    assert run("--name", lab.name, "clear") == 0
    assert capsys.readouterr().out == "No fault is active.\n"


def test_a_node_by_command(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--name", lab.name, "node", "gpu-0001", "taint") == 0
    assert run("--name", lab.name, "list") == 0
    assert capsys.readouterr().out == "node gpu-0001: taint\n" * 2


def test_a_node_not_ready(lab: Lab) -> None:
    faults.node(lab, "gpu-0000", "not-ready")
    assert faults.active(lab) == ["node gpu-0000: not-ready"]
    until(lab, "False", "node/gpu-0000", '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}')
    faults.clear(lab)
    until(lab, "True", "node/gpu-0000", '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}')


@pytest.mark.wide
def test_a_node_tainted(lab: Lab) -> None:
    faults.node(lab, "gpu-0000", "taint")
    until(lab, "1", "daemonset/thing", "--output=jsonpath={.status.desiredNumberScheduled}")
    faults.clear(lab)
    until(lab, "2", "daemonset/thing", "--output=jsonpath={.status.desiredNumberScheduled}")


def test_a_node_that_does_not_exist(lab: Lab) -> None:
    with pytest.raises(LabError, match="There is no node 'gpu-9999'"):
        faults.node(lab, "gpu-9999", "not-ready")
    with pytest.raises(LabError, match="There is no node 'gpu-9999'"):
        faults.operand(lab, "thing", "hang-init", node="gpu-9999")
    assert faults.active(lab) == []


def test_an_operand_that_does_not_exist(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"No DaemonSet or Deployment has .* app=driver\. These labels exist: thing"):
        faults.operand(lab, "driver", "hang-init")
    assert faults.active(lab) == []


def test_the_operator_down(lab: Lab) -> None:
    faults.operator_down(lab)
    assert lab.status().died == ("operator",)
    faults.clear(lab)
    assert lab.status().phase == "up"


@pytest.mark.wide
def test_slow_pods(lab: Lab) -> None:
    faults.slow(lab, "thing", 3600)
    deadline = time.monotonic() + 30
    while lab.kubectl("get", "daemonset/thing", "--output=jsonpath={.status.numberUnavailable}") != "2":
        assert time.monotonic() < deadline
        lab.kubectl("delete", "pods", "--selector=app=thing", "--wait=false")
        time.sleep(1)
    faults.clear(lab)
    lab.kubectl("delete", "pods", "--selector=app=thing", "--wait=false")


WAITING = "{.items[*].status.containerStatuses[*].state.waiting.message}"
PULL = (
    'rpc error: code = {} desc = failed to pull and unpack image "nvcr.io/nvidia/thing:v1": '
    'failed to resolve reference "nvcr.io/nvidia/thing:v1": {}'
)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("image-pull-backoff", PULL.format("NotFound", "nvcr.io/nvidia/thing:v1: not found")),
        (
            "image-rate-limited",
            PULL.format("Unknown", "unexpected status from HEAD request to https://nvcr.io/v2/: 429"),
        ),
        (
            "invalid-image-name",
            'Failed to apply default image tag "nvcr.io/nvidia/thing:v1": '
            'couldn\'t parse image name "nvcr.io/nvidia/thing:v1": invalid reference format',
        ),
    ],
)
@pytest.mark.wide
def test_a_pod_in_trouble_heals_by_itself(lab: Lab, fault: str, message: str) -> None:
    faults.operand(lab, "thing", fault, node="gpu-0001", heals_after=3)
    assert faults.active(lab) == [f"operand thing on gpu-0001: fault {fault}, heals after 3 s"]
    query = ("pods", "--selector=app=thing", "--field-selector=spec.nodeName=gpu-0001")
    assert message in lab.kubectl("get", *query, f"--output=jsonpath={WAITING}")
    until(lab, "True", *query, '--output=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}')


REFUSALS = [
    ("pod-security", 'is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'),
    ("quota", "is forbidden: exceeded quota: lab-refusal, requested: pods=1, used: pods="),
    ("kyverno", 'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Pod/default/kyverno-'),
    (
        "webhook-down",
        'failed calling webhook "validate.kyverno.svc-fail": failed to call webhook: Post "https://kyverno',
    ),
]


def daemonset(app: str) -> str:
    """Return another DaemonSet. The recorder of events accepts only 25 for one object in five minutes."""
    other = json.loads(json.dumps(DAEMONSET).replace('"thing"', f'"{app}"'))
    return json.dumps(other)


@pytest.mark.parametrize(("by", "words"), REFUSALS, ids=[by for by, words in REFUSALS])
@pytest.mark.wide
def test_pods_that_are_refused(lab: Lab, by: str, words: str) -> None:
    lab.kubectl("create", "-f", "-", stdin=daemonset(by))
    faults.refuse(lab, by, by)
    assert len(faults.active(lab)) == 1
    assert faults.active(lab)[0].endswith(f"refused by {by}")
    assert lab.kubectl("get", "pods", f"--selector=app={by}", "--output=name") == ""
    events = ("events", f"--field-selector=reason=FailedCreate,involvedObject.name={by},type=Warning")
    deadline = time.monotonic() + 30
    while words not in (found := lab.kubectl("get", *events, "--output=jsonpath={.items[*].message}")):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    lab.kubectl("delete", f"daemonset/{by}")


IMAGES = "--output=jsonpath={.items[*].spec.containers[*].image}"


@pytest.mark.wide
def test_a_registry_mirror(lab: Lab) -> None:
    faults.mirror(lab, "mirror.example/proxy", "thing")
    assert faults.active(lab) == ["images of thing (pods) come from mirror.example/proxy"]
    until(lab, " ".join(["mirror.example/proxy/nvidia/thing:v1"] * 2), "pods", "--selector=app=thing", IMAGES)
    assert lab.kubectl("get", "daemonset/thing", "--output=jsonpath={.spec..containers[*].image}").startswith("nvcr.io")


@pytest.mark.wide
def test_a_registry_mirror_that_rewrites_controllers(lab: Lab) -> None:
    faults.mirror(lab, "mirror.example", "thing", controllers=True)
    until(lab, " ".join(["mirror.example/nvidia/thing:v1"] * 2), "pods", "--selector=app=thing", IMAGES)
    faults.clear(lab)
    lab.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(DAEMONSET))


@pytest.mark.wide
def test_a_sidecar(lab: Lab) -> None:
    faults.sidecar(lab, "thing")
    assert faults.active(lab) == ["pods of thing get a sidecar"]
    names = "--output=jsonpath={.items[*].spec.containers[*].name}"
    until(lab, "main istio-proxy main istio-proxy", "pods", "--selector=app=thing", names)


@pytest.mark.parametrize(
    ("by", "part", "key", "value"),
    [
        ("nvsentinel", "annotations", "quarantineHealthEventIsCordoned", "True"),
        ("nvsentinel", "labels", "k8saas.nvidia.com/cordon-by", "NVSentinel"),
        ("kured", "annotations", "weave.works/kured-reboot-in-progress", "2026-11-22T02:00:00Z"),
        ("driver-manager", "labels", "nvidia.com/gpu.deploy.device-plugin", "paused-for-driver-upgrade"),
    ],
)
@pytest.mark.wide
def test_a_node_that_somebody_else_holds(lab: Lab, by: str, part: str, key: str, value: str) -> None:
    before = node_of(lab)
    faults.cordon(lab, "gpu-0001", by)
    assert faults.active(lab) == [f"node gpu-0001: cordoned by {by}"]
    held = node_of(lab)
    assert held["spec"]["unschedulable"] is True
    assert held["metadata"][part][key] == value
    faults.uncordon(lab, "gpu-0001", by)
    after = node_of(lab)
    assert (after["metadata"]["labels"], after["metadata"]["annotations"]) == (
        before["metadata"]["labels"],
        before["metadata"]["annotations"],
    )
    assert "unschedulable" not in after["spec"]


def test_a_node_that_two_hold(lab: Lab) -> None:
    faults.cordon(lab, "gpu-0001", "medik8s")
    faults.cordon(lab, "gpu-0001", "karpenter")
    assert faults.active(lab) == ["node gpu-0001: cordoned by medik8s", "node gpu-0001: cordoned by karpenter"]
    taints = {taint["key"] for taint in node_of(lab)["spec"]["taints"]}
    assert taints == {"medik8s.io/drain", "karpenter.sh/disrupted", "node.kubernetes.io/unschedulable"}
    assert run("--name", lab.name, "uncordon", "gpu-0001", "--by", "karpenter") == 0
    assert faults.active(lab) == ["node gpu-0001: cordoned by medik8s"]


def node_of(lab: Lab) -> dict[str, t.Any]:
    node: dict[str, t.Any] = json.loads(lab.kubectl("get", "node/gpu-0001", "--output=json"))
    return node
