# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks as jobs of AWX: a user without a name and a home, a token with the shipped rights, and a survey."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lab.cluster import Lab, Options
from tests.support.ansible import ROOT
from tests.support.jobs import Ended, Job, folder_of_jobs
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = pytest.mark.slow("jobs start a Python for each module, as in AWX")

FILES = ROOT / "roles" / "preflight" / "files"
ACCOUNT = "default:jobs"
NAMESPACE = "gpu-operator"
SECRETS = {
    "operator_proxy": {"https_proxy": "http://robot:pr0xy-w0rd@proxy.example.com:3128"},
    "operator_pull_secrets": [
        {"name": "mirror", "registry": "registry.example.com", "username": "robot", "password": "p0ll-w0rd"}
    ],
    "operator_values": {"driver": {"env": [{"name": "LICENSE_TOKEN", "value": "l1cense-w0rd"}]}},
}
PLANTED = ("pr0xy-w0rd", "p0ll-w0rd", "l1cense-w0rd")
ANSWERS = {
    # AWX sends every answer as text, and a question without an answer as an empty one.
    "operator_wait_timeout": "120",
    "operator_allow_disruption": "false",
    "operator_registry": "",
    "operator_helm_path": "",
    "gpuops_context": "",
    "gpuops_kubeconfig": "",
    "gpuops_control_host": "",
    "verify_workload": "true",
    "verify_junit_path": "reports/gpus.xml",
}
MAINTENANCE = """\
- name: Take a node out of service
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Drain the node
      gpuops.nvidia.node_maintenance:
        state: "{{ wanted }}"
        nodes: [gpu-0000]
        purpose: upgrade
        evict: all
        force: true
        timeout: 120
"""
STUCK = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "stuck",
        "namespace": "default",
        "finalizers": ["lab.gpuops.nvidia/keep"],
    },
    "spec": {"nodeName": "gpu-0000", "containers": [{"name": "c", "image": "example.com/c"}]},
}


@pytest.fixture(scope="module")
def own_lab() -> t.Iterator[Lab]:
    """A lab with a service account that has the shipped rights for what these jobs do."""
    with running_lab("jobs", Options(nodes=2, upgrade_tick=3, audit=True)) as lab:
        lab.kubectl("create", "namespace", NAMESPACE)
        lab.kubectl("create", "serviceaccount", "jobs")
        for name in ("deploy", "verify", "drain", "uninstall"):
            lab.kubectl("create", f"--filename={FILES / f'cluster_role_{name}.yml'}")
            bound = [name, f"--clusterrole=gpuops-{name}", f"--serviceaccount={ACCOUNT}"]
            lab.kubectl("create", "clusterrolebinding", *bound)
            bound[1] += "-namespace"
            lab.kubectl("create", "rolebinding", *bound, f"--namespace={NAMESPACE}")
        yield lab


@pytest.fixture(scope="module")
def token(own_lab: Lab) -> str:
    return own_lab.token("jobs")


@pytest.fixture(scope="module")
def folder() -> t.Iterator[Path]:
    with folder_of_jobs() as made:
        yield made


@pytest.fixture(scope="module")
def job(own_lab: Lab, token: str, folder: Path) -> Job:
    """A job template that runs again and again."""
    made = Job(folder / "job", own_lab, token)
    (made.folder / "project" / "maintenance.yml").write_text(MAINTENANCE)
    return made


SHOWN = {"chart_path", "kubeconfig", "dest", "path", "src", "ansible_included_var_files"}
"""Keys of results that are there to name a file on the controller."""


