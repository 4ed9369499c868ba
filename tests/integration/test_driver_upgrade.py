# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drivers are upgraded on a lab with four nodes, also where nodes fail, runs are killed and the operator restarts."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t

import pytest

from lab.cluster import Lab, Options, faults
from lab.cluster.proxy import before, unavailable
from tests.support.ansible import ROOT, Playbook, Run, kill_all, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("the operator upgrades each node at its pace")

MODULE = "gpuops.nvidia.driver_container"
PLAYBOOK = ROOT / "playbooks" / "upgrade_driver.yml"
FIRST, SECOND = "595.91.07", "600.10.01"
"""The driver of the chart, and another one. Registries are not asked."""
COMMON: dict[str, t.Any] = {
    "registry": {"mode": "offline"}, "allow_disruption": True, "force_conflicts": True, "timeout": 60,
}  # fmt: skip
STATE, SKIP = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade.skip"
NOTE = "gpuops.nvidia/driver-rollout"
VALIDATOR = "nvidia.com/gpu.deploy.operator-validator"
ZERO, ONE, TWO, THREE = (f"gpu-{number:04}" for number in range(4))


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Lab]:
    """Four H100 nodes with a ready stack, and an operator that looks at the nodes every second."""
    with running_lab("upgrade", Options(upgrade_tick=1, validation_seconds=15, manager_patience=5)) as lab:
        lab.deploy()
        yield lab


@pytest.fixture
def healthy(fleet: Lab) -> t.Iterator[Playbook]:
    """A fleet without faults, before and after."""
    yield on(fleet)
    faults.clear(fleet)
    fleet.kubectl("delete", "pods,poddisruptionbudgets,deployments", "--all", "--namespace=default", "--wait=false")


def items(lab: Lab) -> dict[str, t.Any]:
    listed = json.loads(lab.kubectl("get", "nodes", "--output=json"))["items"]
    return {item["metadata"]["name"]: item for item in listed}


def labels(lab: Lab, key: str) -> dict[str, str]:
    return {name: item["metadata"]["labels"].get(key, "") for name, item in items(lab).items()}


def versions(lab: Lab) -> dict[str, str]:
    return labels(lab, "nvidia.com/cuda.driver-version.full")


def left_behind(lab: Lab) -> list[str]:
    """Return what an upgrade has left on nodes: cordons, pauses, labels and notes of ours."""
    found = []
    for name, item in items(lab).items():
        meta = item["metadata"]
        found += [f"{name} is cordoned"] if item["spec"].get("unschedulable") else []
        found += [f"{name} has {SKIP}"] if SKIP in meta["labels"] else []
        found += [f"{name} has a note"] if NOTE in meta.get("annotations", {}) else []
        found += [f"{name}: {key} is paused" for key, value in meta["labels"].items() if "paused-for" in value]
    return found


def upgrade(ansible: Playbook, version: str, **options: t.Any) -> Run:
    return ansible.module(MODULE, version=version, **{**COMMON, "max_unavailable": "4", **options})


def checked(ansible: Playbook, version: str) -> t.Any:
    """Return the module's result in check mode."""
    options = json.dumps({"version": version, **COMMON, "max_unavailable": "4"})
    command = ["ansible", "localhost", "--check", "--module-name", MODULE, "--args", options]
    run = ansible.finish(ansible.command(command), 120)
    return json.JSONDecoder().raw_decode(run.output, run.output.index("=> {") + 3)[0]


def other(lab: Lab) -> str:
    """Return the version that the nodes do not have."""
    return SECOND if versions(lab)[ONE] == FIRST else FIRST


def until_somewhere(lab: Lab, state: str, process: subprocess.Popen[str]) -> None:
    """Wait until a node is in a state of its upgrade, while a run is at work."""
    deadline = time.monotonic() + 60
    while state not in labels(lab, STATE).values():
        assert time.monotonic() < deadline and process.poll() is None, "the upgrade did not begin"
        time.sleep(0.05)


def bare_pod(lab: Lab, node: str) -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": node, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"bare-{node}"}, "spec": spec}
    lab.kubectl("create", "--namespace=default", "--filename=-", stdin=json.dumps(pod))


def test_a_staged_upgrade_changes_nothing_twice(fleet: Lab, healthy: Playbook) -> None:
    words = {f"driver_container_{key}": value for key, value in COMMON.items()}
    words |= {"driver_container_canary": 1, "driver_container_soak": 3, "driver_container_max_unavailable": "3"}
    version = {"driver_container_version": SECOND}
    predicted = healthy.run(PLAYBOOK, "--check", **words, **version)
    assert predicted.status == 0 and predicted.changed == 1, predicted.output
    assert set(versions(fleet).values()) == {FIRST} and left_behind(fleet) == []
    run = healthy.run(PLAYBOOK, **words, **version)
    assert run.status == 0 and run.changed == 1, run.output
    assert set(versions(fleet).values()) == {SECOND} and left_behind(fleet) == []
    again = healthy.run(PLAYBOOK, **words, **version)
    assert again.status == 0 and again.changed == 0, again.output


