# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a bundle back, also one that somebody has changed."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import pack, unpack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

EVIDENCE = Evidence(
    taken="2026-11-23T12:00:00Z",
    stack={"nodes": [], "policy": "cluster-policy"},
    spec={"driver": {"enabled": True}},
    owner={"tool": "Argo CD", "name": "Application gpus", "proof": "an annotation"},
    preflight=[{"check": "nfd", "level": "failure", "message": "There is no NFD.", "remedy": "Install it."}],
    pods=[{"metadata": {"name": "p", "namespace": "n"}}],
    objects={"nodes": [{"metadata": {"name": "gpu1"}}], "events": []},
    hosts={"gpu1": {"facts": {"nouveau": {"loaded": True}}, "preflight": []}},
    lines=[TextLine("NVRM: nouveau is already loaded", "kernel", "kernel log", "gpu1", "")],
    gaps=[Gap("logs", "No permission.")],
    pinned=[{"product": "x"}],
)


def files_of(evidence: Evidence, limit: int = 1 << 20) -> dict[str, bytes]:
    found = [each.as_result() for each in engine.diagnose(evidence, RULES).findings]
    archive = pack.pack(evidence, found, "", limit)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]


def test_a_bundle_gives_the_same_evidence_and_the_same_findings() -> None:
    bundle = unpack.unpack(files_of(EVIDENCE))
    assert bundle.evidence == EVIDENCE
    again = [each.as_result() for each in engine.diagnose(bundle.evidence, RULES).findings]
    assert json.loads(json.dumps(again)) == bundle.findings
    assert {"NouveauHoldsGPU", "PreflightNfd"} <= {each["code"] for each in bundle.findings}
    assert bundle.manifest["version"] == pack.RELEASE


def test_lines_of_several_sources_keep_their_order() -> None:
    lines = [TextLine(str(number), "pod", f"pod a/{number % 3}") for number in range(20)]
    files = files_of(Evidence(lines=lines))
    assert unpack.unpack(files).evidence.lines == lines
    for odd in (b'"order": 7, "x": [', b'"order": [["a", 1], 7], "x": ['):
        changed = {**files, pack.MANIFEST: files[pack.MANIFEST].replace(b'"order": [', odd, 1)}
        assert len(unpack.unpack(changed).evidence.lines) == 20


def test_a_kind_that_was_not_read_stays_unknown() -> None:
    assert unpack.unpack(files_of(Evidence())).evidence == Evidence()


def test_what_the_size_left_out_is_a_gap() -> None:
    lines = [TextLine(f"line {number} " + "x" * 500, "pod", "pod a/b, container c") for number in range(5000)]
    gaps = unpack.unpack(files_of(Evidence(lines=lines))).evidence.gaps
    assert [gap.why for gap in gaps] == [wording("The size of the bundle was limited when it was written.")]
    assert "pod a/b, container c" in gaps[0].what


def test_a_file_that_is_gone_is_a_gap() -> None:
    files = files_of(EVIDENCE)
    del files["gpuops-bundle/logs/0001.log"]
    bundle = unpack.unpack(files)
    assert bundle.evidence.lines == []
    assert bundle.evidence.gaps[-1] == Gap(
        "kernel log (gpuops-bundle/logs/0001.log)", wording("The bundle lacks this file.")
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"format": 99}', b"[" * 100_000])
def test_a_damaged_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(GpuOpsError) as caught:
        unpack.unpack({**files_of(EVIDENCE), pack.MANIFEST: content})
    assert caught.value.reason == "Invalid"


def test_a_damaged_table_is_refused_and_an_odd_one_is_empty() -> None:
    with pytest.raises(GpuOpsError, match=r"damaged: gpuops-bundle/pods\.json"):
        unpack.unpack({**files_of(EVIDENCE), "gpuops-bundle/pods.json": b"{"})
    odd = {**files_of(EVIDENCE), "gpuops-bundle/pods.json": b'["x", 7]', "gpuops-bundle/objects/0001.json": b"7"}
    evidence = unpack.unpack(odd).evidence
    assert (evidence.pods, evidence.objects["events"]) == ([], [])


def test_a_line_of_an_unknown_kind_counts_as_text() -> None:
    files = files_of(EVIDENCE)
    files[pack.MANIFEST] = files[pack.MANIFEST].replace(b'"kind": "kernel"', b'"kind": "evil"')
    assert unpack.unpack(files).evidence.lines[0].kind == "text"
