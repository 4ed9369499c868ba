# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import lzma
import shutil
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel_log import LIMIT, kernel_log, xid
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output

from tests.unit.fakes.host import FIXTURES, FakeHost, recorded

JOURNAL = "\n".join(reversed(recorded("logs/journal-ubuntu-22.04.txt").splitlines())) + "\n"
RING = "[    0.000000] Linux version 6.8.0\n" + recorded("logs/dmesg-uptime.txt")
WRAPPED = recorded("logs/dmesg-uptime.txt")
NO_MATCH = Output("", "", "journalctl ended with 1: no message")


def codes(host: Host) -> tuple[list[int] | None, str | None]:
    section = xid(*kernel_log(host))
    facts: t.Any = section.facts
    return (None if facts is None else [each["code"] for each in facts]), section.sources[""]["source"]


class JournalHost(Host):
    """A host whose journal is one file. Everything is the machine's own journalctl."""

    def __init__(self, journal: Path) -> None:
        super().__init__()
        self._journal = journal

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        return super().run([command[0], f"--file={self._journal}", *command[1:]], timeout_s)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JournalHost:
    """A journal that systemd-journal-remote 252 has written: two boots, and 150 errors of an application."""
    assert shutil.which("journalctl"), "This test reads a journal with systemd's own journalctl."
    monkeypatch.setenv("TZ", "UTC")
    path = tmp_path / "system.journal"
    path.write_bytes(lzma.decompress((FIXTURES / "logs" / "two-boots.journal.xz").read_bytes()))
    return JournalHost(path)


def test_the_real_journalctl_gives_the_newest_errors_of_this_boot_in_the_order_of_time(journal: JournalHost) -> None:
    section = xid(*kernel_log(journal))
    assert section.sources[""] == {"source": "journalctl", "reason": None}
    assert len(section.facts) == 100
    assert [each["code"] for each in section.facts] == [79, 12028, *[13] * 96, 79, 154]
    assert section.facts[2]["message"] == "pid=7194, name=python3, number 54"
    assert section.facts[97]["message"] == "pid=7194, name=python3, number 149"
    assert (section.facts[2]["gpu_instance"], section.facts[2]["compute_instance"]) == (5, 1)
    assert section.facts[-2]["time"] == "2025-11-21T00:58:20+0000"


def test_a_message_of_several_lines_is_put_together_from_the_real_journal(journal: JournalHost) -> None:
    log, dummy = kernel_log(journal)
    first, second, *others = [(each["code"], each["gpu"]) for each in _all(log)]
    assert (first, second) == ((79, "0000:b3:00.0"), (12028, "0000:05:00.0"))
    assert len(others) == 152


def _all(log: Output) -> list[dict[str, t.Any]]:
    lines = log.stdout.splitlines()
    head = xid(Output("\n".join(lines[:8])), "").facts
    return [*head, *xid(Output("\n".join(lines[8:90])), "").facts, *xid(Output("\n".join(lines[90:])), "").facts]


def test_of_many_errors_only_the_newest_are_kept() -> None:
    flood = "".join(f"[{second}.0] NVRM: Xid (PCI:0000:38:00): 13, number {second}\n" for second in range(150))
    facts = xid(Output(flood), "dmesg").facts
    assert len(facts) == LIMIT == 100
    assert facts[-1]["message"] == "number 149"


@pytest.mark.parametrize(
    ("journal", "answers"),
    [
        (Output(JOURNAL), ([63, 94, 12028, 79, 154], "journalctl")),
        (Output("", "No journal files were found.\n", None), ([13, 31, 20034], "dmesg")),
        (
            Output("", "Failed to open journal", "journalctl ended with 1: Failed to open journal"),
            ([13, 31, 20034], "dmesg"),
        ),
        (
            Output("", "Compiled without pattern matching support", "journalctl ended with 1: Compiled without"),
            ([13, 31, 20034], "dmesg"),
        ),
        (Output("", "", "journalctl did not answer within 10 s"), ([13, 31, 20034], "dmesg")),
        (Output("", "", "journalctl is not installed"), ([13, 31, 20034], "dmesg")),
    ],
)
def test_the_ring_buffer_is_read_if_the_journal_has_no_answer(
    tmp_path: Path, journal: Output, answers: tuple[list[int], str]
) -> None:
    assert codes(FakeHost(tmp_path, journalctl=journal, dmesg=RING)) == answers


