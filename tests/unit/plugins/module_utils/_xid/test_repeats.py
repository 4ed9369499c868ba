# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.case import Case
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.cases import judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import from_lines

HOUR = 3600.0
MECHANICAL, PARITY, REPEATED = "0x10000", "0x10", "0x8000000"


def line(second: float, message: str, gpu: str = "0000:9b:00") -> str:
    return f"[{second:.1f}] NVRM: Xid (PCI:{gpu}): {message}"


def case(*lines: str) -> Case:
    (found,) = judge(from_lines("gpu-1", lines))
    return found


def link(register: str, number: int = 3) -> str:
    return f"74, NVLink: fatal error detected on link {number}({register}, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"


@pytest.mark.parametrize(
    ("code", "hours", "outcome"),
    [
        (48, (0, 1, 2, 3), "reset the GPU"),
        (48, (0, 1, 2, 3, 4), "service"),
        (48, (0, 7, 14, 21, 28), "reset the GPU"),
        (119, (0, 1, 2, 3, 4), "reset the GPU"),
        (119, (0, 4, 8, 12, 16), "service"),
        (13, (0, 1, 2, 3, 4), "restart the application"),
        (94, (0, 1, 2, 3, 4), "restart the application"),
    ],
)
def test_the_fifth_burst_of_a_day_is_a_matter_for_service(code: int, hours: tuple[int, ...], outcome: str) -> None:
    found = case(*[line(1 + hour * HOUR, f"{code}, x") for hour in hours])
    assert (found.outcome, found.bursts) == (outcome, len(hours))
    assert ("has not helped" in found.why) is (outcome == "service")


@pytest.mark.parametrize(
    ("register", "times", "outcome"),
    [(PARITY, 2, "reset the GPU"), (PARITY, 3, "service"), (REPEATED, 1, "reset the GPU"), (REPEATED, 2, "service")],
)
def test_errors_of_one_link_are_counted(register: str, times: int, outcome: str) -> None:
    assert case(*[line(1 + hour * HOUR, link(register)) for hour in range(times)]).outcome == outcome


def test_errors_of_different_links_are_not_added_up() -> None:
    assert case(*[line(1 + hour * HOUR, link(PARITY, hour)) for hour in range(3)]).outcome == "reset the GPU"
    assert case(line(1, link(MECHANICAL))).outcome == "check the machine"


# ---- hardware or application ----------------------------------------------------------------------------------------


def fault(second: float, name: str, gpu: str = "0000:9b:00") -> str:
    return line(second, f"31, pid=1, name={name}, Ch 8, MMU Fault", gpu)


def test_different_applications_that_fail_on_one_gpu_alone_make_it_suspect() -> None:
    found = case(fault(1, "python3"), fault(HOUR, "blender"))
    assert (found.outcome, "Different applications" in found.why) == ("check the machine", True)


@pytest.mark.parametrize(
    "lines",
    [
        (fault(1, "python3"), fault(HOUR, "python3")),
        (fault(1, "python3"), fault(30 * HOUR, "blender")),
        (fault(1, "python3"), fault(60, "blender")),
        (fault(1, "<unknown>"), fault(HOUR, "blender")),
        (line(1, "32, pid=1, name=a, x"), line(HOUR, "32, pid=2, name=b, x")),
    ],
)
def test_one_application_or_one_time_does_not(lines: tuple[str, ...]) -> None:
    assert case(*lines).outcome == "restart the application"


def test_the_same_error_on_many_gpus_is_the_applications() -> None:
    lines = [fault(1, "python3"), fault(HOUR, "blender"), fault(2, "python3", "0000:18:00")]
    found = judge(from_lines("gpu-1", lines))
    assert {each.outcome for each in found} == {"restart the application"}
    assert all("2 GPUs have had it" in each.why for each in found)


@pytest.mark.parametrize(("place", "outcome"), [("0", "check the machine"), ("5", "restart the application")])
def test_an_exception_makes_a_gpu_suspect_if_its_place_repeats(place: str, outcome: str) -> None:
    text = "13, pid=1, name={}, Graphics SM Warp Exception on (GPC 1, TPC {}, SM 0): Illegal Instruction Encoding"
    assert case(line(1, text.format("a", 0)), line(HOUR, text.format("b", place))).outcome == outcome


@pytest.mark.parametrize(
    ("places", "outcome"),
    [((0, 5, 5), "check the machine"), ((5, 0, 5), "restart the application")],
)
def test_a_place_repeats_if_two_bursts_in_a_row_name_it(places: tuple[int, ...], outcome: str) -> None:
    text = "13, pid=1, name={}, Graphics SM Warp Exception on (GPC 1, TPC {}, SM 0): Illegal Instruction Encoding"
    lines = [line(1 + HOUR * number, text.format(f"app-{number}", place)) for number, place in enumerate(places)]
    assert case(*lines).outcome == outcome
