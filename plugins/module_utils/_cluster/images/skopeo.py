# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The ``skopeo`` command: the digests of images, and copies that keep them.

Credentials reach skopeo in a file that only its user may read, certificates in a folder, and neither on a command line.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import re
import shutil
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_ABSENT = re.compile(r"manifest unknown|name unknown|repository name not known|not found|does not exist", re.I)
"""Words of registries for an image or a repository that they do not have (OCI Distribution Specification: errors)."""

_FATAL = re.compile(r'level=fatal msg="(?P<text>(?:[^"\\]|\\.)*)"')

_REMEDIES = (
    (r"unauthorized|authentication required|denied|403|invalid username", "Correct logins for this registry."),
    (r"x509|certificate", "Give the registry's authority in ca_path, or list the registry in insecure."),
    (r"server gave HTTP response to HTTPS client", "List the registry in insecure."),
    (r"no such host|connection refused|i/o timeout|no route", "Check the registry's name and the way to it."),
    (r"no space left", "Free space there, or choose another folder."),
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an image is: in a registry by its name, or in a folder."""

    registry: str = ""
    folder: str = ""

    def __str__(self) -> str:
        return f"dir:{self.folder}" if self.folder else f"docker://{self.registry}"

    @property
    def host(self) -> str:
        """The registry's host, or an empty string for a folder."""
        return self.registry.partition("/")[0]


class Skopeo:
    """One ``skopeo`` executable, with what it needs for registries.

    ``logins`` are dicts with ``registry``, ``username`` and ``password``. Without any, skopeo uses those of its user.
    """

    def __init__(self, module: AnsibleModule, options: t.Mapping[str, t.Any]) -> None:
        self._module = module
        found = shutil.which(options["binary_path"] or "skopeo")
        if found is None:
            where = f"at {options['binary_path']}" if options["binary_path"] else "on PATH"
            raise GpuOpsError(
                f"There is no skopeo executable {where}. Install the package skopeo, or set binary_path.",
                reason="SkopeoMissing",
            )
        self._binary = found
        self._insecure = frozenset(options["insecure"])
        self._logins = self._file("auth.json", _auths(options["logins"])) if options["logins"] else None
        self._authorities = self._folder_of(options["ca_path"]) if options["ca_path"] else None

    def digest(self, place: Place) -> str | None:
        """Return the digest of an image or of an index, or None if it is not there. Raises `GpuOpsError`."""
        if place.folder:
            return _digest_in(place.folder)
        arguments = ["inspect", "--raw", *self._flags(place, ""), str(place)]
        rc, out, err = self._module.run_command([self._binary, *arguments], encoding=None)
        if rc == 0:
            return f"sha256:{hashlib.sha256(out).hexdigest()}"
        text = err.decode(errors="replace")
        if _ABSENT.search(text):
            return None
        raise _error(text)

    def copy(self, source: Place, target: Place) -> None:
        """Copy an image with all of its architectures and the digests that it has. Raises `GpuOpsError`.

        An image appears in a folder under its name when it is complete.
        """
        partial = Place(folder=f"{target.folder}.partial") if target.folder else target
        if target.folder:
            shutil.rmtree(partial.folder, ignore_errors=True)
            _make(os.path.dirname(target.folder))
        flags = [*self._flags(source, "src-"), *self._flags(partial, "dest-")]
        # Copies of temporary failures are tried again. An image in use elsewhere has nothing to do with it.
        arguments = ["copy", "--all", "--preserve-digests", "--retry-times=2", *flags, str(source), str(partial)]
        rc, dummy, err = self._module.run_command([self._binary, *arguments])
        if rc != 0:
            raise _error(err)
        if target.folder:
            shutil.rmtree(target.folder, ignore_errors=True)
            os.rename(partial.folder, target.folder)

    def _flags(self, place: Place, side: str) -> list[str]:
        """Return the flags for a registry. ``side`` is the beginning of their names, for a copy's source and target."""
        if place.folder:
            return []
        flags = [f"--{side}authfile={self._logins}"] if self._logins else []
        if self._authorities:
            flags.append(f"--{side}cert-dir={self._authorities}")
        if place.host in self._insecure:
            flags.append(f"--{side}tls-verify=false")
        return flags

    # ---- files in the module's temporary folder, which Ansible removes

    def _file(self, name: str, content: Json) -> str:
        path = os.path.join(self._module.tmpdir, name)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(content, file)
        return path

    def _folder_of(self, ca_path: str) -> str:
        folder = os.path.join(self._module.tmpdir, "authorities")
        os.makedirs(folder, exist_ok=True)
        try:
            shutil.copyfile(os.path.expanduser(ca_path), os.path.join(folder, "ca.crt"))
        except OSError as e:
            raise GpuOpsError(f"ca_path: {one_line(e)}. Give a file with certificates in PEM.") from e
        return folder


def _auths(logins: t.Sequence[Json]) -> Json:
    """Return logins in the form of containers-auth.json(5)."""
    return {
        "auths": {
            login["registry"]: {"auth": base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode()}
            for login in logins
        }
    }


def _digest_in(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            return f"sha256:{hashlib.sha256(file.read()).hexdigest()}"
    except FileNotFoundError:
        return None
    except OSError as e:
        raise GpuOpsError(f"{one_line(e)}. Check the folder.") from e


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as e:
        raise GpuOpsError(f"folder: {one_line(e)}. Choose a folder that can be written.") from e


def _error(text: str) -> GpuOpsError:
    """Return what skopeo says in its last words, with a remedy where one is known."""
    fatal = _FATAL.search(text)
    said = one_line((fatal["text"].replace('\\"', '"') if fatal else text).strip() or "skopeo failed without a word")
    remedy = next((each for pattern, each in _REMEDIES if re.search(pattern, said, re.I)), "")
    return GpuOpsError(f"{said.rstrip('.')}.{' ' if remedy else ''}{remedy}", reason="SkopeoFailed")
