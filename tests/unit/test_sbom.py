# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bill of materials names the archive by its hash, and everything that the collection needs."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from scripts import sbom

ROOT = Path(__file__).parents[2]
GALAXY: dict[str, t.Any] = yaml.safe_load((ROOT / "galaxy.yml").read_text())


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with the two files that ansible-galaxy makes from galaxy.yml and copies."""
    path = tmp_path / "gpuops-nvidia-0.1.0.tar.gz"
    files = {
        "MANIFEST.json": json.dumps({"collection_info": GALAXY}).encode(),
        "meta/ee-requirements.txt": (ROOT / "meta" / "ee-requirements.txt").read_bytes(),
    }
    with tarfile.open(path, "w:gz") as content:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            content.addfile(entry, io.BytesIO(data))
    return path


@pytest.fixture
def text(archive: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["sbom.py", str(archive)])
    sbom.main()
    return archive.with_name("gpuops-nvidia-0.1.0.cdx.json").read_text()


def test_it_follows_the_schema(text: str) -> None:
    # Loading the validator takes seconds, which only the process of this test needs to spend.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_it_names_the_archive_by_its_hash(archive: Path, text: str) -> None:
    about = json.loads(text)["metadata"]["component"]
    assert (about["group"], about["name"], about["version"]) == ("gpuops", "nvidia", GALAXY["version"])
    assert about["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(archive.read_bytes()).hexdigest()}]
    assert about["licenses"] == [{"license": {"id": "GPL-3.0-or-later"}}]


def test_it_names_everything_that_the_collection_needs(text: str) -> None:
    found = {
        item["purl"].split("?")[0]: next(entry["value"] for entry in item["properties"])
        for item in json.loads(text)["components"]
    }
    collections = {f"pkg:generic/{name.replace('.', '/')}": range_ for name, range_ in GALAXY["dependencies"].items()}
    assert found == collections | {"pkg:pypi/kubernetes": ">=29.0.0", "pkg:pypi/pyyaml": ">=6.0"}
    (own,) = (item for item in json.loads(text)["dependencies"] if "dependsOn" in item)
    assert len(own["dependsOn"]) == len(found)
