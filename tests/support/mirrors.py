# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest fixtures: a publisher of images on loopback, and copies from it with a real skopeo."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest

from lab.registry import Registry
from tests.support.registries import running_registry

OPERATOR, DRIVER = "nvcr.io/nvidia/gpu-operator:v1", "nvcr.io/nvidia/driver:1-ubuntu24.04"
IMAGES = [OPERATOR, DRIVER]

NEEDED: dict[str, t.Any] = {
    "images": ["nvcr.io/nvidia/gpu-operator:v1", "nvcr.io/nvidia/driver:1"],
    "clusterpolicy": {"spec": {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": "1"}}},
    "systems": [{"system": "ubuntu24.04", "architectures": ["amd64"]}],
}
"""What operator_images_info is asked for: two images of a chart, one of which the operator completes."""


@pytest.fixture(scope="module")
def publisher() -> t.Iterator[Registry]:
    """A registry in the place of nvcr.io. It has an image for one architecture, and one for two."""
    with running_registry() as found:
        found.push("nvidia/gpu-operator", "v1")
        found.push("nvidia/driver", "1-ubuntu24.04", ["amd64", "arm64"])
        yield found


@pytest.fixture
def home(publisher: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose registries.conf(5) leads from nvcr.io to the publisher on loopback."""
    if shutil.which("skopeo") is None:
        pytest.skip("There is no skopeo on PATH. Run make host-tools as root.")
    folder = tmp_path / "home"
    (folder / ".config" / "containers").mkdir(parents=True)
    text = f'[[registry]]\nprefix = "nvcr.io"\nlocation = "{publisher.host}"\ninsecure = true\n'
    (folder / ".config" / "containers" / "registries.conf").write_text(text)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def mirror_of(run_module: t.Callable, home: Path) -> t.Callable:
    """``mirror_of(registry, option=value)`` runs image_mirror from the publisher to this registry."""

    def to(registry: Registry, **options: t.Any) -> t.Any:
        login = {"registry": registry.host, "username": registry.user, "password": registry.password}
        given = {
            "images": IMAGES,
            "mirror": f"{registry.host}/m",
            "logins": [login] if registry.user else [],
            "insecure": [registry.host],
        }
        return run_module("image_mirror", **{**given, **options})

    return to


def results(run: t.Any) -> dict[str, str]:
    """Return what was done with each image."""
    return {row["image"]: row["result"] for row in run.result["images"]}


def program(folder: Path, text: str) -> str:
    """Write a shell script in the place of skopeo, and return its path."""
    path = folder / "skopeo"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)
