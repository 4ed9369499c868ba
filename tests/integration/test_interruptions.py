# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Day-2 playbooks that are interrupted in the middle say what is left, and the next run goes on with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import typing as t

import pytest

from lab.cluster import Lab, faults
from lab.cluster.proxy import before, unauthorized
from tests.integration.test_driver_upgrade import STATE as UPGRADE_STATE
from tests.integration.test_driver_upgrade import budgeted, labels, left_behind, versions
from tests.integration.test_mig import A100, H100, STATE, is_in_service, node, offered
from tests.support.ansible import ROOT, Playbook, Run, on
from tests.support.labs import running_sharing_fleet
from tests.support.waits import sees

pytestmark = [pytest.mark.wide, pytest.mark.slow("each playbook begins, is interrupted, and goes on")]

PLAYBOOKS = ROOT / "playbooks"
T4, L40S = "t4-0000", "l40s-0000"
NODES = (A100, H100, L40S, T4)
FIRST, SECOND = "595.91.07", "600.10.01"
SLICED = {"mig_layouts": [{"layout": "all-1g.10gb", "nodes": [H100]}], "mig_allow_disruption": True}
WHOLE = {"mig_layouts": [{"nodes": [A100, H100]}], "mig_state": "absent", "mig_allow_disruption": True}
SHARED = {"sharing_configs": [{"name": "four", "strategy": "time-slicing", "replicas": 4, "nodes": [T4, L40S]}]}


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Lab]:
    """A100, H100, T4 and L40S with a ready stack, whose MIG manager takes some seconds."""
    with running_sharing_fleet("interrupted", mig_seconds=4, validation_seconds=15) as lab:
        yield lab


@pytest.fixture
def ansible(fleet: Lab) -> t.Iterator[Playbook]:
    """Whole GPUs in service, before and after."""
    playbook = on(fleet)
    yield playbook
    faults.clear(fleet)
    fleet.kubectl("delete", "poddisruptionbudgets,deployments", "--all", "--namespace=default")
    if is_labelled(fleet):
        works(playbook.run(PLAYBOOKS / "sharing.yml", sharing_state="absent"))
    if any("nvidia.com/mig" in key for name in (A100, H100) for key in offered(fleet, name)):
        works(playbook.run(PLAYBOOKS / "mig.yml", **WHOLE))


def works(run: Run) -> None:
    assert run.status == 0, run.output


def driver(version: str, **options: t.Any) -> dict[str, t.Any]:
    """Return the variables of an upgrade of the drivers."""
    fast = {"registry": {"mode": "offline"}, "allow_disruption": True, "force_conflicts": True, "timeout": 60}
    return {f"driver_container_{name}": value for name, value in {**fast, "version": version, **options}.items()}


def other(lab: Lab) -> str:
    """Return the version that the nodes do not have."""
    return SECOND if versions(lab)[T4] == FIRST else FIRST


def ended(run: Run, *words: str) -> None:
    """Assert that a run failed with these words, and without a traceback."""
    assert run.status != 0 and "Traceback" not in run.output, run.output
    assert all(word in run.output for word in words), run.output


def is_dividing(lab: Lab) -> bool:
    found = node(lab, H100)["metadata"]["labels"]
    return found.get("nvidia.com/mig.config") == "all-1g.10gb" and found.get(STATE) == "pending"


def is_upgrading(lab: Lab) -> bool:
    return bool({"pod-restart-required", "validation-required"} & set(labels(lab, UPGRADE_STATE).values()))


def is_labelled(lab: Lab) -> bool:
    return any(labels(lab, "nvidia.com/device-plugin.config").values())


# ---- the user


def interrupted(ansible: Playbook, playbook: str, is_begun: t.Callable[[], bool], **variables: t.Any) -> Run:
    """Press Ctrl-C in the middle of a playbook."""
    process = ansible.plain.start(PLAYBOOKS / f"{playbook}.yml", **variables)
    begun(process, is_begun)
    os.killpg(process.pid, signal.SIGINT)
    return Playbook.finish(process, 60)


def begun(process: subprocess.Popen[str], is_begun: t.Callable[[], bool]) -> None:
    try:
        sees(lambda: is_begun() or process.poll() is not None, 180)
    except AssertionError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.poll() is None, process.communicate()[0]


def test_ctrl_c_in_the_middle_of_mig(fleet: Lab, ansible: Playbook) -> None:
    ended(interrupted(ansible, "mig", lambda: is_dividing(fleet), **SLICED))
    resumed = ansible.run(PLAYBOOKS / "mig.yml", **SLICED)
    assert resumed.status == 0, resumed.output
    assert offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"} and is_in_service(fleet, H100)


def test_ctrl_c_in_the_middle_of_sharing(fleet: Lab, ansible: Playbook) -> None:
    ended(interrupted(ansible, "sharing", lambda: is_labelled(fleet), **SHARED))
    resumed = ansible.run(PLAYBOOKS / "sharing.yml", **SHARED)
    assert resumed.status == 0, resumed.output
    assert {name: offered(fleet, name)["nvidia.com/gpu"] for name in (T4, L40S)} == {T4: "16", L40S: "16"}
    assert is_in_service(fleet, T4) and is_in_service(fleet, L40S)


