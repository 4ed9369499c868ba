# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import report
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import WAITING
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording


def finding(**fields: object) -> Json:
    """Return a finding of a module's result."""
    known: Json = {
        "code": "NouveauHoldsGPU",
        "title": "nouveau holds the GPU",
        "severity": "failure",
        "certainty": "certain",
        "cause": "The kernel's own driver nouveau holds the GPU.",
        "remedy": "Run playbooks/site.yml.",
        "nodes": ["gpu-0003"],
        "objects": [],
        "quotes": [{"text": "nouveau.loaded: true", "source": "facts of the host", "node": "gpu-0003"}],
        "consequences": [],
        "tell_apart": [],
        "url": "https://example.com/findings.md#nouveauholdsgpu",
    }
    return {**known, **fields}


def test_a_finding_says_what_where_why_and_what_to_do() -> None:
    consequence = {"code": "OperandWaiting", "title": "An operand is not ready", "nodes": ["gpu-0003"]}
    text = report.as_text([finding(consequences=[consequence], tell_apart=["Look at lsmod."])], [])
    assert text == wording("""\
1. FAILURE: nouveau holds the GPU
   Where:  gpu-0003
   Why:    The kernel's own driver nouveau holds the GPU.
   Seen:   nouveau.loaded: true [facts of the host on gpu-0003]
   Do:     Run playbooks/site.yml.
   Sure:   certain: only this cause leaves this evidence
   Or:     Look at lsmod.
   Effect: An operand is not ready (gpu-0003)
   Page:   https://example.com/findings.md#nouveauholdsgpu

1 failure, 0 warnings, 0 gaps.\
""")


def test_nothing_wrong_is_limited_to_what_could_be_seen() -> None:
    text = report.as_text([], [{"what": "events", "why": "No permission."}])
    assert text.splitlines() == [
        wording("Everything that could be seen is in order."),
        "",
        wording("Not seen, so its state is unknown:"),
        "   - events: No permission.",
        "",
        "0 failures, 0 warnings, 1 gap.",
    ]


def test_notes_and_unknown_causes_claim_no_certainty() -> None:
    text = report.as_text([finding(severity="ok", quotes=[]), finding(code=WAITING.code, remedy="", nodes=[])], [])
    assert "1. NOTE: nouveau holds the GPU" in text
    assert text.count("Sure:") == 1
    assert "Sure:   that" in text
    assert "Where:  the cluster" in text
    assert "remedy" in text
    assert text.endswith("1 failure, 0 warnings, 1 note, 0 gaps.")


def test_many_quotes_gaps_and_objects_are_counted() -> None:
    quotes = [{"text": "x" * 500, "source": "a log", "node": ""}] * 5
    objects = [f"GPU {number}" for number in range(5)]
    gaps = [{"what": f"kind {number}", "why": "No."} for number in range(15)]
    text = report.as_text([finding(quotes=quotes, objects=objects)], gaps)
    assert "and 2 more" in text
    assert "gpu-0003, GPU 0, GPU 1, GPU 2, and 2 more" in text
    assert "   - and 3 more" in text
    assert "x" * (report.QUOTE_LENGTH + 1) not in text


def test_lines_are_short_and_addresses_stay_whole() -> None:
    address = "https://example.com/" + "a" * 150
    text = report.as_text([finding(cause="word " * 80, url=address)], [])
    assert address in text
    assert max(len(line) for line in text.splitlines() if address not in line) <= report.WIDTH


def test_control_characters_of_a_cluster_do_not_reach_the_terminal() -> None:
    text = report.as_text([finding(cause="a\x1b[31mb\nc", objects=["d\re"])], [{"what": "f\x07", "why": "g"}])
    assert not {"\x1b", "\r", "\x07"} & set(text)
    assert "a\\x1b[31mb c" in text


def test_what_changed_since_the_last_run() -> None:
    changes = {"new": ["nouveau holds the GPU"], "gone": ["A GPU is lost"], "known": 1}
    known = finding(title="Another", nodes=["gpu-0001", "gpu-0002"])
    text = report.as_text([finding(), known], [], changes)
    assert "1. FAILURE, new: nouveau holds the GPU" in text
    assert "2. FAILURE: Another" in text
    assert "Where:  gpu-0001, gpu-0002 (2 nodes)" in text
    assert ":\n   - A GPU is lost" in text
    assert text.endswith("Since the last diagnosis: 1 new, 1 gone, 1 known.")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["b", "a"], "a, b"),
        (["a", "a0", "a1"], "a, a0, a1"),
        (["gpu-10", "gpu-9", "gpu-8", "gpu-7"], "gpu-7 to gpu-10"),
        (["gpu-0001", "gpu-0002", "gpu-0004"], "gpu-0001, gpu-0002, gpu-0004"),
        (["gpu-0001", "gpu-0002", "gpu-0003", "cpu-1"], "cpu-1, gpu-0001 to gpu-0003"),
        (["n1.example.com", "n2.example.com", "n3.example.com"], "n1.example.com to n3.example.com"),
        ([f"host-{number}" for number in range(0, 40, 2)], None),
    ],
)
def test_names_are_folded(names: list[str], text: str | None) -> None:
    assert report.folded(names) == text if text is not None else report.folded(names).endswith("and 12 more")


def test_a_long_piece_of_evidence_keeps_its_end() -> None:
    text = f'Back-off pulling image "{"a/" * 60}": ErrImagePull: {"b " * 100}failed to resolve reference: not found'
    shown = report.as_text([finding(quotes=[{"text": text, "source": "events", "node": ""}])], [])
    assert "Back-off pulling image" in shown and " ... " in shown
    assert "not found [events]" in " ".join(shown.split())