@pytest.mark.wide
def test_a_check_fails_where_the_run_would_stop_unless_it_is_to_warn(fleet: Lab, healthy: Playbook) -> None:
    bare_pod(fleet, TWO)
    words = {f"driver_container_{key}": value for key, value in COMMON.items()}
    words |= {"driver_container_version": other(fleet)}
    predicted, run = (healthy.run(PLAYBOOK, *arguments, **words) for arguments in (["--check"], []))
    assert (predicted.status, run.status) == (2, 2) and left_behind(fleet) == [], predicted.output + run.output
    assert all(f"default/bare-{TWO}" in each.output and "skip: gpu_pods" in each.output for each in (predicted, run))
    warned = healthy.run(PLAYBOOK, "--check", gpuops_check_refusal="warn", **words)
    assert (warned.status, warned.changed) == (0, 1) and f"default/bare-{TWO}" in warned.output, warned.output


@pytest.mark.wide
def test_the_way_back_is_the_same(fleet: Lab, healthy: Playbook) -> None:
    back = upgrade(healthy, FIRST)
    assert back.status == 0 and set(versions(fleet).values()) == {FIRST}, back.output
    forth = upgrade(healthy, SECOND)
    assert forth.status == 0 and set(versions(fleet).values()) == {SECOND} and left_behind(fleet) == [], forth.output


def test_every_healthy_node_is_upgraded_and_every_failed_one_named(fleet: Lab, healthy: Playbook) -> None:
    version = other(fleet)
    faults.driver(fleet, "image-pull-backoff", node=ZERO, version=version)
    bare_pod(fleet, TWO)
    run = upgrade(healthy, version, skip=["gpu_pods"], max_failed="2")
    assert run.status == 0, run.output
    found = versions(fleet)
    assert (found[ONE], found[THREE], found[TWO]) == (version, version, FIRST if version == SECOND else SECOND)
    assert f"default/bare-{TWO} on {TWO} has no controller" in run.output
    assert "pod_deletion.force permits it" in run.output and "driver does not start" in run.output
    assert left_behind(fleet) == [f"{ZERO} is cordoned", f"{ZERO} has a note", f"{TWO} has {SKIP}", f"{TWO} has a note"]
    stuck = healthy.module(MODULE, state="recovered", **COMMON)
    assert stuck.status == 2 and "still there" in stuck.output, stuck.output
    fleet.kubectl("delete", "pod", f"bare-{TWO}", "--namespace=default", "--now")
    faults.clear(fleet)
    healed = healthy.module(MODULE, state="recovered", **{**COMMON, "max_unavailable": "4"})
    assert healed.status == 0, healed.output
    assert set(versions(fleet).values()) == {version} and left_behind(fleet) == []


@pytest.mark.parametrize(
    "state",
    [
        pytest.param("upgrade-required", marks=pytest.mark.deep),
        "pod-restart-required",
        pytest.param("validation-required", marks=pytest.mark.deep),
    ],
)
def test_a_run_that_is_killed_is_gone_on_with(fleet: Lab, healthy: Playbook, state: str) -> None:
    version = other(fleet)
    options = json.dumps({"version": version, **COMMON, "max_unavailable": "2"})
    process = healthy.plain.command(["ansible", "localhost", "--module-name", MODULE, "--args", options])
    until_somewhere(fleet, state, process)
    kill_all(process)
    run = upgrade(healthy, version)
    assert run.status == 0 and set(versions(fleet).values()) == {version}, run.output
    assert left_behind(fleet) == []


@pytest.mark.wide
def test_the_operator_may_crash_in_the_middle(fleet: Lab, healthy: Playbook) -> None:
    version = other(fleet)
    options = json.dumps({"version": version, **COMMON, "max_unavailable": "2"})
    process = healthy.command(["ansible", "localhost", "--module-name", MODULE, "--args", options])
    until_somewhere(fleet, "pod-restart-required", process)
    faults.restart_operator(fleet)
    run = healthy.finish(process, 120)
    assert run.status == 0 and set(versions(fleet).values()) == {version} and left_behind(fleet) == [], run.output


