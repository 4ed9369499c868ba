# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The ``helm`` executable: find a chart, fetch it once, and render it without a cluster."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import tempfile
import typing as t
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm_errors import MINIMUM_HELM, explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

_ORIGIN = ".source"
"""Ending of the file beside a fetched archive that names where the archive comes from."""

_PROVENANCE = ".prov"
"""Ending of the file beside an archive with its signature, as helm names it."""

RENDER_OPTIONS = ArgumentSpec(
    {
        "values": {"type": "dict", "default": {}},
        "release_name": {"type": "str", "default": "gpu-operator"},
        "release_namespace": {"type": "str", "default": "gpu-operator"},
        "kube_version": {"type": "str"},
        "api_versions": {"type": "list", "elements": "str", "default": []},
        "binary_path": {"type": "path"},
    }
)
"""The options of every module that renders a chart."""

_NAMES = {
    "release_name": (r"[a-z0-9]([-a-z0-9.]{0,51}[a-z0-9])?", "at most 53 lower-case letters, digits, - and ."),
    "release_namespace": (r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "at most 63 lower-case letters, digits and -"),
}
"""What Helm and Kubernetes accept as names. Anything else could be taken for a flag of the command."""

_EXACT_VERSION = re.compile(r"v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?")

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class ChartSource:
    """The source of a chart, as the user names it."""

    ref: str
    repo_url: str | None = None
    version: str | None = None
    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    plain_http: bool = False
    digest: str | None = None
    keyring: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the reference is a path on this machine."""
        if self.repo_url or "://" in self.ref:
            return False
        return self.ref.startswith((".", "/", "~")) or self.ref.endswith(".tgz") or os.path.exists(self.ref)

    @property
    def chart_name(self) -> str:
        """The chart's name according to its reference."""
        path = urlsplit(self.ref).path.rstrip("/") if "://" in self.ref else self.ref
        return path.rsplit("/", 1)[-1]

    @property
    def origin(self) -> str:
        """The place of the chart in any version, without a login."""
        place = f"{(self.repo_url or '').rstrip('/')} {self.ref.rstrip('/')}".strip()
        return re.sub(r"//[^/@\s]+@", "//", place)

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        repository = f" in {self.repo_url}" if self.repo_url else ""
        return re.sub(r"//[^/@\s]+@", "//", f"{self.ref}{version}{repository}")


