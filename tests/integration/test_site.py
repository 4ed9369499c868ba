# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml takes a bare cluster to verified GPUs, changes it and removes it, each with a check, a run and a rerun."""

from __future__ import annotations

import re
import typing as t
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lab.cluster import Lab, LabError
from tests.support.ansible import OPERATOR, ROOT, SITE, Playbook, Run

pytestmark = pytest.mark.slow("site.yml is checked, run, checked and run again")


def changed_tasks(run: Run) -> list[str]:
    """Return the tasks that changed something, or predicted a change."""
    tasks = re.split(r"^TASK \[", run.output, flags=re.MULTILINE)[1:]
    return [task.partition("]")[0] for task in tasks if re.search(r"^changed: ", task, re.MULTILINE)]


FORESEEN = {"Foresee the taints": "gpuops.nvidia.scheduling : Keep pods without GPUs off GPU nodes"}
"""What check mode says of nodes whose labels come with the stack, and the task that then does it."""


def converge(ansible: Playbook, **extra_vars: t.Any) -> Run:
    """Check, run, and run again, and return the first run.

    The check must predict the run, and the second run must change nothing.
    """
    predicted = ansible.run(SITE, "--check", "--diff", **extra_vars)
    done = ansible.run(SITE, "--diff", **extra_vars)
    done_again = ansible.run(SITE, **extra_vars)
    for run in (predicted, done, done_again):
        assert run.status == 0, run.output
        assert "Traceback" not in run.output, run.output
    assert changed_tasks(done), done.output
    assert [FORESEEN.get(task, task) for task in changed_tasks(predicted)] == changed_tasks(done)
    assert done_again.changed == 0, done_again.output
    return done


def predicts_nothing(ansible: Playbook, **extra_vars: t.Any) -> None:
    """A check of what was done predicts no change."""
    again = ansible.run(SITE, "--check", **extra_vars)
    assert (again.status, again.changed) == (0, 0), again.output


@pytest.fixture
def bare(lab: Lab, ansible: Playbook) -> None:
    """Remove everything from the cluster, including the namespace and the CRDs."""
    ansible.set_up("clean")
    lab.kubectl("delete", "namespace", "gpu-operator", "--ignore-not-found", "--wait=true")
    crds = [f"{name}.nvidia.com" for name in ("clusterpolicies", "nvidiadrivers", "gpuclusters")]
    lab.kubectl("delete", "crd", "--ignore-not-found", *crds)


@pytest.fixture
def stack(lab: Lab, ansible: Playbook) -> None:
    """Install the stack unless an earlier test has left a ready one."""
    if not is_ready(lab):
        ansible.set_up("stack")


def is_ready(lab: Lab) -> bool:
    """Return whether Helm has installed the release and the ClusterPolicy is ready; False without its CRD."""
    try:
        states = lab.kubectl("get", "clusterpolicies", "--output=jsonpath={.items[*].status.state}")
    except LabError:
        return False
    return states == "ready" and revisions(lab) > 0


def revisions(lab: Lab) -> int:
    """Return how often Helm has installed or upgraded the release."""
    query = ("--namespace=gpu-operator", "--selector=owner=helm", "--output=name")
    return len(lab.kubectl("get", "secret", *query).split())


@pytest.mark.usefixtures("bare")
def test_create(lab: Lab, ansible: Playbook) -> None:
    secret = {"name": "mirror", "registry": "registry.example.com", "username": "robot", "password": "s3cret"}
    wishes = {
        "operator_pull_secrets": [secret],
        "scheduling_taints": [
            {"key": "nvidia.com/gpu", "effect": "PreferNoSchedule", "node_selector": {"nvidia.com/gpu.present": "true"}}
        ],
        "scheduling_quotas": [{"namespace": "default", "gpus": {"nvidia.com/gpu": 8}}],
    }
    done = converge(ansible, **wishes)
    predicts_nothing(ansible, **wishes)
    assert "s3cret" not in done.output
    assert revisions(lab) == 1, "The second run should not add a revision."
    undone = ansible.run(ROOT / "playbooks" / "scheduling.yml")
    assert (undone.status, changed_tasks(undone)) == (0, changed_tasks(done)[-2:]), undone.output