def test_ctrl_c_in_the_middle_of_an_upgrade_of_drivers(fleet: Lab, ansible: Playbook) -> None:
    version = other(fleet)
    wish = driver(version, max_unavailable="1")
    ended(interrupted(ansible, "upgrade_driver", lambda: is_upgrading(fleet), **wish))
    time.sleep(5)  # The operator goes on with the node that has begun, and begins with no other one.
    assert list(versions(fleet).values()).count(version) <= 1
    resumed = ansible.run(PLAYBOOKS / "upgrade_driver.yml", **{**wish, "driver_container_max_unavailable": "4"})
    assert resumed.status == 0, resumed.output
    assert set(versions(fleet).values()) == {version} and left_behind(fleet) == []


# ---- the token


@pytest.mark.parametrize("playbook", ["mig", "upgrade_driver", "sharing"])
def test_a_token_that_expires_in_the_middle_is_one_error_and_the_next_run_goes_on(
    fleet: Lab, ansible: Playbook, playbook: str
) -> None:
    version = other(fleet)
    wishes = {"mig": SLICED, "upgrade_driver": driver(version, max_unavailable="2"), "sharing": SHARED}
    moments = {"mig": is_dividing, "upgrade_driver": is_upgrading, "sharing": is_labelled}
    with before(fleet) as proxy:
        late = on(fleet)
        late.environment["K8S_AUTH_KUBECONFIG"] = str(proxy.kubeconfig)
        process = late.start(PLAYBOOKS / f"{playbook}.yml", **wishes[playbook])
        begun(process, lambda: moments[playbook](fleet))
        proxy.answer(unauthorized(), times=100_000)
        run = Playbook.finish(process, 60)
        asked = [target for method, target, status in proxy.log if status == 401]
    ended(run, "refused the credentials (401)", "renew it in the kubeconfig")
    assert run.output.count("FAILED! =>") == 1 and 0 < len(asked) < 50, asked
    resumed = ansible.run(PLAYBOOKS / f"{playbook}.yml", **wishes[playbook])
    assert resumed.status == 0 and left_behind(fleet) == [], resumed.output
    assert all(is_in_service(fleet, name) for name in NODES)


# ---- the fleet


def test_a_window_that_closes_lets_nodes_end_that_have_begun(fleet: Lab, ansible: Playbook) -> None:
    version = other(fleet)
    left_s = 60 - time.time() % 60
    time.sleep(left_s - 14 if left_s > 14 else left_s + 46)
    end = time.gmtime(time.time() + 14)
    window = f"{(end.tm_hour - 1) % 24:02}:{end.tm_min:02}-{end.tm_hour:02}:{end.tm_min:02}"
    wish = driver(version, max_unavailable="1")
    run = ansible.run(PLAYBOOKS / "upgrade_driver.yml", **wish, driver_container_windows=[window])
    assert run.status == 0 and "maintenance window" in run.output, run.output
    done = [name for name, found in versions(fleet).items() if found == version]
    assert 0 < len(done) < len(NODES), run.output
    assert all(not node(fleet, name)["spec"].get("unschedulable") for name in NODES)
    rest = ansible.run(PLAYBOOKS / "upgrade_driver.yml", **{**wish, "driver_container_max_unavailable": "4"})
    assert rest.status == 0 and set(versions(fleet).values()) == {version} and left_behind(fleet) == [], rest.output


def test_a_budget_that_allows_no_eviction_is_named_and_the_node_stays_as_it_was(fleet: Lab, ansible: Playbook) -> None:
    budgeted(fleet, H100)
    before_it = offered(fleet, H100)
    run = ansible.run(PLAYBOOKS / "mig.yml", **SLICED, mig_drain_timeout=4)
    ended(run, "PodDisruptionBudget default/train")
    assert offered(fleet, H100) == before_it and is_in_service(fleet, H100)


def test_a_node_that_somebody_uncordons_in_the_middle_is_cordoned_again(fleet: Lab, ansible: Playbook) -> None:
    process = ansible.start(PLAYBOOKS / "mig.yml", **SLICED)
    begun(process, lambda: is_dividing(fleet))
    fleet.kubectl("uncordon", H100)
    sees(lambda: node(fleet, H100)["spec"].get("unschedulable"), 10)
    run = Playbook.finish(process, 120)
    assert run.status == 0 and "Somebody else uncordoned it" in run.output, run.output
    assert is_in_service(fleet, H100) and offered(fleet, H100) == {"nvidia.com/mig-1g.10gb": "56"}


def test_a_canary_that_fails_keeps_the_others_from_beginning(fleet: Lab, ansible: Playbook) -> None:
    faults.mig(fleet, H100, "busy")
    layouts = [{"layout": "all-1g.10gb", "nodes": [H100]}, {"layout": "all-1g.10gb", "nodes": [A100]}]
    plain = offered(fleet, A100)
    wish = {"mig_layouts": layouts, "mig_canary": [H100], "mig_max_failed": "1", "mig_allow_disruption": True}
    run = ansible.run(PLAYBOOKS / "mig.yml", **wish)
    ended(run, "canary", H100)
    assert offered(fleet, A100) == plain and is_in_service(fleet, A100)