class Helm:
    """One ``helm`` executable. Commands are lists. Values go through standard input, and secrets through files."""

    def __init__(self, module: AnsibleModule, binary_path: str | None = None) -> None:
        self._module = module
        found = shutil.which(binary_path or "helm")
        if found is None:
            where = f"at {binary_path}" if binary_path else "on PATH"
            raise GpuOpsError(
                f"There is no helm executable {where}. Install Helm {MINIMUM_HELM} or newer, or set binary_path.",
                reason="HelmMissing",
            )
        self._binary = found

    def _run(self, arguments: list[str], subject: str, data: str | None = None, cache: str | None = None) -> str:
        """Run helm and return its standard output, or raise an error with the relevant sentence of its output."""
        environment = {"HELM_CACHE_HOME": cache} if cache else None
        rc, out, err = self._module.run_command(
            [self._binary, *arguments], data=data, binary_data=True, environ_update=environment
        )
        if rc != 0:
            raise explain(err or out, subject)
        return str(out)

    def fetch(self, source: ChartSource, dest: str | None) -> tuple[str, bool]:
        """Return the local path of the chart, and whether it stays there after the module has ended.

        A remote chart is pulled into ``dest``, or into the module's temporary folder without ``dest``. If ``dest`` has
        an archive of exactly this version that does not come from elsewhere, it is used as it is.
        """
        _check_source(source)
        if source.is_local:
            path = local_chart(os.path.expanduser(source.ref))
            self._check(source, path)
            return path, True
        kept = _kept_archive(source, dest)
        if kept:
            self._check(source, kept)
            return kept, True
        try:
            return self._fetch_to(source, dest or self._module.tmpdir, dest is not None), dest is not None
        except OSError as e:
            raise GpuOpsError(
                f"Cannot keep the chart in {dest or self._module.tmpdir}: {one_line(e)}. Set dest "
                "(operator_chart_folder) to a folder that this user may write.",
                reason="NotWritable",
            ) from e

    def _fetch_to(self, source: ChartSource, folder: str, is_kept: bool) -> str:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._module.tmpdir) as scratch:
            archive = self._pull(source, scratch)
            self._check(source, archive)
            target = os.path.join(folder, os.path.basename(archive))
            if is_kept:
                # Without its origin, the archive of another source must not stay beside a new note.
                _remove(target)
                with open(target + _ORIGIN, "w", encoding="utf-8") as file:
                    file.write(source.origin + "\n")
            if source.keyring:
                self._module.atomic_move(archive + _PROVENANCE, target + _PROVENANCE)
            self._module.atomic_move(archive, target)
        return target

    def _check(self, source: ChartSource, path: str) -> None:
        """Raise unless the archive has the digest and the signature that the user asks for."""
        _check_digest(source, path)
        if source.keyring is None:
            return
        if os.path.isdir(path):
            message = (
                f"chart_keyring needs an archive, and {path} is a folder. Give the path of the chart's .tgz archive."
            )
            raise GpuOpsError(message, reason="Invalid")
        rc, dummy, err = self._module.run_command([self._binary, "verify", path, "--keyring", source.keyring])
        if rc != 0:
            raise GpuOpsError(
                f"The chart {source} is not signed by a key in {source.keyring}: {_verdict(err)}. Its provenance file "
                "belongs beside the archive, with .prov after its name. Without a signature, use chart_digest.",
                reason="ChartNotFound",
            )

    def _pull(self, source: ChartSource, scratch: str) -> str:
        """Pull a remote chart into a temporary folder, and return the path of its archive."""
        ref, flags = source.ref, _pull_flags(source)
        if source.username and source.password:
            ref, login = self._log_in(source, scratch)
            flags += login
        elif source.repo_url:
            flags += ["--repo", source.repo_url]
        # Only a repository that the user has configured is found through the user's own cache.
        cache = os.path.join(scratch, "cache") if source.repo_url or "://" in source.ref else None
        self._run(["pull", ref, "--destination", scratch, *flags], str(source), cache=cache)
        archives = [name for name in os.listdir(scratch) if name.endswith(".tgz")]
        if len(archives) != 1:
            raise GpuOpsError(
                f"Helm reported that it fetched {source}, but left no archive. Fetch it by hand and give its path.",
                reason="ChartNotFound",
            )
        return os.path.join(scratch, archives[0])

    def _log_in(self, source: ChartSource, scratch: str) -> tuple[str, list[str]]:
        """Return the reference of a private chart, and the flags with which Helm finds the password."""
        if source.ref.startswith("oci://"):
            return source.ref, ["--registry-config", _registry_config(source, scratch)]
        if not source.repo_url:
            message = "registry_username and registry_password need an oci:// chart_ref or a chart_repo_url."
            raise GpuOpsError(message, reason="Invalid")
        # Use a configured repository, because `helm pull --repo` accepts a password only on the command line.
        config = _repository_config(source, scratch)
        self._run(["repo", "update", *config], str(source), cache=os.path.join(scratch, "cache"))
        return f"private/{source.ref}", config

    def render(self, path: str, options: t.Mapping[str, t.Any]) -> str:
        """Render the chart at ``path`` with its CRDs, without its hooks. ``options`` are those of `RENDER_OPTIONS`."""
        _check_names(options)
        arguments = [
            "template",
            options["release_name"],
            path,
            "--namespace",
            options["release_namespace"],
            "--include-crds",
            "--no-hooks",
        ]
        if options["kube_version"]:
            arguments += ["--kube-version", options["kube_version"]]
        for version in options["api_versions"]:
            arguments += ["--api-versions", version]
        return self._run([*arguments, "--values", "-"], path, json.dumps(options["values"]))


def _verdict(err: str) -> str:
    """Return why helm finds a chart unsigned, from what it wrote."""
    said = [line.removeprefix("Error: ") for line in err.splitlines() if line.strip()]
    return one_line(said[-1] if said else "helm does not say why")


