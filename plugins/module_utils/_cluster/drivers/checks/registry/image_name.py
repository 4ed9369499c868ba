# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The parts of an image's name, and its name on a mirror. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

_HUB, _HUB_API = "docker.io", "registry-1.docker.io"


@dataclasses.dataclass(frozen=True)
class ImageName:
    """An image: ``nvcr.io/nvidia/driver:595.91.07-ubuntu24.04``."""

    host: str
    repository: str
    version: str
    """The tag or the digest."""

    @property
    def api(self) -> str:
        """The host that answers for the registry. Docker's own has another name."""
        return _HUB_API if self.host == _HUB else self.host

    def __str__(self) -> str:
        separator = "@" if self.version.startswith("sha256:") else ":"
        return f"{self.host}/{self.repository}{separator}{self.version}"


def parse(image: str) -> ImageName:
    """Return the parts of an image's name, as container runtimes read it. Without a registry, it is Docker's."""
    name, dummy, digest = image.partition("@")
    path, dummy, last = name.rpartition("/")
    base, dummy, tag = last.partition(":")
    whole = f"{path}/{base}" if path else base
    first, dummy, rest = whole.partition("/")
    if not rest or not ("." in first or ":" in first or first == "localhost"):
        first, rest = _HUB, whole if "/" in whole else f"library/{whole}"
    return ImageName(first, rest, digest or tag or "latest")


def on_mirror(image: ImageName, mirrors: t.Mapping[str, str]) -> ImageName:
    """Return the image's name on the mirror of its registry, or of the longest part of its path that has one."""
    whole = f"{image.host}/{image.repository}"
    fitting = [source for source in mirrors if f"{whole}/".startswith(f"{source.rstrip('/')}/")]
    if not fitting:
        return image
    source = max(fitting, key=len)
    rest = whole[len(source.rstrip("/")) :].lstrip("/")
    target, dummy, folder = str(mirrors[source]).removeprefix("https://").removeprefix("http://").partition("/")
    path = "/".join(part for part in (folder.strip("/"), rest) if part)
    return ImageName(target, path, image.version)
