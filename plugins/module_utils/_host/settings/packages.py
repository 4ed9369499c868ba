# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Installed packages that an owner holds against upgrades: with apt-mark, or with dnf's plugin versionlock."""

from __future__ import annotations

import abc
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.apt_locks import patiently
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver_parts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.driver import loaded_version
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import (
    TOOLKIT_PACKAGES,
    matching,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_RECORDS = owners.records("package_hold")
_DPKG_FIELDS = r"${binary:Package}\t${db:Status-Want}\t${db:Status-Status}\t${Version}\n"
LOCKS = "/etc/dnf/plugins/versionlock.list"
PLUGIN = "python3-dnf-plugin-versionlock"
TIMEOUT_S = 120.0
INSTALL_TIMEOUT_S = 600.0


def _rows(host: Host, command: list[str], lock_timeout_s: float = 0) -> list[list[str]]:
    """Run a command of the package manager, and return the fields of each line of its output."""
    output = patiently(host, command, TIMEOUT_S, lock_timeout_s)
    if not output.ok:
        raise GpuOpsError(f"The package manager does not answer: {output.error}.", reason="PackageManager")
    return [line.split("\t") for line in output.stdout.splitlines() if line]


class PackageManager(abc.ABC):
    """The packages that an owner holds."""

    held: list[str]

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Return the installed packages with their versions."""

    @abc.abstractmethod
    def owner_of(self, path: str) -> str | None:
        """Return the package that owns a file."""

    @abc.abstractmethod
    def target(self, patterns: t.Sequence[str]) -> list[str]:
        """Return what the owner should hold."""

    @abc.abstractmethod
    def differs(self, target: list[str]) -> bool:
        """Return whether the target differs from the host."""

    @abc.abstractmethod
    def apply(self, target: list[str]) -> None:
        """Hold the target, and release everything else that the owner holds."""


class Dpkg(PackageManager):
    """Debian and derivatives. dpkg does not know who holds a package, so a file records it."""

    def __init__(self, host: Host, owner: str, lock_timeout_s: float) -> None:
        self.host = host
        self.lock_timeout_s = lock_timeout_s
        self.path = f"{_RECORDS}/{owner}.json"
        rows = _rows(host, ["dpkg-query", "--show", f"--showformat={_DPKG_FIELDS}"])
        self.installed = {name: version for name, dummy, status, version in rows if status == "installed"}
        self.on_hold = {name for name, want, *dummy in rows if want == "hold"}
        try:
            self.recorded: list[str] = sorted(json.loads(host.read(self.path) or "[]"))
        except ValueError as e:
            raise GpuOpsError(
                f"{self.path} is damaged: {e}. Remove it. apt-mark showhold lists what is on hold.", reason="Invalid"
            ) from e

        # Somebody may have removed the hold since.
        self.held = [name for name in self.recorded if name in self.on_hold]

    def versions(self) -> dict[str, str]:
        return self.installed

    def owner_of(self, path: str) -> str | None:
        rows = self.host.run(["dpkg-query", "--search", path], TIMEOUT_S).stdout.splitlines()
        owned = [row for row in rows if row.endswith(f": {path}") and not row.startswith("diversion ")]
        return owned[0][: -len(f": {path}")].partition(",")[0] if owned else None

    def target(self, patterns: t.Sequence[str]) -> list[str]:
        held_by_others = self.on_hold - set(self.recorded)
        return matching(self.installed.keys() - held_by_others, patterns)

    def differs(self, target: list[str]) -> bool:
        return self.recorded != target or self.held != target

    def apply(self, target: list[str]) -> None:
        # Until everything is done, the record has the old and the new packages, in case the run is killed in between.
        self._record(sorted({*self.recorded, *target}))
        for action, names in (
            ("unhold", sorted(set(self.held) - set(target))),
            ("hold", sorted(set(target) - self.on_hold)),
        ):
            if names:
                _rows(self.host, ["apt-mark", action, *names], self.lock_timeout_s)
        self._record(target)

    def _record(self, names: list[str]) -> None:
        if names:
            self.host.write(self.path, json.dumps(names, indent=2) + "\n")
        else:
            self.host.remove(self.path)


class Versionlock(PackageManager):
    """The Red Hat family: the owner has a block of lines in the list of dnf's plugin versionlock."""

    def __init__(self, host: Host, owner: str) -> None:
        self.host = host
        self.begin, self.end = f"# gpuops.nvidia {owner}: begin", f"# gpuops.nvidia {owner}: end"
        rows = _rows(host, ["rpm", "--query", "--all", "--queryformat=%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"])
        self.installed = {name: [each[1] for each in rows if each[0] == name] for name, dummy in rows}
        self.text = self._read()
        found = re.search(
            rf"^{re.escape(self.begin)}\n(.*?)^{re.escape(self.end)}$",
            self.text or "",
            re.MULTILINE | re.DOTALL,
        )
        self.held = found[1].splitlines() if found else []

    def _read(self) -> str | None:
        """Return the whole list. Others have lines in it, of which not a byte changes."""
        found = self.host.read_bytes(LOCKS)
        return None if found is None else found.decode("utf-8", "surrogateescape")

    def versions(self) -> dict[str, str]:
        return {name: found[-1] for name, found in self.installed.items()}

    def owner_of(self, path: str) -> str | None:
        output = self.host.run(["rpm", "--query", "--file", "--queryformat=%{NAME}\\n", path], TIMEOUT_S)
        return output.stdout.splitlines()[0] if output.ok and output.stdout else None

    def target(self, patterns: t.Sequence[str]) -> list[str]:
        names = matching(self.installed, patterns)
        return sorted(f"{name}-{version}.*" for name in names for version in self.installed[name])

    def differs(self, target: list[str]) -> bool:
        if target and self.text is None and not self.host.which("dnf-3"):
            raise GpuOpsError(
                f"Packages are locked by the plugin versionlock of dnf 4 ({PLUGIN}), which this host does not have.",
                reason="Unsupported",
            )
        return self.held != target

    def apply(self, target: list[str]) -> None:
        if self.text is None:
            # dnf reads the list only with the plugin.
            self._install_plugin()
        others = re.sub(
            rf"^{re.escape(self.begin)}\n.*?^{re.escape(self.end)}(?:\n|\Z)",
            "",
            self.text or "",
            flags=re.MULTILINE | re.DOTALL,
        )
        block = [self.begin, *target, self.end] if target else []
        gap = "\n" if block and others and not others.endswith("\n") else ""
        self.host.write(LOCKS, others + gap + "".join(f"{line}\n" for line in block))

    def _install_plugin(self) -> None:
        output = self.host.run(["dnf-3", "--assumeyes", "--quiet", "install", PLUGIN], INSTALL_TIMEOUT_S)
        self.text = self._read()
        if self.text is None:
            problem = output.error or f"it did not install {LOCKS}"
            raise GpuOpsError(
                f"{PLUGIN}, which dnf needs to hold packages, could not be installed, "
                f"so the packages are not held: {problem}.",
                reason="PluginMissing",
            )


def package_manager(host: Host, owner: str, lock_timeout_s: float) -> PackageManager:
    """Return the host's package manager. dnf waits for its own lock as long as it takes."""
    if host.which("apt-mark") and not host.exists("/etc/redhat-release"):
        return Dpkg(host, owner, lock_timeout_s)
    if host.which("rpm"):
        return Versionlock(host, owner)
    raise GpuOpsError("This host has neither apt nor rpm, so its packages cannot be held.", reason="Unsupported")


def driver_packages(host: Host, manager: PackageManager) -> list[str]:
    """Return the installed packages of the driver and of the container toolkit, which an upgrade takes together."""
    paths = driver_parts.files(host)
    found = (driver_parts.version_of_files(paths), loaded_version(host))
    installed, owning = manager.versions(), {owner for owner in map(manager.owner_of, paths) if owner}
    parts = driver_parts.parts(installed, owning, {version for version in found if version})
    return [name.partition(":")[0] for name in parts] + list(TOOLKIT_PACKAGES)


def hold(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Hold the installed packages that match, and return the module's result. In check mode, predict the result."""
    owners.assert_valid(options["owner"])
    manager = package_manager(host, options["owner"], options["lock_timeout"])
    before = list(manager.held)
    wanted = [*options["packages"], *(driver_packages(host, manager) if options["driver"] else [])]
    target = manager.target(wanted if options["state"] == "present" else [])
    changed = manager.differs(target)
    if changed and not check_mode:
        manager.apply(target)
    texts = ["".join(f"{name}\n" for name in names) for names in (before, target)]
    return {"changed": changed, "held": target, "diff": {"before": texts[0], "after": texts[1]}}
