# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mixed fleet gets its MIG layouts on the lab, also where the MIG manager gets stuck and runs are killed."""

from __future__ import annotations

import contextlib
import json
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import call, repair
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import mig_config

from lab.cluster import Lab, Options, faults
from lab.cluster.proxy import before, unavailable
from tests.support.ansible import ROOT, Playbook, Run, kill_all, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("nodes are drained, divided and proved")

MODULE = "gpuops.nvidia.mig_config"
PLAYBOOK = ROOT / "playbooks" / "mig.yml"
A100, H100 = "a100-0000", "h100-0000"
LAYOUTS = [{"layout": "all-balanced", "nodes": [A100]}, {"layout": "all-1g.10gb", "nodes": [H100]}]
BACK = [{"nodes": [A100, H100]}]
CONFIG, STATE, HELD = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "gpuops.nvidia/maintenance.mig"
MOMENTS = ["held", "asked", "at work", "proven", "done"]
"""How far a change is, as `moment_of` says."""


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Lab]:
    """A100, H100, T4 and L40S with a ready stack, whose MIG manager is quick."""
    with running_lab("mig", Options(fleet="sharing", mig_seconds=0.5, mig_patience=6, reboot_seconds=3)) as lab:
        lab.deploy()
        lab.kubectl(
            "patch", "clusterpolicy", "cluster-policy", "--type=merge", '--patch={"spec":{"mig":{"strategy":"mixed"}}}'
        )
        run = on(lab).module("gpuops.nvidia.clusterpolicy_info", wait=True, wait_timeout=120)
        assert run.status == 0, run.output
        yield lab


def node(lab: Lab, name: str) -> dict[str, t.Any]:
    return dict(json.loads(lab.kubectl("get", "node", name, "--output=json")))


def offered(lab: Lab, name: str) -> dict[str, str]:
    """Return the GPU resources of a node, without those of which there are none."""
    found = node(lab, name)["status"]["allocatable"].items()
    return {key: value for key, value in found if key.startswith("nvidia.com/") and value != "0"}


def is_in_service(lab: Lab, name: str) -> bool:
    """Return whether a node takes pods, and nothing on it is held or paused."""
    found = node(lab, name)
    notes = [key for key in found["metadata"].get("annotations", {}) if key.startswith("gpuops.nvidia/maintenance")]
    paused = [key for key, value in found["metadata"]["labels"].items() if "paused-for-mig-change" in value]
    return not found["spec"].get("unschedulable") and not notes and not paused


def wait_for(has_come: t.Callable[[], bool], poll_s: float = 0.1) -> None:
    deadline = time.monotonic() + 60
    while not has_come():
        assert time.monotonic() < deadline, "the change did not come so far"
        time.sleep(poll_s)


@pytest.mark.wide
def test_a_mixed_fleet_gets_its_layouts_and_back_by_two_runs(fleet: Lab) -> None:
    ansible, plain = on(fleet), {name: offered(fleet, name) for name in (A100, H100, "t4-0000", "l40s-0000")}
    predicted = ansible.run(PLAYBOOK, "--check", "--diff", mig_layouts=LAYOUTS)
    assert predicted.status == 0 and predicted.changed == 1, predicted.output
    assert {name: offered(fleet, name) for name in plain} == plain
    run = ansible.run(PLAYBOOK, mig_layouts=LAYOUTS, mig_max_unavailable="2")
    assert run.status == 0 and run.changed == 1, run.output
    assert offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}
    assert all(key.startswith("nvidia.com/mig-") for key in offered(fleet, A100)), offered(fleet, A100)
    assert {name: offered(fleet, name) for name in ("t4-0000", "l40s-0000")} == {
        name: plain[name] for name in ("t4-0000", "l40s-0000")
    }
    again = ansible.run(PLAYBOOK, mig_layouts=LAYOUTS)
    assert again.status == 0 and again.changed == 0, again.output
    back = ansible.run(PLAYBOOK, mig_layouts=BACK, mig_state="absent", mig_max_unavailable="2")
    assert back.status == 0, back.output
    assert {name: offered(fleet, name) for name in plain} == plain and is_in_service(fleet, A100)
    assert ansible.run(PLAYBOOK, mig_layouts=BACK, mig_state="absent").changed == 0


