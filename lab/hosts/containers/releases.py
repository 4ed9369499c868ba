# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Containers of plain Debian releases, with the real packages of Debian's pool, non-free included.

They run without systemd and GPUs, and the kernel's files are the machine's own, read-only.
Downloaded packages are kept in the cache, so only the first run needs minutes of network.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
import typing as t
from pathlib import Path

from lab.errors import LabError
from lab.hosts import folders, packages
from lab.hosts.containers.hosts import ContainerHost
from lab.hosts.containers.podman import Podman

MIRROR = "http://deb.debian.org/debian"
SUITES = ("bookworm", "trixie", "sid")
PACKAGES = ("ca-certificates", "eatmydata", "python3", "python3-apt")
_COMPONENTS = "main,contrib,non-free,non-free-firmware"
_OPTIONS = (
    'Acquire::Languages "none"',
    # A mirror may be behind, and the pool of sid changes under a list that was read some days ago.
    'Acquire::Check-Valid-Until "false"',
    'APT::Install-Recommends "false"',
)

Say = t.Callable[[str], None]


def _image(suite: str) -> str:
    return f"localhost/gpuops-release-{suite}:{folders.key(suite, MIRROR, *PACKAGES, *_OPTIONS)}"


class ReleaseHosts:
    """A container of one release, which goes by the name of its suite."""

    def __init__(self, suite: str, name: str, say: Say = lambda line: None) -> None:
        if suite not in SUITES:
            raise LabError(f"Unknown release {suite}. Choose from {', '.join(SUITES)}.")
        self.suite, self.name, self._say = suite, f"{name}-{suite}", say

    def up(self) -> ContainerHost:
        """Start the container, with the package lists of today."""
        packages.require("containers")
        podman = Podman()
        self._provide(podman)
        archives = folders.downloads(f"apt-{self.suite}")
        (archives / "partial").mkdir(exist_ok=True)
        # dpkg waits for the disk after every package, which takes a fifth of an installation. A container may lose all.
        options = [f"--name={self.name}", f"--hostname={self.name}", "--network=host"]
        options += ["--env=LD_PRELOAD=libeatmydata.so", f"--volume={archives}:/var/cache/apt/archives"]
        podman("run", "--detach", *options, _image(self.suite), "sleep", "infinity")
        [host] = self.hosts()
        host.run("apt-get", "--quiet", "update", timeout=300)
        return host

    def down(self) -> None:
        """Remove the container. What it has downloaded stays."""
        Podman().succeeds("rm", "--force", "--time", "0", self.name)

    def hosts(self) -> list[ContainerHost]:
        """Return the host, as sets of container hosts do."""
        return [ContainerHost(self.name, self.suite, Podman())]

    def inventory(self) -> dict[str, t.Any]:
        """Return an Ansible inventory with the host in ``gpu_hosts``."""
        variables = {
            "ansible_connection": "containers.podman.podman",
            "ansible_podman_executable": str(Podman().executable),
            "ansible_podman_mount_detection": False,
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_pipelining": True,
        }
        return {"gpu_hosts": {"hosts": {self.name: {}}, "vars": variables}}

    def _provide(self, podman: Podman) -> None:
        with folders.lock(podman.home / "build.lock"):
            if podman.succeeds("image", "exists", _image(self.suite)):
                return
            started = time.monotonic()
            with tempfile.TemporaryDirectory(dir=podman.home) as folder:
                podman("import", str(self._root(Path(folder))), _image(self.suite))
            self._say(f"Built the image of {self.suite} in {time.monotonic() - started:.0f} s")

    def _root(self, folder: Path) -> Path:
        tar = folder / "root.tar"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", f"--components={_COMPONENTS}"]
        command += [f"--aptopt={option}" for option in _OPTIONS]
        command += [f"--include={','.join(PACKAGES)}", self.suite, str(tar), MIRROR]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"mmdebstrap could not build {self.suite}: {done.stderr.strip()[-800:]}")
        return tar


def install(host: ContainerHost, *names: str, timeout: float = 1800) -> None:
    """Install packages from the release."""
    command = "DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes install"
    host.run("sh", "-c", f"{command} {' '.join(names)}", timeout=timeout)
