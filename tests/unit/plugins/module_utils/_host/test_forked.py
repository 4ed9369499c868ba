# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import resource
import time
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.forked import Answer, Child
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def deadline(seconds: float) -> float:
    return time.monotonic() + seconds


def test_messages_arrive_until_the_child_ends() -> None:
    answer = Child(lambda: iter([{"gpu": 1}, {"end": True}])).read(deadline(10))
    assert (answer.messages(), answer.timed_out, answer.signal_number) == ([{"gpu": 1}, {"end": True}], False, 0)


def test_what_a_hanging_child_has_written_is_there() -> None:
    def hanging() -> t.Iterator[Json]:
        yield {"gpu": 1}
        time.sleep(60)

    began = time.monotonic()
    answer = Child(hanging).read(deadline(0.5))
    assert (answer.messages(), answer.timed_out) == ([{"gpu": 1}], True)
    assert time.monotonic() - began < 10


def test_a_child_without_an_end_is_given_up() -> None:
    """Its pipe is never empty, so that no deadline would be noticed."""
    began = time.monotonic()
    answer = Child(lambda: iter(lambda: {"gpu": "x" * 60_000}, None)).read(deadline(0.1))
    assert time.monotonic() - began < 10
    assert answer.timed_out and 0 < len(answer.messages()) < 100


def test_a_child_that_crashes_says_by_which_signal() -> None:
    def crashing() -> t.Iterator[Json]:
        yield {"gpu": 1}
        os.abort()

    answer = Child(crashing).read(deadline(10))
    assert (answer.messages(), answer.signal_number) == ([{"gpu": 1}], 6)


def test_an_incomplete_last_line_is_no_message() -> None:
    assert Answer('{"a": 1}\n{"b', timed_out=True, signal_number=0).messages() == [{"a": 1}]


def test_a_process_with_many_open_files_reads_its_child() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"A process may open only {hard} files here.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    with contextlib.ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while files.enter_context(open(os.devnull)).fileno() < 1100:  # select() ends at 1023
            pass
        assert Child(lambda: iter([{"gpu": 1}])).read(deadline(10)).messages() == [{"gpu": 1}]
