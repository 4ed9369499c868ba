# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hooks of pytest that name each failure at once, print the time of each file, and ask for reasons of long ones.

A file may take `FILE_S` and a test `TEST_S`. What takes longer has its reason beside it: ``@pytest.mark.slow("why")``,
or ``pytestmark`` for a file. The summary shows the reasons, and what lacks one. Under ``--strict-times``, which the
nightly job of CI uses, a missing reason makes the run fail. Other runs only print, because they share their machine.
"""

from __future__ import annotations

import collections

import pytest

FILE_S, TEST_S = 60.0, 30.0
SHOWN_FROM_S = 5.0
"""The summary lists the files from this time on, and adds up the others."""

_REASON = "slow_reason"


class Times:
    """The time of each test and file, from the reports of all workers."""

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._tests: collections.Counter[str] = collections.Counter()
        self._reasons: dict[str, str] = {}

    def add(self, test: str, seconds: float, reason: str = "") -> None:
        """Add the time of one phase of a test, with its reason to be slow."""
        self._tests[test] += seconds  # type: ignore[assignment]
        if reason:
            self._reasons[test] = reason

    @property
    def files(self) -> dict[str, float]:
        """The seconds of each file, longest first."""
        files: collections.Counter[str] = collections.Counter()
        for test, seconds in self._tests.items():
            files[_file_of(test)] += seconds  # type: ignore[assignment]
        return dict(files.most_common())

    def reason_of_file(self, file: str) -> str:
        """Return why a file is long: the reason of its longest test that has one."""
        own = [test for test in self._reasons if _file_of(test) == file]
        return self._reasons[max(own, key=lambda test: self._tests[test])] if own else ""

    def unexplained(self) -> list[str]:
        """Return a sentence for each test and file that takes longer than it may, and has no reason."""
        tests = [
            f"{test} takes {seconds:.0f} s, and a test may take {TEST_S:.0f} s."
            for test, seconds in self._tests.items()
            if seconds > TEST_S and test not in self._reasons
        ]
        files = [
            f"{file} takes {seconds:.0f} s, and a file may take {FILE_S:.0f} s."
            for file, seconds in self.files.items()
            if seconds > FILE_S and not self.reason_of_file(file)
        ]
        return [*files, *tests]

    def lines(self) -> list[str]:
        """Return the summary: the time of each file, with the reasons of long ones."""
        shown = {file: seconds for file, seconds in self.files.items() if seconds >= SHOWN_FROM_S}
        rest = [seconds for file, seconds in self.files.items() if file not in shown]
        table = [
            f"{seconds:7.1f} s  {file}{self._remark(file) if seconds > FILE_S else ''}"
            for file, seconds in shown.items()
        ]
        return [*table, f"{sum(rest):7.1f} s  {len(rest)} other files"]

    def _remark(self, file: str) -> str:
        return f"  ({self.reason_of_file(file) or 'without a reason'})"

    @property
    def fails(self) -> bool:
        """Whether the run fails for a missing reason."""
        return self._is_strict and bool(self.unexplained())


def _file_of(test: str) -> str:
    return test.partition("::")[0]


TIMES = pytest.StashKey[Times]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that turns missing reasons into a failure."""
    parser.addoption("--strict-times", action="store_true", help="fail if a slow test or file gives no reason for it")


def pytest_configure(config: pytest.Config) -> None:
    """Start to count and to name failures, on the controller of the workers."""
    config.stash[TIMES] = Times(config.getoption("--strict-times"))
    config.pluginmanager.register(_Listener(config.stash[TIMES], config), "times")


class _Listener:
    """Counts what the workers report, and names what failed: a run that is ended early prints no summary."""

    def __init__(self, times: Times, config: pytest.Config) -> None:
        self._times, self._config = times, config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a report."""
        self._times.add(report.nodeid, report.duration, str(dict(report.user_properties).get(_REASON, "")))
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal:
            terminal.write_line(f"\n{report.nodeid} failed in its {report.when}: {_first_line(report)}")


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr)).partition("\n")[0]


def keep_reasons(items: list[pytest.Item]) -> None:
    """Let the reports of slow tests carry their reasons, which must be texts."""
    for item in items:
        for mark in item.iter_markers("slow"):
            if not (mark.args and isinstance(mark.args[0], str)):
                raise pytest.UsageError(f'{item.nodeid}: Give a reason: @pytest.mark.slow("why")')
            item.user_properties.append((_REASON, mark.args[0]))
            break


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the times, and what lacks a reason."""
    times = config.stash[TIMES]
    if len(times.files) > 1:
        terminalreporter.section("time of each test file")
        for line in [*times.lines(), *times.unexplained()]:
            terminalreporter.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail for missing reasons, if asked to."""
    if exitstatus == 0 and not hasattr(session.config, "workerinput") and session.config.stash[TIMES].fails:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