@pytest.mark.wide
def test_an_api_server_that_is_cut_off_in_mid_upgrade_is_awaited(fleet: Lab, healthy: Playbook) -> None:
    version = other(fleet)
    with before(fleet) as proxy:
        cut_off = Playbook(proxy.kubeconfig, fleet.helm)
        options = json.dumps({"version": version, **COMMON, "max_unavailable": "2"})
        process = cut_off.command(["ansible", "localhost", "--module-name", MODULE, "--args", options])
        until_somewhere(fleet, "pod-restart-required", process)
        proxy.answer(unavailable(), times=100_000)
        time.sleep(5)
        cut = [status for method, target, status in proxy.log if status == 503]
        proxy.forget()
        run = Playbook.finish(process, 120)
    assert run.status == 0 and cut and set(versions(fleet).values()) == {version}, run.output
    assert left_behind(fleet) == []


@pytest.mark.wide
def test_a_budget_that_never_allows_an_eviction_and_a_missing_validator_are_named(
    fleet: Lab, healthy: Playbook
) -> None:
    version, before_it = other(fleet), versions(fleet)[TWO]
    budgeted(fleet, TWO)
    fleet.kubectl("label", "node", THREE, f"{VALIDATOR}=false", "--overwrite")
    policy = {"pod_deletion": {"timeoutSeconds": 2}}
    options = {"skip": ["gpu_pods", "validators", "operands"], "max_failed": "2", "timeout": 15}
    try:
        run = upgrade(healthy, version, upgrade_policy=policy, **options)
    finally:
        fleet.kubectl("label", "node", THREE, f"{VALIDATOR}=true", "--overwrite")
        fleet.kubectl("delete", "poddisruptionbudgets,deployments", "--all", "--namespace=default")
    assert run.status == 0, run.output
    assert "PodDisruptionBudget default/train" in run.output and "validator pod" in run.output
    found = versions(fleet)
    assert (found[ZERO], found[ONE], found[TWO]) == (version, version, before_it)
    assert f"{TWO} is cordoned" not in left_behind(fleet)
    healed = healthy.module(MODULE, state="recovered", **{**COMMON, "max_unavailable": "4"})
    assert healed.status == 0, healed.output
    assert set(versions(fleet).values()) == {version} and left_behind(fleet) == []