@pytest.fixture
def divided(fleet: Lab) -> t.Iterator[Playbook]:
    """An H100 in another layout before the test, and whole afterwards."""
    ansible = on(fleet)
    run = ansible.module(MODULE, layout="all-disabled", nodes=[H100], timeout=30)
    assert run.status == 0, run.output
    yield ansible
    faults.clear(fleet)


@pytest.mark.parametrize(
    "trouble",
    ["pods-stay", pytest.param("validator", marks=pytest.mark.wide), pytest.param("hangs", marks=pytest.mark.wide)],
)
def test_a_change_that_is_stuck_heals(fleet: Lab, divided: Playbook, trouble: str) -> None:
    faults.mig(fleet, H100, trouble)
    run = divided.module(MODULE, layout="all-3g.40gb", nodes=[H100], timeout=15)
    assert run.status == 0 and "(state pending)" in run.output, run.output
    assert offered(fleet, H100) == {"nvidia.com/mig-3g.40gb": "16"} and is_in_service(fleet, H100)


@pytest.mark.wide
def test_operands_that_a_failed_change_left_paused_come_back(fleet: Lab, divided: Playbook) -> None:
    faults.mig(fleet, H100, "left-paused")
    run = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100], timeout=30)
    assert run.status == 2 and "left paused" in run.output, run.output
    assert is_in_service(fleet, H100)
    healed = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100], timeout=30)
    assert healed.status == 0 and offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}, healed.output


def test_a_pod_on_a_gpu_leaves_only_with_permission(fleet: Lab, divided: Playbook, tmp_path: Path) -> None:
    with training(fleet):
        refused = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100])
        assert refused.status == 2 and "allow_disruption" in refused.output
        run = divided.module(MODULE, layout="all-1g.10gb", nodes=[H100], allow_disruption=True, timeout=30)
        assert run.status == 0 and "default/train-" in run.output, run.output


@pytest.mark.wide
def test_a_first_publication_divides_no_gpu_that_a_pod_uses(fleet: Lab, divided: Playbook) -> None:
    """Somebody has asked for a layout before it exists. It is there as soon as all managers start again."""
    fleet.kubectl("label", "node", H100, f"{CONFIG}=mine", "--overwrite")
    wait_for(lambda: node(fleet, H100)["metadata"]["labels"].get(STATE) == "failed")
    mine = {"mine": {"mig_devices": {"3g.40gb": 1}, "node_selector": {"kubernetes.io/hostname": H100}}}
    wish = {"mig_custom_layouts": mine, "mig_layouts": [{"layout": "mine", "nodes": [H100]}]}
    with training(fleet):
        alone = divided.module("gpuops.nvidia.mig_layout", layouts=mine)
        assert alone.status == 2 and f"{H100} (mine, state failed)" in alone.output, alone.output
        asked = divided.run(PLAYBOOK, **wish)
        assert asked.status == 2 and "allow_disruption" in asked.output, asked.output
        assert offered(fleet, H100) == {"nvidia.com/gpu": "8"} and is_in_service(fleet, H100)
        ahead = divided.run(PLAYBOOK, "--check", **wish, mig_allow_disruption=True)
        assert ahead.status == 0 and ahead.changed == 2, ahead.output
        run = divided.run(PLAYBOOK, **wish, mig_allow_disruption=True)
        assert run.status == 0, run.output
    assert offered(fleet, H100) == {"nvidia.com/mig-3g.40gb": "8"} and is_in_service(fleet, H100)
    assert configure(fleet, layout="all-disabled").said == ""
    assert divided.module("gpuops.nvidia.mig_layout", state="absent").status == 0


