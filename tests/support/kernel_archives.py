# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives for the real apt that hold two series of kernels with their metapackages, as Ubuntu's and Debian's do.

The names and the fields are those of noble and noble-updates (GA and HWE), and of bookworm and bookworm-backports. The
packages are empty, and only those that a host has installed are built.
"""

from __future__ import annotations

import dataclasses
import typing as t

from lab.hosts.containers.hosts import ContainerHost

_ADD = """
set -eu
mkdir -p /srv/NAME && cd /srv/NAME
printf %s "$1" > Packages
printf 'Origin: Test\\nSuite: NAME\\nCodename: NAME\\nEXTRA' > Release
echo "deb [trusted=yes] file:/srv/NAME ./" > /etc/apt/sources.list.d/NAME.list
"""
_INSTALL = """
set -eu
rm -rf /tmp/package && mkdir -p /tmp/package/DEBIAN
printf %s "$1" > /tmp/package/DEBIAN/control
dpkg-deb --root-owner-group --build /tmp/package /tmp/package.deb > /dev/null
dpkg --force-depends --install /tmp/package.deb > /dev/null
"""
RUNNING = "/proc/sys/kernel/osrelease"


@dataclasses.dataclass(frozen=True)
class Deb:
    """A package without content."""

    name: str
    version: str
    depends: str = ""

    @property
    def control(self) -> str:
        """Its fields, as in a package and in an archive's list."""
        depends = f"Depends: {self.depends}\n" if self.depends else ""
        return (
            f"Package: {self.name}\nVersion: {self.version}\nArchitecture: all\nSection: kernel\n"
            f"Maintainer: Nobody <nobody@example.com>\n{depends}Description: x\n"
        )

    @property
    def entry(self) -> str:
        """Its entry in an archive's list. Nobody fetches the file."""
        return f"{self.control}Filename: ./{self.name}.deb\nSize: 1\nSHA256: {'0' * 64}\n\n"


def kernel(release: str, version: str) -> list[Deb]:
    """Return the image of a kernel, and its headers."""
    return [Deb(f"linux-image-{release}", version), Deb(f"linux-headers-{release}", version)]


def meta(name: str, version: str, release: str) -> Deb:
    """Return a metapackage."""
    return Deb(name, version, f"linux-image-{release}")


GA = [*kernel("6.8.0-60-generic", "6.8.0-60.63"), *kernel("6.8.0-101-generic", "6.8.0-101.101")]
HWE = [*kernel("6.14.0-37-generic", "6.14.0-37.37~24.04.1"), *kernel("6.17.0-14-generic", "6.17.0-14.14~24.04.1")]
STABLE = [*kernel("6.1.0-41-amd64", "6.1.158-1"), *kernel("6.1.0-56-amd64", "6.1.170-1")]
BACKPORTS = [*kernel("6.12.57+deb12-amd64", "6.12.57-1~bpo12+1"), *kernel("6.12.117+deb12-amd64", "6.12.117-1~bpo12+1")]
NOBLE = [
    *GA,
    *HWE,
    meta("linux-image-generic", "6.8.0-101.101", "6.8.0-101-generic"),
    meta("linux-image-generic-hwe-24.04", "6.17.0-14.14~24.04.1", "6.17.0-14-generic"),
]
BOOKWORM = [*STABLE, meta("linux-image-amd64", "6.1.170-1", "6.1.0-56-amd64")]
BOOKWORM_BACKPORTS = [*BACKPORTS, meta("linux-image-amd64", "6.12.117-1~bpo12+1", "6.12.117+deb12-amd64")]


def write(host: ContainerHost, path: str, text: str) -> None:
    """Write a file on a host."""
    host.run("sh", "-c", 'printf %s "$1" > "$2"', "sh", text, path)


def add(host: ContainerHost, name: str, debs: t.Iterable[Deb], backports: bool = False) -> None:
    """Give a host an archive. apt takes nothing from backports unless it is asked to."""
    extra = "NotAutomatic: yes\\nButAutomaticUpgrades: yes\\n" if backports else ""
    script = _ADD.replace("NAME", name).replace("EXTRA", extra)
    host.run("sh", "-c", script, "sh", "".join(each.entry for each in debs))


def become(host: ContainerHost, running: str, *installed: Deb) -> None:
    """Let a host run a kernel, and have these kernels and metapackages installed."""
    host.shell("dpkg --purge --force-all $(dpkg-query -f '${Package}\\n' -W 'linux-image-*' 'linux-headers-*') || true")
    for each in installed:
        host.run("sh", "-c", _INSTALL, "sh", each.control)
    host.shell(f"rm -f /boot/vmlinuz-[0-9]*generic /boot/vmlinuz-[0-9]*amd64; touch /boot/vmlinuz-{running}")
    write(host, RUNNING, f"{running}\n")