def texts(value: t.Any, key: str = "") -> t.Iterator[tuple[str, str]]:
    """Yield each text in a result, with the key that it stands under."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, key)
    elif isinstance(value, str):
        yield key, value


def places(ended: Ended, job: Job) -> set[tuple[str, str]]:
    """Return the tasks and keys of results that name a file on the controller, but for keys that are there for that."""
    private = tuple(map(str, (job.folder, sys.prefix, sys.base_prefix, ROOT)))
    return {
        (str(event["event_data"].get("task")), key)
        for event in ended.events
        for key, text in texts(event.get("event_data", {}).get("res", {}))
        if key not in SHOWN and any(place in text for place in private)
    }


def check(ended: Ended, job: Job, token: str) -> None:
    """Nothing that AWX keeps of a job has a secret, or a control character but the colours of Ansible.

    Nor has a result a path of the controller, unless it is there to name one.
    """
    stored = "".join(path.read_text() for path in (job.folder / "facts").glob("*"))
    for secret in (*PLANTED, token):
        assert secret not in ended.text, ended.text.split(secret)[0][-600:]
        assert secret not in stored, "AWX hands the facts of a job to all later ones."
    assert places(ended, job) == set()
    plain = re.sub(r"\x1b\[[\d;]*m|\\u001b\[[\d;]*m", "", ended.text)
    assert (
        re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\\u00[01][0-9a-f]", plain) is None
    )


def large(ended: Ended, limit: int) -> dict[str, int]:
    """Return the sizes of the events over a limit, by the names of their tasks."""
    sizes = {str(event.get("event_data", {}).get("task")): len(json.dumps(event)) for event in ended.events}
    return {task: size for task, size in sizes.items() if size > limit}


def test_a_deployment_and_a_second_one(own_lab: Lab, job: Job, token: str) -> None:
    job.answer(**ANSWERS, **SECRETS, operator_chart_ref=own_lab.chart)
    first = job.run("site.yml")
    assert first.status == "successful", first.output
    check(first, job, token)
    assert first.artifacts["gpu_verification"]["passed"] is True
    report = job.folder / "project" / "reports" / "gpus.xml"
    assert ET.parse(report).getroot().get("failures") == "0", "a relative path begins where the job started"
    again = job.run("site.yml")
    assert (again.status, again.changed) == ("successful", 0), again.output
    check(again, job, token)
    assert large(again, 24_000) == {}, "an unchanged task needs no large event"


@pytest.mark.wide
def test_a_proof(own_lab: Lab, job: Job, token: str) -> None:
    ended = job.run("verify.yml")
    assert (ended.status, ended.changed) == ("successful", 0), ended.output
    check(ended, job, token)
    assert ended.artifacts["gpu_verification"]["passed"] is True


@pytest.mark.wide
def test_a_job_that_is_cancelled_in_mid_wait_ends_and_the_next_one_goes_on(own_lab: Lab, job: Job, token: str) -> None:
    # The driver is left out, since its pods are never replaced at once.
    hanging = {"driver": {"enabled": False}, "daemonsets": {"annotations": {"lab.gpuops.nvidia/fault": "hang-init"}}}
    job.answer(**{**ANSWERS, **SECRETS, "operator_values": hanging}, operator_chart_ref=own_lab.chart)
    process = job.start("site.yml")
    progress = job.folder / "artifacts" / str(job.runs) / "stdout"
    sees(lambda: progress.exists() and "operands ready" in progress.read_text(), 120)
    job.cancel(process)
    assert job.is_over(), job.processes()
    ended = job.ended()
    assert ended.status == "canceled"
    check(ended, job, token)
    job.answer(**ANSWERS, **SECRETS, operator_chart_ref=own_lab.chart)
    healed = job.run("site.yml")
    assert healed.status == "successful", healed.output


def node(lab: Lab) -> tuple[bool, list[str]]:
    """Return whether gpu-0000 is cordoned, and what the collection has noted on it."""
    found = json.loads(lab.kubectl("get", "node", "gpu-0000", "--output=json"))
    marks = [key for key in found["metadata"]["annotations"] if key.startswith("gpuops.nvidia/maintenance")]
    return bool(found["spec"].get("unschedulable")), marks


@pytest.mark.wide
def test_a_job_that_is_cancelled_in_mid_drain_ends_and_the_node_can_be_put_back(
    own_lab: Lab, job: Job, token: str
) -> None:
    own_lab.kubectl("create", "--filename=-", stdin=json.dumps(STUCK))
    own_lab.kubectl("wait", "--for=condition=Ready", "pod/stuck", "--timeout=60s")
    job.answer(wanted="drained")
    process = job.start("maintenance.yml")
    leaving = ["get", "pod", "stuck", "--output=jsonpath={.metadata.deletionTimestamp}"]
    sees(lambda: bool(own_lab.kubectl(*leaving)), 60)
    assert node(own_lab)[0]
    job.cancel(process)
    assert job.is_over(), job.processes()
    check(job.ended(), job, token)
    own_lab.kubectl("patch", "pod", "stuck", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    job.answer(wanted="restored")
    ended = job.run("maintenance.yml")
    assert ended.status == "successful", ended.output
    assert node(own_lab) == (False, [])


@pytest.mark.deep
def test_two_deployments_at_once_leave_a_stack_that_is_whole(own_lab: Lab, job: Job, token: str, folder: Path) -> None:
    chart = {"operator_chart_ref": own_lab.chart}
    other = Job(folder / "other", own_lab, token, **ANSWERS, **SECRETS, **chart)
    job.answer(uninstall_allow_disruption="true")
    bare = job.run("uninstall.yml")
    assert bare.status == "successful", bare.output
    job.answer(**ANSWERS, **SECRETS, **chart)
    processes = [job.start("site.yml"), other.start("site.yml")]
    for process in processes:
        process.wait(300)
    ended = [job.ended(), other.ended()]
    assert "successful" in {each.status for each in ended}, ended[0].output + ended[1].output
    for each in ended:
        if each.status != "successful":
            assert "Another run" in " ".join(each.messages()), each.output
    job.answer(**{**ANSWERS, "verify_junit_path": ""}, **SECRETS, **chart)
    again = job.run("site.yml")
    assert (again.status, again.changed) == ("successful", 0), again.output


@pytest.mark.deep
def test_a_slice_does_not_act_on_the_cluster_a_second_time(job: Job, token: str) -> None:
    """AWX gives each slice a part of the inventory: the second one has no control host."""
    hosts = job.folder / "inventory" / "hosts.yml"
    whole = hosts.read_text()
    hosts.write_text("all: {hosts: {gpu-0001: {}}}\n")
    try:
        job.answer(gpuops_control_host="bastion")
        ended = job.run("verify.yml")
    finally:
        hosts.write_text(whole)
    assert ended.status == "failed" and "do not slice" in " ".join(ended.output.split())


@pytest.mark.wide
def test_a_removal(own_lab: Lab, job: Job, token: str) -> None:
    job.answer(uninstall_allow_disruption="true")
    ended = job.run("uninstall.yml")
    assert ended.status == "successful", ended.output
    check(ended, job, token)
    again = job.run("uninstall.yml")
    assert (again.status, again.changed) == ("successful", 0), again.output


def test_no_request_of_any_job_was_refused(own_lab: Lab) -> None:
    user = f"system:serviceaccount:{ACCOUNT}"
    asked = [event for event in own_lab.audited() if event["user"]["username"] == user]
    refused = [
        f"{event['verb']} {event['requestURI']}"
        for event in asked
        if event["annotations"]["authorization.k8s.io/decision"] != "allow"
    ]
    assert asked and refused == []


def test_the_jobs_run_as_a_user_without_a_name(job: Job) -> None:
    """Say so where the machine cannot show it."""
    if (job.folder / "artifacts").stat().st_uid == 0:
        pytest.skip("This user cannot start a process as another one.")
    listed = subprocess.run(["getent", "passwd", str((job.folder / "artifacts").stat().st_uid)], check=False)
    assert listed.returncode != 0