class QuietJournal(FakeHost):
    """A host whose journal has no message of the driver, and possibly none of the kernel."""

    newest = ""
    no_match = NO_MATCH

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        if command[0] != "journalctl":
            return super().run(command, timeout_s)
        return Output(self.newest) if "--lines=1" in command else self.no_match


def test_a_journal_without_messages_of_the_kernel_is_no_answer(tmp_path: Path) -> None:
    host = QuietJournal(tmp_path, dmesg=RING)
    assert codes(host) == ([13, 31, 20034], "dmesg")
    host.newest = "2026-02-14T05:03:44+0000 kernel: audit: type=1400\n"
    assert codes(host) == ([], "journalctl")
    for broken in (
        Output("", "No data available", "journalctl ended with 1: No data available"),
        Output("", "", "journalctl ended with 2: "),
    ):
        host.no_match = broken
        assert codes(host) == ([13, 31, 20034], "dmesg")


def test_dmesg_of_busybox_has_no_formats(tmp_path: Path) -> None:
    class BusyBox(FakeHost):
        def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
            if "--time-format=iso" in command:
                return Output(error="dmesg ended with 1: unrecognized option")
            return super().run(command, timeout_s)

    assert codes(BusyBox(tmp_path, dmesg=RING)) == ([13, 31, 20034], "dmesg")


# ---- files in /var/log -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", [WRAPPED, Output(error="dmesg ended with 1: Operation not permitted")])
@pytest.mark.parametrize("path", ["/var/log/kern.log", "/var/log/messages"])
def test_without_a_journal_and_a_whole_ring_buffer_the_files_of_rsyslog_are_read(
    tmp_path: Path, ring: Output | str, path: str
) -> None:
    host = FakeHost(tmp_path, dmesg=ring)
    host.put(path, recorded("logs/kern-rsyslog.txt"))
    assert codes(host) == ([79], path)


def test_a_log_that_was_rotated_after_the_boot_is_read_with_the_one_before_it(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dmesg=WRAPPED)
    host.put("/var/log/kern.log.1", recorded("logs/kern-rsyslog.txt"))
    host.put(
        "/var/log/kern.log", "Nov 22 06:00:00 gpu-7 kernel: [7000.1] NVRM: Xid (PCI:0000:9b:00): 95, Uncontained\n"
    )
    assert codes(host) == ([79, 95], "/var/log/kern.log")


def test_a_log_that_was_rotated_twice_is_wholly_of_this_boot(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dmesg=WRAPPED)
    line = "Nov 22 06:00:00 gpu-7 kernel: [7000.1] NVRM: Xid (PCI:0000:9b:00): {}, x\n"
    host.put("/var/log/kern.log.1", line.format(94))
    host.put("/var/log/kern.log", line.format(95))
    assert codes(host) == ([94, 95], "/var/log/kern.log")


def test_of_a_large_log_the_end_is_read(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dmesg=WRAPPED)
    line = "Nov 22 06:00:00 gpu-7 kernel: [7000.1] NVRM: Xid (PCI:0000:9b:00): {}, x\n"
    host.put("/var/log/kern.log", line.format(48) + "x" * 8_400_000 + "\n" + line.format(95))
    assert codes(host) == ([95], "/var/log/kern.log")


def test_a_ring_buffer_whose_beginning_is_gone_is_better_than_nothing(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dmesg=WRAPPED)
    host.put("/var/log/messages", "Nov 22 06:00:00 gpu-7 sshd[1]: Linux version 6\n")
    assert codes(host) == ([13, 31, 20034], "dmesg")


def test_a_log_that_may_not_be_read(tmp_path: Path) -> None:
    denied = Output(error="dmesg ended with 1: dmesg: read kernel buffer failed: Operation not permitted")
    section = xid(*kernel_log(FakeHost(tmp_path, dmesg=denied)))
    assert section.facts is None
    assert section.sources[""] == {"source": None, "reason": denied.error}


