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
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import matching
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_RECORDS = owners.records("package_hold")
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
        rows = _rows(
            host, ["dpkg-query", "--show", "--showformat=${binary:Package}\t${db:Status-Want}\t${db:Status-Status}\n"]
        )
        self.installed = {name for name, dummy, status in rows if status == "installed"}
        self.on_hold = {name for name, want, dummy in rows if want == "hold"}
        try:
            self.recorded: list[str] = sorted(json.loads(host.read(self.path) or "[]"))
        except ValueError as e:
            raise GpuOpsError(
                f"{self.path} is damaged: {e}. Remove it. apt-mark showhold lists what is on hold.", reason="Invalid"
            ) from e

        # Somebody may have removed the hold since.
        self.held = [name for name in self.recorded if name in self.on_hold]

    def target(self, patterns: t.Sequence[str]) -> list[str]:
        held_by_others = self.on_hold - set(self.recorded)
        return matching(self.installed - held_by_others, patterns)

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
        self.text = host.read(LOCKS)
        found = re.search(
            rf"^{re.escape(self.begin)}\n(.*?)^{re.escape(self.end)}$\n?",
            f"{self.text or ''}\n",
            re.MULTILINE | re.DOTALL,
        )
        self.held = found[1].splitlines() if found else []

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
            rf"^{re.escape(self.begin)}\n.*?^{re.escape(self.end)}\n",
            "",
            f"{self.text or ''}\n",
            flags=re.MULTILINE | re.DOTALL,
        ).strip("\n")
        block = [self.begin, *target, self.end] if target else []
        self.host.write(LOCKS, "".join(f"{line}\n" for line in [*others.splitlines(), *block]))

    def _install_plugin(self) -> None:
        output = self.host.run(["dnf-3", "--assumeyes", "--quiet", "install", PLUGIN], INSTALL_TIMEOUT_S)
        self.text = self.host.read(LOCKS)
        if self.text is None:
            problem = output.error or f"it did not install {LOCKS}"
            raise GpuOpsError(
                f"{PLUGIN}, which dnf needs to hold packages, could not be installed, so nothing is held: {problem}.",
                reason="PluginMissing",
            )


def package_manager(host: Host, owner: str, lock_timeout_s: float) -> PackageManager:
    """Return the host's package manager. dnf waits for its own lock as long as it takes."""
    if host.which("apt-mark") and not host.exists("/etc/redhat-release"):
        return Dpkg(host, owner, lock_timeout_s)
    if host.which("rpm"):
        return Versionlock(host, owner)
    raise GpuOpsError("This host has neither apt nor rpm, so its packages cannot be held.", reason="Unsupported")


def hold(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Hold the installed packages that match, and return the module's result. In check mode, predict the result."""
    owners.assert_valid(options["owner"])
    manager = package_manager(host, options["owner"], options["lock_timeout"])
    before = list(manager.held)
    target = manager.target(options["packages"] if options["state"] == "present" else [])
    changed = manager.differs(target)
    if changed and not check_mode:
        manager.apply(target)
    texts = ["".join(f"{name}\n" for name in names) for names in (before, target)]
    return {"changed": changed, "held": target, "diff": {"before": texts[0], "after": texts[1]}}