def test_a_change_that_starts_the_managers_asks_where_a_layout_failed(fleet: Lab, divided: Playbook) -> None:
    """A manager that starts again tries once more. Where its last run was successful, it does nothing."""
    with training(fleet), restored_managers(fleet):
        assert set_manager(divided, "first").status == 0, "Nothing is asked while all layouts are in place."
        fleet.kubectl("label", "node", H100, f"{CONFIG}=all-1g.10gb", "--overwrite")
        wait_for(lambda: node(fleet, H100)["metadata"]["labels"].get(STATE) == "failed")
        before = managers(fleet)
        for flags in (["--check"], []):
            refused = set_manager(divided, "second", *flags)
            assert refused.status == 2 and "allow_disruption" in refused.output, refused.output
            assert f"divide the GPUs of {H100} (all-1g.10gb, state failed)" in refused.output, refused.output
            assert "1 GPU pod (default/train-" in refused.output, refused.output
        assert managers(fleet) == before, "Nothing has changed."
        predicted = set_manager(divided, "second", "--check", allow_disruption=True)
        assert predicted.status == 0 and f"{H100} (all-1g.10gb, state failed)" in predicted.output, predicted.output
        assert managers(fleet) == before
        assert set_manager(divided, "second", allow_disruption=True).status == 0
        wait_for(lambda: managers(fleet).pods.isdisjoint(before.pods))
    assert configure(fleet, layout="all-disabled").said == "" and is_in_service(fleet, H100)


def set_manager(ansible: Playbook, value: str, *flags: str, **options: t.Any) -> Run:
    """Give all MIG managers a variable."""
    given = {"mig_manager": {"env": [{"name": "OF_A_TEST", "value": value}]}, "wait": False, **options}
    command = ["ansible", "localhost", "--module-name", "gpuops.nvidia.clusterpolicy", "--args", json.dumps(given)]
    return Playbook.finish(ansible.command([*command, *flags]), 120)


class Managers(t.NamedTuple):
    """What the ClusterPolicy says about the MIG managers, and the UIDs of their pods."""

    env: str
    pods: frozenset[str]


def managers(lab: Lab) -> Managers:
    env = lab.kubectl("get", "clusterpolicies", "--output=jsonpath={.items[0].spec.migManager.env}")
    listed = (
        "--namespace=gpu-operator",
        "--selector=app=nvidia-mig-manager",
        "--output=jsonpath={.items[*].metadata.uid}",
    )
    return Managers(env, frozenset(lab.kubectl("get", "pods", *listed).split()))


@contextlib.contextmanager
def restored_managers(lab: Lab) -> t.Iterator[None]:
    """Take the variables of the MIG managers back after a block, and wait for them."""
    try:
        yield
    finally:
        back = {"spec": {"migManager": {"env": None}}}
        lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", f"--patch={json.dumps(back)}")
        rollout = ("--namespace=gpu-operator", "rollout", "status", "daemonset/nvidia-mig-manager", "--timeout=60s")
        wait_for(
            lambda: "OF_A_TEST" not in lab.kubectl("--namespace=gpu-operator", "get", "daemonsets", "--output=yaml")
        )
        lab.kubectl(*rollout)


@contextlib.contextmanager
def training(lab: Lab) -> t.Iterator[None]:
    """A pod on a GPU of the H100s, which comes back if it is evicted."""
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": H100},
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    template = {"metadata": {"labels": {"app": "train"}}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "train"}}, "template": template}
    metadata = {"name": "train", "namespace": "default"}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    lab.kubectl("create", "--filename=-", stdin=json.dumps(body))
    try:
        lab.kubectl("rollout", "status", "deployment/train", "--timeout=60s")
        yield
    finally:
        lab.kubectl("delete", "deployment", "train", "--cascade=foreground", "--timeout=60s")


class Call(t.NamedTuple):
    """What one call in this process returned or said, and the first node's row."""

    said: str
    row: dict[str, t.Any]


def configure(lab: Lab, **options: t.Any) -> Call:
    """Run mig_config in this process, which takes a second less than a module does."""
    defaults = {name: spec.get("default") for name, spec in mig_config.SPEC.options.items()}
    defaults["workload"] = {name: spec.get("default") for name, spec in mig_config.WORKLOAD.options.items()}
    given = {**defaults, "kubeconfig": str(lab.kubeconfig), "nodes": [H100], "timeout": 30, **options}
    try:
        result = call.configure(Cluster(given), given)[0]
    except GpuOpsError as e:
        return Call(e.msg, next(iter(e.details.get("nodes") or []), {}))
    return Call("", result["nodes"][0])


@pytest.mark.wide
def test_a_change_that_failed_leaves_the_node_held_until_it_is_proved(fleet: Lab, divided: Playbook) -> None:
    faults.mig(fleet, H100, "hangs")
    run = configure(fleet, layout="all-3g.40gb", repair=False, timeout=3)
    found, notes = node(fleet, H100), node(fleet, H100)["metadata"]["annotations"]
    assert "has made no progress" in run.said and run.row["purposes"] == ["mig"]
    assert found["spec"]["unschedulable"] is True and "gpuops.nvidia/maintenance.mig" in notes
    assert "has made no progress" in notes["gpuops.nvidia/failed.mig"]
    faults.clear(fleet)
    assert configure(fleet, layout="all-3g.40gb", timeout=5).said == "" and is_in_service(fleet, H100)


