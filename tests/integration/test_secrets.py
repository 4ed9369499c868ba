# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Markers that are planted as secrets are in nothing that playbooks write: screen, bundle, report, state."""

from __future__ import annotations

import itertools
import json
import tarfile
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab
from tests.support.ansible import ROOT, SITE, Playbook, Run

pytestmark = pytest.mark.slow("a stack comes up, changes, and is described three times with all details")

PLAYBOOKS = ROOT / "playbooks"
_NUMBERS = itertools.count(1)


def marker() -> str:
    return f"Zq7x{next(_NUMBERS):03}Marker"


NAMES = ("DRIVER_AUTH", "NVIDIA_LIC", "CONTAINERD_PWD", "DCGM_REMOTE_PASS", "HF_HUB_PAT", "MYLICENSE_PW", "CUSTOMER")
BEFORE = [{"name": name, "value": marker()} for name in NAMES]
AFTER = [{"name": name, "value": marker()} for name in NAMES]
ARGUMENTS = ["--pw", marker(), f"--remote-pw={marker()}"]
ANNOTATIONS = {"ex.com/pw": marker(), "ex.com/note": f"x --pass: {marker()} inst.sshpw={marker()}"}
LABEL = marker()
EVENT = (
    f"netroot=iscsi:u:{marker()}@192.0.2.1 HF_HUB_PAT={marker()} pw={marker()} pass: {marker()} password is {marker()} "
    f"sk-proj-{marker()}abcdef mysql -p{marker()} {json.dumps({'pw': marker(), 'pat': marker()})}"
)
FOREIGN = marker()


def values(env: list[dict[str, str]]) -> dict[str, t.Any]:
    return {"driver": {"env": env}, "dcgmExporter": {"env": env}, "toolkit": {"env": env}}


@pytest.fixture(scope="module")
def planted(lab: Lab, ansible: Playbook) -> t.Iterator[Run]:
    """A stack with secrets wherever users put them, and the run that installed it."""
    ansible.set_up("clean")
    run = ansible.run(SITE, "-vvv", "--diff", operator_values=values(BEFORE))
    assert run.status == 0, run.output
    lab.kubectl("annotate", "node", "gpu-0000", *(f"{name}={text}" for name, text in ANNOTATIONS.items()))
    lab.kubectl("label", "node", "gpu-0000", f"ex.com/team={LABEL}")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "planted", "namespace": "default", "annotations": ANNOTATIONS},
        "spec": {
            "containers": [
                {
                    "name": "x",
                    "image": "x",
                    "args": [*ARGUMENTS, FOREIGN],
                    "env": BEFORE,
                    "resources": {"limits": {"nvidia.com/gpu": 1000}},
                }
            ]
        },
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "planted", "namespace": "gpu-operator"},
        "involvedObject": {"kind": "Pod", "namespace": "gpu-operator", "name": "x"},
        "type": "Warning",
        "reason": "Failed",
        "message": EVENT,
    }
    for item in (pod, event):
        lab.kubectl("apply", "-f", "-", stdin=json.dumps(item))
    yield run
    lab.kubectl("delete", "pod", "planted", "-n", "default", "--ignore-not-found", "--wait=false")
    lab.kubectl("annotate", "node", "gpu-0000", *(f"{name}-" for name in ANNOTATIONS))
    lab.kubectl("label", "node", "gpu-0000", "ex.com/team-")
    # The next file would wait until every node had a driver and a toolkit without these variables.
    ansible.set_up("clean")


def markers_in(text: str) -> list[str]:
    """Return each marker with what stands before it."""
    places = [place for place in range(len(text)) if text.startswith("Zq7x", place)]
    return sorted({text[max(0, place - 60) : place + 16].replace("\n", " ") for place in places})


def test_what_was_installed_shows_no_marker(planted: Run) -> None:
    assert markers_in(planted.output) == []


def test_diagnosis_and_report_write_no_marker(planted: Run, ansible: Playbook, tmp_path: Path) -> None:
    bundle, state, page = (tmp_path / name for name in ("bundle.tar.gz", "state.json", "page.html"))
    run = ansible.run(
        PLAYBOOKS / "diagnose.yml", "-vvv", diagnose_bundle_path=str(bundle), diagnose_state_path=str(state)
    )
    assert markers_in(run.output) == []
    report = ansible.run(PLAYBOOKS / "report.yml", "-vvv", report_path=str(page))
    assert report.status == 0 and markers_in(report.output) == []
    assert markers_in(page.read_text()) == [] and markers_in(state.read_text()) == []
    with tarfile.open(bundle) as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        texts = {name: file.read().decode() for name, file in found.items() if file}
    assert {name: markers_in(text) for name, text in texts.items() if markers_in(text)} == {}
    whole = "".join(texts.values())
    assert "ex.com" not in whole and "DRIVER_AUTH" in whole, "what is known stays, foreign marks do not"


@pytest.mark.wide
def test_what_is_read_and_refused_shows_no_marker(planted: Run, ansible: Playbook) -> None:
    run = ansible.command(["ansible", "localhost", "-vvv", "--module-name", "gpuops.nvidia.clusterpolicy_info"])
    assert markers_in(ansible.finish(run, 120).output) == []
    check = ansible.run(SITE, "--check", "--diff", "-vvv", operator_values=values(AFTER))
    assert "driver.env" in check.output or "env" in check.output
    assert markers_in(check.output) == []


@pytest.mark.wide
@pytest.mark.parametrize("verbosity", ["-v", "-vv", "-vvv"])
@pytest.mark.parametrize("playbook", ["site", "verify", "diagnose", "report", "sharing", "mig", "upgrade_operator"])
def test_no_playbook_shows_a_marker(
    planted: Run, ansible: Playbook, tmp_path: Path, playbook: str, verbosity: str
) -> None:
    run = ansible.run(
        PLAYBOOKS / f"{playbook}.yml",
        "--check",
        "--diff",
        verbosity,
        operator_values=values(AFTER),
        report_path=str(tmp_path / "page.html"),
    )
    assert markers_in(run.output) == []
