# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
import time
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.advice import BY_GRAVITY, DISRUPTIVE
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.case import Case
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.cases import Machine, judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import from_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

GPU, OTHER = "0000:9b:00.0", "0000:18:00.0"
DUE = "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
DONE = "154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)"


def line(second: float, message: str, gpu: str = GPU) -> str:
    return f"[{second:.6f}] NVRM: Xid (PCI:{gpu[:-2]}): {message}"


def cases(*lines: str, machine: Machine | None = None) -> list[Case]:
    return judge(from_lines("gpu-1", lines, "kernel log"), {"gpu-1": machine} if machine else {})


def case(*lines: str, machine: Machine | None = None) -> Case:
    (found,) = cases(*lines, machine=machine)
    return found


# ---- one burst ------------------------------------------------------------------------------------------------------


def test_a_burst_of_a_thousand_equal_lines_is_one_case_with_all_lines() -> None:
    found = case(*[line(10 + number / 100, "31, Ch 8") for number in range(1000)])
    assert (found.code, found.outcome, found.bursts, len(found.reports)) == (31, "restart the application", 1, 1000)


@pytest.mark.parametrize(
    ("messages", "code", "outcome"),
    [
        (("48, DBE", "63, Row Remapper", "45, Ch 8"), 48, "reset the GPU"),
        (("94, Contained", "63, Row Remapper", "45, Ch 8", "45, Ch 9"), 94, "restart the application"),
        (("31, fault", "43, Ch 8", "45, Ch 8"), 31, "restart the application"),
        (("31, fault", "62, halt", "45, Ch 8"), 62, "reset the GPU"),
        (("79, fallen", "119, GSP", "45, Ch 8", "62, halt"), 79, "reboot"),
        (("4711, new", "13, Graphics"), 13, "restart the application"),
        (("163, off", "162, on"), 163, "nothing"),
        (("162, on", "163, off"), 163, "check the machine"),
        (("43, Ch 8",), 43, "nothing"),
    ],
)
def test_the_error_that_asks_for_most_decides(messages: tuple[str, ...], code: int, outcome: str) -> None:
    found = case(*[line(10 + number, message) for number, message in enumerate(messages)])
    assert (found.code, found.outcome) == (code, outcome)
    assert [report.event.code for report in found.reports] == [int(message.split(",")[0]) for message in messages]


def test_48_with_a_remapped_row_says_that_the_gpu_is_to_be_drained() -> None:
    assert "drain the GPU" in case(line(10, "48, DBE"), line(11, "63, Row")).why
    assert "drain" not in case(line(10, "48, DBE")).why
    assert "drain" not in case(line(10, "48, DBE"), line(11, "63, Row"), line(5000, "48, DBE")).why, (
        "the last one counts"
    )
    assert "drain" in case(line(10, "48, DBE"), line(5000, "48, DBE"), line(5001, "63, Row")).why


def test_a_secondary_nvlink_error_that_is_alone_is_reported() -> None:
    text = "74, NVLink: fatal error detected on link 10(0x100000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    assert case(line(10, text)).outcome == "service"
    assert case(line(10, text), line(11, "48, DBE")).outcome == "reset the GPU"


# ---- the driver's orders --------------------------------------------------------------------------------------------


def test_an_order_wins_over_the_errors_that_it_follows() -> None:
    reboot = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    found = case(line(10, "31, fault"), line(11, reboot))
    assert (found.code, found.outcome, found.certainty) == (31, "reboot", "certain")
    assert "NODE_REBOOT" in found.why
    gone = case(line(10, "79, fallen"), line(11, "154, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)"))
    assert gone.outcome == "reset the GPU"
    assert case(line(10, DUE)).code == 154


def test_an_order_of_none_closes_what_came_before() -> None:
    before, after = line(10, "48, DBE"), line(5000, DONE)
    assert [(each.code, each.outcome) for each in cases(before, line(11, DUE), after)] == [
        (48, "nothing"),
        (154, "nothing"),
    ]
    later = {each.code: each.outcome for each in cases(before, after, line(9000, "95, Uncontained"))}
    assert later == {48: "nothing", 154: "nothing", 95: "reset the GPU"}
    again = {each.code: each.outcome for each in cases(before, after, line(9000, "48, DBE"))}
    assert again[48] == "reset the GPU"
    lost = {each.code: each.outcome for each in cases(line(10, "79, fallen"), after)}
    assert lost[79] == "reboot"


