# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import time

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _exposition
from ansible_collections.gpuops.nvidia.plugins.module_utils._exposition import Exposition, MetricSample
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True), st.text(max_size=20), max_size=6
)
VALUES = st.floats(allow_nan=False)
BLANKS = st.text(alphabet=" \t", max_size=2)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def one(line: str) -> MetricSample | None:
    """Return the sample of a line, or None if it is not well-formed."""
    read = _exposition.read(line + "\n")
    assert (len(read.samples), read.unread) in ((1, 0), (0, 1))
    return read.samples[0] if read.samples else None


@given(NAMES, LABELS, VALUES, BLANKS, st.sampled_from(["", ","]), st.sampled_from(["", " 1764244800000", "\t-5"]))
def test_what_is_written_is_read(
    name: str, labels: dict[str, str], value: float, blank: str, comma: str, moment: str
) -> None:
    pairs = f"{blank},{blank}".join(f'{label}{blank}={blank}"{escaped(text)}"' for label, text in labels.items())
    block = f"{{{blank}{pairs}{blank}{comma if labels else ''}{blank}}}" if labels or blank else " "
    assert one(f"{blank}{name}{blank}{block}{blank}{value!r}{moment}{blank}") == MetricSample(name, labels, value)


@given(st.text(max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    read = _exposition.read(text)
    lines = [line for line in text.split("\n") if line.strip(" \t\r") and line.strip(" \t\r")[0] != "#"]
    assert len(read.samples) + read.unread == len(lines)


@given(st.text(alphabet='a1{}"\\,= #\n.\t', max_size=30))
def test_no_line_of_almost_the_format_is_too_odd(text: str) -> None:
    for sample in _exposition.read(text).samples:
        assert sample.name and all(sample.labels) and not sample.repeated - set(sample.labels)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("up 1", 1.0),
        ("up\t1\t1764244800000", 1.0),
        ("up +1.5e-3", 0.0015),
        ("up .5", 0.5),
        ("up 5.", 5.0),
        ("up +Inf", math.inf),
        ("up -inf", -math.inf),
        ("up{} 0.000000\r", 0.0),
        ("up{}0", 0.0),
        ("up 1e999", math.inf),
    ],
)
def test_numbers_have_many_forms(line: str, value: float) -> None:
    sample = one(line)
    assert sample is not None and sample.value == value and sample.labels == {}


def test_not_a_number_is_a_value() -> None:
    sample = one("up NaN")
    assert sample is not None and math.isnan(sample.value)


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "up ",
        "up one",
        "up 1_0",
        "up 0x10",
        "up 1 2 3",
        "1up 1",
        'up{a="1"',
        'up{a="1" b="2"} 1',
        'up{a="1",,} 1',
        "up{,} 1",
        "up{a=1} 1",
        'up{"a"} 1',
        'up{a="x"y"} 1',
        'up{a="x} 1',
        'up{a="x\\"} 1',
        "{} 1",
        "}{",
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} ERROR - FAILED TO CONVERT TO STRING',
        "<html><body>502 Bad Gateway</body></html>",
    ],
)
def test_a_line_that_is_not_well_formed_is_counted(line: str) -> None:
    assert _exposition.read(f"# HELP up x\n{line}\nup 1\n") == Exposition([MetricSample("up", {}, 1.0)], 1)


def test_comments_and_empty_lines_say_nothing() -> None:
    assert _exposition.read("# HELP up \\n }{\n# TYPE up gauge\n#\n\n  \n\r\n") == Exposition([], 0)


def test_values_of_labels_have_escapes_and_anything_else() -> None:
    sample = one(r'up{a="}, b=\"\\\n{",c="C:\d ü",d=""} 1')
    assert sample is not None and sample.labels == {"a": '}, b="\\\n{', "c": "C:\\d ü", "d": ""}


def test_a_line_ends_at_a_newline_only() -> None:
    """Python's ``splitlines`` knows more ends, which may stand in a model's name."""
    text = "\x0b\x0c\x1c\x85\u2028"
    assert _exposition.read(f'up{{a="{text}"}} 1\n').samples[0].labels == {"a": text}


@pytest.mark.parametrize(("text", "count"), [("up 4", 1), ("up", 1), ("# HELP", 0), (" ", 0), ("\r", 0), ("", 0)])
def test_a_last_line_without_its_end_is_not_believed(text: str, count: int) -> None:
    assert _exposition.read("up 1\n" + text) == Exposition([MetricSample("up", {}, 1.0)], count)


def test_the_first_of_two_labels_with_one_name_counts() -> None:
    """With the labels of pods, the exporter's own stand in front."""
    sample = one('x{gpu="0",hostname="a",gpu="7",hostname="b",pod="p"} 1')
    assert sample is not None and sample.labels == {"gpu": "0", "hostname": "a", "pod": "p"}
    assert sample.repeated == {"gpu", "hostname"}


def test_samples_with_the_same_labels_may_be_repeated() -> None:
    assert [each.value for each in _exposition.read('x{a="1"} 1\nx{a="1"} 2\ny{a="1"} 3\n').samples] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "line",
    [
        "a{" + 'x="1",' * 50_000,
        'a{x="' + "\\" * 300_000,
        'a{x="' + "\\a" * 150_000,
        "a" * 300_000,
        "a" + " " * 300_000 + "x",
        'a{x="1"' + " " * 300_000 + "y",
        "a " + "1" * 300_000 + "x",
        "a 1" + " " * 300_000 + "x",
        "a 1." + "1" * 300_000 + "e",
        "{" * 300_000,
    ],
)
def test_a_long_odd_line_takes_no_long_time(line: str) -> None:
    begun = time.process_time()
    assert _exposition.read(line) == Exposition([], 1)
    assert time.process_time() - begun < 5
