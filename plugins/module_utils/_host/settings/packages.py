# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Installed packages that an upgrade must leave alone: held by dpkg, or locked by dnf's plugin versionlock, and let go by who held them."""

from __future__ import annotations

import fnmatch
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import owners

RECORDS = owners.records("package_hold")
LOCKS = "/etc/dnf/plugins/versionlock.list"
PLUGIN = "python3-dnf-plugin-versionlock"
TIMEOUT_S = 120.0
INSTALL_TIMEOUT_S = 600.0


def matching(names: t.Iterable[str], patterns: t.Sequence[str]) -> list[str]:
    """Return the names that any of the patterns matches, sorted. Debian's names may end in an architecture."""
    return sorted(
        {name for name in names for pattern in patterns if fnmatch.fnmatchcase(name.partition(":")[0], pattern)}
    )


def _asked(host: Host, command: list[str]) -> list[list[str]]:
    output = host.run(command, TIMEOUT_S)
    if not output.ok:
        raise GpuOpsError(f"The package manager does not answer: {output.error}.", reason="PackageManager")
    return [line.split("\t") for line in output.stdout.splitlines() if line]


class Dpkg:
    """Debian and its kin. dpkg knows no owners of a hold, so a record does."""

    def __init__(self, host: Host, owner: str) -> None:
        self.host = host
        self.path = f"{RECORDS}/{owner}.json"
        rows = _asked(
            host, ["dpkg-query", "--show", "--showformat=${binary:Package}\t${db:Status-Want}\t${db:Status-Status}\n"]
        )
        self.installed = {name for name, dummy, status in rows if status == "installed"}
        self.on_hold = {name for name, want, dummy in rows if want == "hold"}
        try:
            self.recorded: list[str] = sorted(json.loads(host.read(self.path) or "[]"))
        except ValueError as e:
            raise GpuOpsError(
                f"{self.path} is damaged: {e}. Remove it; apt-mark showhold lists what is on hold.", reason="Invalid"
            ) from e

    @property
    def held(self) -> list[str]:
        """The owner's holds that still stand."""
        return [name for name in self.recorded if name in self.on_hold]

    def target(self, patterns: t.Sequence[str]) -> list[str]:
        """Return what the owner is to hold: packages that somebody else holds stay theirs."""
        return matching(self.installed - (self.on_hold - set(self.recorded)), patterns)

    def differs(self, target: list[str]) -> bool:
        """Whether there is something to do."""
        return self.recorded != target or self.held != target

    def apply(self, target: list[str]) -> None:
        """Hold what is wanted and let go what is not. The record names all of it until that is done."""
        self._record(sorted({*self.recorded, *target}))
        for action, names in (
            ("unhold", sorted(set(self.held) - set(target))),
            ("hold", sorted(set(target) - self.on_hold)),
        ):
            if names:
                _asked(self.host, ["apt-mark", action, *names])
        self._record(target)

    def _record(self, names: list[str]) -> None:
        if names:
            self.host.write(self.path, json.dumps(names, indent=2) + "\n")
        else:
            self.host.remove(self.path)


class Versionlock:
    """The Red Hat family: a block of lines in the list of dnf's plugin versionlock."""

    def __init__(self, host: Host, owner: str) -> None:
        self.host = host
        self.begin, self.end = f"# gpuops.nvidia {owner}: begin", f"# gpuops.nvidia {owner}: end"
        rows = _asked(host, ["rpm", "--query", "--all", "--queryformat=%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"])
        self.installed = {name: [each[1] for each in rows if each[0] == name] for name, dummy in rows}
        self.text = host.read(LOCKS)
        found = re.search(
            rf"^{re.escape(self.begin)}\n(.*?)^{re.escape(self.end)}$\n?",
            f"{self.text or ''}\n",
            re.MULTILINE | re.DOTALL,
        )
        self.held = found[1].splitlines() if found else []

    def target(self, patterns: t.Sequence[str]) -> list[str]:
        """Return the lines that lock the installed versions."""
        return sorted(
            f"{name}-{version}.*" for name in matching(self.installed, patterns) for version in self.installed[name]
        )

    def differs(self, target: list[str]) -> bool:
        """Whether there is something to do."""
        if target and self.text is None and not self.host.which("dnf-3"):
            raise GpuOpsError(
                f"Packages are locked by the plugin versionlock of dnf 4 ({PLUGIN}), which this host does not have.",
                reason="Unsupported",
            )
        return self.held != target

    def apply(self, target: list[str]) -> None:
        """Put the lines in the owner's block, and leave all others alone. Without the plugin dnf would not read them, so it comes first."""
        if self.text is None:
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
            said = output.error or f"it brought no {LOCKS}"
            raise GpuOpsError(
                f"{PLUGIN}, with which dnf holds packages, could not be installed, and nothing is held: {said}.",
                reason="PluginMissing",
            )


def hold(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Hold the packages that are installed and wanted, in check mode only say what would come of it."""
    owners.assert_valid(options["owner"])
    manager: Dpkg | Versionlock
    if host.which("apt-mark") and not host.exists("/etc/redhat-release"):
        manager = Dpkg(host, options["owner"])
    elif host.which("rpm"):
        manager = Versionlock(host, options["owner"])
    else:
        raise GpuOpsError("This host has neither apt nor rpm, so its packages cannot be held.", reason="Unsupported")
    before, target = list(manager.held), manager.target(options["packages"] if options["state"] == "present" else [])
    changed = manager.differs(target)
    if changed and not check_mode:
        manager.apply(target)
    lines = ["".join(f"{name}\n" for name in names) for names in (before, target)]
    return {"changed": changed, "held": target, "diff": {"before": lines[0], "after": lines[1]}}
