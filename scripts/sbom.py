# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the software bill of materials of an archive beside it, in CycloneDX's format.

Its sources are in the archive: what the collection is and which collections it needs (MANIFEST.json), and which Python
packages (meta/ee-requirements.txt). The archive contains no code of others.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tarfile
import typing as t
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

RANGE = "gpuops:versions"
"""The property with the versions that a dependency may have. The user's tools choose one of them."""


def main() -> None:
    for path in sys.argv[1:]:
        archive = Path(path)
        target = archive.with_name(archive.name.removesuffix(".tar.gz") + ".cdx.json")
        target.write_text(JsonV1Dot6(bill(archive)).output_as_string(indent=2) + "\n")
        print(target)


def bill(archive: Path) -> Bom:
    """Return the collection in an archive, and everything that it needs."""
    with tarfile.open(archive) as content:
        about = json.loads(_read(content, "MANIFEST.json"))["collection_info"]
        requirements = _read(content, "meta/ee-requirements.txt").decode()
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    collection = Component(
        type=ComponentType.LIBRARY,
        group=about["namespace"],
        name=about["name"],
        version=about["version"],
        description=about["description"],
        licenses=[LicenseFactory().make_from_string(name) for name in about["license"]],
        purl=_purl(f"{about['namespace']}.{about['name']}", about["version"]),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        external_references=[ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(about["repository"]))],
    )
    needed = [_collection(name, versions) for name, versions in about["dependencies"].items()]
    needed += [_package(line) for line in requirements.splitlines() if line and not line.startswith("#")]
    made = Bom(components=needed, metadata=BomMetaData(component=collection))
    made.register_dependency(collection, needed)
    return made


def _read(content: tarfile.TarFile, name: str) -> bytes:
    return t.cast("t.IO[bytes]", content.extractfile(name)).read()


def _purl(name: str, version: str | None = None) -> PackageURL:
    """Return the address of a collection. There is no type of package URL for Galaxy."""
    namespace, dummy, rest = name.partition(".")
    galaxy = f"https://galaxy.ansible.com/ui/repo/published/{namespace}/{rest}/"
    return PackageURL("generic", namespace, rest, version, {"download_url": galaxy})


def _collection(name: str, versions: str) -> Component:
    namespace, dummy, rest = name.partition(".")
    return _needed(rest, versions, group=namespace, purl=_purl(name))


def _package(line: str) -> Component:
    name, versions = re.findall(r"^([A-Za-z0-9._-]+)(.*)$", line)[0]
    return _needed(name, versions, purl=PackageURL("pypi", None, name.lower()))


def _needed(name: str, versions: str, **about: t.Any) -> Component:
    properties = [Property(name=RANGE, value=versions)]
    return Component(type=ComponentType.LIBRARY, name=name, properties=properties, bom_ref=str(about["purl"]), **about)


if __name__ == "__main__":
    main()
