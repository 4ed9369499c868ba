# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml from a bare cluster to verified GPUs, a change, and away again: check, run, check again, run again."""

from __future__ import annotations

import re
import typing as t
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lab.cluster import Lab
from tests.support.ansible import OPERATOR, ROOT, SITE, Playbook, Run, on


def changed_tasks(run: Run) -> list[str]:
    """The tasks that changed something, or said that they would."""
    tasks = re.split(r"^TASK \[", run.output, flags=re.MULTILINE)[1:]
    return [task.partition("]")[0] for task in tasks if re.search(r"^changed: ", task, re.MULTILINE)]


def twelve_steps(ansible: Playbook, **extra_vars: t.Any) -> Run:
    """Check, run, check again, run again: the check tells the truth, and the second run has nothing to do. Returns the run."""
    predicted = ansible.run(SITE, "--check", "--diff", **extra_vars)
    done = ansible.run(SITE, "--diff", **extra_vars)
    predicted_again = ansible.run(SITE, "--check", **extra_vars)
    done_again = ansible.run(SITE, **extra_vars)
    for run in (predicted, done, predicted_again, done_again):
        assert run.status == 0, run.output
        assert "Traceback" not in run.output, run.output
    assert changed_tasks(done), done.output
    assert changed_tasks(predicted) == changed_tasks(done)
    assert (predicted_again.changed, done_again.changed) == (0, 0), done_again.output
    return done


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Playbook:
    """A cluster on which nothing is installed, not even the namespace."""
    ansible = on(lab)
    ansible.set_up("clean")
    lab.kubectl("delete", "namespace", "gpu-operator", "--ignore-not-found", "--wait=true")
    lab.kubectl(
        "delete",
        "crd",
        "--ignore-not-found",
        "clusterpolicies.nvidia.com",
        "nvidiadrivers.nvidia.com",
        "gpuclusters.nvidia.com",
    )
    return ansible


def revisions(lab: Lab) -> int:
    """How often Helm has installed or upgraded the release."""
    return len(
        lab.kubectl("get", "secret", "--namespace=gpu-operator", "--selector=owner=helm", "--output=name").split()
    )


def test_create(lab: Lab, bare: Playbook) -> None:
    done = twelve_steps(
        bare,
        operator_pull_secrets=[
            {"name": "mirror", "registry": "registry.example.com", "username": "robot", "password": "s3cret"}
        ],
    )
    assert "s3cret" not in done.output
    assert revisions(lab) == 1, "A rerun adds none."


def test_modify(lab: Lab, bare: Playbook) -> None:
    lab.kubectl("label", "namespace", "gpu-operator", "pod-security.kubernetes.io/warn-")
    done = twelve_steps(
        bare, operator_values={"dcgmExporter": {"env": [{"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"}]}}
    )
    assert "DCGM_EXPORTER_INTERVAL" in done.output
    assert any("Create and label the namespace" in task for task in changed_tasks(done)), done.output
    assert revisions(lab) == 2, "A rerun adds none."


def test_verify_writes_junit(bare: Playbook, tmp_path: Path) -> None:
    report = tmp_path / "reports" / "gpu.xml"
    run = bare.run(ROOT / "playbooks" / "verify.yml", verify_junit_path=str(report))
    assert run.status == 0, run.output
    suite = ET.parse(report).getroot()
    assert (suite.get("failures"), suite.get("tests")) == ("0", "14"), report.read_text()


def test_verify_names_what_is_missing(bare: Playbook, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    report = tmp_path / "gpu.xml"
    run = bare.run(
        ROOT / "playbooks" / "verify.yml",
        verify_expected_gpus={"gpu-0000": 16, "gpu-0999": 8},
        verify_junit_path=str(report),
    )
    assert run.status == 2, run.output
    assert "gpu-0000: Pods can get 8 GPUs, and 16 are expected." in run.message
    assert "gpu-0999: The node is missing" in run.message
    assert ET.parse(report).getroot().get("failures") == "2"
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777, "A folder such as /tmp is left as it is."


def test_remove(lab: Lab, bare: Playbook) -> None:
    remove: dict[str, t.Any] = {"operator_state": "absent", "operator_allow_disruption": True}
    steps = [bare.run(OPERATOR, *arguments, **remove) for arguments in (["--check"], [], ["--check"], [])]
    assert [run.status for run in steps] == [0, 0, 0, 0], steps[1].output
    assert changed_tasks(steps[0]) == changed_tasks(steps[1]) != []
    assert [run.changed for run in steps[2:]] == [0, 0]
    assert (
        lab.kubectl(
            "get",
            "daemonsets",
            "--namespace=gpu-operator",
            "--output=name",
            "--selector=app.kubernetes.io/managed-by=gpu-operator",
        )
        == ""
    )
