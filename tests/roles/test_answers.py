# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wrong and empty answers, as AWX's surveys give them, end a run before it meets a cluster."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from tests.support.ansible import ROOT, Playbook

pytestmark = pytest.mark.slow("each case starts a playbook")

PLAYBOOKS = ROOT / "playbooks"
SITE = PLAYBOOKS / "site.yml"
VERIFY = PLAYBOOKS / "verify.yml"


def kubeconfig(path: Path, port: int) -> Path:
    """Write a kubeconfig of a server that does not answer."""
    content = {
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {"token": "x"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **content}))
    return path


def run(folder: Path, playbook: Path, *arguments: str, **answers: t.Any) -> tuple[int, str]:
    """Run a playbook without a cluster, and return its status and its output on one line."""
    done = Playbook(kubeconfig(folder / "environment", 9), folder).run(playbook, *arguments, **answers)
    return done.status, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"verify_expected_gpus": None, "operator_values": None}, "argument 'operator_values' is of type NoneType"),
        pytest.param(
            {"verify_min_nodes": ""},
            "argument 'verify_min_nodes' is of type str and we were unable to convert to int",
            marks=pytest.mark.wide,
        ),
        (
            {"operator_namespace": None, "operator_policy_name": ""},
            "for operator_namespace, operator_policy_name",
        ),
        ({"operator_state": "absent"}, "To remove it, run playbooks/uninstall.yml"),
    ],
)
def test_an_answer_that_cannot_be_used_ends_the_run_at_once(
    tmp_path: Path, answers: dict[str, t.Any], said: str
) -> None:
    status, output = run(tmp_path, SITE, **answers)
    assert status != 0 and said in output
    assert "PLAY [Check the cluster]" not in output


@pytest.mark.parametrize("version", ["", pytest.param(None, marks=pytest.mark.wide)])
def test_a_chart_without_a_version_is_not_the_newest_one(tmp_path: Path, version: str | None) -> None:
    """AWX gives a job an empty answer as a variable that hides the inventory's."""
    status, output = run(tmp_path, SITE, operator_chart_version=version)
    assert status != 0 and "operator_chart_version is empty" in output


def test_empty_answers_that_mean_nothing_do_no_harm(tmp_path: Path) -> None:
    status, output = run(
        tmp_path, SITE, verify_junit_path=None, gpuops_context=None, gpuops_kubeconfig="", gpuops_control_host=None
    )
    assert status != 0 and "PLAY [Check the cluster]" in output
    assert "port=9)" in output, "the kubeconfig of the environment was to be used"


OUTSIDER = ("--inventory", "web-0,gpu-0,", "--limit", "web-0")
NO_HOST = "meets no host of the group gpu_hosts"


@pytest.mark.parametrize(
    ("playbook", "arguments", "answers", "said"),
    [
        (VERIFY, (), {"gpuops_control_host": "bastion"}, "bastion"),
        (VERIFY, ("--inventory", "gpu-0,", "--limit", "gpu-0"), {}, "leaves out localhost"),
        (SITE, OUTSIDER, {}, "all hosts of gpu_hosts"),
        pytest.param(PLAYBOOKS / "uninstall.yml", OUTSIDER, {}, "all hosts of gpu_hosts", marks=pytest.mark.wide),
        pytest.param(PLAYBOOKS / "upgrade_kernel.yml", OUTSIDER, {}, "all hosts of gpu_hosts", marks=pytest.mark.wide),
        (PLAYBOOKS / "upgrade_kernel.yml", (), {"host_kernel_release": "latest"}, NO_HOST),
    ],
)
def test_a_run_that_addresses_nobody_is_not_green(
    tmp_path: Path, playbook: Path, arguments: tuple[str, ...], answers: dict[str, t.Any], said: str
) -> None:
    status, output = run(tmp_path, playbook, *arguments, **answers)
    assert status != 0 and said in output


def test_a_relative_path_begins_where_the_user_is(tmp_path: Path) -> None:
    path = os.path.relpath(kubeconfig(tmp_path / "mine", 7), ROOT)
    status, output = run(tmp_path, VERIFY, gpuops_kubeconfig=path)
    assert status != 0 and "port=7)" in output