@pytest.mark.wide
def test_a_gpu_that_stays_busy_fails_the_change_until_it_is_free(fleet: Lab, divided: Playbook) -> None:
    faults.mig(fleet, H100, "busy")
    for _ in range(2):
        run = configure(fleet, layout="all-1g.10gb")
        assert "(state failed)" in run.said and is_in_service(fleet, H100)
    faults.clear(fleet)
    assert configure(fleet, layout="all-1g.10gb").row["after"] == {"nvidia.com/mig-1g.10gb": 56}


@pytest.mark.wide
def test_a_change_that_the_manager_overlooks_is_asked_for_again(
    fleet: Lab, divided: Playbook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "LOST_S", 4.0)
    faults.mig(fleet, H100, "lost")
    run = configure(fleet, layout="all-1g.10gb")
    assert run.said == "" and is_in_service(fleet, H100)
    # The operator sets a layout on a node without the label, so removing it is no way here.
    assert len(run.row["repaired"]) == 1 and "started again" in run.row["repaired"][0], run.row


@pytest.mark.wide
def test_a_node_without_a_manager_is_named_and_left_alone(fleet: Lab, divided: Playbook) -> None:
    faults.mig(fleet, H100, "no-manager")
    pods = ("--namespace=gpu-operator", "--selector=app=nvidia-mig-manager", f"--field-selector=spec.nodeName={H100}")
    wait_for(lambda: not fleet.kubectl("get", "pods", *pods, "--output=name").strip())
    run = configure(fleet, layout="all-1g.10gb")
    assert (run.said, run.row["action"]) == ("", "left") and is_in_service(fleet, H100), run
    assert "nvidia.com/gpu.deploy.mig-manager" in run.row["why"]
    faults.clear(fleet)
    wait_for(lambda: bool(fleet.kubectl("get", "pods", *pods, "--output=name").strip()))
    assert configure(fleet, layout="all-1g.10gb").said == ""


@pytest.mark.wide
def test_a_workload_on_a_slice_is_the_last_proof(fleet: Lab, divided: Playbook) -> None:
    run = configure(fleet, layout="all-3g.40gb", verify=True)
    assert run.said == "" and run.row["step"] == "done" and is_in_service(fleet, H100), run
    workload = {
        **{name: spec.get("default") for name, spec in mig_config.WORKLOAD.options.items()},
        "command": ["false"],
    }
    bad = configure(fleet, layout="all-1g.10gb", verify=True, workload=workload)
    assert "The workload on nvidia.com/mig-1g.10gb did not pass" in bad.said, bad
    assert node(fleet, H100)["spec"]["unschedulable"] is True and "stays cordoned" in bad.said
    assert configure(fleet, layout="all-3g.40gb").said == "" and is_in_service(fleet, H100)


@pytest.mark.wide
def test_a_manager_that_may_reboot_does_so_only_with_permission(fleet: Lab, divided: Playbook) -> None:
    env = [{"name": "WITH_REBOOT", "value": "true"}]
    with patched_policy(fleet, {"migManager": {"env": env}}, {"migManager": {"env": None}}):
        refused = configure(fleet, layout="all-1g.10gb")
        assert "allow_reboot permits that" in refused.said and is_in_service(fleet, H100)
        faults.mig(fleet, H100, "mode")
        boot = node(fleet, H100)["status"]["nodeInfo"]["bootID"]
        # Nobody says on which of the nodes the operator's own pods run, and here all of them have GPUs.
        permitted = {"allow_reboot": True, "allow_disruption": True, "evict": "all", "delete_emptydir_data": True}
        run = configure(fleet, layout="all-1g.10gb", **permitted)
        assert run.said == "" and node(fleet, H100)["status"]["nodeInfo"]["bootID"] != boot
        assert offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"} and is_in_service(fleet, H100)