def test_what_nvml_says_now_wins() -> None:
    due, none = Machine(orders={GPU: "NODE_REBOOT"}), Machine(orders={GPU: "NONE"})
    assert case(line(10, "48, DBE"), machine=due).outcome == "reboot"
    assert case(line(10, "48, DBE"), machine=none).outcome == "nothing"
    assert case(line(10, "119, Timeout"), machine=none).outcome == "nothing"
    assert case(line(10, "79, fallen"), machine=none).outcome == "reboot"
    without_line = case(machine=due)
    assert (without_line.code, without_line.outcome, without_line.reports) == (154, "reboot", ())
    application = cases(line(10, "13, Graphics"), machine=due)
    assert [(each.code, each.outcome) for each in application] == [(13, "restart the application"), (154, "reboot")]


def test_a_lost_gpu_without_a_line_is_a_case() -> None:
    found = case(machine=Machine(lost=frozenset({GPU})))
    assert (found.code, found.outcome, found.certainty) == (79, "reboot", "certain")
    assert case(line(10, "79, fallen"), machine=Machine(lost=frozenset({GPU}))).reports


# ---- applicability --------------------------------------------------------------------------------------------------


def test_a_code_that_the_catalog_does_not_list_for_a_generation_is_less_sure() -> None:
    hopper = Machine(architectures={"": "Hopper"})
    blackwell = Machine(architectures={GPU: "Blackwell"})
    ada = Machine(architectures={"": "Ada Lovelace"})
    assert case(line(10, "74, NVLink"), machine=hopper).certainty == "likely"
    found = case(line(10, "74, NVLink"), machine=blackwell)
    assert found.certainty == "possible"
    assert found.why == wording(
        "Xid 74 (NVLINK Error): a reset of the GPU or a reboot is needed to clear it. NVIDIA's catalog does not list it for GPUs of Blackwell"
    )
    assert case(line(10, "48, DBE"), machine=ada).certainty == "certain"


def test_a_driver_that_sends_orders_and_has_sent_none_makes_a_case_less_sure() -> None:
    assert case(line(10, "48, DBE"), machine=Machine(driver="550.54.15")).certainty == "certain"
    found = case(line(10, "48, DBE"), machine=Machine(driver="580.95.05"))
    assert (found.certainty, found.outcome) == ("likely", "reset the GPU")
    assert "the log lacks" in found.why
    assert case(line(10, "48, DBE"), line(11, DUE), machine=Machine(driver="580.95.05")).certainty == "certain"


def test_an_unknown_code_is_possible_at_most() -> None:
    assert (case(line(10, "4711, x")).certainty, case(line(10, "4711, x")).outcome) == ("possible", "service")


# ---- one machine ----------------------------------------------------------------------------------------------------


def test_what_follows_from_another_gpus_fault_asks_for_nothing() -> None:
    """https://github.com/leptonai/gpud/blob/main/components/accelerator/nvidia/sxid/README.md"""
    found = cases(
        "[6781741.548779] NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "[6781753.400584] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
        "[6781753.500000] NVRM: Xid (PCI:0000:9b:00): 74, NVLink: fatal error detected on link 3",
        "[6781753.600000] NVRM: Xid (PCI:0000:18:00): 45, pid=7, name=python, Ch 8",
    )
    assert {each.code: each.outcome for each in found} == {79: "reboot", 20034: "nothing", 74: "nothing", 45: "nothing"}
    assert all("follows from Xid 79 of 0000:91:00.0" in each.why for each in found if each.code in (20034, 74, 45))


def test_an_nvlink_error_long_after_a_fault_is_a_case_of_its_own() -> None:
    found = cases(line(10, "79, fallen", OTHER), line(5000, "74, NVLink"))
    assert {each.code: each.outcome for each in found} == {79: "reboot", 74: "reset the GPU"}


@pytest.mark.parametrize(("has_switches", "outcome"), [(True, "check the machine"), (False, "nothing")])
def test_a_cleanup_alone_concerns_the_fabric_manager_only_where_there_is_one(has_switches: bool, outcome: str) -> None:
    assert case(line(10, "45, Ch 8"), machine=Machine(has_switches=has_switches)).outcome == outcome
    named = line(10, "45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149")
    assert case(named, machine=Machine(has_switches=True)).outcome == "nothing"


# ---- properties -----------------------------------------------------------------------------------------------------

CODES = st.sampled_from([13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 92, 94, 95, 109, 119, 140, 163, 162, 9, 4711])
SHOTS = st.lists(
    st.tuples(st.integers(0, 200_000), CODES, st.sampled_from([GPU, OTHER])),
    max_size=30,
    unique_by=lambda shot: shot[0],
)


def told(found: t.Iterable[Case]) -> list[tuple[t.Any, ...]]:
    return sorted((each.gpu, each.code, each.outcome, each.why, each.certainty, each.bursts) for each in found)


