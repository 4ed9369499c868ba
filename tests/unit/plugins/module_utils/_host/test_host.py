# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import host as host_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host


def test_files_below_a_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/b.conf").write_bytes(b"one\n\xff\n\n")
    (tmp_path / "etc/a.conf").symlink_to("/nowhere/at-all")
    host = Host(f"{tmp_path}/")
    assert host.path("/etc/b.conf") == f"{tmp_path}/etc/b.conf"
    assert host.read("/etc/b.conf") == "one\n\ufffd"
    assert host.read_bytes("/etc/b.conf") == b"one\n\xff\n\n"
    assert host.names("/etc") == ["a.conf", "b.conf"]
    assert host.glob("/etc/*.conf") == ["/etc/a.conf", "/etc/b.conf"]
    assert host.link_name("/etc/a.conf") == "at-all"
    assert host.exists("/etc/a.conf")


def test_links_lead_to_files_of_the_host_or_of_a_folder_that_is_a_root(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    for root in ("", "/box"):
        folder = tmp_path / root.strip("/")
        (folder / "etc/alternatives").mkdir(parents=True)
        (folder / "usr/lib").mkdir(parents=True)
        (folder / "usr/lib/x.so.2").write_text("")
        (folder / "usr/lib/x.so").symlink_to("/etc/alternatives/x")
        (folder / "etc/alternatives/x").symlink_to("../../usr/./lib/x.so.2")
        (folder / "lib").symlink_to("usr/lib")
        assert host.resolve("/lib/x.so", root) == f"{root}/usr/lib/x.so.2"
    (tmp_path / "box/usr/lib/x.so.2").unlink()
    assert host.resolve("/lib/x.so", "/box") is None
    assert host.resolve("/nowhere") is None
    (tmp_path / "loop").symlink_to("loop")
    assert host.resolve("/loop") is None


def test_missing_files_read_as_none_or_empty(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    assert (host.read("/x"), host.read_bytes("/x"), host.link_name("/x")) == (None, None, None)
    assert (host.names("/x"), host.glob("/x/*"), host.exists("/x")) == ([], [], False)
    # A folder is not a file.
    assert (host.read("/"), host.read_bytes("/")) == (None, None)


def test_a_file_is_written_atomically(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    host.write("/etc/new/file", "text\n")
    assert host.read("/etc/new/file") == "text"
    assert os.stat(tmp_path / "etc/new/file").st_mode & 0o777 == 0o644
    assert host.names("/etc/new") == ["file"]
    with pytest.raises(GpuOpsError, match="/etc/new/file/below cannot be written") as failed:
        host.write("/etc/new/file/below", "text\n")
    assert failed.value.reason == "NotWritable"
    host.move("/etc/new/file", "/etc/new/other")
    host.remove("/etc/new/other")
    host.remove("/etc/new/other")
    assert host.names("/etc/new") == []


def test_a_file_of_the_kernel_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "value").write_text("a longer text")
    before = os.stat(tmp_path / "value").st_ino
    Host(str(tmp_path)).write_in_place("/value", "1\n")
    assert (tmp_path / "value").read_text() == "1\n"
    assert os.stat(tmp_path / "value").st_ino == before
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        Host(str(tmp_path)).write_in_place("/full", "1\n")


def test_a_large_file_is_a_stream(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"0123456789")
    with Host(str(tmp_path)).stream("/image") as file:
        assert (file.read(3), file.read(3)) == (b"012", b"345")
        with Host().piped(["cat"], file) as output:
            assert output.read() == b"6789"


def test_the_machine_is_the_kernels_name_for_the_architecture() -> None:
    assert Host().machine() == os.uname().machine


def test_only_one_process_has_the_lock(tmp_path: Path) -> None:
    entered = threading.Event()

    def other() -> None:
        with Host(str(tmp_path)).locked():
            entered.set()

    waiting = threading.Thread(target=other)
    with Host(str(tmp_path)).locked():
        waiting.start()
        assert not entered.wait(0.3)
    waiting.join(10)
    assert entered.is_set()


def test_the_wait_for_a_run_that_hangs_ends_with_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "LOCK_TIMEOUT_S", 0.3)
    with Host(str(tmp_path)).locked():
        with (
            pytest.raises(GpuOpsError, match=rf"\(process {os.getpid()}\), so the host") as error,
            Host(str(tmp_path)).locked(),
        ):
            raise AssertionError("Two processes have the lock.")
        assert error.value.reason == "TimedOut"
    with Host(str(tmp_path)).locked():
        assert (tmp_path / "run/gpuops.lock").read_text() == f"{os.getpid()}\n"


def test_a_user_who_cannot_take_the_lock_continues(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("no folder")
    with Host(str(tmp_path)).locked():
        pass


def test_a_command_runs_in_the_c_locale_without_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    output = Host().run(["sh", "-c", 'echo "$LC_ALL $1"; echo warn >&2', "name", "$HOME *"])
    assert (output.stdout, output.stderr, output.error, output.ok) == ("C $HOME *\n", "warn\n", None, True)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["no-such-command"], "no-such-command is not installed"),
        (["sh", "-c", "echo first; echo why >&2; exit 3"], "sh ended with 3: why"),
        (["sh", "-c", "echo out; exit 3"], "sh ended with 3: out"),
        (["false"], "false ended with 1: no message"),
        (["sh", "-c", "kill -9 $$"], "sh ended with -9: no message"),
    ],
)
def test_the_reason_of_a_failed_command_fits_on_one_line(command: list[str], error: str) -> None:
    output = Host().run(command)
    assert (output.error, output.ok) == (error, False)


