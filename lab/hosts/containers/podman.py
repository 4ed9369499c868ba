# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""podman with its own storage, runc, and a hook that mounts the simulated machine over the kernel's files."""

from __future__ import annotations

import json
import shlex
import subprocess
import typing as t
from pathlib import Path

from lab.errors import LabError
from lab.hosts import folders

SIMULATED = "/var/lib/machine"
"""The folder of a container host with the simulated kernel files that the hook mounts."""

OVERLAID = (
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/driver",
    "/proc/modules",
    # Not /proc/sys itself: the container runtime makes it read-only, but not the mounts below it. Without the hook, it
    # is read-only.
    *(f"/proc/sys/{name}" for name in ("abi", "debug", "dev", "fs", "kernel", "net", "user", "vm")),
    "/sys/bus/pci",
    "/sys/class/iommu",
    "/sys/kernel/iommu_groups",
    "/sys/kernel/mm/hugepages",
    "/sys/module",
)

# podman refuses volumes under /proc, and a container must not mount anything itself. This hook runs in the mount
# namespace and the root folder of the container each time it starts, so the mounts exist after a reboot, too.
HOOK = f"""#!/bin/sh -eu
for path in {" ".join(OVERLAID)}; do
  simulated=".{SIMULATED}$path"
  [ ! -e ".$path" ] || [ -L "$simulated" ] || [ ! -e "$simulated" ] || mount --bind "$simulated" ".$path"
done
"""

# Run a command on a host as `runc exec` does: in the namespaces of its first process, under the rules for its devices,
# with its environment, capabilities and limits, and in a session of its own. Measured: 6 ms of a processor. runc takes
# 52 ms, and podman 87 ms. Where the rules for devices are no cgroup of the first version, or the host does not run,
# runc does it, and says why it cannot.
#
# systemd-shutdown stops all processes before it kills them. When nsenter forks, it stops itself with its child and
# keeps it as a zombie, for which systemd-shutdown waits 90 s (seen at 4 of 141 reboots of a busy machine). A shell only
# waits.
ENTER = """#!/usr/bin/env -S -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh
host=$1; shift
read -r id < {hosts}/"$host"
enter() {{
  {{ read -r pid < {run}/overlay-containers/"$id"/userdata/pidfile || [ "$pid" ]; }} && # It has no end of line.
    grep -q "libpod-$id" /proc/"$pid"/cgroup && # The number of a process that has ended may be another's by now.
    echo $$ > /sys/fs/cgroup/devices/libpod_parent/libpod-"$id"/cgroup.procs
}}
if enter 2> /dev/null; then
  . {hosts}/"$host".env
  exec prlimit --nofile=1024:20000 --nproc=4096:4096 \\
    nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup --no-fork \\
    sh -c '"$@"; exit $?' sh setpriv --bounding-set={capabilities} --inh-caps=-all setsid "$@"
fi
exec runc exec "$id" "$@"
"""

# podman's default.
CAPABILITIES = (
    "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,"
    "+mknod,+audit_write,+setfcap"
)

# podman runs commands before the first process of a container has started. sshd accepts logins only when the host is
# up, and Ansible relies on that after a reboot.
LOGIN = """#!/bin/sh
# Ansible's connection plugin runs this script in place of podman: `exec [-i] HOST COMMAND...`, which waits until the
# host is up, and `cp --pause=false FILE HOST:FILE`.
login() {{ host=$1; shift; exec {enter} "$host" /usr/local/lib/stand-ins/login "$@"; }}
case "$1 $2" in
  "exec -i") shift 2; login "$@" ;;
  "exec "*) shift; login "$@" ;;
  "cp --pause=false") case "$4" in *:*) login "${{4%%:*}}" sh -c 'cat > "$1"' sh "${{4#*:}}" < "$3" ;; esac ;;
esac
exec {executable} "$@"
"""

# README.md, "Requirements", explains runc, cgroupfs and the limits.
EXECUTABLE = """#!/bin/sh
export CONTAINERS_CONF={home}/containers.conf CONTAINERS_STORAGE_CONF={home}/storage.conf
exec podman "$@"
"""
CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=1024:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
hooks_dir = ["{hooks}"]
"""
_RUN = "/run/gpuops-hosts"
STORAGE_CONF = """[storage]
driver = "overlay"
graphroot = "{graph}"
runroot = "{run}"
"""


class Podman:
    """podman with its own storage and settings in the cache folder, apart from the user's."""

    def __init__(self) -> None:
        self.home = folders.cache() / "podman"
        self.executable = self.home / "podman"
        self.enter = self.home / "enter"
        self.login = self.home / "login"
        self.hosts = self.home / "hosts"
        """The folder with two files for each container host: its ID, and its environment as lines of shell."""
        self._write_configuration()

    def __call__(self, *arguments: str, timeout: float = 600) -> str:
        """Run podman and return its output. Raise LabError with the end of its messages."""
        return self._run(self.executable, *arguments, timeout=timeout)

    def run_on(self, host: str, *command: str, timeout: float) -> str:
        """Run a command on a host that runs and return its output. Raise LabError with the end of its messages."""
        return self._run(self.enter, host, *command, timeout=timeout)

    def _run(self, program: Path, *arguments: str, timeout: float) -> str:
        try:
            done = subprocess.run(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{program.name} {' '.join(arguments)} did not end within {timeout:.0f} s.") from error
        if done.returncode:
            raise LabError(f"{program.name} {arguments[0]} failed: {_end(done.stderr or done.stdout)}")
        return done.stdout.strip()

    def json(self, *arguments: str) -> t.Any:
        """Run podman and return the JSON that it prints."""
        return json.loads(self(*arguments) or "null")

    def succeeds(self, *arguments: str) -> bool:
        """Run podman and return whether it succeeded."""
        return not subprocess.run(
            [self.executable, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
        ).returncode

    def _write_configuration(self) -> None:
        hooks = self.home / "hooks"
        hook = {
            "version": "1.0.0",
            "hook": {"path": str(self.home / "overlay-machine")},
            "when": {"annotations": {"^gpuops\\.machine$": ".*"}},
            "stages": ["createContainer"],
        }
        files = {
            self.home / "containers.conf": CONTAINERS_CONF.format(hooks=hooks),
            self.home / "storage.conf": STORAGE_CONF.format(graph=self.home / "storage", run=_RUN),
            self.home / "overlay-machine": HOOK,
            self.enter: ENTER.format(hosts=shlex.quote(str(self.hosts)), run=_RUN, capabilities=CAPABILITIES),
            self.login: LOGIN.format(executable=shlex.quote(str(self.executable)), enter=shlex.quote(str(self.enter))),
            hooks / "machine.json": json.dumps(hook),
            self.executable: EXECUTABLE.format(home=shlex.quote(str(self.home))),
        }
        for folder in (hooks, self.hosts):
            folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            _write_once(path, text)


def _write_once(path: Path, text: str) -> None:
    """Write a file unless it already has this text, since another process may be running it."""
    if path.exists() and path.read_text() == text:
        return
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.chmod(0o755 if text.startswith("#!") else 0o644)
    new.replace(path)


def _end(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines[-8:]) or "no message"