@pytest.mark.usefixtures("stack")
@pytest.mark.wide
def test_modify(lab: Lab, ansible: Playbook) -> None:
    before = revisions(lab)
    lab.kubectl("label", "namespace", "gpu-operator", "pod-security.kubernetes.io/warn-")
    env = [{"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"}]
    done = converge(ansible, operator_values={"dcgmExporter": {"env": env}})
    assert "DCGM_EXPORTER_INTERVAL" in done.output
    assert any("label the namespace" in task for task in changed_tasks(done)), done.output
    assert revisions(lab) == before + 1, "The second run should not add a revision."


@pytest.mark.usefixtures("stack")
@pytest.mark.wide
def test_verify_writes_junit(ansible: Playbook, tmp_path: Path) -> None:
    report = tmp_path / "reports" / "gpu.xml"
    run = ansible.run(ROOT / "playbooks" / "verify.yml", verify_junit_path=str(report))
    assert run.status == 0, run.output
    suite = ET.parse(report).getroot()
    assert (suite.get("failures"), suite.get("tests")) == ("0", "15"), report.read_text()


@pytest.mark.usefixtures("stack")
@pytest.mark.wide
def test_verify_names_what_is_missing(ansible: Playbook, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    report = tmp_path / "gpu.xml"
    run = ansible.run(
        ROOT / "playbooks" / "verify.yml",
        verify_expected_gpus={"gpu-0000": 16, "gpu-0999": 8},
        verify_junit_path=str(report),
    )
    assert run.status == 2, run.output
    assert "gpu-0000: Pods can get 8 GPUs, but 16 are expected." in run.message
    assert "gpu-0999: The node is missing" in run.message
    check = ansible.run(ROOT / "playbooks" / "verify.yml", "--check", verify_expected_gpus={"gpu-0000": 16})
    assert check.status == 2 and "but 16 are expected" in check.message, check.output
    assert ET.parse(report).getroot().get("failures") == "2"
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777, "A folder such as /tmp should keep its mode."


@pytest.mark.usefixtures("stack")
def test_what_upgrade_driver_has_declared_is_no_change_for_site(lab: Lab, ansible: Playbook) -> None:
    settled = ansible.run(SITE)
    assert settled.status == 0, settled.output
    declared = ansible.module(
        "gpuops.nvidia.driver_container",
        upgrade_policy={"max_parallel_upgrades": 3},
        registry={"mode": "offline"},
        wait=False,
    )
    assert declared.status == 0 and '"changed": true' in declared.output, declared.output
    path = "--output=jsonpath={.items[0].spec.driver.upgradePolicy.maxParallelUpgrades}"
    run = ansible.run(SITE, "--check")
    assert (run.status, run.changed) == (0, 0), run.output
    assert "maxParallelUpgrades stays as it is, since gpuops.nvidia.upgrade_driver manages it" in run.output
    assert lab.kubectl("get", "clusterpolicies", path) == "3"


@pytest.mark.usefixtures("stack")
def test_remove(lab: Lab, ansible: Playbook) -> None:
    remove: dict[str, t.Any] = {"operator_state": "absent", "operator_allow_disruption": True}
    steps = [ansible.run(OPERATOR, *arguments, **remove) for arguments in (["--check"], [], ["--check"], [])]
    assert [run.status for run in steps] == [0, 0, 0, 0], steps[1].output
    assert changed_tasks(steps[0]) == changed_tasks(steps[1]) != []
    assert [run.changed for run in steps[2:]] == [0, 0]
    owners = "--output=jsonpath={.items[*].metadata.ownerReferences[*].kind}"
    assert "ClusterPolicy" not in lab.kubectl("get", "daemonsets", "--namespace=gpu-operator", owners)
