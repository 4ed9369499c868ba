# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The only door to a GPU host: its files and its commands.

Everything that the modules know about a host comes through here, so that the parsers behind it are pure and a test can put a
recorded folder and recorded commands in the host's place. Works with the Python of any supported managed host (3.9 and newer).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

COMMAND_TIMEOUT_S = 10.0
"""How long a command may take. A driver in trouble makes nvidia-smi hang in the kernel for ever."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclasses.dataclass(frozen=True)
class Output:
    """What a command gave back. ``error`` says in one line why there is nothing to read, and is None when it ended with 0."""

    stdout: str = ""
    stderr: str = ""
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the command ran and ended with 0."""
        return self.error is None


class Host:
    """Files under ``root`` (the machine's own by default) and commands. Reading never raises: what is not there is None or empty.

    Writing raises a GpuOpsError that names the file. ``timeout_s`` is how long a command may take that is not given a time of its own.
    """

    def __init__(self, root: str = "/", timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        self._root = root.rstrip("/")
        self._timeout_s = timeout_s

    def path(self, path: str) -> str:
        """Return where the host's ``path`` is for this process."""
        return self._root + path

    def read(self, path: str) -> str | None:
        """Return a file's text without the newline at its end, or None when it cannot be read."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as file:
                return file.read().rstrip("\n")
        except OSError:
            return None

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, or None when it cannot be read."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read()
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether there is anything at ``path``, also a link that leads nowhere."""
        return os.path.lexists(self.path(path))

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none when it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def glob(self, pattern: str) -> list[str]:
        """Return the host's paths that match a shell pattern, sorted."""
        return sorted(found[len(self._root) :] for found in glob.glob(self.path(pattern)))

    def target(self, path: str) -> str | None:
        """Return the last part of what a symbolic link points to (sysfs names drivers and groups that way), or None."""
        try:
            return os.path.basename(os.readlink(self.path(path)))
        except OSError:
            return None

    def size(self, path: str) -> int:
        """Return a file's size in bytes, 0 when it is not there."""
        try:
            return os.stat(self.path(path)).st_size
        except OSError:
            return 0

    def changed_at(self, path: str) -> float:
        """Return when a file was last written, in seconds since the epoch, 0 when it is not there."""
        try:
            return os.stat(self.path(path)).st_mtime
        except OSError:
            return 0.0

    def writable(self, path: str) -> bool:
        """Whether a file can be written, or files be made in a folder; for what is not there yet, in the folder above it."""
        there = self.path(path)
        while not os.path.lexists(there) and there not in ("", "/"):
            there = os.path.dirname(there)
        return os.access(there or "/", os.W_OK | (os.X_OK if os.path.isdir(there or "/") else 0))

    def assert_writable(self, path: str, what: str) -> None:
        """Raise before anything is touched where `writable` says no; ``what`` is left as it is."""
        if not self.writable(path):
            raise GpuOpsError(
                f"{path} is not writable, so the {what} are left as they are. Remount it writable (mount -o remount,rw), or become root.",
                reason="NotWritable",
            )

    def free_bytes(self, folder: str) -> int:
        """Return how much an administrator can still write into a folder's file system."""
        status = os.statvfs(self.path(folder))
        return status.f_bfree * status.f_frsize

    def write(self, path: str, text: str) -> None:
        """Write a small text file in one step: whatever happens, the old file is there or the new one."""
        folder, name = os.path.split(self.path(path))
        draft = None
        try:
            os.makedirs(folder, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            os.chmod(draft, 0o644)
            os.replace(draft, self.path(path))
        except OSError as e:
            if draft is not None and os.path.exists(draft):
                os.unlink(draft)
            raise GpuOpsError(f"{path} cannot be written: {e.strerror}.", reason="NotWritable") from e

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is fine."""
        try:
            os.unlink(self.path(path))
        except FileNotFoundError:
            return
        except OSError as e:
            raise GpuOpsError(f"{path} cannot be removed: {e.strerror}.", reason="NotWritable") from e

    def move(self, source: str, destination: str) -> None:
        """Put a file in another one's place, in one step."""
        try:
            os.replace(self.path(source), self.path(destination))
        except OSError as e:
            raise GpuOpsError(f"{destination} cannot be replaced: {e.strerror}.", reason="NotWritable") from e

    @contextlib.contextmanager
    def alone(self) -> t.Iterator[None]:
        """Keep every other such block on this host waiting for as long as this one runs.

        When a controller dies, its module goes on to its end on the host, and the next run must not make an initramfs beside it.
        """
        lock = self.path("/run/gpuops.lock")
        try:
            os.makedirs(os.path.dirname(lock), exist_ok=True)
            file = open(lock, "ab")  # noqa: SIM115
        except OSError:
            # Nor can such a user change what is done alone.
            yield
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def which(self, name: str) -> str | None:
        """Return a command's path, or None when the host does not have it."""
        return shutil.which(name, path=PATH)

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        """Run a command without a shell, in the C locale. A command that hangs, even in the kernel, is left behind after ``timeout_s``."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        found = self.which(command[0])
        if found is None:
            return Output(error=f"{command[0]} is not installed")
        # Not run_command, which waits for ever. Files, not pipes: nothing waits for a process that does not die.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                [found, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "PATH": PATH, "LC_ALL": "C", "LANGUAGE": "C"},
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                code = None
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            for file in (out, err):
                file.seek(0)
            stdout, stderr = (file.read().decode("utf-8", "replace") for file in (out, err))
        if code is None:
            return Output(stdout, stderr, f"{command[0]} did not answer within {timeout_s:g} s")
        said = (stderr.strip() or stdout.strip()).splitlines()
        return Output(
            stdout, stderr, f"{command[0]} ended with {code}: {said[-1] if said else 'no message'}" if code else None
        )

    @contextlib.contextmanager
    def piped(self, command: t.Sequence[str], file: t.BinaryIO) -> t.Iterator[t.BinaryIO]:
        """Run a command on the rest of an open file while a block reads what comes out of it. It ends with the block, wherever it is then."""
        found = self.which(command[0])
        if found is None:
            raise FileNotFoundError(f"{command[0]} is not installed")
        # The command reads from where the file's descriptor is, and not from where our buffer is.
        os.lseek(file.fileno(), file.tell(), os.SEEK_SET)
        with (
            subprocess.Popen(  # pylint: disable=ansible-bad-function
                [found, *command[1:]],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PATH": PATH},
            ) as process
        ):
            try:
                yield t.cast(t.BinaryIO, process.stdout)
            finally:
                process.kill()
