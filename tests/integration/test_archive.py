# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection's archive, installed where nothing else of this checkout is, has all that its playbooks need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab
from tests.support.ansible import ROOT

pytestmark = [pytest.mark.wide, pytest.mark.slow("an archive is built and installed")]

BIN = Path(sys.executable).parent
DEPENDENCIES = ("ansible", "community", "kubernetes")
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the archive into an empty path, and return the environment that finds it and its dependencies."""
    folder: Path = tmp_path_factory.mktemp("archive")
    galaxy = [str(BIN / "ansible-galaxy"), "collection"]
    subprocess.run([ROOT / "scripts" / "copy_files.sh", folder / "source", "--cached"], check=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "PYTHON"))}
    environment |= {"ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_NOCOLOR": "1"}
    environment |= {"ANSIBLE_LOCALHOST_WARNING": "0", "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0"}

    def run(*arguments: str) -> None:
        subprocess.run([*galaxy, *arguments], env=environment, cwd=folder, check=True, capture_output=True)

    run("build", str(folder / "source"), "--output-path", str(folder))
    (archive,) = folder.glob("gpuops-nvidia-*.tar.gz")
    run("install", str(archive), "--collections-path", str(folder / "empty"), "--no-deps", "--offline")
    others = folder / "others" / "ansible_collections"
    others.mkdir(parents=True)
    for name in DEPENDENCIES:
        (others / name).symlink_to(Path(sys.prefix) / "share" / "ansible_collections" / name)
    assert sorted(path.name for path in (folder / "empty" / "ansible_collections").glob("*/*")) == ["nvidia"]
    return {**environment, "ANSIBLE_COLLECTIONS_PATH": f"{folder / 'empty'}:{others.parent}"}


def play(environment: dict[str, str], folder: Path, playbook: str, *arguments: str) -> tuple[int, str]:
    command = [str(BIN / "ansible-playbook"), f"gpuops.nvidia.{playbook}", *arguments]
    ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_each_playbook_is_whole(installed: dict[str, str], tmp_path: Path, playbook: str) -> None:
    status, output = play(installed, tmp_path, playbook, "--syntax-check")
    assert status == 0, output


@pytest.mark.usefixtures("clean")
def test_a_check_of_a_whole_site(lab: Lab, installed: dict[str, str], tmp_path: Path) -> None:
    wish: dict[str, t.Any] = {"operator_chart_ref": lab.chart, "operator_helm_path": str(lab.helm)}
    environment = {**installed, "K8S_AUTH_KUBECONFIG": str(lab.kubeconfig)}
    status, output = play(environment, tmp_path, "site", "--check", "--extra-vars", json.dumps(wish))
    assert status == 0 and "failed=0" in output and "changed=0" not in output, output
    assert "WARNING" not in output, output