@pytest.mark.parametrize("own", [True, False])
def test_a_hanging_command_is_abandoned_and_its_output_kept(own: bool) -> None:
    started = time.monotonic()
    # Its child keeps the output open, which must not be waited for.
    command = ["sh", "-c", "echo partial; sleep 60 & wait"]
    output = Host().run(command, timeout_s=0.5) if own else Host(timeout_s=0.5).run(command)
    assert time.monotonic() - started < 10
    assert (output.stdout, output.error) == ("partial\n", "sh did not answer within 0.5 s")


def test_a_new_folder_is_only_its_owners_to_write_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Host(str(tmp_path)).write("/etc/gpuops/file", "text")
    finally:
        os.umask(before)
    assert [(tmp_path / path).stat().st_mode & 0o777 for path in ("etc/gpuops", "etc/gpuops/file")] == [0o755, 0o644]


def test_a_file_that_is_replaced_keeps_mode_owner_and_attributes(tmp_path: Path) -> None:
    path = tmp_path / "etc/list"
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 0, 1)
    before = path.stat()
    with contextlib.suppress(OSError):
        os.setxattr(path, "user.note", b"kept")
    attributes = os.listxattr(path)
    Host(str(tmp_path)).write("/etc/list", "new\n")
    after = path.stat()
    assert path.read_text() == "new\n" and after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.listxattr(path) == attributes


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("/real")
    Host(str(tmp_path)).write("/link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_a_link_to_a_device_or_to_nothing_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, target in (("masked", "fifo"), ("dangling", "gone")):
        (tmp_path / name).symlink_to(target)
        Host(str(tmp_path)).write(f"/{name}", "new")
        assert not (tmp_path / name).is_symlink() and (tmp_path / name).read_text() == "new"


def test_a_program_is_a_file_that_may_be_run(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    (tmp_path / "tool").write_text("")
    assert not host.executable("/tool") and not host.executable("/gone") and not host.executable("/")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "alias").symlink_to("/tool")
    assert host.executable("/tool") and host.executable("/alias")


def test_the_last_record_takes_its_folders_along_and_no_other_folder(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    for path in ("/etc/gpuops/hold/a", "/etc/gpuops/hold/b", "/etc/modprobe.d/zz-gpuops.conf", "/etc/gpuops-other/c"):
        host.write(path, "")
    host.remove("/etc/gpuops/hold/a")
    assert host.names("/etc/gpuops/hold") == ["b"]
    host.remove("/etc/gpuops/hold/b")
    host.remove("/etc/modprobe.d/zz-gpuops.conf")
    host.remove("/etc/gpuops-other/c")
    assert host.names("/etc") == ["gpuops-other", "modprobe.d"]