def _check_names(options: t.Mapping[str, t.Any]) -> None:
    for option, (pattern, rule) in _NAMES.items():
        if not re.fullmatch(pattern, options[option]):
            raise GpuOpsError(f"{option} is {options[option]!r}: give a name of {rule}.", reason="Invalid")


def _check_source(source: ChartSource) -> None:
    given = {"chart_ref": source.ref, "chart_repo_url": source.repo_url, "chart_version": source.version}
    for option, value in given.items():
        if value is not None and (not value or value.startswith("-")):
            raise GpuOpsError(f"{option} is {value!r}: it must not be empty or begin with -.", reason="Invalid")
    if source.digest is not None and not _DIGEST.fullmatch(source.digest):
        message = f"chart_digest is {source.digest!r}: give sha256: and the 64 hexadecimal digits of sha256sum."
        raise GpuOpsError(message, reason="Invalid")


def _check_digest(source: ChartSource, path: str) -> None:
    """Raise if the archive is not the one that the user has named by its digest."""
    if source.digest is None:
        return
    if os.path.isdir(path):
        message = f"chart_digest needs an archive, and {path} is a folder. Give the path of the chart's .tgz archive."
        raise GpuOpsError(message, reason="Invalid")
    with open(path, "rb") as file:
        found = f"sha256:{hashlib.sha256(file.read()).hexdigest()}"
    if found != source.digest:
        raise GpuOpsError(
            f"The archive of the chart {source} has the digest {found}, and chart_digest is {source.digest}. "
            f"Find out who has changed it ({path}) before you install it.",
            reason="ChartNotFound",
        )


def local_chart(path: str) -> str:
    """Return the absolute path of a chart on this machine, or raise an error without one."""
    if not os.path.exists(path):
        raise GpuOpsError(
            f"There is no chart at {path}. Give the path of a chart's folder or .tgz archive.", reason="ChartNotFound"
        )
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "Chart.yaml")):
        raise GpuOpsError(
            f"{path} is not a chart: it has no Chart.yaml. Give the path of a chart's folder or .tgz archive.",
            reason="ChartNotFound",
        )
    return os.path.abspath(path)


def _kept_archive(source: ChartSource, dest: str | None) -> str | None:
    """Return the archive of exactly this version in ``dest``, or None.

    An earlier run has left it there, from the same source, or a person, without a note of its source.
    """
    if dest is None or source.version is None or not _EXACT_VERSION.fullmatch(source.version):
        return None
    plain = source.version.removeprefix("v")
    names = (f"{source.chart_name}-{version}.tgz" for version in (plain, f"v{plain}"))
    paths = (os.path.join(dest, name) for name in names)
    return next((path for path in paths if os.path.exists(path) and _origin(path) in (None, source.origin)), None)


def _origin(archive: str) -> str | None:
    """Return where an archive comes from, or None if nothing says so."""
    try:
        with open(archive + _ORIGIN, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _pull_flags(source: ChartSource) -> list[str]:
    flags = ["--version", source.version] if source.version else []
    if source.ca_file:
        flags += ["--ca-file", source.ca_file]
    if source.plain_http:
        flags.append("--plain-http")
    if source.keyring:
        flags.append("--prov")
    return flags


def _registry_config(source: ChartSource, scratch: str) -> str:
    """Write a login to an OCI registry for this run only, and return its path."""
    auth = base64.b64encode(f"{source.username}:{source.password}".encode()).decode()
    path = os.path.join(scratch, "registry.json")
    _write_private(path, {"auths": {urlsplit(source.ref).netloc: {"auth": auth}}})
    return path


def _repository_config(source: ChartSource, scratch: str) -> list[str]:
    """Write a Helm repository with its login for this run only, and return the flags that select it."""
    path = os.path.join(scratch, "repositories.yaml")
    entry = {
        "name": "private",
        "url": source.repo_url,
        "username": source.username,
        "password": source.password,
        "caFile": source.ca_file or "",
    }
    _write_private(path, {"apiVersion": "v1", "repositories": [entry]})
    return ["--repository-config", path, "--repository-cache", os.path.join(scratch, "cache")]


def _write_private(path: str, content: t.Any) -> None:
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        json.dump(content, file)
