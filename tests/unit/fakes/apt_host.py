# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake host with dpkg and apt, whose commands print what the real ones print and change what is installed.

It knows no dependencies. tests/roles/test_real_packages.py runs the real apt with real packages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from tests.unit.fakes.host import FakeHost

DEBIAN = "Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>"
KERNEL = "6.1.0-40-amd64"


class AptHost(FakeHost):
    """A Debian host. ``offers`` maps names to versions, ``files`` paths to the packages that own them."""

    def __init__(self, root: Path, offers: dict[str, list[str]]) -> None:
        super().__init__(root)
        self.offers, self.packages, self.held = offers, {"bash": "5.2.15-2"}, set[str]()
        self.files: dict[str, str] = {}
        # dpkg's states other than installed, and what dpkg --configure -a cannot configure.
        self.states: dict[str, str] = {}
        self.unconfigurable = False
        self.failure: Output | None = None
        self.commands = {
            "dpkg": self._dpkg,
            "dpkg-query": self._query,
            "apt-cache": self._cache,
            "apt-mark": self._mark,
            "apt-get": self._apt_get,
            "env": self._env,
            "mkdir": "",
        }
        self.put("/proc/sys/kernel/osrelease", f"{KERNEL}\n")
        self.put(f"/lib/modules/{KERNEL}/build/Makefile", "")
        self.put("/etc/apt/sources.list", "deb http://deb.debian.org/debian bookworm main\n")
        self.put("/var/lib/apt/lists/deb.debian.org_Packages", "")

    def run(self, command, timeout_s=None):  # type: ignore[no-untyped-def]
        if self.failure and "install" in command and "--simulate" not in command:
            self.ran.append(list(command))
            return self.failure
        return super().run(command, timeout_s)

    def _dpkg(self, command: list[str]) -> str:
        if command[1:] == ["--configure", "-a"]:
            if self.unconfigurable:
                raise OSError("dpkg: error processing package nvidia-kernel-dkms (--configure)")
            self.states = {name: state for name, state in self.states.items() if state == "half-installed"}
        return "amd64\n" if command[1] == "--print-architecture" else ""

    def _query(self, command: list[str]) -> str:
        if command[1] == "--search":
            owner = self.files.get(command[2])
            if owner is None:
                raise OSError(f"dpkg-query: no path found matching pattern {command[2]}")
            return f"{owner}:amd64: {command[2]}\n"
        if "Version" not in command[2]:
            return "".join(f"{name}\t{self.states.get(name, 'installed')}\n" for name in sorted(self.packages))
        rows = []
        for name, version in sorted(self.packages.items()):
            want = "hold" if name in self.held else "install"
            state = self.states.get(name, "installed")
            rows.append(f"{name}\tamd64\t{want}\t{state}\t{version}\t{DEBIAN}\n")
        return "".join(rows) + f"nvidia-old\tamd64\tdeinstall\tconfig-files\t1\t{DEBIAN}\n"

    def _cache(self, command: list[str]) -> str:
        if command[1] == "pkgnames":
            return "\n".join(self.offers)
        most = 1 if "--no-all-versions" in command else None
        stanzas = [
            f"Package: {name}\nVersion: {version}\nMaintainer: {DEBIAN}\nDescription: text\n more: text\n"
            for name in command[2:]
            for version in self.offers.get(name, [])[:most]
        ]
        local = [f"Package: {name}\nStatus: install ok installed\nVersion: 0\n" for name in self.packages]
        return "\n".join([*stanzas, *local])

    def _env(self, command: list[str]) -> str:
        program = [word for word in command[1:] if not re.match(r"[A-Z_]+=|--chdir=", word)]
        return self._apt_get(program) if program[0] == "apt-get" else self._dpkg(program)

    def _mark(self, command: list[str]) -> str:
        names = set(command[2:])
        self.held = self.held | names if command[1] == "hold" else self.held - names
        return ""

    def _apt_get(self, command: list[str]) -> str:
        if "download" in command:
            for word in command[command.index("download") + 1 :]:
                name, dummy, version = word.partition("=")
                self.put(f"/var/cache/gpuops/packages/{name}_{version.replace(':', '%3a')}_amd64.deb", "")
            return ""
        if "install" not in command:
            return ""
        if "--fix-broken" in command:
            self.states = {}
            return ""
        words = command[command.index("install") + 1 :]
        install = dict(map(self._wanted, (word for word in words if not word.endswith("-"))))
        remove = [word[:-1] for word in words if word.endswith("-")]
        if "--simulate" not in command:
            self.packages = {name: v for name, v in (self.packages | install).items() if name not in remove}
            self.states = {name: state for name, state in self.states.items() if name not in {*install, *remove}}
            self.files = {path: owner for path, owner in self.files.items() if owner not in remove}
        steps = [f"Remv {name} [{self.packages.get(name, '1')}]" for name in remove]
        steps += [f"Inst {name} [1] ({version} Debian:12.15/oldstable [amd64])" for name, version in install.items()]
        return "".join(f"{step}\n" for step in steps)

    def _wanted(self, word: str) -> tuple[str, str]:
        if word.startswith("/"):
            name, version, dummy = os.path.basename(word).split("_")
            return name, version.replace("%3a", ":")
        name, dummy, version = word.partition("=")
        return name, version or self.offers[name][0]