@contextlib.contextmanager
def patched_policy(lab: Lab, there: dict[str, t.Any], back: dict[str, t.Any]) -> t.Iterator[None]:
    """Change the ClusterPolicy during a block, and wait for the stack both times."""

    def patch(spec: dict[str, t.Any]) -> None:
        lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", f"--patch={json.dumps({'spec': spec})}")
        run = on(lab).module("gpuops.nvidia.clusterpolicy_info", wait=True, wait_timeout=120)
        assert run.status == 0, run.output

    patch(there)
    try:
        yield
    finally:
        patch(back)


@pytest.mark.wide
def test_a_layout_can_be_used_as_soon_as_it_is_published(fleet: Lab, divided: Playbook) -> None:
    """A kubelet shows the edited ConfigMap a minute later, and until then the MIG manager knows no such layout."""
    layouts = {"first": {"mig_devices": {"3g.40gb": 1}}, "second": {"mig_devices": {"1g.10gb": 3}}}
    for spec in layouts.values():
        spec["node_selector"] = {"kubernetes.io/hostname": H100}
    publish = divided.module("gpuops.nvidia.mig_layout", layouts={"first": layouts["first"]})
    assert publish.status == 0, publish.output
    assert configure(fleet, layout="first").row["after"] == {"nvidia.com/mig-3g.40gb": 8}
    publish = divided.module("gpuops.nvidia.mig_layout", layouts=layouts)
    assert publish.status == 0, publish.output
    run = configure(fleet, layout="second")
    assert run.said == "" and run.row["after"] == {"nvidia.com/mig-1g.10gb": 24}, run
    assert run.row["repaired"][-1].endswith("the edited layouts yet")
    assert configure(fleet, layout="all-disabled").said == "" and is_in_service(fleet, H100)
    gone = divided.module("gpuops.nvidia.mig_layout", state="absent")
    assert gone.status == 0, gone.output


@pytest.mark.wide
def test_an_api_server_that_is_cut_off_in_mid_wave_is_awaited(fleet: Lab, divided: Playbook) -> None:
    assert configure(fleet, layout="all-disabled", nodes=[A100]).said == ""
    with before(fleet) as proxy:
        layouts = [{"layout": "all-1g.10gb", "nodes": [H100]}, {"layout": "all-balanced", "nodes": [A100]}]
        options = json.dumps({"layouts": layouts, "timeout": 60})
        cut_off = Playbook(proxy.kubeconfig, fleet.helm)
        process = cut_off.command(["ansible", "localhost", "--module-name", MODULE, "--args", options])
        wait_for(lambda: moment_of(fleet) in MOMENTS[1:])
        proxy.answer(unavailable(), times=100_000)
        time.sleep(8)
        cut = len([status for method, target, status in proxy.log if status == 503])
        proxy.forget()
        run = Playbook.finish(process, 120)
    assert run.status == 0 and cut > 2, run.output
    assert offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}
    assert is_in_service(fleet, H100) and is_in_service(fleet, A100)
    assert configure(fleet, layout="all-disabled", nodes=[A100, H100]).said == ""


def moment_of(lab: Lab) -> str:
    """Return how far the change of the H100 to seven devices is, by what is on the node."""
    found = node(lab, H100)
    labels, is_held = found["metadata"]["labels"], HELD in found["metadata"]["annotations"]
    if labels.get(CONFIG) != "all-1g.10gb":
        return "held" if is_held else ""
    return {"success": "proven" if is_held else "done", "pending": "at work"}.get(labels.get(STATE, ""), "asked")


@pytest.mark.wide
def test_a_kill_at_every_step_is_resumed(fleet: Lab, divided: Playbook) -> None:
    options, killed = json.dumps({"layout": "all-1g.10gb", "nodes": [H100]}), []
    for moment in ("held", "asked", "at work", "proven"):
        assert configure(fleet, layout="all-disabled").said == ""
        process = divided.plain.command(["ansible", "localhost", "--module-name", MODULE, "--args", options])
        later = MOMENTS[MOMENTS.index(moment) :]
        wait_for(lambda later=later: moment_of(fleet) in later, poll_s=0.01)
        kill_all(process)
        killed.append(moment_of(fleet))
        run = configure(fleet, layout="all-1g.10gb")
        assert run.said == "" and is_in_service(fleet, H100), (moment, run)
        assert offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}, moment
    assert len(set(killed)) >= 3, killed
