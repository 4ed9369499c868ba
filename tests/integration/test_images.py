# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""images.yml with a real skopeo and registries on loopback, one of them in the place of all publishers."""

from __future__ import annotations

import json
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab
from lab.registry import Registry
from tests.support.ansible import ROOT, Playbook, on
from tests.support.registries import running_registry

IMAGES = ROOT / "playbooks" / "images.yml"
SYSTEMS = [{"system": "ubuntu24.04"}, {"system": "rhel9.6"}]


@pytest.fixture
def publisher(lab: Lab, tmp_path: Path) -> t.Iterator[Playbook]:
    """Ansible whose skopeo finds the images of the lab's chart, and no other, on loopback."""
    if shutil.which("skopeo") is None:
        pytest.skip("There is no skopeo on PATH. Run make host-tools as root.")
    ansible = on(lab)
    with running_registry() as registry:
        folder = tmp_path / "home" / ".config" / "containers"
        folder.mkdir(parents=True)
        places = "".join(
            f'[[registry]]\nprefix = "{host}"\nlocation = "{registry.host}"\ninsecure = true\n'
            for host in ("nvcr.io", "registry.k8s.io")
        )
        (folder / "registries.conf").write_text(places)
        ansible.environment["HOME"] = str(tmp_path / "home")
        listed = ansible.run(IMAGES, images_folder=str(tmp_path / "known"), images_systems=SYSTEMS)
        assert listed.status == 0, listed.output
        for image in (tmp_path / "known" / "images.txt").read_text().split():
            repository, dummy, tag = image.partition("/")[2].rpartition(":")
            registry.push(repository, tag, ["amd64", "arm64"])
        yield ansible


def test_from_the_publishers_through_a_folder_to_a_mirror(
    publisher: Playbook, basic_registry: Registry, tmp_path: Path
) -> None:
    """Each way has its check, its run and a second run. What the mirror lacks is named before and after."""
    mirror = f"{basic_registry.host}/mirror"
    login = {"registry": basic_registry.host, "username": basic_registry.user, "password": basic_registry.password}
    given: dict[str, t.Any] = {
        "images_folder": str(tmp_path / "transfer"),
        "images_systems": SYSTEMS,
        "images_logins": [login],
        "images_insecure": [basic_registry.host],
        "operator_registry": mirror,
    }

    def run(state: str, *words: str) -> t.Any:
        done = publisher.run(IMAGES, *words, images_state=state, **given)
        assert basic_registry.password not in done.output
        return done

    before = run("checked")
    assert before.status == 2 and "does not exist" in before.message, before.output
    for state in ("exported", "imported"):
        predicted, done, again = run(state, "--check"), run(state), run(state)
        assert (predicted.status, done.status, again.status) == (0, 0, 0), done.output
        assert predicted.changed >= 1 and done.changed >= 1 and again.changed == 0, again.output
    listed = (tmp_path / "transfer" / "images.txt").read_text().split()
    assert "nvcr.io/nvidia/driver:595.91.07-rhel9" in listed
    assert "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04" in listed
    assert json.loads((tmp_path / "transfer" / "digests.json").read_text()).keys() == set(listed)
    pairs = (tmp_path / "transfer" / "pairs.txt").read_text().splitlines()
    assert pairs == [f"{image} {mirror}/{image.partition('/')[2]}" for image in listed]
    assert yaml.safe_load((tmp_path / "transfer" / "skopeo-sync.yml").read_text()).keys() == {
        "nvcr.io",
        "registry.k8s.io",
    }
    assert run("checked").status == 0
    basic_registry.push("mirror/nvidia/driver", "595.91.07-rhel9", ["amd64"])
    other = run("checked")
    assert other.status == 2 and "digest" in other.message, other.output


@pytest.mark.wide
def test_the_systems_of_the_nodes_and_a_mirror_without_a_name(publisher: Playbook, tmp_path: Path) -> None:
    folder = {"images_folder": str(tmp_path / "nodes")}
    run = publisher.run(IMAGES, images_from_nodes=True, **folder)
    assert run.status == 0, run.output
    assert "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04" in (tmp_path / "nodes" / "images.txt").read_text()
    run = publisher.run(IMAGES, images_state="mirrored", images_systems=SYSTEMS, **folder)
    assert run.status == 2 and "operator_registry" in run.message
    run = publisher.run(IMAGES, **{**folder, "images_folder": str(tmp_path / "none")})
    assert run.status == 2 and "Name the systems" in run.message and not (tmp_path / "none").exists()
