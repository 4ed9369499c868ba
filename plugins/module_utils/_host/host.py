# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The files and commands of a GPU host. No other module on the host opens a file or starts a command.

A test can therefore replace the host with a folder and recorded output. This module runs with the Python of any
supported managed host (3.9 and newer).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

COMMAND_TIMEOUT_S = 10.0
"""Default time limit of a command. If the driver is broken, nvidia-smi can hang in the kernel forever."""

MOST_LINKS = 40
"""As many links on the way to a file as Linux follows."""

LOCK_TIMEOUT_S = 1200.0
"""How long to wait for another run. Building the images of several kernels takes minutes on a slow host."""
LOCK_INTERVAL_S = 0.2

OWN_FOLDERS = ("/etc/gpuops/", "/var/lib/gpuops/")
"""Where the records and marks of this collection are."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclasses.dataclass(frozen=True)
class Output:
    """The output of a command. ``error`` is None if the command exited with 0, otherwise one line with the reason."""

    stdout: str = ""
    stderr: str = ""
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the command ran and exited with 0."""
        return self.error is None


class Host:
    """The files below ``root`` (by default the machine's own) and the machine's commands.

    Methods that read do not raise: they return None or something empty if there is nothing to read. Methods that write
    raise a GpuOpsError that names the file. ``timeout_s`` limits every command without its own limit.
    """

    def __init__(self, root: str = "/", timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        self._root = root.rstrip("/")
        self._timeout_s = timeout_s

    def path(self, path: str) -> str:
        """Return the path under which this process finds the host's ``path``."""
        return self._root + path

    def machine(self) -> str:
        """Return the processor architecture as the kernel names it, such as x86_64."""
        return os.uname().machine

    def read(self, path: str) -> str | None:
        """Return a file's text without the newline at its end, or None if it cannot be read."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as file:
                return file.read().rstrip("\n")
        except OSError:
            return None

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, or None if it cannot be read."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read()
        except OSError:
            return None

    def stream(self, path: str) -> t.BinaryIO:
        """Open a file that is too large to be read at once. Raise OSError if it cannot be opened."""
        return open(self.path(path), "rb")

    def exists(self, path: str) -> bool:
        """Return whether anything is at ``path``, even a link to nothing."""
        return os.path.lexists(self.path(path))

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted, or an empty list if it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def glob(self, pattern: str) -> list[str]:
        """Return the host's paths that match a shell pattern, sorted."""
        return sorted(found[len(self._root) :] for found in glob.glob(self.path(pattern)))

    def link_name(self, path: str) -> str | None:
        """Return the last part of a link's target, or None. In sysfs this is the name of a driver or a group."""
        try:
            return os.path.basename(os.readlink(self.path(path)))
        except OSError:
            return None

    def resolve(self, path: str, root: str = "") -> str | None:
        """Return the path of the file that ``path`` leads to, or None if a link on the way leads to nothing.

        As for a process in ``root``, a folder of the host, an absolute link does not leave it.
        """
        rest, done, links = path.split("/"), "", 0
        while rest and links < MOST_LINKS:
            part = rest.pop(0)
            if part == "..":
                done = done.rpartition("/")[0]
            elif part not in ("", "."):
                try:
                    target = os.readlink(self.path(f"{root}{done}/{part}"))
                except OSError:
                    done = f"{done}/{part}"
                else:
                    links += 1
                    done = "" if target.startswith("/") else done
                    rest[:0] = target.split("/")
        found = f"{root}{done}"
        return found if not rest and os.path.lexists(self.path(found)) else None

    def size(self, path: str) -> int:
        """Return a file's size in bytes, or 0 if there is no file."""
        try:
            return os.stat(self.path(path)).st_size
        except OSError:
            return 0

    def executable(self, path: str) -> bool:
        """Return whether there is a program at ``path``."""
        found = self.resolve(path)
        return found is not None and os.path.isfile(self.path(found)) and os.access(self.path(found), os.X_OK)

    def changed_at(self, path: str) -> float:
        """Return when a file was last written, in seconds since the epoch, or 0 if there is no file."""
        try:
            return os.stat(self.path(path)).st_mtime
        except OSError:
            return 0.0

    def time_of(self, monotonic_s: float) -> float:
        """Return the time of day of a moment on the kernel's monotonic clock, in seconds since the epoch."""
        return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + monotonic_s

    def writable(self, path: str) -> bool:
        """Return whether a file can be written or a folder can get new files.

        If ``path`` does not exist, the nearest folder above it decides.
        """
        existing = self.path(path)
        while not os.path.lexists(existing) and existing not in ("", "/"):
            existing = os.path.dirname(existing)
        existing = existing or "/"
        return os.access(existing, os.W_OK | (os.X_OK if os.path.isdir(existing) else 0))

    def assert_writable(self, path: str, settings: str) -> None:
        """Raise if ``path`` is not writable. Called before the first change, so that ``settings`` stay as they are."""
        if not self.writable(path):
            raise GpuOpsError(
                f"{path} is not writable, so the {settings} are left as they are. "
                "Remount it writable (mount -o remount,rw), or become root.",
                reason="NotWritable",
            )

    def free_bytes(self, folder: str) -> int:
        """Return the free space that root has on a folder's file system."""
        status = os.statvfs(self.path(folder))
        return status.f_bfree * status.f_frsize

    def write(self, path: str, text: str) -> None:
        """Replace a small text file atomically: after a crash, either the old file or the new one is there.

        A file that exists keeps its owner, mode and attributes. A link to a file stays, and the file is replaced.
        """
        led_to = self.path(self.resolve(path) or path)
        target = led_to if os.path.isfile(led_to) else self.path(path)
        folder, name = os.path.split(target)
        draft = None
        try:
            os.makedirs(folder, mode=0o755, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            os.chmod(draft, 0o644)
            if os.path.isfile(target):
                _copy_attributes(target, draft)
            os.replace(draft, target)
        except OSError as e:
            if draft is not None and os.path.exists(draft):
                os.unlink(draft)
            raise GpuOpsError(f"{path} cannot be written: {e.strerror}.", reason="NotWritable") from e

    def write_in_place(self, path: str, text: str) -> None:
        """Write to a file that the kernel provides, which cannot be replaced. Raise OSError if the kernel refuses."""
        with open(self.path(path), "w", encoding="ascii") as file:
            file.write(text)

    def remove(self, path: str) -> None:
        """Remove a file if it exists, and the folders of this collection that it leaves empty."""
        try:
            os.unlink(self.path(path))
            folder = os.path.dirname(path)
            while f"{folder}/".startswith(OWN_FOLDERS):
                os.rmdir(self.path(folder))
                folder = os.path.dirname(folder)
        except FileNotFoundError:
            return
        except OSError as e:
            if not self.exists(path):
                return  # A folder has other files.
            raise GpuOpsError(f"{path} cannot be removed: {e.strerror}.", reason="NotWritable") from e

    def move(self, source: str, destination: str) -> None:
        """Replace one file with another atomically."""
        try:
            os.replace(self.path(source), self.path(destination))
        except OSError as e:
            raise GpuOpsError(f"{destination} cannot be replaced: {e.strerror}.", reason="NotWritable") from e

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Let only one process on the host run such a block; others wait, and raise after LOCK_TIMEOUT_S.

        When a controller dies, its module runs to the end on the host. The next run must not build an initramfs at the
        same time.
        """
        lock = self.path("/run/gpuops.lock")
        try:
            os.makedirs(os.path.dirname(lock), exist_ok=True)
            file = open(lock, "ab")  # noqa: SIM115
        except OSError:
            # Such a user cannot change anything that the lock protects.
            yield
            return
        with file:
            _wait_for_lock(file, lock)
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
            file.flush()
            yield

    def which(self, name: str) -> str | None:
        """Return a command's path, or None if it is not installed."""
        return shutil.which(name, path=PATH)

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        """Run a command without a shell, in the C locale.

        After ``timeout_s`` it is killed, but not waited for: a process that hangs in the kernel does not die.
        """
        name, timeout_s = command[0], self._timeout_s if timeout_s is None else timeout_s
        found = self.which(name)
        if found is None:
            return Output(error=f"{name} is not installed")
        # AnsibleModule.run_command waits forever. Files, not pipes: the end of a pipe comes only when the process dies.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                [found, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "PATH": PATH, "LC_ALL": "C", "LANGUAGE": "C"},
                start_new_session=True,
            )
            code = _exit_code(process, timeout_s)
            stdout, stderr = _text(out), _text(err)
        if code is None:
            return Output(stdout, stderr, f"{name} did not answer within {timeout_s:g} s")
        if code != 0:
            return Output(stdout, stderr, f"{name} ended with {code}: {_last_line(stderr.strip() or stdout.strip())}")
        return Output(stdout, stderr)

    @contextlib.contextmanager
    def piped(self, command: t.Sequence[str], file: t.BinaryIO) -> t.Iterator[t.BinaryIO]:
        """Run a command on the rest of an open file, and give the block its output.

        At the end of the block the command is killed.
        """
        found = self.which(command[0])
        if found is None:
            raise FileNotFoundError(f"{command[0]} is not installed")
        # The command reads from the position of the file's descriptor, which is ahead of the position of our buffer.
        os.lseek(file.fileno(), file.tell(), os.SEEK_SET)
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            [found, *command[1:]],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": PATH},
        )
        with process:
            try:
                yield t.cast(t.BinaryIO, process.stdout)
            finally:
                process.kill()


def _copy_attributes(source: str, target: str) -> None:
    """Give a file the owner, the mode and the extended attributes of another one, such as its SELinux label."""
    status = os.stat(source)
    os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source):
        # Not every file system and every container can set each of them.
        with contextlib.suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))


def _wait_for_lock(file: t.BinaryIO, path: str) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as e:
            if time.monotonic() >= deadline:
                with open(path, encoding="ascii", errors="replace") as written:
                    holder = written.read().strip() or "unknown"
                raise GpuOpsError(
                    f"Another run has been changing this host's settings for {LOCK_TIMEOUT_S / 60:.0f} minutes "
                    f"(process {holder}), so the host was not changed. "
                    "If its command hangs, end it, and run this again.",
                    reason="TimedOut",
                ) from e
        time.sleep(LOCK_INTERVAL_S)


def _exit_code(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """Wait for a process and return its exit code. Kill it and return None if it takes too long."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return None


def _text(file: t.IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _last_line(text: str) -> str:
    return text.splitlines()[-1] if text else "no message"