def budgeted(lab: Lab, node: str) -> None:
    """Run a pod with a GPU on a node, which a disruption budget never lets go."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    labels_, where = {"app": "train"}, {"kubernetes.io/hostname": node}
    template = {"metadata": {"labels": labels_}, "spec": {"containers": [container], "nodeSelector": where}}
    selector = {"matchLabels": labels_}
    workload = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"},
        "spec": {"selector": selector, "template": template},
    }  # fmt: skip
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "train"},
        "spec": {"minAvailable": 1, "selector": selector},
    }  # fmt: skip
    for item in (workload, budget):
        lab.kubectl("create", "--namespace=default", "--filename=-", stdin=json.dumps(item))
    lab.kubectl("rollout", "status", "deployment/train", "--namespace=default", "--timeout=60s")


@pytest.mark.wide
def test_a_node_that_is_down_is_named_and_then_holds_up_nobody(fleet: Lab, healthy: Playbook) -> None:
    """The operator upgrades nothing while a node that is down still has a driver pod."""
    version, options = other(fleet), {"skip": ["nodes", "operands", "validators"], "max_failed": "1", "timeout": 12}
    faults.node(fleet, THREE, "not-ready")
    stopped = upgrade(healthy, version, **options)
    assert stopped.status == 2 and f"{THREE} is down: repair it" in stopped.output, stopped.output
    pods = ("--selector=app=nvidia-driver-daemonset", f"--field-selector=spec.nodeName={THREE}")
    fleet.kubectl("delete", "pods", "--namespace=gpu-operator", *pods, "--grace-period=0", "--force")
    run = upgrade(healthy, version, **options)
    assert run.status == 0 and "kubelet to be Ready" in run.output, run.output
    assert [name for name, found in versions(fleet).items() if found == version] == [ZERO, ONE, TWO]
    faults.clear(fleet)
    fleet.kubectl("wait", "--for=condition=Ready", f"node/{THREE}", "--timeout=60s")
    rest = upgrade(healthy, version)
    assert rest.status == 0 and left_behind(fleet) == [] and set(versions(fleet).values()) == {version}, rest.output


@pytest.mark.wide
def test_a_paused_rollout_goes_on_when_it_is_asked_for_again(fleet: Lab, healthy: Playbook) -> None:
    version = other(fleet)
    closed = upgrade(healthy, version, windows=[_never()])
    assert closed.status == 0 and "maintenance window" in closed.output, closed.output
    assert version not in versions(fleet).values() and left_behind(fleet) == []
    options = json.dumps({"version": version, **COMMON, "max_unavailable": "1"})
    process = healthy.command(["ansible", "localhost", "--module-name", MODULE, "--args", options])
    until_somewhere(fleet, "pod-restart-required", process)
    paused = healthy.module(MODULE, state="paused", **COMMON)
    assert paused.status == 0, paused.output
    ended = healthy.finish(process, 120)
    assert ended.status == 0 and '"finished": false' in ended.output, ended.output
    assert 0 < list(versions(fleet).values()).count(version) < 4
    left = {name for name, found in versions(fleet).items() if found != version}
    predicted = checked(healthy, version)
    assert predicted["changed"] and {row["node"] for row in predicted["nodes"] if row["action"] == "upgrade"} == left
    assert {row["node"] for row in predicted["plan"] if row["action"] != "nothing"} == left
    rest = upgrade(healthy, version)
    assert rest.status == 0 and left_behind(fleet) == [] and set(versions(fleet).values()) == {version}, rest.output


def _never() -> str:
    """Return a window that is not open now."""
    hour = (time.gmtime().tm_hour + 6) % 24
    return f"{hour:02}:00-{hour:02}:30"


@pytest.mark.wide
def test_without_the_operators_upgrades_the_nodes_are_upgraded_by_hand(fleet: Lab, healthy: Playbook) -> None:
    version = other(fleet)
    run = upgrade(healthy, version, upgrade_policy={"auto_upgrade": False}, max_unavailable="2")
    assert run.status == 0 and set(versions(fleet).values()) == {version}, run.output
    assert left_behind(fleet) == []
    again = upgrade(healthy, version, upgrade_policy={"auto_upgrade": False})
    assert again.status == 0 and '"changed": false' in again.output, again.output
    restored = healthy.module(MODULE, upgrade_policy={"auto_upgrade": True}, **COMMON)
    assert restored.status == 0, restored.output


@pytest.mark.deep
def test_in_a_large_fleet_every_healthy_node_is_upgraded_and_every_other_one_named() -> None:
    """Pods in the way, images that do not exist, drivers that crash and validators that are missing, on 200 nodes."""
    names = [f"gpu-{number:04}" for number in range(200)]
    bare, gone, crashing, unproved = names[10:13], names[50:53], names[100:102], names[150:152]
    with running_lab("driver-fleet", Options(nodes=200, pods="instant", upgrade_tick=20)) as lab:
        lab.deploy(timeout=900)
        ansible, version = on(lab), SECOND
        for node in bare:
            bare_pod(lab, node)
        for node in (*gone, *crashing):
            faults.driver(lab, "crash-loop" if node in crashing else "image-pull-backoff", node=node, version=version)
        lab.kubectl("label", "nodes", *unproved, f"{VALIDATOR}=false", "--overwrite")
        options = {**COMMON, "max_unavailable": "50", "timeout": 120}
        skip = ["gpu_pods", "validators", "operands"]
        run = at_length(ansible, {**options, "version": version, "skip": skip, "max_failed": "10"})
        assert run.status == 0, run.output
        rows = {row["node"]: row for row in json.loads(run.output.partition("=>")[2])["nodes"]}
        failed = {name for name, row in rows.items() if row["failed"]}
        assert failed == {*bare, *gone, *crashing, *unproved}
        assert all(f"default/bare-{node} on {node} has no controller" in rows[node]["reason"] for node in bare)
        assert all("driver does not start" in rows[node]["reason"] for node in gone)
        assert all("back-off restarting failed container" in rows[node]["reason"] for node in crashing)
        assert all("validator pod" in rows[node]["reason"] for node in unproved)
        found = versions(lab)
        assert {name for name in names if found[name] == version} >= set(names) - failed
        assert {name for name in bare if found[name] == version} == set()
        cordoned = [line for line in left_behind(lab) if line.endswith("is cordoned")]
        assert {line.split()[0] for line in cordoned} <= failed - set(bare), "only nodes without a driver"
        lab.kubectl("label", "nodes", *unproved, f"{VALIDATOR}=true", "--overwrite")
        lab.kubectl("delete", "pods", "--all", "--namespace=default", "--now")
        faults.clear(lab)
        healed = at_length(ansible, {**options, "state": "recovered"})
        assert healed.status == 0, healed.output
        assert set(versions(lab).values()) == {version} and left_behind(lab) == []


def at_length(ansible: Playbook, options: t.Mapping[str, t.Any]) -> Run:
    """Run the module on a large fleet, which takes some minutes."""
    command = ["ansible", "localhost", "--module-name", MODULE, "--args", json.dumps(options)]
    return Playbook.finish(ansible.command(command), 900)
