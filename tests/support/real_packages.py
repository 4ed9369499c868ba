# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module driver_packages on a plain Debian release, with the real packages of Debian's pool."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import yaml

from lab.hosts.containers.releases import MIRROR, ReleaseHosts
from tests.support.ansible import Playbook

# Packages without content: the real dkms brings a compiler, and the firmware is a third of the download.
_EMPTY = """set -eu
make() {
  mkdir -p "/tmp/$1/DEBIAN"
  printf 'Package: %s\\nVersion: 9\\nArchitecture: all\\nMaintainer: none\\nProvides: %s\\nDescription: empty\\n' \
    "$1" "$2" > "/tmp/$1/DEBIAN/control"
}
make dkms dkms-for-tests
mkdir -p /tmp/dkms/usr/lib/dkms /tmp/dkms/usr/sbin
for file in /usr/lib/dkms/common.postinst /usr/sbin/dkms; do
  printf '#!/bin/sh\\n' > "/tmp/dkms$file"; chmod 755 "/tmp/dkms$file"
done
make firmware-for-tests "FIRMWARE"
for name in dkms firmware-for-tests; do dpkg-deb --build "/tmp/$name" > /dev/null; dpkg --install "/tmp/$name.deb"; done
"""


class Release:
    """A running container of a release, and the module driver_packages on it."""

    def __init__(self, hosts: ReleaseHosts, folder: Path) -> None:
        [self.host] = hosts.hosts()
        self._inventory = folder / "inventory.yml"
        self._inventory.write_text(yaml.safe_dump(hosts.inventory()))
        self._ansible = Playbook(Path("/nonexistent"), Path("/nonexistent"))

    def add_backports(self) -> None:
        """Add the suite that has other versions of the same packages."""
        suite = f"{self.host.flavour}-backports"
        line = f"deb {MIRROR} {suite} main contrib non-free non-free-firmware"
        self.host.shell(f"echo '{line}' > /etc/apt/sources.list.d/backports.list")

    def without_compiler_and_firmware(self, *versions: str) -> None:
        """Install empty packages in place of the large ones that are beside the point."""
        firmware = ", ".join(f"firmware-nvidia-gsp-{version}" for version in versions)
        self.host.shell(_EMPTY.replace("FIRMWARE", firmware))

    def driver(self, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Run the module, and return its result, which has ``msg`` if the module failed."""
        # Without any option, ansible would take "{}" for one.
        arguments = json.dumps({"state": "present", **options})
        command = ["ansible", self.host.name, "--inventory", str(self._inventory)]
        command += ["--module-name", "gpuops.nvidia.driver_packages", "--args", arguments]
        run = self._ansible.finish(self._ansible.command([*command, "--check"] if check else command), 900)
        assert "=> " in run.output, run.output
        return dict(json.loads(run.output.partition("=> ")[2]))

    def versions(self) -> dict[str, str]:
        """Return the installed packages of the driver with their upstream versions."""
        rows = self.host.shell("dpkg-query --show --showformat '${Package} ${Version} ${db:Status-Status}\\n'")
        found = [row.split() for row in rows.splitlines()]
        ours = [(name, version) for name, version, status in found if status == "installed"]
        return {name: version.partition("-")[0] for name, version in ours if "nvidia" in name or "cuda" in name}