def test_only_messages_since_the_boot_are_read(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, journalctl=JOURNAL)
    kernel_log(host)
    assert host.ran == [
        [
            "journalctl",
            "--dmesg",
            "--boot",
            "--output=short-iso",
            "--no-hostname",
            "--no-pager",
            "--quiet",
            "--grep=NVRM|SXid",
            "--lines=5000",
            "--reverse",
        ]
    ]


def test_the_lines_of_this_boot_are_whole(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dmesg=WRAPPED)
    old = "Nov 21 09:00:00 gpu-7 kernel: [    0.000000] Linux version 6.1.0 (x)\n"
    new = old.replace("Nov 21", "Nov 22")
    between = "Nov 21 10:00:00 gpu-7 kernel: [   10.1] NVRM: Xid (PCI:0000:9b:00): 48, x\n"
    after = "Nov 22 10:00:00 gpu-7 kernel: [   10.1] NVRM: Xid (PCI:0000:9b:00): 95, x\n"
    host.put("/var/log/kern.log", old + between + new + after)
    log, path = kernel_log(host)
    assert (log.stdout, path) == (new + after, "/var/log/kern.log")
    newest = new.replace("Nov 22", "Nov 23")
    host.put("/var/log/kern.log", old + between + new + after + newest)
    assert kernel_log(host)[0].stdout == newest


def test_a_whole_ring_buffer_counts_before_files(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dmesg=RING)
    host.put("/var/log/kern.log", recorded("logs/kern-rsyslog.txt"))
    assert codes(host) == ([13, 31, 20034], "dmesg")


def test_dmesg_is_asked_again_without_a_format_only_if_it_is_there(tmp_path: Path) -> None:
    denied = Output(error="dmesg ended with 1: Operation not permitted")
    host = FakeHost(tmp_path, dmesg=denied)
    kernel_log(host)
    assert [command for command in host.ran if command[0] == "dmesg"] == [["dmesg", "--time-format=iso"], ["dmesg"]]
    host = FakeHost(tmp_path, dmesg=RING)
    kernel_log(host)
    assert [command for command in host.ran if command[0] == "dmesg"] == [["dmesg", "--time-format=iso"]]


def test_a_journal_that_fails_is_no_answer(tmp_path: Path) -> None:
    """Status 1 without a word means that nothing matches. With words, or another status, the journal is broken."""
    errors = ("journalctl ended with 1: No journal files were found.", "journalctl ended with 2: ")
    for error, said in zip(errors, ("No journal files were found.", "")):
        host = FakeHost(tmp_path, journalctl=Output(error=error, stderr=said), dmesg=WRAPPED)
        assert kernel_log(host)[1] == "dmesg"


def line(second: int, gpu: str, code: int) -> str:
    return f"[{second}.0] NVRM: Xid (PCI:0000:{gpu}:00): {code}, number {second}\n"


def test_a_flood_of_one_application_hides_no_fault_of_another_gpu() -> None:
    log = line(1, "18", 48) + line(2, "18", 64) + "".join(line(second, "38", 13) for second in range(3, 160))
    facts = xid(Output(log), "dmesg").facts
    assert [(each["gpu"], each["code"]) for each in facts[:2]] == [("0000:18:00.0", 48), ("0000:18:00.0", 64)]
    assert len(facts) == LIMIT and facts[-1]["message"] == "number 159"


def test_errors_that_need_an_action_come_before_those_of_applications() -> None:
    log = "".join(line(second, "18", 48 if second < 20 else 13) for second in range(200))
    codes = [each["code"] for each in xid(Output(log), "dmesg").facts]
    assert codes == [48] * 20 + [13] * (LIMIT - 20)


def test_each_gpu_and_code_is_there_even_beyond_the_limit() -> None:
    log = "".join(line(number, f"{number:02x}", 13) for number in range(LIMIT + 20))
    assert len(xid(Output(log), "dmesg").facts) == LIMIT + 20