@given(SHOTS, st.randoms(use_true_random=False))
def test_the_order_of_the_lines_changes_nothing(shots: list[tuple[int, int, str]], chance: random.Random) -> None:
    lines = [line(second, f"{code}, x", gpu) for second, code, gpu in shots]
    expected = told(cases(*lines))
    chance.shuffle(lines)
    assert told(cases(*lines)) == expected


@given(SHOTS)
def test_each_error_is_in_one_case_and_each_case_has_one_outcome(shots: list[tuple[int, int, str]]) -> None:
    found = cases(*[line(second, f"{code}, x", gpu) for second, code, gpu in shots])
    assert sum(len(each.reports) for each in found) == len(shots)
    assert all(each.outcome in BY_GRAVITY and each.why and each.source.startswith("https://") for each in found)


@given(st.lists(st.text(max_size=80)), st.text(max_size=120))
def test_nothing_crashes_on_any_text(texts: list[str], message: str) -> None:
    lines = [*texts, f"NVRM: Xid (PCI:0000:9b:00): 74, {message}", f"NVRM: Xid (PCI:0000:9b:00): 145, {message}"]
    judge(from_lines("", [text for item in lines for text in item.splitlines()]))


@given(st.lists(st.sampled_from([13, 31, 32, 43, 45, 68, 69, 94]), min_size=1, max_size=40))
@settings(max_examples=50)
def test_errors_of_applications_never_drain_a_gpu(codes: list[int]) -> None:
    found = cases(*[line(100.0 * number, f"{code}, pid={number}, name=a{number}") for number, code in enumerate(codes)])
    assert {each.outcome for each in found} & DISRUPTIVE == set()


# ---- a replay -------------------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[tuple[str, ...], str]] = {
    "off the bus": (("79, GPU has fallen off the bus.", "45, Ch 8"), "reboot"),
    "memory": (
        ("48, An uncorrectable double bit error (DBE)", "63, Row Remapper: New row", "45, Ch 8"),
        "reset the GPU",
    ),
    "contained": (("94, Contained: SM (0x1)", "45, Ch 8"), "restart the application"),
    "uncontained": (("95, Uncontained: LTC TAG", "45, Ch 8"), "reset the GPU"),
    "remap failure": (("64, Row Remapper Error",), "reset the GPU"),
    "firmware": (("119, Timeout waiting for RPC from GSP!",) * 3, "reset the GPU"),
    "ordered": (("31, fault", "154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)"), "reboot"),
    "link": (
        ("74, NVLink: fatal error detected on link 2(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",),
        "check the machine",
    ),
    "new": (("4711, something new",), "service"),
    "encoder": (("142, NVENC3",), "service"),
}
NOISE = ("13, Graphics Exception", "31, MMU Fault", "43, Ch 8", "69, Class Error", "63, Row Remapper", "92, SBE")
HARMLESS = {"nothing", "restart the application", "check the machine"}


def test_a_replay_of_200_faults_among_2000_errors_is_judged_without_a_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chance, lines = random.Random(17), dict[str, list[str]]()
    expected: dict[str, str] = {}
    for number in range(200):
        messages, outcome = FAULTS[sorted(FAULTS)[number % len(FAULTS)]]
        expected[f"faulty-{number}"] = outcome
        lines[f"faulty-{number}"] = [line(1000.0 + at, text) for at, text in enumerate(messages)]
    while sum(map(len, lines.values())) < 2000:
        name, second = f"healthy-{chance.randrange(200)}", chance.randrange(10**6)
        message = f"{chance.choice(NOISE)}, pid={second}, name=python3"
        lines.setdefault(name, []).append(line(second, message.replace("63, Row Remapper, ", "63, ")))
    found = judge([report for name, text in lines.items() for report in from_lines(name, text)])
    wrong = [
        (each.machine, each.code, each.outcome)
        for each in found
        if (each.outcome != expected[each.machine] if each.machine in expected else each.outcome not in HARMLESS)
    ]
    with capsys.disabled():
        print(f"\nReplay: {sum(map(len, lines.values()))} errors, {len(expected)} faults, wrong: {len(wrong)}")
    assert {each.machine for each in found} >= set(expected)
    assert wrong == []


@pytest.mark.wide
def test_a_hundred_thousand_lines_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        line(number, f"{(13, 31, 43, 45)[number % 4]}, pid={number}, name=x", f"0000:0{number % 8}:00.0")
        for number in range(100_000)
    ]
    begin = time.monotonic()
    found = judge(from_lines("", lines))
    with capsys.disabled():
        print(f"\n100,000 lines of Xids: {time.monotonic() - begin:.1f} s")
    assert len(found) == 8
